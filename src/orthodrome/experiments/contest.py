"""The paper's solver, its baselines and `Auto` on the same problems, judged alike."""

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import orthodrome as od
from orthodrome._types import Array
from orthodrome.curves import Curve
from orthodrome.experiments.base import Part, Run
from orthodrome.judging import judge
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver

OURS, BVP4, BVP5, HH, AUTO = "Algorithm 1", "bvp, order 4", "bvp, order 5", "H&H", "Auto"
"""The paper's solver; SciPy's solve_bvp and the formula of bvp5c, in place of bvp5c; Hennig &
Hauberg; our default."""

PAPERS_TEST = 0.1
"""A curve is correct if ‖c'' − f(c, c')‖² is at most this at every knot (Sec. 4)."""

LOOKS = 501
"""Times at which the same is asked between the knots."""

MANY = 100
"""Points for which f is a program of its own."""

BLOCK = 50
"""Problems whose results are written together: what a kill may lose."""


def solvers(mesh: int = 10, max_nodes: int = 1000) -> dict[str, Solver]:
    """Everybody, with the settings of Sec. 4."""
    return {
        OURS: od.FixedPoint(mesh=mesh),
        BVP4: od.Collocation(max_nodes=max_nodes),
        BVP5: od.Collocation(max_nodes=max_nodes, order=5),
        HH: od.HennigHauberg(mesh=mesh),
        AUTO: od.Auto(),
    }


def some_for_bvp(
    run: Run,
    name: str,
    metric: Metric,
    a: Array,
    b: Array,
    few: int,
    mesh: int,
    max_nodes: int = 1000,
    alone: bool = False,
) -> dict[str, Part]:
    """Everybody; collocation, which takes seconds where others take milliseconds, on the first few
    problems only."""
    everybody = solvers(mesh, max_nodes)
    quick = {who: solver for who, solver in everybody.items() if who not in (BVP4, BVP5)}
    slow = {who: everybody[who] for who in (BVP4, BVP5)}
    rows = contest(run, name, metric, a, b, quick, mesh, alone)
    rows |= contest(run, name, metric, a[:few], b[:few], slow, mesh, alone)
    return {who: rows[who] for who in everybody}


def contest(
    run: Run,
    name: str,
    metric: Metric,
    a: Array,
    b: Array,
    contestants: Mapping[str, Solver],
    mesh: int,
    alone: bool = False,
) -> dict[str, Part]:
    """What each solver makes of the problems from a to b, (P, d) each: a part of arrays (P,) for
    each.

    `alone`: one call a problem, each timed by itself, as the paper did it; otherwise whole blocks
    in one call, and each problem's share of the time. Nothing that is compiled is timed, nor is the
    judge, but for `Auto`, which asks it.
    """
    rows = {}
    for who, solver in contestants.items():
        blocks = [slice(first, first + BLOCK) for first in range(0, len(a), BLOCK)]
        parts = [
            run.part(
                f"{name}{slug(who)}-{k:03d}", judged, metric, a[some], b[some], solver, mesh, alone
            )
            for k, some in enumerate(blocks)
        ]
        rows[who] = gather(parts)
    return rows


