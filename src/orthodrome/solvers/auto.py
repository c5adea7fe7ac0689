"""The default solver: begin in several places, descend, polish, certify; more of it only where the
judge asks."""

import dataclasses
from typing import Any

import numpy as np

from orthodrome import _boundary, elements
from orthodrome.curves import Curve, PiecewiseCurve
from orthodrome.judging import RTOL, judge
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Array, Others, Solution, Solver, moved
from orthodrome.solvers.energy import Energy, descend, first_velocity
from orthodrome.solvers.graph import require_nodes, roads_of
from orthodrome.solvers.polishing import (
    DEGREE,
    ELEMENTS,
    FEW_ELEMENTS,
    MAX_ITER,
    TOL,
    Found,
    best_and_rest,
    polish,
)
from orthodrome.solvers.search import Search, distinct
from orthodrome.status import Status

NEAR = 1e-8
"""Points nearer to each other than this, relative to their coordinates, are joined by a straight
line if the judge agrees: rounding leaves no digits to descend with."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Auto(Solver):
    """Find the shortest path, refine it until its length is sure to `rtol`, and certify it.

    Start: the straight line; where a problem is not plainly easy, a route along the graph of the
    data and the path of a smoother metric, or, where there are no data, bows to either side; then
    the paths of other problems of the call with nearly the same ends, or, where there are none,
    bows and detours. Descend: Newton's method on the energy (`Energy`), on a coarse mesh. Polish
    the best, on finer meshes until the judge is content. Certify: `path.certified` then says "a
    locally minimising geodesic, shortest of the starts", and `path.error ≤ rtol`.

    Paths from a to b and from b to a are the same curve, to the last digit.
    """

    rtol: float = RTOL
    """The relative error of the length that is asked for."""
    nodes: Any = None
    """(n, d): points to walk along when looking for starts. Without them, the data of the metric,
    if it has any."""
    effort: int = 3
    """1: only the straight line. 2: a few more starts where a problem is not plainly easy. 3: still
    more of them."""
    random_state: int = 0
    """Into which directions the starts are bent that leave the straight line. The same one gives
    the same paths."""
    max_elements: int = 1024
    """The finest polished curve."""
    alternatives: bool = False
    """Whether to keep the other local minimisers that were found (`path.alternatives`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rtol", _boundary.as_positive(self.rtol, "rtol"))
        _boundary.as_count(self.effort, "effort", 1)
        _boundary.as_count(self.random_state, "random_state", 0)
        _boundary.as_count(self.max_elements, "max_elements", ELEMENTS)
        if self.nodes is not None:
            object.__setattr__(self, "nodes", _boundary.as_data(self.nodes, "nodes"))

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve all problems, each in the direction that comes first in lexicographic order."""
        require_nodes(self.nodes, start.shape[1])
        if not len(start):
            return _nothing(start)
        backwards = _comes_first(end, start)
        a, b = np.where(backwards[:, None], end, start), np.where(backwards[:, None], start, end)
        evaluations, starts = np.zeros(len(a), int), np.ones(len(a), int)
        found = _as_straight_as_numbers_go(metric, a, b, self.rtol)
        others = np.setdiff1d(np.arange(len(a)), found.problem)
        if len(others):
            given = _given(init, backwards)
            given = None if given is None else given.take(others)
            more, evaluations[others], starts[others] = self._find(
                metric, a[others], b[others], given
            )
            more = more._replace(problem=others[more.problem])
            found = found.and_more(more) if len(found.problem) else more
        return self._choose(found, backwards, evaluations, starts)

    def follow(
        self, metric: Metric, start: Array, end: Array, ways: Array
    ) -> tuple[Array, Array, Array]:
        """A descent on a mesh like the first one of the polish, judged by nobody."""
        if metric.embedded:
            return Energy(FEW_ELEMENTS, DEGREE, TOL * self.rtol).follow(metric, start, end, ways)
        pieces = ways.shape[1] - 1
        breaks = np.broadcast_to(np.linspace(0.0, 1.0, pieces + 1), (len(ways), pieces + 1))
        times = elements.node_times(breaks[0], DEGREE)
        nodes = moved(PiecewiseCurve.through(ways).evaluate(times), times, start, end)
        found = descend(metric, nodes, breaks, TOL * self.rtol, MAX_ITER)
        return found.nodes[:, ::DEGREE], first_velocity(metric, found.nodes, breaks), found.status

    def _find(
        self, metric: Metric, a: Array, b: Array, given: Curve | None
    ) -> tuple[Found, Array, Array]:
        """Geodesics between points that lie apart; evaluations and starts (P,)."""
        every = np.arange(len(a))
        if given is not None:
            return *self._polish(metric, every, a, b, given), np.ones(len(a), int)
        search = Search(metric, a, b, roads_of(metric, self.nodes), self.random_state)
        search.run(self.effort)
        different, promising = search.different()
        first = different if self.alternatives else promising
        found, evaluations = self._follow_up(metric, search, first)
        failed = ~np.isin(every, found.problem[found.verdict.certified])
        others = different & ~first & failed[:, None]
        # what looked shortest on a coarse mesh was none; perhaps one of those that looked longer
        if others.any():
            more, spent = self._follow_up(metric, search, others)
            found = found.and_more(more)
            evaluations[: len(spent)] += spent
        return found, search.evaluations + evaluations, search.starts

    def _follow_up(self, metric: Metric, search: Search, which: Array) -> tuple[Found, Array]:
        """Polish the coarse curves that the mask (P, S) names."""
        problem, column = np.nonzero(which)
        # nodes of degree 2 are evenly timed
        rough = PiecewiseCurve.through(search.nodes[problem, column])
        return self._polish(metric, problem, search.a[problem], search.b[problem], rough)

    def _polish(
        self, metric: Metric, problem: Array, a: Array, b: Array, rough: Curve
    ) -> tuple[Found, Array]:
        return polish(
            metric, problem, a, b, rough, self.rtol, self.max_elements, keep_all=self.alternatives
        )

    def _choose(
        self, found: Found, backwards: Array, evaluations: Array, starts: Array
    ) -> Solution:
        """The shortest geodesic of each problem; a certified one before one that is only just
        shorter."""
        verdict, curve = found.verdict, found.curve.reversed(backwards[found.problem])
        finite = np.isfinite(verdict.length)
        rank = np.where(finite, verdict.length, np.inf) * np.where(
            verdict.certified, 1.0, 1.0 + self.rtol
        )
        best, rest = best_and_rest(found.problem, rank)
        others = None
        if self.alternatives:
            rest = rest[verdict.minimising[rest] & finite[rest] & _another(found, rank)[rest]]
            others = Others(curve.take(rest), verdict.take(rest), found.problem[rest])
        return Solution(
            curve.take(best), found.status[best], evaluations, verdict.take(best), starts, others
        )


def _as_straight_as_numbers_go(metric: Metric, a: Array, b: Array, rtol: float) -> Found:
    """Straight lines between points so near each other that rounding leaves no room between them,
    if certified."""
    size, apart = np.maximum(np.abs(a), np.abs(b)).max(axis=1), np.abs(b - a).max(axis=1)
    near = np.flatnonzero(apart <= NEAR * size)
    line = PiecewiseCurve.through(np.stack([a[near], b[near]], axis=1))
    verdict = judge(metric, line, a[near], b[near], rtol)
    sure = np.flatnonzero(verdict.certified)
    nothing = np.zeros(len(sure), int)
    return Found(near[sure], line.take(sure), verdict.take(sure), nothing + Status.CONVERGED)


def _given(init: Curve | None, backwards: Array) -> Curve | None:
    """The curves to begin from, in the direction in which the problems are solved."""
    if init is None or not backwards.any():
        return init
    points = init.evaluate(np.linspace(0.0, 1.0, 4 * ELEMENTS + 1))
    return PiecewiseCurve.through(np.where(backwards[:, None, None], points[:, ::-1], points))


def _nothing(a: Array) -> Solution:
    """No paths for no problems."""
    curve = PiecewiseCurve(np.zeros((0, 2)), *(np.zeros((0, 2, a.shape[1])) for _ in range(3)))
    return Solution(curve, np.zeros(0, int), np.zeros(0, int), starts=np.zeros(0, int))


def _comes_first(a: Array, b: Array) -> Array:
    """Which of P points a comes before b in lexicographic order."""
    differs = a != b
    at = np.argmax(differs, axis=1)[:, None]
    return (np.take_along_axis(a, at, axis=1) < np.take_along_axis(b, at, axis=1))[:, 0]


def _another(found: Found, rank: Array) -> Array:
    """Which of the geodesics (C,) are no other one's double, the better one of a problem first."""
    order = np.lexsort([rank, found.problem])
    problem = found.problem[order]
    column = np.arange(len(order)) - np.searchsorted(problem, problem)
    points = found.curve.evaluate(np.linspace(0.0, 1.0, ELEMENTS + 1))
    shape = (problem[-1] + 1, column.max() + 1)
    nodes, length = np.full((*shape, *points.shape[1:]), np.nan), np.full(shape, np.inf)
    nodes[problem, column], length[problem, column] = points[order], found.verdict.length[order]
    out = np.zeros(len(order), dtype=bool)
    out[order] = distinct(nodes, length)[problem, column]
    return out
