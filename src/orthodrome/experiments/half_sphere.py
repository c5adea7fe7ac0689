"""Fig. 8: the latent space of a half sphere: which geodesics are found, their lengths and run
times."""

import warnings
from itertools import combinations

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome._types import Array
from orthodrome.experiments import contest, latent
from orthodrome.experiments.base import Experiment, Part, Results, Run
from orthodrome.experiments.contest import BVP4, BVP5, HH, OURS
from orthodrome.experiments.figures import curve, legend_below, line, scene, sheet

TIMES = np.linspace(0, 1, 200)
LONG = 1.5
"""A curve that is longer than the shortest by more is drawn as if by so much."""


def compute(run: Run) -> Results:
    """All pairs of some codes, each alone; and the curves of the pair on which the solvers differ
    most."""
    model, _, codes = latent.space(run, od.datasets.half_sphere, "softplus")
    metric = model.metric()
    picks = codes[
        np.random.default_rng([run.seed, 1]).choice(len(codes), run.settings.picks, replace=False)
    ]
    i, j = np.array(list(combinations(range(len(picks)), 2))).T
    # so that the first few are like the others
    mixed = np.random.default_rng([run.seed, 2]).permutation(len(i))
    i, j = i[mixed], j[mixed]
    few = run.settings.for_bvp
    rows = contest.some_for_bvp(run, "", metric, picks[i], picks[j], few, latent.MESH, alone=True)
    pair = differing(rows)
    a, b = picks[i[pair]], picks[j[pair]]
    curves = {
        who: run.part(f"{contest.slug(who)}-drawn", drawn, metric, a, b, solver)
        for who, solver in contest.solvers(latent.MESH).items()
    }
    return {"metric": metric, "codes": codes, "rows": rows, "pair": pair, "curves": curves}


def drawn(metric: od.Metric, a: Array, b: Array, solver: od.Solver) -> dict[str, Array]:
    """One solver's curve."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)  # the figure shows it
        return {"points": od.shortest_path(metric, a, b, solver)(TIMES)}


def differing(rows: dict[str, Part]) -> int:
    """The problem on which a converged baseline and Algorithm 1 differ most in length, whoever's is
    longer."""
    few = min(len(rows[who]["length"]) for who in (BVP4, BVP5))
    length = lambda who: np.where(rows[who]["converged"], rows[who]["length"], np.nan)[:few]
    ratios = np.array([length(who) / length(OURS) for who in (BVP4, BVP5)])
    return int(np.argmax(np.nan_to_num(np.abs(np.log(ratios))).max(axis=0)))


def draw(results: Results) -> Figure:
    """Latent space, lengths, times."""
    rows, pair = results["rows"], results["pair"]
    figure, (left, middle, right) = sheet(3, width=4.0)
    scene(left, results["metric"], results["codes"], alpha=0.25)
    for who, part in results["curves"].items():
        curve(left, who, part["points"], label=f"{who} ({contest.length(rows[who], pair)})")
    limits = np.array([part["points"] for part in results["curves"].values()]).reshape(-1, 2)
    inside = np.concatenate(
        [
            results["codes"],
            limits[np.all(np.abs(limits) < 2 * np.abs(results["codes"]).max(), axis=1)],
        ]
    )
    left.set(
        xlim=_room(inside[:, 0]), ylim=_room(inside[:, 1]), title="latent space, one pair, lengths"
    )
    legend_below(figure, left, 5)
    best = contest.shortest(rows)
    for who, row in rows.items():
        x = best[: len(row["length"])]
        line(middle, who, x, np.minimum(row["length"] / x, LONG), linestyle="", markersize=3)
        line(right, who, x, 1e3 * row["seconds"], linestyle="", markersize=3)
    middle.set(
        xlabel="shortest length found",
        ylabel=f"length / shortest, at most {LONG:g}",
        title="lengths",
    )
    right.set(
        xlabel="shortest length found",
        ylabel="milliseconds",
        yscale="log",
        title="run time, one problem a call",
    )
    return figure


def _room(values: Array) -> tuple[float, float]:
    low, high = values.min(), values.max()
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def measured(results: Results) -> str:
    """The pair's lengths; how often each is the shortest; failures."""
    rows, pair = results["rows"], results["pair"]
    lengths = ", ".join(f"{who} {contest.length(row, pair)}" for who, row in rows.items())
    best = contest.shortest(rows)
    shortest = ", ".join(
        f"{who} {contest.percent(row['length'] <= 1.01 * best[: len(row['length'])])}"
        for who, row in rows.items()
    )
    times = ", ".join(latent.spread(who, row["seconds"]) for who, row in rows.items())
    return (
        f"the pair that differs most: {lengths}; within 1 % of the shortest found: {shortest}; "
        f"{contest.FAILURES}: {contest.failures(rows)}; median {times}"
    )


EXPERIMENT = Experiment(
    "half-sphere",
    "Fig. 8: the latent space of a half sphere",
    f"one pair: {OURS} 2.52, bvp5c 3.65, {HH} 3.30; {OURS} always finds the shortest path, is "
    "faster on easy pairs "
    "and a little slower on hard ones",
    quick={"points": 300, "epochs": 100, "picks": 4, "for_bvp": 10},
    full={"points": 1000, "epochs": 1000, "picks": 50, "for_bvp": 1225},
    compute=compute,
    draw=draw,
    measured=measured,
    table=lambda results: contest.table(results["rows"]),
)
