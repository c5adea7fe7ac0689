"""The default solver: begin in several places, descend, polish, certify; more of it only where the judge asks."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from orthodrome import _boundary, elements
from orthodrome.curves import Curve, PiecewiseCurve, resample, stack_ragged, straight_line
from orthodrome.judging import RTOL, Verdict, judge
from orthodrome.metrics import Metric
from orthodrome.roadmap import edge_lengths
from orthodrome.solvers.base import Array, Others, Solution, Solver
from orthodrome.solvers.energy import Descent, descend, smooth
from orthodrome.solvers.graph import require_nodes, roads_of
from orthodrome.status import Flaw, Status

ELEMENTS, REFINEMENT = 32, 4
"""Elements of the curve that descends, and how many times more the next one has if the judge is not content."""

DEGREE = 3
"""Of the elements: their ends then have order 6, as has the curve through them."""

SEARCH_TOL = 1e-3
"""A descent from one of several starts is done when another step promises this fraction of the energy."""

TOL = 1e-3
"""The descent of a curve that is kept is done when another step promises this fraction of rtol."""

NEAR = 1e-8
"""Points nearer to each other than this, relative to their coordinates, are joined by a straight line if the judge
agrees: rounding leaves no digits to descend with."""

SHORT, QUICK = 4.0, 4
"""A problem is plainly easy if its ends are no further apart than so many of the metric's scales, and the descent
from the straight line took so few evaluations and never met a second variation that was not positive."""

DETOURS = 2
"""How many routes through other places are tried where the starts disagree."""

WIDER = 2.0
"""How much wider the metric is on which one of the starts is found."""

FOLLOW = 0.5
"""Half of a refined mesh is spread evenly in time, half along the way in coordinates, where the metric changes."""

MAX_ITER = 300
"""Evaluations of the energy a stage, at most."""

SAME_WAY, SAME_LENGTH = 0.05, 0.002
"""Two coarse curves are one if they are closer than this, relative to the way and to the length. Starts that lead to
lengths further apart disagree."""

WORSE = 0.05
"""A coarse curve that is so much longer than the best is not followed up."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Auto(Solver):
    """Find the shortest path, refine it until its length is sure to `rtol`, and certify it.

    *Start*: the straight line; where a problem is not plainly easy, bows to either side, a route along the graph of the
    data, and the path of a smoother metric; where these disagree, more bows, and detours. *Descend*: Newton's method on
    the energy (`Energy`). *Polish* the best, on finer meshes until the judge is content. *Certify*: `path.certified`
    then says "a locally minimising geodesic, shortest of the starts", and `path.error ≤ rtol`.

    Paths from a to b and from b to a are the same curve, to the last digit.
    """

    rtol: float = RTOL
    """The relative error of the length that is asked for."""
    nodes: Any = None
    """(n, d): points to walk along when looking for starts. Without them, the data of the metric, if it has any."""
    effort: int = 3
    """1: only the straight line. 2: a few more starts where a problem is not plainly easy. 3: still more of them where
    those disagree."""
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
        breaks = np.broadcast_to(np.linspace(0.0, 1.0, ELEMENTS + 1), (len(a), ELEMENTS + 1))
        nodes, length, evaluations = self._search(metric, a, b, breaks, given)
        enough = np.inf if self.alternatives else (1 + WORSE) * _sure_length(metric, nodes, length)
        promising = _distinct(nodes, length, enough)
        found = self._follow_up(metric, a, b, nodes, breaks, promising)
        failed = np.setdiff1d(np.arange(len(a)), found.problem[found.verdict.certified])
        others = np.zeros_like(promising)
        others[failed] = _distinct(nodes[failed], length[failed], np.inf) & ~promising[failed]
        if others.any():  # what looked shortest on a coarse mesh was none; perhaps one of those that looked longer
            found = found.and_more(self._follow_up(metric, a, b, nodes, breaks, others))
        starts = np.maximum(np.isfinite(length).sum(axis=1), 1)
        np.add.at(evaluations, found.problem, found.evaluations)
        return found, evaluations, starts

    def _search(
        self, metric: Metric, a: Array, b: Array, breaks: Array, given: Curve | None
    ) -> tuple[Array, Array, Array]:
        """Curves of about least energy from each start: nodes (P, S, N, d), lengths (P, S), evaluations (P,).

        All problems get the straight line; those that are not plainly easy some more starts; those for which these
        disagree still more. Starts that a problem did not need have infinite length.
        """
        P, d = a.shape
        times = elements.node_times(breaks[0], DEGREE)
        begin = straight_line(a, b, times, 0) if given is None else given.evaluate(times)
        found = descend(metric, begin, breaks, SEARCH_TOL, MAX_ITER)
        nodes, length, evaluations = found.nodes[:, None], _length(found)[:, None], found.iterations.copy()
        unsure = found.bent | (found.iterations > QUICK)
        unsure |= np.linalg.norm(b - a, axis=1) > SHORT * metric.scale
        for starts in (self._more_starts, self._still_more_starts)[: self.effort - 1] if given is None else ():
            which = np.flatnonzero(unsure)
            if not len(which):
                break
            begin = starts(metric, a[which], b[which], times)  # (Q, S, N, d)
            S = begin.shape[1]
            begin[:, :, 0], begin[:, :, -1] = a[which, None], b[which, None]
            found = descend(
                metric, begin.reshape(-1, len(times), d), np.repeat(breaks[which], S, axis=0), SEARCH_TOL, MAX_ITER
            )
            more_nodes, more_length = np.full((P, *begin.shape[1:]), np.nan), np.full((P, S), np.inf)
            more_nodes[which], more_length[which] = found.nodes.reshape(begin.shape), _length(found).reshape(-1, S)
            evaluations[which] += found.iterations.reshape(-1, S).sum(axis=1)
            nodes, length = np.concatenate([nodes, more_nodes], axis=1), np.concatenate([length, more_length], axis=1)
            finite = np.where(np.isfinite(length), length, length.min(axis=1, keepdims=True))
            unsure &= finite.max(axis=1) > (1 + SAME_LENGTH) * finite.min(axis=1)
        return nodes, length, evaluations

    def _more_starts(self, metric: Metric, a: Array, b: Array, times: Array) -> Array:
        """A route along the roads and a curve on a smoother metric, where there are data; bows to either side."""
        starts = [_bows(a, b, times, self.random_state, k, bow) for k, bow in ((0, 0.25), (1, 0.5))]
        roads = roads_of(metric, self.nodes)
        if roads is not None:
            starts.append(_along(roads.routes(metric, a, b, ELEMENTS + 1)[0], times))
        smoother = metric.smoother(WIDER)
        if smoother is not None:
            breaks = np.broadcast_to(np.linspace(0.0, 1.0, ELEMENTS + 1), (len(a), ELEMENTS + 1))
            starts.append(descend(smoother, straight_line(a, b, times, 0), breaks, SEARCH_TOL, MAX_ITER).nodes[:, None])
        return np.concatenate(starts, axis=1)

    def _still_more_starts(self, metric: Metric, a: Array, b: Array, times: Array) -> Array:
        """Detours along the roads; more bows."""
        starts = [_bows(a, b, times, self.random_state, k, bow) for k, bow in ((2, 0.12), (3, 0.25), (4, 0.5))]
        roads = roads_of(metric, self.nodes)
        if roads is not None:
            starts.append(_along(roads.routes(metric, a, b, ELEMENTS + 1, DETOURS)[0][:, 1:], times))
        return np.concatenate(starts, axis=1)

    def _polish(
        self, metric: Metric, a: Array, b: Array, nodes: Array, breaks: Array
    ) -> tuple[PiecewiseCurve, Verdict, Array, Array]:
        """Curves of least energy near the nodes, smooth and judged; on a finer mesh where the judge is not content."""
        found = descend(metric, nodes, breaks, TOL * self.rtol, MAX_ITER)
        curve = smooth(metric, found.nodes, breaks)
        verdict = judge(metric, curve, a, b, self.rtol)
        status = np.select(
            [
                verdict.certified,
                verdict.flaw == Flaw.NON_FINITE,
                found.status == Status.MAX_ITERATIONS,
                verdict.minimising,
            ],
            [Status.CONVERGED, Status.NON_FINITE, Status.MAX_ITERATIONS, Status.UNRESOLVED],
            Status.SADDLE,
        )
        count = (breaks.shape[1] - 1) * REFINEMENT
        again = np.flatnonzero((status != Status.CONVERGED) & (status != Status.NON_FINITE))
        if not len(again) or count > self.max_elements:
            return curve, verdict, status, found.iterations
        rough = curve.take(again)
        breaks = _spread(rough, count)
        nodes = rough.evaluate(elements.node_times(breaks, DEGREE))
        nodes[:, 0], nodes[:, -1] = a[again], b[again]
        finer = self._polish(metric, a[again], b[again], nodes, breaks)
        kept = np.setdiff1d(np.arange(len(a)), again)
        order = np.argsort(np.concatenate([kept, again]))
        return (
            stack_ragged([curve.take(kept), finer[0]]).take(order),
            Verdict.concatenate([verdict.take(kept), finer[1]]).take(order),
            np.concatenate([status[kept], finer[2]])[order],
            np.concatenate([found.iterations[kept], found.iterations[again] + finer[3]])[order],
        )

    def _follow_up(self, metric: Metric, a: Array, b: Array, nodes: Array, breaks: Array, which: Array) -> "_Found":
        """Polish those of the curves (P, S, N, d) that the mask (P, S) names."""
        problem, column = np.nonzero(which)
        polished = self._polish(metric, a[problem], b[problem], nodes[problem, column], breaks[problem])
        return _Found(problem, *polished)

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


