"""The default solver: begin in several places, descend, polish, certify; more of it only where the
judge asks."""

import dataclasses
from typing import Any

import numpy as np

from orthodrome import _boundary, elements
from orthodrome._types import Array
from orthodrome.curves import Curve, PiecewiseCurve
from orthodrome.discretisation import Discretisation, discretise
from orthodrome.judging import RTOL, Verdict, judge
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Geodesics, Solution, Solver, moved
from orthodrome.solvers.descent import descend, first_velocity
from orthodrome.solvers.energy import Energy
from orthodrome.solvers.graph import require_nodes, roads_of
from orthodrome.solvers.polishing import DEGREE, MAX_ITER, TOL, best_and_rest, polish
from orthodrome.solvers.search import Search, distinct
from orthodrome.status import Status

NEAR = 1e-8
"""Points nearer to each other than this, relative to their coordinates, are joined by a straight
line if the judge agrees: rounding leaves no digits to descend with."""

GIVEN_POINTS = 4 * Discretisation.polish_elements + 1
"""Of a path to begin from, where it has to be turned round: four for each element of the polish."""

COMPARED_POINTS = Discretisation.polish_elements + 1
"""At which two geodesics are compared."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Auto(Solver):
    """Find the shortest path, refine it until the error of its length is below `rtol`, certify it.

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
        _boundary.as_count(self.max_elements, "max_elements", Discretisation.polish_elements)
        if self.nodes is not None:
            object.__setattr__(self, "nodes", _boundary.as_data(self.nodes, "nodes"))

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve all problems, each in the direction that comes first in lexicographic order."""
        require_nodes(self.nodes, start.shape[1])
        if not len(start):
            return _nothing(start, self.alternatives)
        backwards = _comes_first(end, start)
        a, b = np.where(backwards[:, None], end, start), np.where(backwards[:, None], start, end)
        P = len(a)
        evaluations, starts = np.zeros(P, int), np.ones(P, int)
        geodesics = _straight_lines(metric, a, b, self.rtol)
        far = np.setdiff1d(np.arange(P), geodesics.problem)
        if len(far):
            given = _given(init, backwards)
            given = None if given is None else given.take(far)
            more, evaluations[far], starts[far] = self._find(metric, a[far], b[far], given)
            more = more.numbered(far)
            geodesics = Geodesics.join([geodesics, more]) if len(geodesics.problem) else more
        return self._choose(geodesics, backwards, evaluations, starts)

    def track(
        self, metric: Metric, start: Array, end: Array, lines: Array
    ) -> tuple[Array, Array, Array]:
        """A descent on a mesh like the first one of the polish, which nobody judges."""
        pieces, mesh = lines.shape[1] - 1, discretise(metric, start.shape[1]).polish_elements
        if mesh < pieces:
            return Energy(mesh, DEGREE, TOL * self.rtol).track(metric, start, end, lines)
        # on a mesh that is no coarser than the lines, the descent's own nodes are the answer
        breaks = np.broadcast_to(np.linspace(0.0, 1.0, pieces + 1), (len(lines), pieces + 1))
        times = elements.node_times(breaks[0], DEGREE)
        nodes = moved(PiecewiseCurve.through(lines).evaluate(times), times, start, end)
        descent = descend(metric, nodes, breaks, TOL * self.rtol, MAX_ITER)
        velocity = first_velocity(metric, descent.nodes, breaks)
        return descent.nodes[:, ::DEGREE], velocity, descent.status

    def _find(
        self, metric: Metric, a: Array, b: Array, given: Curve | None
    ) -> tuple[Geodesics, Array, Array]:
        """Geodesics between points that lie apart; evaluations and starts (P,)."""
        P = len(a)
        if given is not None:
            every = np.arange(P)
            return *self._polish(metric, every, a, b, given), np.ones(P, int)
        search = Search(metric, a, b, roads_of(metric, self.nodes), self.random_state)
        search.run(self.effort)
        different, promising = search.different()
        first = different if self.alternatives else promising
        geodesics, evaluations = self._polish_candidates(metric, search, first)
        certified = np.isin(np.arange(P), geodesics.problem[geodesics.verdict.certified])
        second = different & ~first & ~certified[:, None]
        # what looked shortest on a coarse mesh was none; perhaps one of those that looked longer is
        if second.any():
            more, spent = self._polish_candidates(metric, search, second)
            geodesics = Geodesics.join([geodesics, more])
            evaluations += spent
        return geodesics, search.evaluations + evaluations, search.start_count

    def _polish_candidates(
        self, metric: Metric, search: Search, which: Array
    ) -> tuple[Geodesics, Array]:
        """Polish the candidates that the mask (P, S) names."""
        problem, curves = search.curves(which)
        return self._polish(metric, problem, search.a, search.b, curves)

    def _polish(
        self, metric: Metric, problem: Array, a: Array, b: Array, rough: Curve
    ) -> tuple[Geodesics, Array]:
        return polish(
            metric,
            problem,
            a[problem],
            b[problem],
            rough,
            self.rtol,
            self.max_elements,
            keep_all=self.alternatives,
            problems=len(a),
        )

    def _choose(
        self, geodesics: Geodesics, backwards: Array, evaluations: Array, starts: Array
    ) -> Solution:
        """The shortest geodesic of each problem; a certified one before one that is only just
        shorter."""
        verdict, finite = geodesics.verdict, np.isfinite(geodesics.verdict.length)
        turned = dataclasses.replace(
            geodesics, curve=geodesics.curve.reversed(backwards[geodesics.problem])
        )
        uncertified = np.where(verdict.certified, 1.0, 1.0 + self.rtol)
        rank = np.where(finite, verdict.length, np.inf) * uncertified
        best, rest = best_and_rest(geodesics.problem, rank)
        alternatives = None
        if self.alternatives:
            rest = rest[verdict.minimising[rest] & finite[rest]]
            rest = rest[_distinct(geodesics, rank)[rest]]
            alternatives = turned.take(rest)
        chosen = turned.take(best)
        return Solution(
            chosen.curve,
            chosen.status,
            evaluations,
            starts,
            judged=chosen.verdict,
            alternatives=alternatives,
        )


def _straight_lines(metric: Metric, a: Array, b: Array, rtol: float) -> Geodesics:
    """Straight lines between points so near each other that rounding leaves no digits between them,
    if they are certified."""
    size, apart = np.maximum(np.abs(a), np.abs(b)).max(axis=1), np.abs(b - a).max(axis=1)
    near = np.flatnonzero(apart <= NEAR * size)
    lines = PiecewiseCurve.through(np.stack([a[near], b[near]], axis=1))
    verdict = judge(metric, lines, a[near], b[near], rtol)
    status = np.full(len(near), Status.CONVERGED)
    return Geodesics(near, lines, verdict, status).take(verdict.certified)


def _given(init: Curve | None, backwards: Array) -> Curve | None:
    """The curves to begin from, in the direction in which the problems are solved."""
    if init is None or not backwards.any():
        return init
    points = init.evaluate(np.linspace(0.0, 1.0, GIVEN_POINTS))
    return PiecewiseCurve.through(np.where(backwards[:, None, None], points[:, ::-1], points))


def _nothing(a: Array, alternatives: bool) -> Solution:
    """No paths for no problems."""
    curve = PiecewiseCurve(np.zeros((0, 2)), *(np.zeros((0, 2, a.shape[1])) for _ in range(3)))
    none = np.zeros(0, int)
    verdict = Verdict.none()
    further = Geodesics(none, curve, verdict, none) if alternatives else None
    return Solution(curve, none, none, none, judged=verdict, alternatives=further)


def _comes_first(a: Array, b: Array) -> Array:
    """Which of P points a comes before b in lexicographic order."""
    differs = a != b
    at = np.argmax(differs, axis=1)[:, None]
    return (np.take_along_axis(a, at, axis=1) < np.take_along_axis(b, at, axis=1))[:, 0]


def _distinct(geodesics: Geodesics, rank: Array) -> Array:
    """Which of the geodesics (Q,) are no other one's double, the better one of a problem first."""
    order = np.lexsort([rank, geodesics.problem])
    problem = geodesics.problem[order]
    column = np.arange(len(order)) - np.searchsorted(problem, problem)
    points = geodesics.curve.evaluate(np.linspace(0.0, 1.0, COMPARED_POINTS))
    shape = (problem[-1] + 1, column.max() + 1)
    nodes, length = np.full((*shape, *points.shape[1:]), np.nan), np.full(shape, np.inf)
    nodes[problem, column] = points[order]
    length[problem, column] = geodesics.verdict.length[order]
    out = np.zeros(len(order), dtype=bool)
    out[order] = distinct(nodes, length)[problem, column]
    return out
