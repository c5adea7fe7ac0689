"""From one image to another: along the shortest path of the latent space, and along the straight line.

    python examples/interpolation.py --out demo      # demo/interpolation.png

Encode both images, find the shortest path between their codes, decode along it: three lines. The straight line may
leave the data; the path goes where the decoder is sure of itself. How much that shows depends on the pair.
"""

import matplotlib.pyplot as plt
import numpy as np
from mnist_model import arguments, digits, model

import orthodrome as od

STEPS = 12
CANDIDATES = 2000


def telling_pairs(vae, codes, count, rng):
    """Of many random pairs, those whose straight lines go through the greatest uncertainty: there the ways differ."""
    i, j = rng.integers(len(codes), size=(2, CANDIDATES))
    t = np.linspace(0, 1, 9)[:, None]
    _, std = vae.decode(codes[i, None] + t * (codes[j] - codes[i])[:, None], return_std=True)
    spread = std.mean(axis=-1)
    worst = np.argsort(spread[:, 1:-1].max(axis=1) / spread[:, [0, -1]].max(axis=1))[::-1]
    return i[worst[:count]], j[worst[:count]]


def main(out, images, vae, pairs=3, seed=0, solver=None):
    """Writes the picture and returns it with the paths."""
    codes = vae.encode(images)
    i, j = telling_pairs(vae, codes, pairs, np.random.default_rng(seed))

    path = od.shortest_path(vae.metric(), codes[i], codes[j], solver)
    t = np.linspace(0, 1, STEPS)
    ways = {"path": path(t), "line": codes[i, None] + t[:, None] * (codes[j] - codes[i])[:, None]}

    strips = np.concatenate([[vae.decode(ways["path"][k]), vae.decode(ways["line"][k])] for k in range(pairs)])
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 0.62 * 2 * pairs + 0.9), width_ratios=[1, 2.6], layout="constrained"
    )
    od.plotting.scene(vae.metric(), codes, ax=left)
    od.plotting.paths(path, ax=left)
    for k in range(pairs):
        left.plot(*ways["line"][k].T, ":", color=od.plotting.COLORS[k % 5], lw=1.5)
    left.set(title="latent space", xticks=[], yticks=[])
    od.plotting.strip(strips, labels=["shortest path", "straight line"] * pairs, ax=right, vmin=0, vmax=1)
    right.set_title("decoded along shortest paths, and along straight lines (dotted)")
    figure.savefig(out / "interpolation.png", dpi=130)
    return figure, path


if __name__ == "__main__":
    given = arguments(__doc__)
    pictures, _ = digits(given.mnist)
    _, found = main(given.out, pictures, model(given.out, pictures))
    print(found)
    print(f"picture: {given.out / 'interpolation.png'}")
