"""The search for the way: descents from several starts, on a coarse mesh."""

import dataclasses

import numpy as np

from orthodrome import elements
from orthodrome.curves import straight_line
from orthodrome.metrics import Metric
from orthodrome.roadmap import Roadmap, edge_lengths
from orthodrome.solvers import starts
from orthodrome.solvers.base import Array
from orthodrome.solvers.energy import Descent, Look, descend

COARSE, COARSER, DEGREE = 16, 8, 2
"""Elements of the curves that look for the way, fewer where the metric is the pullback of a map,
and their degree."""

TOL, MAX_ITER = 1e-2, 100
"""A descent is done when another step promises this fraction of the energy, or after so many
evaluations."""

DAMPING = 0.1
"""Steps are damped at least so much where they are damped at all: a descent should end near where
it began."""

SHORT, QUICK = 4.0, 4
"""A problem is plainly easy if its ends are no further apart than so many of the metric's scales,
and the descent from the straight line took so few evaluations and never met a second variation that
was not positive."""

BOWS, MORE_BOWS = ((0, 0.25), (1, 0.5)), ((2, 0.12), (3, 0.25), (4, 0.5))
"""Straight lines are bent into directions with these numbers, by so much of their length."""

DETOURS = 2
"""How many routes through other places are tried."""

WIDER = 2.0
"""How much wider the metric is on which one of the starts is found."""

SAME_WAY, SAME_LENGTH = 0.05, 0.002
"""Two coarse curves are one if they are closer than this, relative to the way and to the length."""

SLIPS = 1.5
"""A coarse curve that is so many times as long as its Gauss points say has slipped through a ridge
between them."""

WORSE = 0.01
"""A coarse curve that is so much longer than the best does not look promising."""


@dataclasses.dataclass
class Search:
    """The coarse curves from a to b, (P, d) each, that were found so far."""

    metric: Metric
    a: Array
    b: Array
    roads: Roadmap | None
    """To walk along for some of the starts."""
    seed: int
    """Into which directions others are bent."""

    def __post_init__(self) -> None:
        P, d = self.a.shape
        self.elements = COARSER if self.metric.embedded else COARSE
        self.times: Array = elements.node_times(np.linspace(0.0, 1.0, self.elements + 1), DEGREE)
        """Of the nodes: evenly spaced."""
        self.nodes: Array = np.zeros((P, 0, len(self.times), d))
        """(P, S, N, d)"""
        self.length: Array = np.zeros((P, 0))
        """(P, S), infinite where there is none."""
        self.evaluations: Array = np.zeros(P, int)

    def run(self, effort: int) -> None:
        """All problems get the straight line; those that are not plainly easy some more starts.

        Then those with neighbours among the problems try their curves, where they differ; the
        others still more starts.
        """
        first = self._descend(
            straight_line(self.a, self.b, self.times, 0)[:, None], look=Look.ALWAYS
        )
        unsure = first.bent | (first.iterations > QUICK)
        unsure |= np.linalg.norm(self.b - self.a, axis=1) > SHORT * self.metric.scale
        if effort > 1 and unsure.any():
            self._descend(self._more_starts(self.a[unsure], self.b[unsure]), unsure)
        if effort > 2 and unsure.any():
            best = self.nodes[np.arange(len(self.a)), np.argmin(self.length, axis=1)]
            moved, there, news = starts.from_neighbours(self.a, self.b, best, self.times)
            news &= unsure[:, None]
            if news.any():
                self._descend(moved, news)
            alone = unsure & ~there.any(axis=1)
            if alone.any():
                self._descend(self._still_more_starts(self.a[alone], self.b[alone]), alone)

    @property
    def starts(self) -> Array:
        """How many starts were tried, (P,)."""
        return np.maximum(np.isfinite(self.length).sum(axis=1), 1)

    def different(self) -> tuple[Array, Array]:
        """Which of the curves are no other one's double, and which of these look promising: masks
        (P, S).

        A curve can slip through a ridge between two Gauss points. It then looks shorter than any
        path is, and must not outshine the others: so each is also measured as it is, between its
        nodes.
        """
        different = distinct(self.nodes, self.length)
        sure = _sure_lengths(self.metric, self.nodes, self.length, different)
        length = np.where(sure > SLIPS * self.length, sure, self.length)
        promising = different & (length <= (1 + WORSE) * sure.min(axis=1, keepdims=True))
        promising[np.arange(len(length)), np.argmin(length, axis=1)] = True
        return different, promising

    def _descend(
        self, begin: Array, which: Array | None = None, look: Look = Look.NEVER
    ) -> Descent:
        """Descend from some curves: (P, S, N, d) and a mask (P, S), or (Q, S, N, d) and a mask (P,)
        of Q problems."""
        which = np.ones(len(self.a), dtype=bool) if which is None else which
        S = begin.shape[1]
        chosen = begin.reshape(-1, *begin.shape[2:]) if which.ndim == 1 else begin[which]
        which = np.repeat(which[:, None], S, axis=1) if which.ndim == 1 else which
        problem = np.nonzero(which)[0]
        chosen[:, 0], chosen[:, -1] = self.a[problem], self.b[problem]
        found = _descend_from(self.metric, chosen, look)
        nodes, length = (
            np.full((len(self.a), S, *begin.shape[2:]), np.nan),
            np.full((len(self.a), S), np.inf),
        )
        nodes[which], length[which] = found.nodes, found.length
        self.nodes, self.length = (
            np.concatenate([self.nodes, nodes], 1),
            np.concatenate([self.length, length], 1),
        )
        np.add.at(self.evaluations, problem, found.iterations)
        return found

    def _more_starts(self, a: Array, b: Array) -> Array:
        """A route along the roads and a curve on a smoother metric; where there are no data,
        bows."""
        smoother, found = self.metric.smoother(WIDER), []
        if self.roads is not None:
            found.append(
                starts.along(self.roads.routes(self.metric, a, b, self.elements + 1)[0], self.times)
            )
        if smoother is not None:
            found.append(_descend_from(smoother, straight_line(a, b, self.times, 0)).nodes[:, None])
        return np.concatenate(found or [starts.bows(a, b, self.times, self.seed, BOWS)], axis=1)

    def _still_more_starts(self, a: Array, b: Array) -> Array:
        """Bows; detours along the roads."""
        # then the first bows were tried before
        no_data = self.roads is None and self.metric.smoother(WIDER) is None
        found = [
            starts.bows(a, b, self.times, self.seed, MORE_BOWS if no_data else BOWS + MORE_BOWS)
        ]
        if self.roads is not None:
            found.append(
                starts.along(
                    self.roads.routes(self.metric, a, b, self.elements + 1, DETOURS)[0][:, 1:],
                    self.times,
                )
            )
        return np.concatenate(found, axis=1)


