"""The default solver: begin in several places, descend, polish, certify; more of it only where the judge asks."""

import dataclasses
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from orthodrome import _boundary, elements
from orthodrome.curves import Curve, PiecewiseCurve, resample, stack_ragged, straight_line
from orthodrome.judging import RTOL, Verdict, judge
from orthodrome.metrics import Metric
from orthodrome.roadmap import edge_lengths
from orthodrome.solvers import starts
from orthodrome.solvers.base import Array, Others, Solution, Solver
from orthodrome.solvers.energy import Descent, descend, smooth
from orthodrome.solvers.graph import require_nodes, roads_of
from orthodrome.status import Flaw, Status

COARSE, COARSE_DEGREE = 16, 2
"""Elements of the curves that look for the way, and their degree."""

TIMES = elements.node_times(np.linspace(0.0, 1.0, COARSE + 1), COARSE_DEGREE)
"""Of their nodes: evenly spaced."""

ELEMENTS, REFINEMENT = 32, 2
"""Elements of a curve that is polished, and how many times more the next one has if the judge is not content."""

DEGREE = 3
"""Of its elements: their ends then have order 6, as has the curve through them."""

SEARCH_TOL = 1e-2
"""A descent from one of several starts is done when another step promises this fraction of the energy."""

TOL = 1e-3
"""The descent of a curve that is kept is done when another step promises this fraction of rtol."""

NEAR = 1e-8
"""Points nearer to each other than this, relative to their coordinates, are joined by a straight line if the judge
agrees: rounding leaves no digits to descend with."""

SHORT, QUICK = 4.0, 4
"""A problem is plainly easy if its ends are no further apart than so many of the metric's scales, and the descent
from the straight line took so few evaluations and never met a second variation that was not positive."""

BOWS, MORE_BOWS = ((0, 0.25), (1, 0.5)), ((2, 0.12), (3, 0.25), (4, 0.5))
"""Straight lines are bent into directions with these numbers, by so much of their length."""

DETOURS = 2
"""How many routes through other places are tried."""

WIDER = 2.0
"""How much wider the metric is on which one of the starts is found."""

FOLLOW = 0.5
"""Half of a refined mesh is spread evenly in time, half along the way in coordinates, where the metric changes."""

SEARCH_DAMPING = 0.1
"""In a search, steps are damped at least so much where they are damped at all: it should end near where it began."""

SEARCH_ITER, MAX_ITER = 100, 300
"""Evaluations of the energy in a search and in a polish, at most."""

SAME_WAY, SAME_LENGTH = 0.05, 0.002
"""Two coarse curves are one if they are closer than this, relative to the way and to the length."""

SLIPS = 1.5
"""A coarse curve that is so many times as long as its Gauss points say has slipped through a ridge between them."""

WORSE = 0.01
"""A coarse curve that is so much longer than the best is not followed up."""

