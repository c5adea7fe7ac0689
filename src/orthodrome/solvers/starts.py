"""Where a descent can begin: curves from a to b, (P, S, N, d) at the nodes' times, that lead to
different minima."""

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from orthodrome.curves import PiecewiseCurve, straight_line
from orthodrome.solvers.base import moved

Array = np.ndarray[Any, Any]

NEIGHBOURS = 2
"""Whose curves are tried: those of the problems that have one end in common, and the other one so
manieth nearest."""

NEWS = 0.1
"""A neighbour's curve tells something new if it is somewhere so far from the own one, relative to
its way."""


def bows(
    a: Array, b: Array, times: Array, seed: int, shapes: tuple[tuple[int, float], ...]
) -> Array:
    """Straight lines bent to both sides: for each shape in a direction with this number, by so much
    of their length."""
    step = b - a
    line = straight_line(a, b, times, 0)
    found = []
    for number, size in shapes:
        # the same for all problems
        direction = np.random.default_rng([seed, number]).standard_normal(a.shape[1])
        across = (
            direction
            - step * (np.sum(direction * step, axis=1) / np.sum(step * step, axis=1))[:, None]
        )
        norm = np.linalg.norm(across, axis=1, keepdims=True)
        across *= size * np.linalg.norm(step, axis=1, keepdims=True) / np.where(norm > 0, norm, 1.0)
        bow = np.sin(np.pi * times)[:, None] * across[:, None]
        found += [line + bow, line - bow]
    return np.stack(found, axis=1)


def along(routes: Array, times: Array) -> Array:
    """Routes (P, S, points, d) at the nodes' times."""
    P, S, points, d = routes.shape
    return (
        PiecewiseCurve.through(routes.reshape(-1, points, d))
        .evaluate(times)
        .reshape(P, S, len(times), d)
    )


def from_neighbours(a: Array, b: Array, best: Array, times: Array) -> tuple[Array, Array, Array]:
    """The best curves (P, N, d) of problems with nearly the same ends, moved to these.

    a comes before b in lexicographic order. Returns the curves (P, S, N, d), which of them there
    are, and which of these are news, (P, S) each.
    """
    ends, index = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    i, j = index.reshape(2, -1)
    count = min(NEIGHBOURS, len(ends) - 1)
    near = np.asarray(cKDTree(ends).query(ends, count + 1)[1])[:, 1:]
    near = np.minimum(near, len(ends) - 1)  # of points whose distances are no numbers, none is near
    key = i * len(ends) + j
    order = np.argsort(key)
    curves, known = [], []
    for p, q in [pair for k in range(count) for pair in ((near[i, k], j), (i, near[j, k]))]:
        wanted = np.minimum(p, q) * len(ends) + np.maximum(p, q)
        which = order[np.minimum(np.searchsorted(key, wanted, sorter=order), len(a) - 1)]
        curve = np.where((p > q)[:, None, None], best[which, ::-1], best[which])
        curves.append(moved(curve, times, a, b))
        known.append(key[which] == wanted)
    neighbours, there = np.stack(curves, axis=1), np.stack(known, axis=1)
    news = there.copy()
    way = np.linalg.norm(np.diff(best, axis=1), axis=-1).sum(axis=1)
    differ = lambda x, y: np.linalg.norm(x - y, axis=-1).max(axis=-1) > NEWS * way
    for later in range(neighbours.shape[1]):
        news[:, later] &= differ(neighbours[:, later], best)
        for earlier in range(later):
            news[:, later] &= ~news[:, earlier] | differ(
                neighbours[:, later], neighbours[:, earlier]
            )
    return neighbours, there, news
