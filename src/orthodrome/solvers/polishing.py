"""From a rough curve to a certified geodesic: descents on finer and finer meshes, until the judge
is content."""

import numpy as np

from orthodrome import elements
from orthodrome._types import Array
from orthodrome.curves import Curve, resample
from orthodrome.discretisation import discretise
from orthodrome.judging import Verdict, judge
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Geodesics
from orthodrome.solvers.descent import descend, smooth
from orthodrome.status import Flaw, Status

DEGREE = 3
"""Of its elements: their ends then have order 6, as has the curve through them."""

TOL, MAX_ITER = 1e-2, 300
"""A descent is done when another step promises this fraction of rtol, or after so many
evaluations."""

BY_DISTANCE = 0.5
"""Half of a mesh is spread evenly in time, half by distance in coordinates, where the metric
changes. With none and with nine tenths by distance, the 180 paths of `benchmarks/constants.py` take
as long."""

BEATEN = 0.003
"""A curve that is so much longer than a certified one of the same problem is left as it is. With 0
and with 0.03 the 180 paths of `benchmarks/constants.py` stay within 0.1 % of the shortest."""


def polish(
    metric: Metric,
    problem: Array,
    a: Array,
    b: Array,
    rough: Curve,
    rtol: float,
    max_elements: int,
    keep_all: bool,
    problems: int,
) -> tuple[Geodesics, Array]:
    """Curves of least energy near C rough ones, smooth and judged; on a finer mesh where the judge
    is not content.

    `problem` (C,) says to which of so many `problems` each belongs: unless `keep_all`, a curve that
    a certified one of the same problem beats is not judged, or not refined. Also returns the
    evaluations (problems,) for each problem.
    """
    shortest, evaluations = np.full(problems, np.inf), np.zeros(problems, int)
    discretisation, done = discretise(metric, a.shape[1]), list[Geodesics]()
    breaks = _spread(rough, discretisation.first_mesh(rtol))
    while True:
        nodes = rough.evaluate(elements.node_times(breaks, DEGREE))
        nodes[:, 0], nodes[:, -1] = a, b
        descent = descend(metric, nodes, breaks, TOL * rtol, MAX_ITER)
        np.add.at(evaluations, problem, descent.iterations)

        rows, judged = list[Array](), list[Geodesics]()
        for some in best_and_rest(problem, descent.length):
            beaten = descent.length[some] > (1 + BEATEN) * shortest[problem[some]]
            some = some[keep_all | ~beaten]
            if len(some):
                curve = smooth(metric, descent.nodes[some], breaks[some])
                verdict = judge(metric, curve, a[some], b[some], rtol)
                status = _status(verdict, descent.status[some])
                rows.append(some)
                judged.append(Geodesics(problem[some], curve, verdict, status))
                certified = verdict.certified
                np.minimum.at(shortest, problem[some[certified]], verdict.length[certified])
        row, geodesics = np.concatenate(rows), Geodesics.join(judged)

        again = (geodesics.status != Status.CONVERGED) & (geodesics.status != Status.NON_FINITE)
        beaten = geodesics.verdict.length > (1 + BEATEN) * shortest[geodesics.problem]
        again &= keep_all | ~beaten
        if done:  # out of iterations on two meshes running: a third will not help
            again &= descent.status[row] != Status.MAX_ITERATIONS
        count = (breaks.shape[1] - 1) * discretisation.refinement
        if not again.any() or count > max_elements:
            return Geodesics.join([*done, geodesics]), evaluations
        done.append(geodesics.take(~again))
        rough, row = geodesics.curve.take(again), row[again]
        problem, a, b = problem[row], a[row], b[row]
        breaks = _spread(rough, count)


def best_and_rest(problem: Array, length: Array) -> tuple[Array, Array]:
    """The shortest of the C curves of each problem, and the other ones, as numbers of curves."""
    order = np.lexsort([length, problem])
    first = np.diff(problem[order], prepend=-1) > 0
    return order[first], order[~first]


def _status(verdict: Verdict, descent: Array) -> Array:
    return np.select(
        [
            verdict.certified,
            verdict.flaw == Flaw.NON_FINITE,
            descent == Status.MAX_ITERATIONS,
            verdict.minimising,
        ],
        [Status.CONVERGED, Status.NON_FINITE, Status.MAX_ITERATIONS, Status.UNRESOLVED],
        Status.SADDLE,
    )


def _spread(curve: Curve, count: int) -> Array:
    """Breaks (P, count + 1), half evenly in time and half by distance in coordinates."""
    times = np.linspace(0.0, 1.0, 4 * count + 1)
    steps = np.linalg.norm(np.diff(curve.evaluate(times), axis=1), axis=-1)
    total = steps.sum(axis=1, keepdims=True)
    share = np.where(total > 0, steps / np.where(total > 0, total, 1.0), 1.0 / len(steps.T))
    density = (1 - BY_DISTANCE) / len(steps.T) + BY_DISTANCE * share
    reached = np.concatenate([np.zeros((len(curve), 1)), np.cumsum(density, axis=1)], axis=1)
    at = np.broadcast_to(times[:, None], (*reached.shape, 1))
    breaks = resample(at, reached, count + 1)[..., 0]
    breaks[:, 0], breaks[:, -1] = 0.0, 1.0
    return breaks