BEATEN = 0.01
"""A polished curve that is so much longer than a certified one is not refined."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Auto(Solver):
    """Find the shortest path, refine it until its length is sure to `rtol`, and certify it.

    *Start*: the straight line; where a problem is not plainly easy, a route along the graph of the data and the path of
    a smoother metric, or, where there are no data, bows to either side; then the paths of other problems of the call
    with nearly the same ends, or, where there are none, bows and detours. *Descend*: Newton's method on the energy
    (`Energy`), on a coarse mesh. *Polish* the best, on finer meshes until the judge is content. *Certify*:
    `path.certified` then says "a locally minimising geodesic, shortest of the starts", and `path.error ≤ rtol`.

    Paths from a to b and from b to a are the same curve, to the last digit.
    """

    rtol: float = RTOL
    """The relative error of the length that is asked for."""
    nodes: Any = None
    """(n, d): points to walk along when looking for starts. Without them, the data of the metric, if it has any."""
    effort: int = 3
    """1: only the straight line. 2: a few more starts where a problem is not plainly easy. 3: still more of them."""
    random_state: int = 0
    """Into which directions the starts are bent that leave the straight line. The same one gives the same paths."""
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
            more, evaluations[others], starts[others] = self._find(metric, a[others], b[others], given)
            more = more._replace(problem=others[more.problem])
            found = found.and_more(more) if len(found.problem) else more
        return self._choose(found, backwards, evaluations, starts)

    def _find(self, metric: Metric, a: Array, b: Array, given: Curve | None) -> "tuple[_Found, Array, Array]":
        """Geodesics between points that lie apart; evaluations and starts (P,)."""
        if given is not None:
            found = self._polish(metric, np.arange(len(a)), a, b, given)
            return found, found.evaluations_of(len(a)), np.ones(len(a), int)
        search = self._search(metric, a, b)
        nodes, length, sure = search.nodes, search.length, _sure_lengths(metric, search.nodes, search.length)
        length = np.where(sure > SLIPS * length, sure, length)
        enough = np.inf if self.alternatives else (1 + WORSE) * sure.min(axis=1)
        promising = _distinct(nodes, length, enough)
        found = self._follow_up(metric, a, b, nodes, promising)
        failed = np.setdiff1d(np.arange(len(a)), found.problem[found.verdict.certified])
        others = np.zeros_like(promising)
        others[failed] = _distinct(nodes[failed], length[failed], np.inf) & ~promising[failed]
        if others.any():  # what looked shortest on a coarse mesh was none; perhaps one of those that looked longer
            found = found.and_more(self._follow_up(metric, a, b, nodes, others))
        return found, search.evaluations + found.evaluations_of(len(a)), search.starts

    def _search(self, metric: Metric, a: Array, b: Array) -> "_Search":
        """Coarse curves of about least energy from each start.

        All problems get the straight line; those that are not plainly easy some more starts. Then those with
        neighbours among the problems try their curves, where they differ; the others still more starts.
        """
        search = _Search(metric, a, b)
        first = search.descend(straight_line(a, b, TIMES, 0)[:, None])
        unsure = first.bent | (first.iterations > QUICK)
        unsure |= np.linalg.norm(b - a, axis=1) > SHORT * metric.scale
        if self.effort > 1 and unsure.any():
            search.descend(self._more_starts(metric, a[unsure], b[unsure]), unsure)
        if self.effort > 2 and unsure.any():
            moved, there, news = starts.from_neighbours(a, b, search.best(), TIMES)
            news &= unsure[:, None]
            if news.any():
                search.descend(moved, news)
            alone = unsure & ~there.any(axis=1)
            if alone.any():
                search.descend(self._still_more_starts(metric, a[alone], b[alone]), alone)
        return search

    def _more_starts(self, metric: Metric, a: Array, b: Array) -> Array:
        """A route along the roads and a curve on a smoother metric; where there are no data, bows."""
        roads, smoother = roads_of(metric, self.nodes), metric.smoother(WIDER)
        found = []
        if roads is not None:
            found.append(starts.along(roads.routes(metric, a, b, COARSE + 1)[0], TIMES))
        if smoother is not None:
            found.append(_search_from(smoother, straight_line(a, b, TIMES, 0)).nodes[:, None])
        return np.concatenate(found or [starts.bows(a, b, TIMES, self.random_state, BOWS)], axis=1)

    def _still_more_starts(self, metric: Metric, a: Array, b: Array) -> Array:
        """Bows; detours along the roads."""
        roads = roads_of(metric, self.nodes)
        no_data = roads is None and metric.smoother(WIDER) is None  # then the first bows were tried before
        found = [starts.bows(a, b, TIMES, self.random_state, MORE_BOWS if no_data else BOWS + MORE_BOWS)]
        if roads is not None:
            found.append(starts.along(roads.routes(metric, a, b, COARSE + 1, DETOURS)[0][:, 1:], TIMES))
        return np.concatenate(found, axis=1)

    def _polish(self, metric: Metric, problem: Array, a: Array, b: Array, rough: Curve) -> "_Found":
        """Curves of least energy near C rough ones, smooth and judged; on a finer mesh where the judge is not content.

        `problem` (C,) says whose they are: one that a certified curve of the same problem beats is left as it is.
        """
        shortest, evaluations, done = (
            np.full(problem.max(initial=-1) + 1, np.inf),
            np.zeros(len(a), int),
            list[_Found](),
        )
        breaks = _spread(rough, ELEMENTS)
        while True:
            nodes = rough.evaluate(elements.node_times(breaks, DEGREE))
            nodes[:, 0], nodes[:, -1] = a, b
            descent = descend(metric, nodes, breaks, TOL * self.rtol, MAX_ITER)
            curve = smooth(metric, descent.nodes, breaks)
            verdict = judge(metric, curve, a, b, self.rtol)
            status = np.select(
                [
                    verdict.certified,
                    verdict.flaw == Flaw.NON_FINITE,
                    descent.status == Status.MAX_ITERATIONS,
                    verdict.minimising,
                ],
                [Status.CONVERGED, Status.NON_FINITE, Status.MAX_ITERATIONS, Status.UNRESOLVED],
                Status.SADDLE,
            )
            evaluations = evaluations + descent.iterations
            found = _Found(problem, curve, verdict, status, evaluations)
            np.minimum.at(shortest, problem[verdict.certified], verdict.length[verdict.certified])
            stuck = (descent.status == Status.MAX_ITERATIONS) & bool(done)  # on two meshes: a third will not help
            again = (status != Status.CONVERGED) & (status != Status.NON_FINITE) & ~stuck
            if not self.alternatives:
                again &= ~(verdict.length > (1 + BEATEN) * shortest[problem])
            count = (breaks.shape[1] - 1) * REFINEMENT
            if not again.any() or count > self.max_elements:
                return reduce(_Found.and_more, [*done, found])
            done.append(found.take(~again))
            problem, a, b, rough, evaluations = (
                problem[again],
                a[again],
                b[again],
                curve.take(again),
                evaluations[again],
            )
            breaks = _spread(rough, count)

    def _follow_up(self, metric: Metric, a: Array, b: Array, nodes: Array, which: Array) -> "_Found":
        """Polish those of the coarse curves (P, S, N, d) that the mask (P, S) names."""
        problem, column = np.nonzero(which)
        rough = PiecewiseCurve.through(nodes[problem, column])  # nodes of degree 2 are evenly timed
        return self._polish(metric, problem, a[problem], b[problem], rough)

    def _choose(self, found: "_Found", backwards: Array, evaluations: Array, starts: Array) -> Solution:
        """The shortest geodesic of each problem; a certified one before one that is only just shorter."""
        verdict, curve = found.verdict, found.curve.reversed(backwards[found.problem])
        finite = np.isfinite(verdict.length)
        rank = np.where(finite, verdict.length, np.inf) * np.where(verdict.certified, 1.0, 1.0 + self.rtol)
        order = np.lexsort([rank, found.problem])
        first = np.diff(found.problem[order], prepend=-1) > 0
        best, rest = order[first], order[~first]
        others = None
        if self.alternatives:
            rest = rest[verdict.minimising[rest] & finite[rest] & _another(found, order)[rest]]
            others = Others(curve.take(rest), verdict.take(rest), found.problem[rest])
        return Solution(curve.take(best), found.status[best], evaluations, verdict.take(best), starts, others)


class _Search:
    """The coarse curves found so far for P problems: nodes (P, S, N, d), and lengths (P, S), infinite for none."""

    def __init__(self, metric: Metric, a: Array, b: Array) -> None:
        self.metric, self.a, self.b = metric, a, b
        self.nodes, self.length = np.zeros((len(a), 0, len(TIMES), a.shape[1])), np.zeros((len(a), 0))
        self.evaluations = np.zeros(len(a), int)

    def descend(self, begin: Array, which: Array | None = None) -> Descent:
        """Descend from some curves: (P, S, N, d) and a mask (P, S), or (Q, S, N, d) and a mask (P,) of Q problems."""
        which = np.ones(len(self.a), dtype=bool) if which is None else which
        S = begin.shape[1]
        chosen = begin.reshape(-1, *begin.shape[2:]) if which.ndim == 1 else begin[which]
        which = np.repeat(which[:, None], S, axis=1) if which.ndim == 1 else which
        problem = np.nonzero(which)[0]
        chosen[:, 0], chosen[:, -1] = self.a[problem], self.b[problem]
        found = _search_from(self.metric, chosen)
        nodes, length = np.full((len(self.a), S, *begin.shape[2:]), np.nan), np.full((len(self.a), S), np.inf)
        nodes[which], length[which] = found.nodes, _length(found)
        self.nodes, self.length = np.concatenate([self.nodes, nodes], 1), np.concatenate([self.length, length], 1)
        np.add.at(self.evaluations, problem, found.iterations)
        return found

    def best(self) -> Array:
        """The shortest of each problem, (P, N, d)."""
        return self.nodes[np.arange(len(self.a)), np.argmin(self.length, axis=1)]

    @property
    def starts(self) -> Array:
        """How many starts were tried, (P,)."""
        return np.maximum(np.isfinite(self.length).sum(axis=1), 1)


class _Found(NamedTuple):
    """C geodesics, each of some problem."""

    problem: Array
    curve: PiecewiseCurve
    verdict: Verdict
    status: Array
    evaluations: Array

    def take(self, index: Any) -> "_Found":
        return _Found(
            self.problem[index],
            self.curve.take(index),
            self.verdict.take(index),
            self.status[index],
            self.evaluations[index],
        )

    def evaluations_of(self, problems: int) -> Array:
        """All evaluations for each problem, (P,)."""
        return np.bincount(self.problem, self.evaluations, problems).astype(int)

    def and_more(self, other: "_Found") -> "_Found":
        return _Found(
            np.concatenate([self.problem, other.problem]),
            stack_ragged([self.curve, other.curve]),
            Verdict.concatenate([self.verdict, other.verdict]),
            np.concatenate([self.status, other.status]),
            np.concatenate([self.evaluations, other.evaluations]),
        )


def _as_straight_as_numbers_go(metric: Metric, a: Array, b: Array, rtol: float) -> _Found:
    """Straight lines between points so near each other that rounding leaves no room between them, if certified."""
    size, apart = np.maximum(np.abs(a), np.abs(b)).max(axis=1), np.abs(b - a).max(axis=1)
    near = np.flatnonzero(apart <= NEAR * size)
    line = PiecewiseCurve.through(np.stack([a[near], b[near]], axis=1))
    verdict = judge(metric, line, a[near], b[near], rtol)
    sure = np.flatnonzero(verdict.certified)
    nothing = np.zeros(len(sure), int)
    return _Found(near[sure], line.take(sure), verdict.take(sure), nothing + Status.CONVERGED, nothing)


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


def _search_from(metric: Metric, begin: Array) -> Descent:
    """Descend from coarse curves (C, N, d)."""
    breaks = np.broadcast_to(np.linspace(0.0, 1.0, COARSE + 1), (len(begin), COARSE + 1))
    return descend(metric, begin, breaks, SEARCH_TOL, SEARCH_ITER, SEARCH_DAMPING)


def _length(found: Descent) -> Array:
    return np.where(np.isfinite(found.energy), np.sqrt(2 * found.energy), np.inf)


def _sure_lengths(metric: Metric, nodes: Array, length: Array) -> Array:
    """The lengths (P, S) of the curves as they are, measured between the nodes too, where a problem has several.

    A coarse curve can slip through a ridge between two Gauss points. It then looks shorter than any path is, and must
    not outshine the others.
    """
    N, d = nodes.shape[2:]
    sure = length.copy()
    several = np.isfinite(length) & (np.isfinite(length).sum(axis=1, keepdims=True) > 1)
    ends = nodes[several][:, :-1].reshape(-1, d), nodes[several][:, 1:].reshape(-1, d)
    sure[several] = edge_lengths(metric, *ends).reshape(-1, N - 1).sum(axis=1)
    return sure


def _comes_first(a: Array, b: Array) -> Array:
    """Which of P points a comes before b in lexicographic order."""
    differs = a != b
    at = np.argmax(differs, axis=1)[:, None]
    return (np.take_along_axis(a, at, axis=1) < np.take_along_axis(b, at, axis=1))[:, 0]


def _distinct(nodes: Array, length: Array, enough: Any) -> Array:
    """Which of the curves (P, S, N, d) of each problem to follow up: no longer than `enough` (P,), no two alike."""
    P, S = length.shape
    order = np.argsort(length, axis=1, kind="stable")
    row = np.arange(P)[:, None]
    nodes, length = nodes[row, order], length[row, order]
    way = np.linalg.norm(np.diff(nodes, axis=2), axis=-1).sum(axis=2)
    keep = np.isfinite(length) & (length <= np.reshape(enough, (-1, 1)))
    keep[:, 0] = True
    for later in range(1, S):
        for earlier in range(later):
            apart = np.linalg.norm(nodes[:, later] - nodes[:, earlier], axis=-1).max(axis=1)
            alike = (apart <= SAME_WAY * way[:, earlier]) & (length[:, later] <= (1 + SAME_LENGTH) * length[:, earlier])
            keep[:, later] &= ~(alike & keep[:, earlier])
    out = np.zeros_like(keep)
    out[row, order] = keep
    return out


def _another(found: _Found, order: Array) -> Array:
    """Which of the geodesics (C,) are no other one's double; `order` lists them by problem."""
    problem = found.problem[order]
    column = np.arange(len(order)) - np.searchsorted(problem, problem)
    points = found.curve.evaluate(np.linspace(0.0, 1.0, ELEMENTS + 1))
    shape = (problem[-1] + 1, column.max() + 1)
    nodes, length = np.full((*shape, *points.shape[1:]), np.nan), np.full(shape, np.inf)
    nodes[problem, column], length[problem, column] = points[order], found.verdict.length[order]
    out = np.zeros(len(order), dtype=bool)
    out[order] = _distinct(nodes, length, np.inf)[problem, column]
    return out


def _spread(curve: Curve, count: int) -> Array:
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