class _Found(NamedTuple):
    """C geodesics, each of some problem."""

    problem: Array
    curve: PiecewiseCurve
    verdict: Verdict
    status: Array
    evaluations: Array

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


def _length(found: Descent) -> Array:
    return np.where(np.isfinite(found.energy), np.sqrt(2 * found.energy), np.inf)


def _sure_length(metric: Metric, nodes: Array, length: Array) -> Array:
    """The shortest length (P,) that is sure to be reached: of the curves as they are, measured between the nodes too.

    A coarse curve can slip through a ridge between two Gauss points. It then looks shorter than any path is, and must
    not outshine the others.
    """
    N, d = nodes.shape[2:]
    sure = length.copy()
    several = np.isfinite(length) & (np.isfinite(length).sum(axis=1, keepdims=True) > 1)
    ends = nodes[several][:, :-1].reshape(-1, d), nodes[several][:, 1:].reshape(-1, d)
    sure[several] = edge_lengths(metric, *ends).reshape(-1, N - 1).sum(axis=1)
    return sure.min(axis=1)


def _along(routes: Array, times: Array) -> Array:
    """Routes (P, S, points, d) at the nodes' times."""
    P, S, points, d = routes.shape
    return PiecewiseCurve.through(routes.reshape(-1, points, d)).evaluate(times).reshape(P, S, len(times), d)


def _bows(a: Array, b: Array, times: Array, seed: int, k: int, size: float) -> Array:
    """The straight lines bent to both sides, by so much of their lengths, in the k-th direction: (P, 2, N, d)."""
    step = b - a
    direction = np.random.default_rng([seed, k]).standard_normal(a.shape[1])  # the same for all problems
    across = direction - step * (np.sum(direction * step, axis=1) / np.sum(step * step, axis=1))[:, None]
    norm = np.linalg.norm(across, axis=1, keepdims=True)
    across *= size * np.linalg.norm(step, axis=1, keepdims=True) / np.where(norm > 0, norm, 1.0)
    bow = np.sin(np.pi * times)[:, None] * across[:, None]
    line = straight_line(a, b, times, 0)
    return np.stack([line + bow, line - bow], axis=1)


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
