"""Fig. 5: failed geodesics on three challenging data sets, all pairs of some points."""

from itertools import combinations

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments import contest
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.contest import AUTO, HH, OURS
from orthodrome.experiments.figures import bars, legend, sheet

DATA = {
    "curly": od.datasets.curly,
    "two moons": od.datasets.two_moons,
    "sphere": od.datasets.sphere,
}
MESH = 50
"""The paper's, for these."""


def compute(run: Run) -> Results:
    """All solvers on all pairs."""
    rows = {}
    for name, make in DATA.items():
        data = make(run.settings.points, random_state=run.seed)
        picks = data[
            np.random.default_rng([run.seed, 1]).choice(
                len(data), run.settings.picks, replace=False
            )
        ]
        i, j = np.array(list(combinations(range(len(picks)), 2))).T
        metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
        # so that the first few are like the others
        mixed = np.random.default_rng([run.seed, 2]).permutation(len(i))
        a, b, label = picks[i[mixed]], picks[j[mixed]], f"{name.replace(' ', '-')}-"
        rows[name] = contest.some_for_bvp(
            run, label, metric, a, b, run.settings.for_bvp, MESH, run.settings.max_nodes
        )
    return {"rows": rows}


def draw(results: Results) -> Figure:
    """The paper's test, and what it does not see."""
    figure, axes = sheet(3, width=4.2)
    titles = (
        "not converged, by its own word",
        "curve fails the paper's test, at the knots",
        "curve fails it between the knots",
    )
    for ax, test, title in zip(axes, contest.TESTS.values(), titles, strict=True):
        share = {
            who: np.array([100 * test(rows[who]).mean() for rows in results["rows"].values()])
            for who in next(iter(results["rows"].values()))
        }
        bars(ax, list(results["rows"]), share)
        ax.set(title=title, ylabel="% of pairs", ylim=(0, 128))
    legend(axes[0], ncols=3, loc="upper left", fontsize=7)
    return figure


def measured(results: Results) -> str:
    """Failures on each."""
    return f"{contest.FAILURES}: " + "; ".join(
        f"{name}: {contest.failures(rows)}" for name, rows in results["rows"].items()
    )


def table(results: Results) -> list[list[str]]:
    """One table for all three."""
    tables = {name: contest.table(rows) for name, rows in results["rows"].items()}
    header = ["data", *next(iter(tables.values()))[0]]
    return [header] + [[name, *row] for name, rows in tables.items() for row in rows[1:]]


EXPERIMENT = Experiment(
    "failures",
    "Fig. 5: failed geodesics on curly, two moons, sphere",
    f"{OURS} solves almost all, bvp5c fails in almost half, {HH} in many ({AUTO} is ours, not the "
    "paper's)",
    quick={"points": 200, "picks": 4, "for_bvp": 3, "max_nodes": 1000},
    full={"points": 400, "picks": 40, "for_bvp": 60, "max_nodes": 5000},
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
)
