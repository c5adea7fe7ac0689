"""Appendix: a challenging path, and how many iterations it takes for two curvatures and two meshes."""

import warnings

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments.base import Array, Experiment, Results, Run
from orthodrome.experiments.contest import AUTO, OURS
from orthodrome.experiments.figures import curve, legend, scene, sheet

CASES = [(0.1, 10), (0.1, 50), (0.15, 10), (0.15, 50)]
"""(σ, N), and what the paper counted:"""
PAPER = [300, 80, 85, 32]
TIMES = np.linspace(0, 1, 400)


def ends(data: Array, angle: Array) -> tuple[Array, Array]:
    """From one end of the half circle to the other."""
    return data[np.argmax(angle)], data[np.argmin(angle)]


def compute(run: Run) -> Results:
    """The same two points on data of several seeds, since the paper's are not known; the first one is drawn."""

    def one(seed: int) -> dict[str, object]:
        data, angle = od.datasets.semicircle(200, random_state=seed, return_angle=True)
        out: dict[str, list[object]] = {"iterations": [], "converged": [], "length": [], "points": []}
        for sigma, mesh in CASES:
            metric = od.LocalPCA(data, sigma=sigma, rho=0.01)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", od.ConvergenceWarning)  # it is in the table
                path = od.shortest_path(metric, *ends(data, angle), od.FixedPoint(mesh=mesh))
            for key in ("iterations", "converged", "length"):
                out[key].append(getattr(path, key))
            out["points"].append(path(TIMES))
        sure = od.shortest_path(od.LocalPCA(data, sigma=0.1, rho=0.01), *ends(data, angle))
        return {**out, "auto": sure(TIMES), "auto_length": sure.length}

    seeds = [run.part(f"seed-{run.seed + k}", one, run.seed + k) for k in range(run.settings.seeds)]
    data = od.datasets.semicircle(200, random_state=run.seed)
    return {"metric": od.LocalPCA(data, sigma=0.1, rho=0.01), "seeds": seeds}


def draw(results: Results) -> Figure:
    """The path of σ = 0.1, with both meshes and by `Auto`."""
    figure, (ax,) = sheet(1, width=5.0, height=3.4)
    scene(ax, results["metric"])
    first = results["seeds"][0]
    for k, dash in ((0, ":"), (1, "-")):
        curve(
            ax, OURS, first["points"][k], linestyle=dash, label=f"{OURS}, N = {CASES[k][1]} ({first['length'][k]:.2f})"
        )
    curve(ax, AUTO, first["auto"], marker="", label=f"{AUTO} ({first['auto_length']:.2f})")
    ax.set_title("σ = 0.1, from end to end (lengths)")
    legend(ax, loc="lower center", bbox_to_anchor=(0.5, -0.25), ncols=3)
    return figure


def _medians(results: Results) -> tuple[Array, Array]:
    counted = np.array([part["iterations"] for part in results["seeds"]], dtype=float)
    solved = np.array([part["converged"] for part in results["seeds"]])
    return counted, solved


def measured(results: Results) -> str:
    """Iterations of the first data set, and the range over all."""
    counted, solved = _medians(results)
    told = [
        f"σ = {sigma}, N = {mesh}: {counted[0, k]:.0f} ({counted[:, k].min():.0f} to {counted[:, k].max():.0f}"
        + ("" if solved[:, k].all() else f", {np.sum(~solved[:, k])} not converged")
        + ")"
        for k, (sigma, mesh) in enumerate(CASES)
    ]
    return f"iterations on the first data set (range over {len(counted)}): " + "; ".join(told)


def table(results: Results) -> list[list[str]]:
    """Paper and measured."""
    counted, solved = _medians(results)
    return [["σ", "N", "paper", "median here", "least", "most", "not converged"]] + [
        [
            str(sigma),
            str(mesh),
            str(paper),
            f"{np.median(counted[:, k]):.0f}",
            f"{counted[:, k].min():.0f}",
            f"{counted[:, k].max():.0f}",
            f"{np.sum(~solved[:, k])} of {len(solved)}",
        ]
        for k, ((sigma, mesh), paper) in enumerate(zip(CASES, PAPER, strict=True))
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
