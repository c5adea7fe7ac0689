"""What the paper says in words about its choices: step rules, noise, order of updates, kernels,
hyper-parameters."""

import re
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome._types import Array
from orthodrome.curves import GPCurve
from orthodrome.experiments import contest, variants
from orthodrome.experiments.base import Experiment, Part, Results, Run
from orthodrome.experiments.figures import sheet
from orthodrome.judging import RTOL, judge
from orthodrome.metrics import Metric

STEPS = ("backtracking", "mann", "ishikawa", "anderson")
KERNELS = {
    "squared exponential": od.SquaredExponential(),
    "Matérn 7/2": od.Matern(nu=3.5),
    "Matérn 9/2": od.Matern(nu=4.5),
    "integrated Wiener": variants.IntegratedWiener(),
}
FACTORS = np.geomspace(0.4, 2.5, 17)
"""On the lengthscale, for type-II maximum likelihood."""
TIMES = np.linspace(0, 1, 201)
NOISE = 1e-7
"""Σ of Sec. 4."""

Problems = tuple[Metric, Array, Array]


def compute(run: Run) -> Results:
    """Each variant on the semicircle, with a coarse and with a fine mesh."""
    data, angle = od.datasets.semicircle(200, random_state=run.seed, return_angle=True)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    order = np.argsort(-angle)
    ends = data[order[1 :: run.settings.every]]
    problems = metric, np.broadcast_to(data[order[0]], ends.shape), ends
    groups: dict[str, dict[str, Part]] = {}

    def add(group: str, name: str, make: Callable[..., dict[str, Array]], *arguments: Any) -> None:
        words = re.findall("[a-z0-9]+", f"{group} {name}".lower())
        groups.setdefault(group, {})[name] = run.part("-".join(words), make, problems, *arguments)

    for mesh in run.settings.meshes:
        knots = f"N = {mesh}"
        for step in STEPS:
            add(f"step, {knots}", step, solved, od.FixedPoint(mesh=mesh, step=step))
        for name, kernel in KERNELS.items():
            add(f"kernel, {knots}", name, solved, od.FixedPoint(mesh=mesh, kernel=kernel))
        constant, annealed = (
            noise(mesh, NOISE) for noise in (variants.constant, variants.annealed)
        )
        add(f"update, {knots}", "all knots, Σ", iterated, constant, False, mesh)
        add(f"update, {knots}", "all knots, Σ/i", iterated, annealed, False, mesh)
        add(f"update, {knots}", "one knot after another, Σ", iterated, constant, True, mesh)
        add(f"lengthscale, {knots}", "type-II likelihood", relearned, mesh)
    return {"groups": groups}


def solved(problems: Problems, solver: od.FixedPoint) -> dict[str, Array]:
    """By the library's solver; and how much the curve changes if time is turned around."""
    metric, a, b = problems
    assert isinstance(solver.mesh, int)
    row = contest.judged(metric, a, b, solver, solver.mesh, alone=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)  # the table says it
        there, back = od.shortest_path(metric, a, b, solver), od.shortest_path(metric, b, a, solver)
    both = there.converged & back.converged
    with np.errstate(all="ignore"):
        apart = np.linalg.norm(there(TIMES) - back(TIMES[::-1]), axis=-1).max(axis=-1)
    return row | {"asymmetry": np.where(both, apart, np.nan)}


def iterated(
    problems: Problems, processes: Callable[[int], Any], one_by_one: bool, mesh: int
) -> dict[str, Array]:
    """By the loops of `variants`."""
    metric, a, b = problems
    variants.iterate(metric, a[:2], b[:2], processes, one_by_one, max_iter=2)  # compile
    began = time.perf_counter()
    outcome = variants.iterate(metric, a, b, processes, one_by_one)
    took = (time.perf_counter() - began) / len(a)
    length, at_knots, between = np.zeros((3, len(a)))
    certified = np.zeros(len(a), bool)
    for rows, curve in outcome.curves:
        verdict = judge(metric, curve, a[rows], b[rows], RTOL)
        length[rows], certified[rows] = verdict.length, verdict.certified
        at_knots[rows] = contest.missed(metric, curve, np.linspace(0, 1, mesh))
        between[rows] = contest.missed(metric, curve, np.linspace(0, 1, contest.LOOKS))
    return {
        "seconds": np.full(len(a), took),
        "converged": outcome.converged,
        "iterations": outcome.iterations,
        "evaluations": outcome.evaluations,
        "length": length,
        "certified": certified,
        "at_knots": at_knots,
        "between": between,
    }


