"""Interpolation along shortest paths, through two or more points."""

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array, ArrayLike
from orthodrome.metrics import Metric
from orthodrome.path import shortest_path
from orthodrome.solvers import Solver


def interpolate(
    metric: Metric,
    points: ArrayLike,
    t: ArrayLike,
    times: ArrayLike | None = None,
    solver: Solver | None = None,
) -> Array:
    """Points at times `t` in [0, 1] of the curve that runs through the points (k, d) along shortest
    paths: (T, d).

    It is at each of the points at its `times` (k,), from 0 to 1; without them the curve has the
    same speed everywhere, so that evenly spaced `t` give points evenly spaced on the manifold.
    """
    x = _boundary.as_points(points, "points")
    if x.ndim != 2 or len(x) < 2:
        raise ValueError(
            f"points should have shape (k, d), at least two rows; a shape of {x.shape} arrived."
        )
    t = _boundary.as_times(t)
    paths = shortest_path(metric, x[:-1], x[1:], solver=solver)
    if times is None:
        reached = np.concatenate([[0.0], np.cumsum(paths.length)])
        at = reached / reached[-1] if reached[-1] > 0 else np.linspace(0.0, 1.0, len(x))
    else:
        at = _boundary.as_times(times)
        if at.shape != (len(x),) or at[0] != 0 or at[-1] != 1 or np.any(np.diff(at) <= 0):
            raise ValueError(
                f"times should be {len(x)} numbers that grow from 0 to 1, one for each point; "
                f"{at} arrived."
            )
    leg = np.clip(np.searchsorted(at, t.ravel(), side="right") - 1, 0, len(x) - 2)
    width = at[leg + 1] - at[leg]
    inside = (t.ravel() - at[leg]) / np.where(width > 0, width, 1.0)
    chosen = paths.curve.take(leg)
    return chosen.evaluate(np.clip(inside, 0.0, 1.0)[:, None])[:, 0].reshape(*t.shape, x.shape[1])