def _descend_from(metric: Metric, begin: Array, look: Look = Look.NEVER) -> Descent:
    """Descend from coarse curves (C, N, d)."""
    breaks = np.linspace(0.0, 1.0, begin.shape[1] // DEGREE + 1)
    return descend(
        metric,
        begin,
        np.broadcast_to(breaks, (len(begin), len(breaks))),
        TOL,
        MAX_ITER,
        DAMPING,
        look,
    )


def _sure_lengths(metric: Metric, nodes: Array, length: Array, which: Array) -> Array:
    """The lengths (P, S) of the curves in the mask as they are, measured between the nodes too,
    where a problem has several; infinite for the others."""
    N, d = nodes.shape[2:]
    sure = np.where(which, length, np.inf)
    several = which & (which.sum(axis=1, keepdims=True) > 1)
    ends = nodes[several][:, :-1].reshape(-1, d), nodes[several][:, 1:].reshape(-1, d)
    sure[several] = edge_lengths(metric, *ends).reshape(-1, N - 1).sum(axis=1)
    return sure


def distinct(nodes: Array, length: Array) -> Array:
    """Which of the curves (P, S, N, d) of each problem are no shorter one's double; at least one of
    each problem."""
    P, S = length.shape
    order = np.argsort(length, axis=1, kind="stable")
    row = np.arange(P)[:, None]
    nodes, length = nodes[row, order], length[row, order]
    way = np.linalg.norm(np.diff(nodes, axis=2), axis=-1).sum(axis=2)
    keep = np.isfinite(length)
    keep[:, 0] = True
    for later in range(1, S):
        for earlier in range(later):
            apart = np.linalg.norm(nodes[:, later] - nodes[:, earlier], axis=-1).max(axis=1)
            alike = (apart <= SAME_WAY * way[:, earlier]) & (
                length[:, later] <= (1 + SAME_LENGTH) * length[:, earlier]
            )
            keep[:, later] &= ~(alike & keep[:, earlier])
    out = np.zeros_like(keep)
    out[row, order] = keep
    return out
