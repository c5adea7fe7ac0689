"""The main job in small: learn a metric from data, find shortest paths, judge them; the README's
figure and table."""

import csv
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import orthodrome as od

FIGURE = "geodesics.png"
TABLE = "table.csv"
HEADER = ["solver", "paths", "converged", "certified", "mean length*", "ms a path"]
FOOTNOTE = "* over the paths that every solver found"

SOLVERS = {
    "Auto()": od.Auto(),
    "FixedPoint()": od.FixedPoint(),
    "FixedPoint(mesh=50, tol=1e-6)": od.FixedPoint(mesh=50, tol=1e-6),
    "Collocation()": od.Collocation(),
}
EVERY = 5
"""SciPy solves one path at a time, in tenths of a second: all solvers get every fifth of the 199
paths."""


def run(folder: Path, seed: int, say: Callable[[str], Any]) -> list[list[str]]:
    """Compute, save and draw; returns the rows of the table."""
    data, angle = od.datasets.semicircle(200, random_state=seed, return_angle=True)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    base, ends = data[np.argmax(angle)], data[np.argsort(angle)[:-1]]
    folder.mkdir(parents=True, exist_ok=True)
    solved, seconds = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)  # the table says it
        for name, solver in SOLVERS.items():
            say(f"  {name} …")
            od.shortest_path(metric, base, ends[:2], solver)  # compile
            began = time.perf_counter()
            solved[name] = od.shortest_path(metric, base, ends[::EVERY], solver)
            seconds[name] = time.perf_counter() - began
        say("  drawing …")
        every = od.shortest_path(metric, base, ends)
    by_all = np.all([path.converged for path in solved.values()], axis=0)
    rows = [
        [
            name,
            str(path.length.size),
            f"{path.converged.mean():.1%}",
            f"{path.certified.mean():.1%}",
            f"{path.length[by_all].mean():.5f}",
            f"{seconds[name] / path.length.size * 1e3:.2f}",
        ]
        for name, path in solved.items()
    ]
    with (folder / TABLE).open("w", newline="") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    draw(metric, every, folder / FIGURE)
    return rows


def draw(metric: od.LocalPCA, path: od.Path, file: Path) -> None:
    """The data with some geodesics and the straight lines they replace; all lengths; how sure they
    are."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[1.35, 1]
    )
    od.plotting.scene(metric, ax=left)
    some = path[[0, 60, 120, 160]]
    od.plotting.paths(some, ax=left)
    for end in some(1.0):
        left.plot(*np.stack([some(0.0)[0], end]).T, color="#888888", lw=1, ls=":", zorder=1)
    left.set_title("Shortest paths follow the data; straight lines (dotted) do not")
    left.set(xticks=[], yticks=[])
    euclidean = np.linalg.norm(path(1.0) - path(0.0), axis=-1)
    sure = path.certified
    right.scatter(
        euclidean[sure], path.length[sure], s=14, color=od.plotting.COLORS[0], label="certified"
    )
    if not sure.all():
        hollow = {
            "facecolors": "none",
            "edgecolors": od.plotting.COLORS[1],
            "label": "not certified",
        }
        right.scatter(euclidean[~sure], path.length[~sure], s=16, **hollow)
        right.legend(frameon=False)
    title = f"{sure.size} paths from one end, {'all' if sure.all() else sure.sum()} certified"
    right.set(xlabel="Euclidean distance", ylabel="length of the shortest path", title=title)
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=130)
    plt.close(figure)
