"""Distances between images, measured in the latent space: all pairs, and whether near ones are
alike.

python examples/distances.py --out demo          # demo/distances.png, and a line for each kind of
distance
"""

import matplotlib.pyplot as plt
import numpy as np
from mnist_model import arguments, digits, model
from scipy.spatial.distance import cdist

import orthodrome as od


def alike(D, labels, neighbours=5):
    """The share of images whose nearest ones, by these distances, are mostly of the same kind."""
    others = np.where(np.eye(len(D), dtype=bool), np.inf, D)
    nearest = labels[np.argsort(others, axis=1)[:, :neighbours]]
    return np.mean((nearest == labels[:, None]).mean(axis=1) > 0.5)


def main(out, images, labels, vae, each=12, seed=0, solver=None):
    """Writes the picture; returns it and both matrices of distances."""
    rng = np.random.default_rng(seed)
    some = np.concatenate(
        [
            rng.choice(np.flatnonzero(labels == kind), each, replace=False)
            for kind in np.unique(labels)
        ]
    )
    codes, labels = vae.encode(images[some]), labels[some]

    shortest, info = od.distance_matrix(vae.metric(), codes, solver=solver, return_info=True)
    straight = cdist(codes, codes)

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained")
    for ax, D, title in zip(
        axes, (shortest, straight), ("along the data", "straight through"), strict=True
    ):
        ax.imshow(D / np.median(D), cmap="viridis_r", vmin=0, vmax=2)
        middles = (np.arange(len(np.unique(labels))) + 0.5) * each - 0.5
        ax.set(title=title, xticks=middles, yticks=middles)
        ax.set_xticklabels(np.unique(labels))
        ax.set_yticklabels(np.unique(labels))
    figure.suptitle("distances between codes, relative to their median")
    figure.savefig(out / "distances.png", dpi=130)
    return figure, shortest, straight, labels, info


if __name__ == "__main__":
    given = arguments(__doc__)
    pictures, kinds = digits(given.mnist)
    _, D, E, kinds, told = main(given.out, pictures, kinds, model(given.out, pictures))
    print(f"{np.mean(told.certified):.0%} of the paths certified")
    for name, distances in (("shortest paths", D), ("straight lines", E)):
        print(
            f"{name}: {alike(distances, kinds):.0%} of the images have neighbours of their own kind"
        )
    print(f"picture: {given.out / 'distances.png'}")
