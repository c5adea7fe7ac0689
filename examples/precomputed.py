"""Whatever scikit-learn does with distances, along the data: clusters, an embedding, a classifier
by neighbours.

python examples/precomputed.py --out demo        # demo/precomputed.png, and a line for each (a
minute)
"""

import argparse
import pathlib

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import DBSCAN
from sklearn.manifold import MDS
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier

import orthodrome as od


def clusters(D, labels):
    """DBSCAN with the radius that serves these distances best; labels, and how well they agree with
    the true ones."""
    radii = np.quantile(D[D > 0], np.linspace(0.01, 0.3, 30))
    found = [
        DBSCAN(eps=radius, min_samples=4, metric="precomputed").fit(D).labels_ for radius in radii
    ]
    score = [adjusted_rand_score(labels, one) for one in found]
    return found[int(np.argmax(score))], max(score)


def embedding(D):
    """A plane in which straight distances are as like D as can be."""
    return MDS(
        2, metric="precomputed", init="classical_mds", n_init=1, random_state=0
    ).fit_transform(D)


def classification(D, labels, few=3):
    """How often the nearest of a few known points has the right label."""
    nearest = KNeighborsClassifier(1, metric="precomputed")
    scores = []
    for seed in range(20):
        known = np.random.default_rng(seed).permutation(len(D))
        known = np.concatenate([known[labels[known] == kind][:few] for kind in np.unique(labels)])
        others = np.setdiff1d(np.arange(len(D)), known)
        nearest.fit(D[np.ix_(known, known)], labels[known])
        scores.append(nearest.score(D[np.ix_(others, known)], labels[others]))
    return np.mean(scores)


def main(out, each=60, seed=0, solver=None):
    """Two moons, by shortest paths and by straight lines: writes the picture, returns it and the
    scores."""
    data, labels = od.datasets.land_moons(each, noise=0.07, random_state=seed, return_labels=True)
    shortest = od.distance_matrix(od.LocalPCA(data, sigma=0.1, rho=1e-3), data, solver=solver)
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    scores = {}
    for row, (name, D) in zip(
        axes, {"shortest paths": shortest, "straight lines": cdist(data, data)}.items(), strict=True
    ):
        found, agreement = clusters(D, labels)
        plane = embedding(D)
        scores[name] = {"DBSCAN": agreement, "nearest neighbour": classification(D, labels)}
        row[0].scatter(*data.T, c=found, cmap="cividis", s=14)
        row[0].set(title=f"{name}: DBSCAN", aspect="equal")
        for kind, marker in zip(np.unique(labels), "o^", strict=True):
            row[1].scatter(*plane[labels == kind].T, marker=marker, s=14, color=f"C{kind}")
        row[1].set(title=f"{name}: embedding", aspect="equal")
    figure.savefig(out / "precomputed.png", dpi=130)
    return figure, shortest, scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, row in main(out)[2].items():
        print(f"{name}: " + ", ".join(f"{task} {score:.2f}" for task, score in row.items()))
    print(f"picture: {out / 'precomputed.png'}")
