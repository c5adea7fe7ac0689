"""Nearest neighbours by geodesic distance, without the matrix of all distances."""

import numpy as np
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from orthodrome import _boundary, solving
from orthodrome._types import Array, ArrayLike
from orthodrome.metrics import Metric
from orthodrome.roadmap import Roadmap
from orthodrome.solvers import Solver

ROADS = 12
"""Roads from each point to others, on which candidates are looked for."""

SPARE = 4
"""Candidates more than twice as many as are wanted."""

SHORTCUT = 0.8
"""A path is taken to be no shorter than this share of the way on the roads, which turn at every
crossing."""

ROUNDS = 8
"""How often more candidates are looked at."""

SOURCES = 512
"""Points whose ways on the roads are held at once: bounds memory."""


def neighbors(
    metric: Metric, X: ArrayLike, k: int, solver: Solver | None = None
) -> tuple[Array, Array]:
    """The k nearest other points of each point of X (n, d), by geodesic distance: distances and
    indices (n, k) each.

    Candidates are those nearest on a graph of Euclidean neighbours whose edges are measured in the
    metric, and the nearest in coordinates. Their distances are computed, and more of them for as
    long as the next one's way on the graph, shortened by a fifth, is below the k-th distance found:
    a neighbour whose shortest path is more than a fifth shorter than all ways on the graph could be
    missed. About 2k + 4 paths a point, not n.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    x = metric.require_points(X, "X")
    if x.ndim != 2:
        raise ValueError(
            f"X should have shape (n, d), a row a point; a shape of {x.shape} arrived."
        )
    k = _boundary.as_count(k, "k", 1)
    if k >= len(x):
        raise ValueError(f"k should be below the number of points, {len(x)}; {k} arrived.")
    metric.require_positive(x, "X")
    tree = cKDTree(x)
    roads = Roadmap.of(metric, x, min(max(ROADS, k), len(x) - 1), most=len(x)).roads
    blocks, statuses = [], list[Array]()
    for first in range(0, len(x), SOURCES):
        rows = np.arange(first, min(first + SOURCES, len(x)))
        on_roads = dijkstra(roads, indices=rows)
        near = np.asarray(tree.query(x[rows], k + 1)[1])
        blocks.append(_nearest(metric, x, rows, on_roads, near, k, solver, statuses))
    _boundary.warn_unconverged(np.concatenate(statuses), "paths")
    distance, index = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return distance, index


def _nearest(
    metric: Metric,
    x: Array,
    rows: Array,
    on_roads: Array,
    near: Array,
    k: int,
    solver: Solver,
    statuses: list[Array],
) -> tuple[Array, Array]:
    """Distances and indices (rows, k), looking at more candidates until no further one can be
    nearer."""
    here = np.arange(len(rows))
    distance = np.full(on_roads.shape, np.inf)
    asked = np.zeros(on_roads.shape, dtype=bool)
    asked[here, rows] = True  # no point is its own neighbour
    wanted = np.zeros_like(asked)
    wanted[here[:, None], np.argsort(on_roads, axis=1)[:, : 2 * k + SPARE]] = True
    wanted[here[:, None], near] = True
    for _ in range(ROUNDS):
        wanted &= ~asked
        i, j = np.nonzero(wanted)
        if not len(i):
            break
        for block, solution in solving.solve(metric, x[rows[i]], x[j], solver):
            length = np.where(solution.converged, solution.verdict.length, np.inf)
            distance[i[block], j[block]] = length
            statuses.append(solution.status)
        asked |= wanted
        worst = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
        wanted = SHORTCUT * on_roads < worst
    index = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, index, axis=1), index
