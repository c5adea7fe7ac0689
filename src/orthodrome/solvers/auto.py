"""The default solver: begin in several places, descend, polish, certify; spend more only where the judge asks for it."""

import dataclasses
from typing import Any

import numpy as np

from orthodrome import _boundary, elements
from orthodrome.curves import Curve, PiecewiseCurve, concatenate_curves, resample, straight_line
from orthodrome.judging import RTOL, Verdict, judge
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Array, Others, Solution, Solver
from orthodrome.solvers.energy import descend, smooth
from orthodrome.solvers.graph import roads_of
from orthodrome.status import Status

ELEMENTS, REFINEMENT = 32, 4
"""Elements of the curve that descends, and how many times more the next one has if the judge is not content."""

DEGREE = 3
"""Of the elements: their ends then have order 6, as has the curve through them."""

TOL = 1e-3
"""A descent is done when another step promises this fraction of rtol."""

FOLLOW = 0.5
"""Half of a refined mesh is spread evenly in time, half along the way in coordinates, where the metric changes."""

MAX_ITER = 300
"""Evaluations of the energy a stage, at most."""

SAME_WAY, SAME_LENGTH = 0.05, 0.01
"""Two coarse curves are one if they are closer than this, relative to the way and to the length."""

WORSE = 0.05
"""A coarse curve so much longer than the best is not followed up."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Auto(Solver):
    """Find the shortest path, refine it until its length is sure to `rtol`, and certify it.

    *Start*: the straight line; where it had to bend much, a route along the graph of the data; where the two disagree,
    detours. *Descend*: Newton's method on the energy of a polyline. *Polish*: the same on elements of degree 3, more of
    them until the judge is content. *Certify*: `path.certified` then says "a locally minimising geodesic, shortest of
    the starts", and `path.error ≤ rtol`.

    Paths from a to b and from b to a are the same curve, to the last digit.
    """

    rtol: float = RTOL
    """The relative error of the length that is asked for."""
    nodes: Any = None
    """(n, d): points to walk along when looking for starts. Without them, the data of the metric, if it has any."""
    detours: int = 2
    """How many further starts a problem may have whose first two disagree."""
    max_elements: int = 1024
    """The finest polished curve."""
    alternatives: bool = False
    """Whether to keep the other local minimisers that were found (`path.alternatives`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rtol", _boundary.as_positive(self.rtol, "rtol"))
        _boundary.as_count(self.detours, "detours", 0)
        _boundary.as_count(self.max_elements, "max_elements", ELEMENTS)
        if self.nodes is not None:
            object.__setattr__(self, "nodes", _boundary.as_data(self.nodes, "nodes"))

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve all problems, each in the direction that comes first in lexicographic order."""
        backwards = _comes_first(end, start)
        a, b = np.where(backwards[:, None], end, start), np.where(backwards[:, None], start, end)
        breaks = np.broadcast_to(np.linspace(0.0, 1.0, ELEMENTS + 1), (len(a), ELEMENTS + 1))
        nodes, length, evaluations = self._descend(metric, a, b, breaks, _given(init, backwards))
        problem, column = np.nonzero(_distinct(nodes, length))
        nodes, breaks = nodes[problem, column], breaks[problem]
        curve, verdict, status = self._polish(metric, a[problem], b[problem], nodes, breaks)
        return self._choose(problem, curve.reversed(backwards[problem]), verdict, status, evaluations)

    def _descend(
        self, metric: Metric, a: Array, b: Array, breaks: Array, given: Curve | None
    ) -> tuple[Array, Array, Array]:
        """Curves of least energy from each start: nodes (P, starts, N, d), lengths (P, starts), evaluations (P,).

        Starts that a problem did not need have infinite length.
        """
        P, d = a.shape
        times = elements.node_times(breaks[0], DEGREE) if P else np.zeros(0)
        nodes = np.full((P, 2 + self.detours, len(times), d), np.nan)
        length, evaluations = np.full(nodes.shape[:2], np.inf), np.zeros(P, int)

        def descend_from(begin: Array, which: Array, column: int) -> Array:
            begin[:, 0], begin[:, -1] = a[which], b[which]
            found = descend(metric, begin, breaks[which], TOL * self.rtol, MAX_ITER)
            nodes[which, column], evaluations[which] = found.nodes, evaluations[which] + found.iterations
            length[which, column] = np.where(np.isfinite(found.energy), np.sqrt(2 * found.energy), np.inf)
            return found.bent

        moving = np.any(a != b, axis=1)  # from a point to itself, stay there
        begin = straight_line(a, b, times, 0)
        if given is not None:
            begin = np.where(moving[:, None, None], given.evaluate(times), begin)
        bent = descend_from(begin, np.arange(P), 0)
        roads = None if given is not None else roads_of(metric, self.nodes)
        unsure = np.flatnonzero(bent & moving)
        if roads is None or not len(unsure):
            return nodes, length, evaluations
        along = lambda route: PiecewiseCurve.through(route).evaluate(times)
        routes, _ = roads.routes(metric, a[unsure], b[unsure], ELEMENTS + 1)
        descend_from(along(routes[:, 0]), unsure, 1)
        gap = np.abs(length[unsure, 0] - length[unsure, 1])
        unsure = unsure[gap > SAME_LENGTH * length[unsure].min(axis=1)]
        if self.detours and len(unsure):
            routes, _ = roads.routes(metric, a[unsure], b[unsure], ELEMENTS + 1, self.detours)
            for k in range(1, 1 + self.detours):
                descend_from(along(routes[:, k]), unsure, 1 + k)
        return nodes, length, evaluations

    def _polish(
        self, metric: Metric, a: Array, b: Array, nodes: Array, breaks: Array
    ) -> tuple[PiecewiseCurve, Verdict, Array]:
        """Smooth curves through the nodes, judged; on a finer mesh where the judge is not content."""
        curve = smooth(metric, nodes, breaks)
        verdict = judge(metric, curve, a, b, self.rtol)
        status = np.select(
            [verdict.certified, ~np.isfinite(verdict.length), verdict.minimising],
            [Status.CONVERGED, Status.NON_FINITE, Status.UNRESOLVED],
            Status.SADDLE,
        )
        count = (breaks.shape[1] - 1) * REFINEMENT
        again = np.flatnonzero((status == Status.UNRESOLVED) | (status == Status.SADDLE))
        if not len(again) or count > self.max_elements:
            return curve, verdict, status
        breaks = _spread(curve.take(again), count)
        begin = curve.take(again).evaluate(elements.node_times(breaks, DEGREE))
        begin[:, 0], begin[:, -1] = a[again], b[again]
        found = descend(metric, begin, breaks, TOL * self.rtol, MAX_ITER)
        finer = self._polish(metric, a[again], b[again], found.nodes, breaks)
        kept = np.setdiff1d(np.arange(len(a)), again)
        order = np.argsort(np.concatenate([kept, again]))
        return (
            concatenate_curves([curve.take(kept), finer[0]]).take(order),
            Verdict.concatenate([verdict.take(kept), finer[1]]).take(order),
            np.concatenate([status[kept], finer[2]])[order],
        )

    def _choose(
        self, problem: Array, curve: PiecewiseCurve, verdict: Verdict, status: Array, evaluations: Array
    ) -> Solution:
        """The shortest geodesic of each problem; a certified one before one that is only just shorter."""
        rank = np.nan_to_num(verdict.length, nan=np.inf) * np.where(verdict.certified, 1.0, 1.0 + self.rtol)
        order = np.lexsort([rank, problem])
        first = np.diff(problem[order], prepend=-1) > 0
        best, rest = order[first], order[~first]
        others = Others(curve.take(rest), verdict.take(rest), problem[rest]) if self.alternatives else None
        return Solution(curve.take(best), status[best], evaluations, verdict.take(best), others)


def _given(init: Curve | None, backwards: Array) -> Curve | None:
    """The curves to begin from, in the direction in which the problems are solved."""
    if init is None or not backwards.any():
        return init
    points = init.evaluate(np.linspace(0.0, 1.0, 4 * ELEMENTS + 1))
    return PiecewiseCurve.through(np.where(backwards[:, None, None], points[:, ::-1], points))


def _comes_first(a: Array, b: Array) -> Array:
    """Which of P points a comes before b in lexicographic order."""
    differs = a != b
    at = np.argmax(differs, axis=1)[:, None]
    return (np.take_along_axis(a, at, axis=1) < np.take_along_axis(b, at, axis=1))[:, 0]


def _distinct(nodes: Array, length: Array) -> Array:
    """Which of the curves (P, S, N, d) of each problem to follow up: not much longer than the best, no two alike."""
    P, S = length.shape
    order = np.argsort(length, axis=1, kind="stable")
    row = np.arange(P)[:, None]
    nodes, length = nodes[row, order], length[row, order]
    way = np.linalg.norm(np.diff(nodes, axis=2), axis=-1).sum(axis=2)
    keep = np.isfinite(length) & (length <= (1 + WORSE) * length[:, :1])
    keep[:, 0] = True
    for later in range(1, S):
        for earlier in range(later):
            apart = np.linalg.norm(nodes[:, later] - nodes[:, earlier], axis=-1).max(axis=1)
            alike = (apart <= SAME_WAY * way[:, earlier]) & (length[:, later] <= (1 + SAME_LENGTH) * length[:, earlier])
            keep[:, later] &= ~(alike & keep[:, earlier])
    out = np.zeros_like(keep)
    out[row, order] = keep
    return out


def _spread(curve: PiecewiseCurve, count: int) -> Array:
    """Breaks (P, count + 1), half evenly in time and half along the curve's way in coordinates."""
    times = np.linspace(0.0, 1.0, 4 * count + 1)
    ways = np.linalg.norm(np.diff(curve.evaluate(times), axis=1), axis=-1)
    total = ways.sum(axis=1, keepdims=True)
    share = np.where(total > 0, ways / np.where(total > 0, total, 1.0), 1.0 / len(ways.T))
    density = (1 - FOLLOW) / len(ways.T) + FOLLOW * share
    reached = np.concatenate([np.zeros((len(curve), 1)), np.cumsum(density, axis=1)], axis=1)
    breaks = resample(np.broadcast_to(times[:, None], (*reached.shape, 1)), reached, count + 1)[..., 0]
    breaks[:, 0], breaks[:, -1] = 0.0, 1.0
    return breaks
