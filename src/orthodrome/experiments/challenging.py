"""Appendix: a challenging path, and how many iterations it takes for two curvatures and two
meshes."""

import warnings
from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome._types import Array
from orthodrome.experiments import contest
from orthodrome.experiments.base import Experiment, Part, Results, Run
from orthodrome.experiments.contest import AUTO, OURS
from orthodrome.experiments.figures import curve, legend_below, scene, sheet

CASES = [(0.1, 10), (0.1, 50), (0.15, 10), (0.15, 50)]
"""(σ, N), and what the paper counted:"""
PAPER = [300, 80, 85, 32]
TIMES = np.linspace(0, 1, 400)


def ends(data: Array, angle: Array) -> tuple[Array, Array]:
    """From one end of the half circle to the other."""
    return data[np.argmax(angle)], data[np.argmin(angle)]


def compute(run: Run) -> Results:
    """The same two points on data of several seeds, since the paper's are not known; the first one
    is drawn."""

    def one(seed: int) -> dict[str, Array]:
        data, angle = od.datasets.semicircle(200, random_state=seed, return_angle=True)
        a, b = (point[None] for point in ends(data, angle))
        rows = []
        for sigma, mesh in CASES:
            metric = od.LocalPCA(data, sigma=sigma, rho=0.01)
            row = contest.judged(metric, a, b, od.FixedPoint(mesh=mesh), mesh, alone=True)
            sure = od.shortest_path(metric, a[0], b[0])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", od.ConvergenceWarning)  # it is in the table
                points = od.shortest_path(metric, a[0], b[0], od.FixedPoint(mesh=mesh))(TIMES)
            more = {"auto_length": [sure.length], "points": points[None], "auto": sure(TIMES)[None]}
            rows.append(row | {key: np.asarray(value) for key, value in more.items()})
        return contest.gather(rows)

    seeds = [run.part(f"seed-{run.seed + k}", one, run.seed + k) for k in range(run.settings.seeds)]
    data = od.datasets.semicircle(200, random_state=run.seed)
    return {"metric": od.LocalPCA(data, sigma=0.1, rho=0.01), "seeds": seeds}


def draw(results: Results) -> Figure:
    """The path of σ = 0.1, with both meshes and by `Auto`."""
    figure, (ax,) = sheet(1, width=5.0, height=3.4)
    scene(ax, results["metric"])
    first = results["seeds"][0]
    for k, dash in ((0, ":"), (1, "-")):
        label = f"{OURS}, N = {CASES[k][1]} ({first['length'][k]:.2f})"
        curve(ax, OURS, first["points"][k], linestyle=dash, label=label)
    curve(ax, AUTO, first["auto"][0], marker="", label=f"{AUTO} ({first['auto_length'][0]:.2f})")
    ax.set_title("σ = 0.1, from end to end (lengths)")
    legend_below(figure, ax, 2)
    return figure


def _rows(results: Results) -> Iterator[tuple[float, int, int, Part]]:
    """σ, N, the paper's count, and what was found on all data sets."""
    for k, ((sigma, mesh), paper) in enumerate(zip(CASES, PAPER, strict=True)):
        yield (
            sigma,
            mesh,
            paper,
            contest.gather([{key: part[key][[k]] for key in part} for part in results["seeds"]]),
        )


def astray(row: Part) -> Array:
    """Which curves are more than 1 % longer than Auto's: another geodesic, or none."""
    return ~(row["length"] <= 1.01 * row["auto_length"])


def measured(results: Results) -> str:
    """Iterations of the first data set, the range over all, and how many of them led to the short
    path."""
    told = [
        f"σ = {sigma}, N = {mesh}: {row['iterations'][0]} ({row['iterations'].min()} to "
        f"{row['iterations'].max()}; "
        f"{astray(row).sum()} end in a curve > 1 % longer than Auto's)"
        for sigma, mesh, _, row in _rows(results)
    ]
    return (
        f"iterations on the first data set (range over {len(results['seeds'])} of them): "
        + "; ".join(told)
    )


def table(results: Results) -> list[list[str]]:
    """Paper and measured."""
    header = [
        "σ",
        "N",
        "paper",
        "median here",
        "least",
        "most",
        *contest.TESTS,
        "certified",
        "> 1 % longer than Auto",
    ]
    return [header] + [
        [
            str(sigma),
            str(mesh),
            str(paper),
            f"{np.median(row['iterations']):.0f}",
            str(row["iterations"].min()),
            str(row["iterations"].max()),
            *(contest.percent(test(row)) for test in contest.TESTS.values()),
            contest.percent(row["certified"]),
            contest.percent(astray(row)),
        ]
        for sigma, mesh, paper, row in _rows(results)
    ]


EXPERIMENT = Experiment(
    "challenging",
    "Appendix: iterations of a challenging path",
    "iterations: 300 and 80 (σ = 0.1, N = 10 and 50), 85 and 32 (σ = 0.15)",
    quick={"seeds": 2},
    full={"seeds": 10},
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
)
