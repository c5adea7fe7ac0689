"""The search for the way: descents from several starts, on a coarse mesh."""

import dataclasses

import numpy as np

from orthodrome import elements
from orthodrome._types import Array
from orthodrome.curves import PiecewiseCurve, straight_line
from orthodrome.discretisation import discretise
from orthodrome.metrics import Metric
from orthodrome.roadmap import Roadmap, edge_lengths
from orthodrome.solvers import starts
from orthodrome.solvers.descent import CurvatureCheck, Descent, descend

DEGREE = 2
"""Of the curves that look for the way. Their nodes are evenly timed, which those of a higher degree
are not; `Search.curves` relies on it."""

TOL, MAX_ITER = 1e-2, 100
"""A descent is done when another step promises this fraction of the energy, or after so many
evaluations. With 0.1 and with 1e-3 all 180 paths of `benchmarks/constants.py` stay within 0.1 % of
the shortest; "all paths stay" below means the same."""

DAMPING = 0.1
"""Steps are damped at least so much where they are damped at all: a descent should end near where
it began. With 1e-3 and with 1 all paths stay."""

SHORT, QUICK = 4.0, 4
"""A problem is plainly easy if its ends are no further apart than so many of the metric's scales,
and the descent from the straight line took so few evaluations and never met a second variation that
was not positive. With 1 and 16 scales, and with 2 and 8 evaluations, all paths stay. The values are
on the careful side: a problem that is wrongly called easy gets a single start."""

BOWS, MORE_BOWS = ((0, 0.25), (1, 0.5)), ((2, 0.12), (3, 0.25), (4, 0.5))
"""Straight lines are bent into directions with these numbers, by so much of their length. Without
the first bows all paths stay. Without the
further bows one path of 180 is too long."""

DETOURS = 2
"""How many routes through other places are tried. With none and with four all paths stay."""

WIDER = 2.0
"""How much wider the metric is on which one of the starts is found. With 1.4 and with 4
all paths stay."""

SAME_CURVE, SAME_LENGTH = 0.05, 0.002
"""Two coarse curves are one if they are closer than this, relative to their size in coordinates and
to their length. With 0.01 and with 0.2 all paths stay; a smaller value polishes the same path
twice, a larger one may take two paths for one."""

SLIPS = 1.5
"""A coarse curve that is so many times as long as its Gauss points say has slipped through a ridge
between them."""

WORSE = 0.01
"""A coarse curve that is so much longer than the best is not promising. With
0.001 and with 0.05 all paths stay."""