def relearned(problems: Problems, mesh: int) -> dict[str, Array]:
    """The residual between the knots and the length, before and after the lengthscale is made the
    likeliest."""
    metric, a, b = problems
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)
        path = od.shortest_path(metric, a, b, od.FixedPoint(mesh=mesh, tol=1e-6))
    times = np.linspace(0, 1, contest.LOOKS)
    after, length, factor = np.zeros((3, len(a)))
    assert isinstance(path.curve, GPCurve)
    for rows, chosen, curve in variants.likeliest(
        path.curve, metric.prior_covariance(a.shape[1]), FACTORS
    ):
        after[rows], factor[rows] = contest.missed(metric, curve, times), chosen
        length[rows] = judge(metric, curve, a[rows], b[rows], RTOL).length
    before = contest.missed(metric, path.curve, times)
    return {
        "before": before,
        "after": after,
        "factor": factor,
        "length_before": path.length,
        "length_after": length,
    }


def draw(results: Results) -> Figure:
    """Iterations of each variant."""
    groups = {
        name: rows for name, rows in results["groups"].items() if not name.startswith("lengthscale")
    }
    figure, axes = sheet(3, rows=-(-len(groups) // 3), width=4.2, height=2.6)
    for ax, (group, rows) in zip(axes, groups.items(), strict=False):
        place = np.arange(len(rows))[::-1]
        for y, row in zip(place, rows.values(), strict=True):
            counts = row["iterations"][row["converged"]]
            if len(counts):
                box = {
                    "orientation": "horizontal",
                    "widths": 0.5,
                    "showfliers": False,
                    "medianprops": {"color": "black"},
                }
                ax.boxplot(counts + 1, positions=[y], manage_ticks=False, **box)
        names = [
            f"{name}\n({contest.percent(contest.unconverged(row))} not converged)"
            for name, row in rows.items()
        ]
        ax.set_yticks(place, names, fontsize=7)
        ax.set(
            xscale="log",
            xlabel="1 + iterations of those that converged",
            title=group,
            ylim=(-0.6, len(rows) - 0.2),
        )
    return figure


def measured(results: Results) -> str:
    """Each group in a clause."""
    told = []
    for group, rows in results["groups"].items():
        if group.startswith("lengthscale"):
            row = rows["type-II likelihood"]
            change = np.abs(row["length_after"] / row["length_before"] - 1)
            change = np.median(change[np.isfinite(change)]) if np.isfinite(change).any() else 0.0
            edge = np.mean(
                (row["factor"] == row["factor"].min()) | (row["factor"] == FACTORS.max())
            )
            told.append(
                f"{group}: after type-II likelihood (median factor "
                f"{np.median(row['factor']):.2f}, {edge:.0%} at an "
                "edge of those tried) the residual between the knots goes from "
                f"{np.median(row['before']):.2g} to "
                f"{np.median(row['after']):.2g}, lengths change by {change:.1e}"
            )
            continue
        clauses = []
        for name, row in rows.items():
            extra = (
                f", {turned(row)} apart if time is reversed"
                if "asymmetry" in row and group.startswith("kernel")
                else ""
            )
            lost, took = contest.percent(contest.unconverged(row)), 1e3 * row["seconds"].mean()
            clauses.append(f"{name} {lost} not converged, {took:.2f} ms{extra}")
        told.append(f"{group}: " + ", ".join(clauses))
    return "; ".join(told)


def turned(row: Part) -> str:
    """How far apart a path and the one back are, for those that both converged."""
    apart = row["asymmetry"][np.isfinite(row["asymmetry"])]
    return f"{np.median(apart):.1e}" if len(apart) else "–"


def table(results: Results) -> list[list[str]]:
    """The tests, iterations, evaluations, time, asymmetry."""
    out = [
        [
            "",
            "variant",
            *contest.TESTS,
            "median iterations",
            "ms a path",
            "apart, if time is reversed",
        ]
    ]
    for group, rows in results["groups"].items():
        for name, row in rows.items():
            if "iterations" in row:
                shares = [contest.percent(test(row)) for test in contest.TESTS.values()]
                numbers = [
                    f"{np.median(row['iterations']):.0f}",
                    f"{1e3 * row['seconds'].mean():.2f}",
                ]
                out.append(
                    [group, name, *shares, *numbers, turned(row) if "asymmetry" in row else ""]
                )
    return out


EXPERIMENT = Experiment(
    "ablation",
    "What the paper says in words: steps, noise, updates, kernels, hyper-parameters",
    "backtracking is effective in practice (Mann's α = 1/(i + 1) is what theory covers); Σ/i does "
    "not pay; all "
    "knots at once are faster; "
    "a Wiener kernel makes time asymmetric; type-II likelihood at the end changes next to nothing",
    quick={"every": 12, "meshes": [10]},
    full={"every": 1, "meshes": [10, 50]},
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
)
