"""The shortest way along a graph of the data: no geodesic yet, but a start on the right side of the
holes."""

import dataclasses
from typing import Any

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array
from orthodrome.curves import Curve, PiecewiseCurve
from orthodrome.metrics import Metric
from orthodrome.roadmap import Roadmap, roadmap
from orthodrome.solvers.base import Solution, Solver
from orthodrome.status import Status

NEIGHBOURS = 10
"""Neighbours each point is joined to. With 5 and with 20, the 180 paths of
`benchmarks/constants.py` stay within 0.1 % of the shortest."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Graph(Solver):
    """Dijkstra's shortest route over nearest neighbours, with edges measured in the metric,
    smoothed.

    It always finds a route, so it always converges; the route is not a geodesic, and never
    certified but by chance. Use it to begin: `shortest_path(metric, a, b, Energy(),
    init=shortest_path(metric, a, b, Graph()))`.
    """

    nodes: Any = None
    """(n, d): the points whose neighbours are joined. Without them, the data of the metric."""
    neighbours: int = NEIGHBOURS
    """To how many others each point is joined."""
    elements: int = 32
    """Pieces of the curve that follows the route."""

    def __post_init__(self) -> None:
        _boundary.as_count(self.neighbours, "neighbours", 1)
        _boundary.as_count(self.elements, "elements", 2)
        if self.nodes is not None:
            object.__setattr__(self, "nodes", _boundary.as_data(self.nodes, "nodes"))

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Find the routes; there is nothing to begin from."""
        if init is not None:
            raise ValueError(
                "Graph walks along the data and cannot begin from a path: leave init out."
            )
        require_nodes(self.nodes, start.shape[1])
        roads = roads_of(metric, self.nodes, self.neighbours)
        if roads is None:
            raise ValueError(
                "Graph needs points to walk along, and this metric has no data: pass some, "
                "Graph(nodes=...), for a "
                "decoder the latent codes of its training data."
            )
        routes, _ = roads.routes(metric, start, end, self.elements + 1)
        status = np.full(len(start), Status.CONVERGED)
        return Solution(PiecewiseCurve.through(routes[:, 0]), status, np.zeros(len(start), int))


def require_nodes(nodes: Array | None, dim: int) -> None:
    """Refuse nodes of another dimension than the points to join."""
    if nodes is not None and nodes.shape[1] != dim:
        raise ValueError(
            f"nodes has {nodes.shape[1]} coordinates, start and end have {dim}: pass an array (n, "
            f"{dim})."
        )


def roads_of(metric: Metric, nodes: Array | None, neighbours: int = NEIGHBOURS) -> Roadmap | None:
    """The roadmap over the given points or the metric's own data; None if there are neither."""
    points = metric.data if nodes is None else nodes
    return None if points is None else roadmap(metric, points, neighbours)
