"""Where a descent can begin: curves from a to b, (P, S, N, d) at the nodes' times, that lead to
different minima."""

import numpy as np
from scipy.spatial import cKDTree

from orthodrome._types import Array
from orthodrome.curves import PiecewiseCurve, straight_line
from orthodrome.solvers.base import moved

NEIGHBOURS = 2
"""For each end, the curves of so many other problems are tried: those that share the other end and
whose own end is nearest to this one."""

NOVEL = 0.1
"""A neighbour's curve is worth a descent if it is somewhere so far from the problem's own one,
relative to the length of that in coordinates."""


def bows(
    a: Array, b: Array, times: Array, seed: int, shapes: tuple[tuple[int, float], ...]
) -> Array:
    """Straight lines bent to both sides: for each shape, (number, size), in the direction that has
    this number, by this fraction of their length."""
    step = b - a
    line = straight_line(a, b, times, 0)
    curves = []
    for number, size in shapes:
        # the same direction for all problems
        direction = np.random.default_rng([seed, number]).standard_normal(a.shape[1])
        along = np.sum(direction * step, axis=1) / np.sum(step * step, axis=1)
        across = direction - step * along[:, None]
        norm = np.linalg.norm(across, axis=1, keepdims=True)
        across *= size * np.linalg.norm(step, axis=1, keepdims=True) / np.where(norm > 0, norm, 1.0)
        bow = np.sin(np.pi * times)[:, None] * across[:, None]
        curves += [line + bow, line - bow]
    return np.stack(curves, axis=1)


def along(routes: Array, times: Array) -> Array:
    """Routes (P, S, points, d) at the nodes' times."""
    P, S, points, d = routes.shape
    curves = PiecewiseCurve.through(routes.reshape(-1, points, d))
    return curves.evaluate(times).reshape(P, S, len(times), d)


def from_neighbours(a: Array, b: Array, best: Array, times: Array) -> tuple[Array, Array, Array]:
    """The best curves (P, N, d) of problems with nearly the same ends, moved to these ends.

    Returns the curves (P, S, N, d), which of them exist, and which of these are novel, (P, S) each.
    """
    points, index = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    i, j = index.reshape(2, -1)
    count = min(NEIGHBOURS, len(points) - 1)
    nearest = np.asarray(cKDTree(points).query(points, count + 1)[1])[:, 1:]
    nearest = np.minimum(nearest, len(points) - 1)  # where distances overflow, the tree finds none
    # a problem is known by its two ends, whichever of them comes first
    key = np.minimum(i, j) * len(points) + np.maximum(i, j)
    order = np.argsort(key)
    curves, existing = [], []
    for p, q in [pair for k in range(count) for pair in ((nearest[i, k], j), (i, nearest[j, k]))]:
        wanted = np.minimum(p, q) * len(points) + np.maximum(p, q)
        which = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(a) - 1)]
        backwards = (p > q) != (i[which] > j[which])
        curve = np.where(backwards[:, None, None], best[which, ::-1], best[which])
        curves.append(moved(curve, times, a, b))
        existing.append(key[which] == wanted)
    neighbours, exists = np.stack(curves, axis=1), np.stack(existing, axis=1)
    novel = exists.copy()
    size = np.linalg.norm(np.diff(best, axis=1), axis=-1).sum(axis=1)
    differ = lambda x, y: np.linalg.norm(x - y, axis=-1).max(axis=-1) > NOVEL * size
    for later in range(neighbours.shape[1]):
        novel[:, later] &= differ(neighbours[:, later], best)
        for earlier in range(later):
            apart = differ(neighbours[:, later], neighbours[:, earlier])
            novel[:, later] &= ~novel[:, earlier] | apart
    return neighbours, exists, novel