@dataclasses.dataclass
class Search:
    """The candidates: coarse curves from a to b, (P, d) each, where descents have ended so far."""

    metric: Metric
    a: Array
    b: Array
    roads: Roadmap | None
    """Some of the starts run along them."""
    seed: int
    """Into which directions other starts are bent."""

    def __post_init__(self) -> None:
        P, d = self.a.shape
        self.elements = discretise(self.metric, d).search_elements
        self.times: Array = elements.node_times(np.linspace(0.0, 1.0, self.elements + 1), DEGREE)
        """Of the nodes."""
        self.nodes: Array = np.zeros((P, 0, len(self.times), d))
        """(P, S, N, d)"""
        self.length: Array = np.zeros((P, 0))
        """(P, S), infinite where there is no candidate."""
        self.evaluations: Array = np.zeros(P, int)
        self.smoother = self.metric.smoother(WIDER)

    def run(self, effort: int) -> None:
        """All problems get the straight line; those that are not plainly easy some more starts.

        Then those with neighbours among the problems try their curves, where they differ; the
        other ones still more starts.
        """
        line = straight_line(self.a, self.b, self.times, 0)
        first = self._descend(line[:, None], check=CurvatureCheck.ALWAYS)
        unsure = first.bent | (first.iterations > QUICK)
        unsure |= np.linalg.norm(self.b - self.a, axis=1) > SHORT * self.metric.scale
        if effort > 1 and unsure.any():
            self._descend(self._more_starts(self.a[unsure], self.b[unsure]), unsure)
        if effort > 2 and unsure.any():
            best = self.nodes[np.arange(len(self.a)), np.argmin(self.length, axis=1)]
            curves, exist, novel = starts.from_neighbours(self.a, self.b, best, self.times)
            novel &= unsure[:, None]
            if novel.any():
                self._descend(curves, novel)
            alone = unsure & ~exist.any(axis=1)
            if alone.any():
                self._descend(self._still_more_starts(self.a[alone], self.b[alone]), alone)

    @property
    def start_count(self) -> Array:
        """How many starts were tried, (P,)."""
        return np.maximum(np.isfinite(self.length).sum(axis=1), 1)

    def curves(self, which: Array) -> tuple[Array, PiecewiseCurve]:
        """The candidates in the mask (P, S), and the numbers of their problems."""
        problem, column = np.nonzero(which)
        return problem, PiecewiseCurve.through(self.nodes[problem, column])

    def different(self) -> tuple[Array, Array]:
        """Which of the candidates are no other one's double, and which of these are promising:
        masks (P, S).

        A curve can slip through a ridge between two Gauss points. It then looks shorter than any
        path is, and must not outshine the other ones: so each is also measured as it is, between
        its nodes.
        """
        different = distinct(self.nodes, self.length)
        own = _own_lengths(self.metric, self.nodes, self.length, different)
        length = np.where(own > SLIPS * self.length, own, self.length)
        promising = different & (length <= (1 + WORSE) * own.min(axis=1, keepdims=True))
        promising[np.arange(len(length)), np.argmin(length, axis=1)] = True
        return different, promising

    def _descend(
        self,
        begin: Array,
        which: Array | None = None,
        check: CurvatureCheck = CurvatureCheck.NEVER,
    ) -> Descent:
        """Descend from some curves: (P, S, N, d) and a mask (P, S), or (Q, S, N, d) and a mask (P,)
        of Q problems."""
        which = np.ones(len(self.a), dtype=bool) if which is None else which
        S = begin.shape[1]
        chosen = begin.reshape(-1, *begin.shape[2:]) if which.ndim == 1 else begin[which]
        which = np.repeat(which[:, None], S, axis=1) if which.ndim == 1 else which
        problem = np.nonzero(which)[0]
        chosen[:, 0], chosen[:, -1] = self.a[problem], self.b[problem]
        descent = _descend_from(self.metric, chosen, check)
        nodes = np.full((len(self.a), S, *begin.shape[2:]), np.nan)
        length = np.full((len(self.a), S), np.inf)
        nodes[which], length[which] = descent.nodes, descent.length
        self.nodes = np.concatenate([self.nodes, nodes], axis=1)
        self.length = np.concatenate([self.length, length], axis=1)
        np.add.at(self.evaluations, problem, descent.iterations)
        return descent

    @property
    def _blind(self) -> bool:
        """Whether there is nothing to say where the data are: then bows come first."""
        return self.roads is None and self.smoother is None

    def _more_starts(self, a: Array, b: Array) -> Array:
        """A route along the roads and a curve on a smoother metric; where there are neither,
        bows."""
        curves = []
        if self.roads is not None:
            routes, _ = self.roads.routes(self.metric, a, b, self.elements + 1)
            curves.append(starts.along(routes, self.times))
        if self.smoother is not None:
            line = straight_line(a, b, self.times, 0)
            curves.append(_descend_from(self.smoother, line).nodes[:, None])
        if self._blind:
            curves.append(starts.bows(a, b, self.times, self.seed, BOWS))
        return np.concatenate(curves, axis=1)

    def _still_more_starts(self, a: Array, b: Array) -> Array:
        """Bows that were not tried before; detours along the roads."""
        shapes = MORE_BOWS if self._blind else BOWS + MORE_BOWS
        curves = [starts.bows(a, b, self.times, self.seed, shapes)]
        if self.roads is not None:
            routes, _ = self.roads.routes(self.metric, a, b, self.elements + 1, DETOURS)
            curves.append(starts.along(routes[:, 1:], self.times))
        return np.concatenate(curves, axis=1)


def _descend_from(
    metric: Metric, begin: Array, check: CurvatureCheck = CurvatureCheck.NEVER
) -> Descent:
    """Descend from coarse curves (C, N, d)."""
    breaks = np.linspace(0.0, 1.0, begin.shape[1] // DEGREE + 1)
    breaks = np.broadcast_to(breaks, (len(begin), len(breaks)))
    return descend(metric, begin, breaks, TOL, MAX_ITER, DAMPING, check)


def _own_lengths(metric: Metric, nodes: Array, length: Array, which: Array) -> Array:
    """The lengths (P, S) of the curves in the mask as they are, measured between the nodes too,
    where a problem has several; infinite for the other ones."""
    N, d = nodes.shape[2:]
    own = np.where(which, length, np.inf)
    several = which & (which.sum(axis=1, keepdims=True) > 1)
    ends = nodes[several][:, :-1].reshape(-1, d), nodes[several][:, 1:].reshape(-1, d)
    own[several] = edge_lengths(metric, *ends).reshape(-1, N - 1).sum(axis=1)
    return own


def distinct(nodes: Array, length: Array) -> Array:
    """Which of the curves (P, S, N, d) of each problem are no shorter one's double; at least one of
    each problem."""
    P, S = length.shape
    order = np.argsort(length, axis=1, kind="stable")
    row = np.arange(P)[:, None]
    nodes, length = nodes[row, order], length[row, order]
    size = np.linalg.norm(np.diff(nodes, axis=2), axis=-1).sum(axis=2)
    keep = np.isfinite(length)
    keep[:, 0] = True
    for later in range(1, S):
        for earlier in range(later):
            apart = np.linalg.norm(nodes[:, later] - nodes[:, earlier], axis=-1).max(axis=1)
            same_curve = apart <= SAME_CURVE * size[:, earlier]
            same_length = length[:, later] <= (1 + SAME_LENGTH) * length[:, earlier]
            keep[:, later] &= ~(same_curve & same_length & keep[:, earlier])
    out = np.zeros_like(keep)
    out[row, order] = keep
    return out
