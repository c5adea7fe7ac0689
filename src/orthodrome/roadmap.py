"""A map of roads through the data: nearest neighbours joined by edges measured in the metric, and
routes along them."""

import dataclasses
from collections import deque
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from orthodrome._types import Array
from orthodrome.curves import resample
from orthodrome.memo import once
from orthodrome.metrics import Metric

MOST_NODES = 4000
"""Of a larger data set so many points, evenly picked, are the crossings: routes are only where a
descent begins."""

SOURCES = 256
"""Points from which routes are sought at once: bounds memory."""

SMOOTHINGS = 2
"""How often a route is averaged with its neighbours: a road turns at every crossing."""

DETOUR = 1.3
"""A route through another place may be so much longer than the shortest one."""

MOST_ROADMAPS = 4
"""So many are kept for each metric: one over its own data, and some over nodes that a user
gives."""

EDGE_TIMES = 0.5 + np.array([-0.5, 0.5]) / np.sqrt(3)
"""Where an edge is measured: two Gauss points."""


@dataclasses.dataclass(frozen=True, eq=False)
class Roadmap:
    """Crossings and the roads between them."""

    nodes: Array
    """(n, d)"""
    tree: Any
    neighbours: int
    roads: csr_array
    """(n, n): lengths of the edges, each in both directions; connected."""

    @staticmethod
    def of(metric: Metric, nodes: Array, neighbours: int, most: int | None = None) -> "Roadmap":
        """The roads between some points of a metric, evenly picked if there are more than `most`
        (`MOST_NODES`)."""
        nodes = nodes[:: -(-len(nodes) // (MOST_NODES if most is None else most))]
        tree = cKDTree(nodes)
        k = min(neighbours, len(nodes) - 1)
        near = np.asarray(tree.query(nodes, k + 1)[1])[:, 1:]
        pairs = np.stack([np.repeat(np.arange(len(nodes)), k), near.ravel()], axis=1)
        pairs = _join(nodes, np.unique(np.sort(pairs, axis=1), axis=0))
        roads = _roads(
            len(nodes), pairs, edge_lengths(metric, nodes[pairs[:, 0]], nodes[pairs[:, 1]])
        )
        return Roadmap(nodes, tree, k, roads)

    def routes(
        self, metric: Metric, start: Array, end: Array, points: int, detours: int = 0
    ) -> tuple[Array, Array]:
        """The shortest way on the roads for each of P pairs, and ways through other places that are
        not much longer.

        Returns them as (P, 1 + detours, points, d), smoothed and with constant speed in the metric,
        and their lengths (P, 1 + detours); a detour that does not exist is NaN.
        """
        ends, index = np.unique(np.concatenate([start, end]), axis=0, return_inverse=True)
        source, target = index.reshape(2, -1)
        roads, places = self._with_ends(metric, ends)
        out = np.full((len(start), 1 + detours, points, start.shape[1]), np.nan)
        lengths = np.full((len(start), 1 + detours), np.nan)
        order = np.argsort(source, kind="stable")
        for some in np.array_split(order, max(1, -(-len(np.unique(source)) // SOURCES))):
            out[some], lengths[some] = _find(
                roads,
                places,
                len(self.nodes) + source[some],
                len(self.nodes) + target[some],
                points,
                detours,
            )
        out[:, :, 0], out[:, :, -1] = start[:, None], end[:, None]
        return out, lengths

    def _with_ends(self, metric: Metric, ends: Array) -> tuple[csr_array, Array]:
        """The roads, with further points joined to their nearest crossings."""
        n, k = len(self.nodes), self.neighbours
        near = np.asarray(self.tree.query(ends, k)[1]).reshape(len(ends), k)
        pairs = np.stack([n + np.repeat(np.arange(len(ends)), k), near.ravel()], axis=1)
        places = np.concatenate([self.nodes, ends])
        old = self.roads.tocoo()
        new = edge_lengths(metric, places[pairs[:, 0]], places[pairs[:, 1]])
        all_pairs = np.concatenate(
            [np.stack(old.coords, axis=1)[old.coords[0] < old.coords[1]], pairs]
        )
        all_lengths = np.concatenate([old.data[old.coords[0] < old.coords[1]], new])
        return _roads(len(places), all_pairs, all_lengths), places


def roadmap(metric: Metric, nodes: Array, neighbours: int) -> Roadmap:
    """The roadmap of a metric over some nodes, made once as long as both are the same.

    Nodes are compared number by number: every new `Auto(nodes=…)` has a copy of its own.
    """
    kept = once(metric, _Roadmaps)
    for roads, known, count in tuple(kept.roadmaps):
        if count == neighbours and (known is nodes or np.array_equal(known, nodes)):
            return roads
    roads = Roadmap.of(metric, nodes, neighbours)
    kept.roadmaps.append((roads, nodes, neighbours))
    return roads


class _Roadmaps:
    """The last roadmaps of one metric, each with the nodes and the number it was made for."""

    def __init__(self, metric: Metric) -> None:
        self.roadmaps: deque[tuple[Roadmap, Array, int]] = deque(maxlen=MOST_ROADMAPS)


def edge_lengths(metric: Metric, a: Array, b: Array) -> Array:
    """The lengths of straight edges (E,)."""
    step = b - a
    speeds = [metric.norm(a + t * step, step) for t in EDGE_TIMES]
    return np.mean(speeds, axis=0)


def _join(nodes: Array, pairs: Array) -> Array:
    """The edges, with more of them where the graph falls apart: each part is joined to the point
    nearest to it."""
    while True:
        count, part = connected_components(_roads(len(nodes), pairs, np.ones(len(pairs))))
        if count == 1:
            return pairs
        inside = part == np.argmin(np.bincount(part))
        distance, nearest = map(np.asarray, cKDTree(nodes[~inside]).query(nodes[inside]))
        i = np.argmin(distance)
        bridge = [np.flatnonzero(inside)[i], np.flatnonzero(~inside)[nearest[i]]]
        pairs = np.concatenate([pairs, [bridge]])


def _roads(n: int, pairs: Array, lengths: Array) -> csr_array:
    i, j = pairs.T
    # between points that coincide there is a road all the same
    lengths = np.maximum(lengths, np.finfo(float).tiny)
    both = coo_array(
        (np.tile(lengths, 2), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n)
    )
    return both.tocsr()


def _find(
    roads: csr_array, places: Array, source: Array, target: Array, points: int, detours: int
) -> tuple[Array, Array]:
    sources, row = np.unique(source, return_inverse=True)
    from_source, before = dijkstra(roads, indices=sources, return_predecessors=True)
    routes = [_retrace(places, before, from_source, row, target, points)]
    lengths = [from_source[row, target]]
    if detours:
        targets, column = np.unique(target, return_inverse=True)
        from_target, after = dijkstra(roads, indices=targets, return_predecessors=True)
        # (P, n): the shortest way through each place
        through = from_source[row] + from_target[column]
        far = np.full(through.shape, np.inf)
        for _ in range(detours):
            # of all places that are not too far out of the way, the one furthest from the routes
            # known so far
            for x in range(points):
                np.minimum(
                    far, np.sum((places[None] - routes[-1][:, x, None]) ** 2, axis=-1), out=far
                )
            via = np.argmax(np.where(through <= DETOUR * lengths[0][:, None], far, -1.0), axis=1)
            there = _retrace(places, before, from_source, row, via, points)
            back = _retrace(places, after, from_target, column, via, points)[:, ::-1]
            routes.append(_joined(there, back, from_source[row, via], from_target[column, via]))
            lengths.append(from_source[row, via] + from_target[column, via])
    return np.stack([_smoothed(route) for route in routes], axis=1), np.stack(lengths, axis=1)


def _retrace(
    places: Array, before: Array, distance: Array, row: Array, target: Array, points: int
) -> Array:
    """The ways to the targets as points evenly spaced in length: (P, points, d)."""
    here, steps = target, [target]
    while np.any(before[row, here] >= 0):
        here = np.where(before[row, here] >= 0, before[row, here], here)
        steps.append(here)
    stops = np.stack(steps[::-1], axis=1)  # the source is repeated in front of the shorter ways
    return resample(places[stops], distance[row[:, None], stops], points)


def _joined(there: Array, back: Array, first: Array, second: Array) -> Array:
    points = there.shape[1]
    u = np.linspace(0.0, 1.0, points)
    length = np.concatenate([first[:, None] * u, first[:, None] + second[:, None] * u], axis=1)
    return resample(np.concatenate([there, back], axis=1), length, points)


def _smoothed(route: Array) -> Array:
    for _ in range(SMOOTHINGS):
        route = np.concatenate(
            [
                route[:, :1],
                0.25 * route[:, :-2] + 0.5 * route[:, 1:-1] + 0.25 * route[:, 2:],
                route[:, -1:],
            ],
            axis=1,
        )
    return route
