"""Appendix: k-means in the latent space of a variational autoencoder of the digits 0, 1, 2 (real
images)."""

import time
import warnings
from itertools import permutations
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.cluster import KMeans

import orthodrome as od
from orthodrome._types import Array
from orthodrome.experiments.base import Experiment, Part, Results, Run
from orthodrome.experiments.contest import AUTO, BVP4, OURS, slug
from orthodrome.experiments.figures import legend_below, scene, sheet

LINEAR = "linear"
DIGITS = (0, 1, 2)
SOLVERS = {OURS: od.FixedPoint(), BVP4: od.Collocation(), AUTO: od.Auto()}
MODEL: dict[str, Any] = {
    "hidden": (64, 128),
    "activation": "tanh",
    "centers": 16,
    "patience": 50,
    "learning_rate": 1e-3,
}
"""The paper says "a VAE": two latent coordinates, and sizes that suit 784 pixels. With many bumps
of variance the walls around the codes become so steep that half of Algorithm 1's paths are lost."""


def compute(run: Run) -> Results:
    """Everybody on the same images: many for those who can, fewer for all."""
    s = run.settings
    images, labels = od.datasets.mnist(DIGITS)
    keep = np.random.default_rng([run.seed, 1]).permutation(len(images))[: s.train]
    images, labels = images[keep], labels[keep]
    model = run.model(
        "vae", lambda: od.models.VAE(epochs=s.epochs, random_state=run.seed, **MODEL).fit(images)
    )
    codes, metric = model.encode(images), model.metric()
    groups: dict[str, dict[str, list[Part]]] = {}
    for count, who in [(s.many, who) for who in (LINEAR, OURS, AUTO)] + [
        (s.few, who) for who in (LINEAR, OURS, BVP4)
    ]:
        for repeat in range(s.repeats):
            some = np.random.default_rng([run.seed, 2, repeat]).permutation(len(codes))[:count]
            settings = [run.seed, repeat], s.max_iter
            part = run.part(
                f"{slug(who)}-{count}-{repeat}",
                clustered,
                who,
                metric,
                codes[some],
                labels[some],
                *settings,
            )
            groups.setdefault(f"{count} images", {}).setdefault(who, []).append(part)
    return {"metric": metric, "codes": codes, "labels": labels, "groups": groups}


def clustered(
    who: str, metric: od.Metric, codes: Array, labels: Array, seed: list[int], max_iter: int
) -> dict[str, Any]:
    """One clustering: its accuracy under the best matching, and its time, compilation included."""
    began, random_state = time.perf_counter(), int(np.random.default_rng(seed).integers(2**31))
    if who == LINEAR:
        means = KMeans(3, n_init=1, random_state=random_state).fit(codes)
    else:
        means = od.GeodesicKMeans(
            3, metric, solver=SOLVERS[who], random_state=random_state, max_iter=max_iter
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", od.ConvergenceWarning)  # the table says it
            means.fit(codes)
    return {
        "accuracy": accuracy(means.labels_, labels),
        "fit_seconds": time.perf_counter() - began,
        "centers": means.cluster_centers_,
        "lost": np.mean(means.labels_ < 0),
        "converged": getattr(means, "converged_", True),
    }


def accuracy(assigned: Array, labels: Array) -> float:
    """The share of images in the right cluster, under the best matching of clusters and digits."""
    placed = assigned >= 0
    return max(
        float(np.mean(placed & (np.array(match)[assigned] == labels)))
        for match in permutations(DIGITS)
    )


def draw(results: Results) -> Figure:
    """The latent space with the centers of the first clustering of each."""
    figure, (ax,) = sheet(1, width=5.4, height=4.2)
    scene(ax, results["metric"], results["codes"], s=0)
    for digit, shade in zip(DIGITS, ("#0b5c7a", "#c4452c", "#e5c43c"), strict=True):
        for point in results["codes"][results["labels"] == digit][
            :: max(1, len(results["codes"]) // 200)
        ]:
            ax.text(*point, str(digit), fontsize=7, color=shade, ha="center", va="center", zorder=3)
    group = next(iter(results["groups"].values()))
    for (who, parts), marker in zip(group.items(), "sDo", strict=False):
        ax.scatter(
            *parts[0]["centers"].T,
            s=70,
            marker=marker,
            facecolors="white",
            edgecolors="black",
            linewidths=1.5,
            zorder=4,
            label=who,
        )
    legend_below(figure, ax, 3)
    ax.set_title("codes of handwritten digits, and centers")
    return figure


def _rows(results: Results) -> list[tuple[str, str, Array, Array, int]]:
    return [
        (
            count,
            who,
            np.array([float(p["accuracy"]) for p in parts]),
            np.array([float(p["fit_seconds"]) for p in parts]),
            sum(not p["converged"] for p in parts),
        )
        for count, group in results["groups"].items()
        for who, parts in group.items()
    ]


def measured(results: Results) -> str:
    """Accuracies and times."""
    return "; ".join(
        f"{count}, {who}: {100 * right.mean():.0f} (± {100 * right.std():.0f}) %, "
        f"{took.mean():.0f} s"
        for count, who, right, took, _ in _rows(results)
    )


def table(results: Results) -> list[list[str]]:
    """All of it."""
    header = [
        "images",
        "solver",
        "accuracy",
        "in no cluster",
        "seconds, compilation included",
        "not converged",
    ]
    return [header] + [
        [
            count,
            who,
            f"{100 * right.mean():.1f} ± {100 * right.std():.1f} %",
            f"{100 * np.mean([part['lost'] for part in results['groups'][count][who]]):.0f} %",
            f"{took.mean():.1f}",
            f"{lost} of {len(took)}",
        ]
        for count, who, right, took, lost in _rows(results)
    ]


EXPERIMENT = Experiment(
    "digits",
    "Appendix: k-means of handwritten digits",
    "accuracy (printed as errors) 92 ± 5 % in 1.6 h (Algorithm 1), 91 ± 5 % in 8 h (bvp5c), 83 ± "
    "4 % (linear)",
    quick={"train": 600, "epochs": 100, "many": 9, "few": 4, "repeats": 1, "max_iter": 1},
    full={"train": 1500, "epochs": 300, "many": 40, "few": 10, "repeats": 2, "max_iter": 5},
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
    needs=("mlxtend",),
)
