"""Fig. 4: lengths, failures and run times from one end of the semicircle to every other point."""

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments import contest
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.contest import BVP4, BVP5, OURS
from orthodrome.experiments.figures import STYLE, curve, legend, line, scene, sheet

SHOWN = (0.01, 0.25, 0.5)
"""Where on the way to the other end the geodesics end that are drawn."""


def compute(run: Run) -> Results:
    """Each problem alone, so that each has its time; and all at once, for the time in company."""
    data, angle = od.datasets.semicircle(200, random_state=run.seed, return_angle=True)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    order = np.argsort(-angle)
    base, ends = data[order[0]], data[order[1 :: run.settings.every]]
    start = np.broadcast_to(base, ends.shape)
    contestants = contest.solvers()
    rows = contest.contest(run, "", metric, start, ends, contestants, mesh=10, alone=True)
    together = {
        who: run.part(
            f"{contest.slug(who)}-together", _together, metric, start, ends, contestants[who]
        )
        for who in (OURS, contest.HH, contest.AUTO)
    }
    some = data[order[-1 - (np.array(SHOWN) * len(order)).astype(int)]]
    t = np.linspace(0, 1, 200)
    drawn = run.part(
        "drawn", lambda: {"points": od.shortest_path(metric, base, some, od.FixedPoint(mesh=50))(t)}
    )
    return {"metric": metric, "rows": rows, "together": together, "drawn": drawn["points"]}


def _together(
    metric: od.Metric, start: contest.Array, end: contest.Array, solver: od.Solver
) -> dict[str, contest.Array]:
    return {"seconds": contest.judged(metric, start, end, solver, mesh=10, alone=False)["seconds"]}


def draw(results: Results) -> Figure:
    """Data, lengths, times."""
    figure, (left, middle, right) = sheet(3, width=4.0)
    rows = results["rows"]
    scene(left, results["metric"])
    for points in results["drawn"]:
        curve(left, OURS, points, marker="")
    left.scatter(*results["drawn"][0, 0], s=40, color="black", zorder=6)
    left.annotate(
        "y", results["drawn"][0, 0], xytext=(-14, -4), textcoords="offset points", fontsize=12
    )
    left.set_title("geodesics by Algorithm 1, N = 50")
    index = np.arange(1, len(rows[OURS]["length"]) + 1)
    # what is longer, or has no length, is drawn there
    top = 1.6 * np.nanmax(contest.shortest(rows))
    for who, row in rows.items():
        line(middle, who, index, np.minimum(row["length"], top), linestyle="", markersize=3)
        line(right, who, index, 1e3 * row["seconds"], linestyle="", markersize=3)
    for who, place in ((BVP4, 0.0), (BVP5, 0.06)):
        lost = index[contest.unconverged(rows[who])]
        middle.vlines(
            lost, place * top, (place + 0.05) * top, color=STYLE[who]["color"], linewidth=1
        )
    titled = "length (at the top: longer; ticks: bvp not converged)"
    middle.set(title=titled, xlabel="point, by its angle from y", ylim=(0, top))
    right.set(
        title="run time, one problem a call",
        xlabel="point, by its angle from y",
        ylabel="milliseconds",
        yscale="log",
    )
    legend(right, loc="upper left", ncols=2, fontsize=7)
    right.set_ylim(top=right.get_ylim()[1] * 8)
    return figure


def measured(results: Results) -> str:
    """Failures, and the times of the slower ones relative to ours."""
    rows, together = results["rows"], results["together"]
    ms = {who: 1e3 * np.median(row["seconds"]) for who, row in rows.items()}
    times = ", ".join(f"{who} {value:.1f}" for who, value in ms.items())
    long = ", ".join(
        f"{who} {contest.percent(share)}" for who, share in contest.too_long(rows).items()
    )
    company = ", ".join(
        f"{who} {1e3 * np.median(part['seconds']):.2f}" for who, part in together.items()
    )
    return (
        f"{contest.FAILURES}: {contest.failures(rows)}; too long by > 1 %: {long}; median ms one "
        f"at a time: {times}; "
        f"all in one call: {company}"
    )


EXPERIMENT = Experiment(
    "semicircle",
    "Fig. 4: from one point of the semicircle to all others",
    "only Algorithm 1 finds the long ones; bvp5c fails there and is always slower; H&H finds "
    "curves that are too long, "
    "in constant time",
    quick={"every": 12},
    full={"every": 1},
    compute=compute,
    draw=draw,
    measured=measured,
    table=lambda results: contest.table(results["rows"]),
)