def judged(
    metric: Metric, a: Array, b: Array, solver: Solver, mesh: int, alone: bool
) -> dict[str, Array]:
    """One solver on some problems: how long it took, what it says of its curves, and what they
    are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", od.ConvergenceWarning)  # the tables say it
        paths, seconds = timed(metric, a, b, solver, alone)
    curves = [path.curve for path in paths]
    curve = type(curves[0]).join(curves)
    verdict = judge(metric, curve, a, b, solver.rtol)
    return {
        "seconds": seconds,
        "converged": np.concatenate([np.atleast_1d(path.converged) for path in paths]),
        "iterations": np.concatenate([np.atleast_1d(path.iterations) for path in paths]),
        "length": verdict.length,
        "certified": verdict.certified,
        "at_knots": missed(metric, curve, np.linspace(0, 1, mesh)),
        "between": missed(metric, curve, np.linspace(0, 1, LOOKS)),
    }


def timed(
    metric: Metric, a: Array, b: Array, solver: Solver, alone: bool
) -> tuple[list[od.Path], Array]:
    """Paths, and the seconds that each took (P,), nothing compiled among them."""
    first, everything = slice(1), slice(None)
    if isinstance(solver, od.Collocation):  # f for many points is another program than for few
        metric.accelerations(np.repeat(a[:1], MANY, axis=0), np.repeat(b[:1] - a[:1], MANY, axis=0))
    if not alone:
        rehearsed = first if isinstance(solver, od.Collocation) else everything  # it has no batches
        od.shortest_path(metric, a[rehearsed], b[rehearsed], solver)
        began = time.perf_counter()
        path = od.shortest_path(metric, a, b, solver)
        return [path], np.full(len(a), (time.perf_counter() - began) / len(a))
    # after its first problem only Auto may have something to compile: for the hard ones it has
    # further programs
    rehearsed = everything if isinstance(solver, od.Auto) else first
    paths: list[od.Path] = []
    for some in (rehearsed, everything):
        paths, clock = [], [time.perf_counter()]
        for start, end in zip(a[some], b[some], strict=True):
            paths.append(od.shortest_path(metric, start, end, solver))
            clock.append(time.perf_counter())
    return paths, np.diff(clock)


def missed(metric: Metric, curve: Curve, t: Array) -> Array:
    """The largest ‖c'' − f(c, c')‖² of each curve at the times (T,): (P,); infinite where it is not
    a number."""
    with np.errstate(all="ignore"):
        c, v, acceleration = curve.derivatives(t)
        flat = lambda x: x.reshape(-1, x.shape[-1])
        f = metric.accelerations(flat(c), flat(v)).reshape(c.shape)
        worst = np.max(np.sum((acceleration - f) ** 2, axis=2), axis=1)
    return np.where(np.isnan(worst), np.inf, worst)


def unconverged(row: Part) -> Array:
    """Which problems a solver gave up, by its own word (P,). Algorithm 1 speaks of its z, not of
    its curve."""
    return ~row["converged"]


def failed(row: Part) -> Array:
    """Which curves the paper's test refuses at the knots, whatever the solver says (P,).

    With 10 knots collocation passes it by construction: they are among its nodes, and there its
    curve has the acceleration f.
    """
    return row["at_knots"] > PAPERS_TEST


def failed_between(row: Part) -> Array:
    """Which curves fail the same test where the paper does not look: between the knots (P,)."""
    return row["between"] > PAPERS_TEST


TESTS = {
    "not converged": unconverged,
    "fails at knots": failed,
    "fails between knots": failed_between,
}


def too_long(rows: Mapping[str, Part], by: float = 1e-2) -> dict[str, Array]:
    """Which curves are longer, by such a share, than the shortest that anyone found; those without
    a length are."""
    best = shortest(rows)
    return {
        who: ~(row["length"] <= (1 + by) * best[: len(row["length"])]) for who, row in rows.items()
    }


def shortest(rows: Mapping[str, Part]) -> Array:
    """The least length of any curve, for each problem (P,). Some solvers may have been given only
    the first."""
    best = np.full(max(len(row["length"]) for row in rows.values()), np.inf)
    for row in rows.values():
        first = slice(len(row["length"]))
        best[first] = np.fmin(best[first], row["length"])
    return best


def table(rows: Mapping[str, Part]) -> list[list[str]]:
    """A row for each solver: paths, the tests, certified, too long, time."""
    long = too_long(rows)
    header = [
        "solver",
        "paths",
        *TESTS,
        "certified",
        "> 1 % too long",
        "converged, > 1 % too long",
        "ms a path (median)",
    ]
    return [header] + [
        [
            who,
            str(len(row["length"])),
            *(percent(test(row)) for test in TESTS.values()),
            percent(row["certified"]),
            percent(long[who]),
            percent(long[who] & row["converged"]),
            milliseconds(row),
        ]
        for who, row in rows.items()
    ]


def failures(rows: Mapping[str, Part]) -> str:
    """In words: how many were not converged, and how many curves fail the paper's test at the
    knots."""
    most = max(len(row["length"]) for row in rows.values())
    of = lambda row: "" if len(row["length"]) == most else f" of {len(row['length'])}"
    return ", ".join(
        f"{who} {percent(unconverged(row))} ({percent(failed(row))}){of(row)}"
        for who, row in rows.items()
    )


FAILURES = "not converged (curve fails at the knots)"
"""What the numbers of `failures` are."""


def milliseconds(row: Part) -> str:
    """The median time of a path."""
    return f"{1e3 * np.median(row['seconds']):.1f}" if len(row["seconds"]) else "–"


def length(row: Part, problem: int) -> str:
    """The length of one curve, if it has one: a wild one may not be measurable."""
    return f"{row['length'][problem]:.2f}" if np.isfinite(row["length"][problem]) else "no length"


def percent(share: Any) -> str:
    """The mean of some yes and no."""
    return f"{np.mean(share):.0%}" if np.size(share) else "–"


def gather(parts: list[Part]) -> Part:
    """Blocks behind one another."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def slug(who: str) -> str:
    """A solver's name in a file's."""
    return who.lower().replace("&", "").replace(",", "").replace(" ", "-")
