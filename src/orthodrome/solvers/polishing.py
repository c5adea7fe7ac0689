"""From a rough curve to a certified geodesic: descents on finer and finer meshes, until the judge
is content."""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from orthodrome import elements
from orthodrome.curves import Curve, PiecewiseCurve, resample, stack_ragged
from orthodrome.judging import Verdict, judge
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Array
from orthodrome.solvers.energy import descend, smooth
from orthodrome.status import Flaw, Status

ELEMENTS, REFINEMENT = 32, 2
"""Elements of the first mesh, and how many times more the next one has if the judge is not
content."""

FEW_ELEMENTS, LARGE_REFINEMENT = 8, 4
"""The same where each point is dear: on the pullback of a map, which may be a large network."""

LAX = 1e-3
"""If the length need not be known better than this, half of these few are enough to begin with."""

DEGREE = 3
"""Of its elements: their ends then have order 6, as has the curve through them."""

TOL, MAX_ITER = 1e-2, 300
"""A descent is done when another step promises this fraction of rtol, or after so many
evaluations."""

FOLLOW = 0.5
"""Half of a mesh is spread evenly in time, half along the way in coordinates, where the metric
changes."""

BEATEN = 0.003
"""A curve that is so much longer than a certified one of the same problem is left as it is."""


class Found(NamedTuple):
    """C geodesics, each of some problem."""

    problem: Array
    curve: PiecewiseCurve
    verdict: Verdict
    status: Array

    def take(self, index: Any) -> "Found":
        """Some of them."""
        return Found(
            self.problem[index],
            self.curve.take(index),
            self.verdict.take(index),
            self.status[index],
        )

    def and_more(self, other: "Found") -> "Found":
        """These and others."""
        return Found(
            np.concatenate([self.problem, other.problem]),
            stack_ragged([self.curve, other.curve]),
            Verdict.concatenate([self.verdict, other.verdict]),
            np.concatenate([self.status, other.status]),
        )


def polish(
    metric: Metric,
    problem: Array,
    a: Array,
    b: Array,
    rough: Curve,
    rtol: float,
    max_elements: int,
    keep_all: bool,
) -> tuple[Found, Array]:
    """Curves of least energy near C rough ones, smooth and judged; on a finer mesh where the judge
    is not content.

    `problem` (C,) says whose they are: unless `keep_all`, a curve that a certified one of the same
    problem beats is not judged, or not refined. Also returns the evaluations (P,) for each problem.
    """
    P = problem.max() + 1
    shortest, evaluations, done = np.full(P, np.inf), np.zeros(P, int), list[Found]()
    few = FEW_ELEMENTS if rtol < LAX else FEW_ELEMENTS // 2
    first, factor = (few, LARGE_REFINEMENT) if metric.embedded else (ELEMENTS, REFINEMENT)
    breaks = _spread(rough, first)
    while True:
        nodes = rough.evaluate(elements.node_times(breaks, DEGREE))
        nodes[:, 0], nodes[:, -1] = a, b
        descent = descend(metric, nodes, breaks, TOL * rtol, MAX_ITER)
        np.add.at(evaluations, problem, descent.iterations)

        judged, found = np.zeros(0, int), list[Found]()
        for some in best_and_rest(problem, descent.length):
            beaten = descent.length[some] > (1 + BEATEN) * shortest[problem[some]]
            some = some[keep_all | ~beaten]
            if len(some):
                curve = smooth(metric, descent.nodes[some], breaks[some])
                verdict = judge(metric, curve, a[some], b[some], rtol)
                found.append(
                    Found(problem[some], curve, verdict, _status(verdict, descent.status[some]))
                )
                judged = np.concatenate([judged, some])
                sure = verdict.certified
                np.minimum.at(shortest, problem[some[sure]], verdict.length[sure])
        seen = reduce(Found.and_more, found)

        again = (seen.status != Status.CONVERGED) & (seen.status != Status.NON_FINITE)
        again &= keep_all | ~(seen.verdict.length > (1 + BEATEN) * shortest[seen.problem])
        if done:  # on two meshes out of iterations: a third will not help
            again &= descent.status[judged] != Status.MAX_ITERATIONS
        count = (breaks.shape[1] - 1) * factor
        if not again.any() or count > max_elements:
            return reduce(Found.and_more, [*done, seen]), evaluations
        done.append(seen.take(~again))
        rough, judged = seen.curve.take(again), judged[again]
        problem, a, b = problem[judged], a[judged], b[judged]
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
    """Breaks (P, count + 1), half evenly in time and half along the curve's way in coordinates."""
    times = np.linspace(0.0, 1.0, 4 * count + 1)
    ways = np.linalg.norm(np.diff(curve.evaluate(times), axis=1), axis=-1)
    total = ways.sum(axis=1, keepdims=True)
    share = np.where(total > 0, ways / np.where(total > 0, total, 1.0), 1.0 / len(ways.T))
    density = (1 - FOLLOW) / len(ways.T) + FOLLOW * share
    reached = np.concatenate([np.zeros((len(curve), 1)), np.cumsum(density, axis=1)], axis=1)
    breaks = resample(np.broadcast_to(times[:, None], (*reached.shape, 1)), reached, count + 1)[
        ..., 0
    ]
    breaks[:, 0], breaks[:, -1] = 0.0, 1.0
    return breaks
