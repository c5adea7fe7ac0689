"""Fréchet means and medians: the points with the least squared distance, or distance, to others."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from orthodrome import _boundary, solving
from orthodrome._types import Array, ArrayLike
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.statistics.medoids import medoid
from orthodrome.statistics.tangents import (
    NOT_ASKED,
    Frames,
    Logarithms,
    Tangents,
    usable,
    walk,
    warn_missing,
)
from orthodrome.status import Status

TOL = 1e-7
"""A mean is found when its slope is below this, relative to the typical distance."""

ARMIJO = 1e-4
"""A step counts as a descent if it gains this fraction of what its slope promised."""

NOISE = 1e-5
"""Relative differences of the spread below this may be errors of the logarithms: there the slope
decides."""

SHORTEST = 1e-4
"""A step of this share that is still no descent is the end of the road."""

FLAT = 1e-2
"""A second derivative below this share of what it is in flat space is not believed: steps would
become too long."""

SAME_PLACE = 1e-9
"""A point this near to a median, relative to the typical distance, lies at it."""

ROUNDS = 3
"""How often a mean is looked at afresh, in case the paths that led to it are no longer the
shortest."""


@dataclasses.dataclass(frozen=True, eq=False)
class MeanInfo:
    """How a mean was found. Returned with `return_info=True`."""

    converged: bool
    """Whether the slope is below the tolerance."""
    status: Status
    iterations: int
    slope: float
    """The length of the slope at the mean, relative to the typical distance (of a median: to the
    weights)."""
    spread: float
    """The weighted mean of squared distances (of a median: of distances) to the points."""
    missing: int
    """Points whose logarithm was not found: the mean is that of the others."""


def frechet_mean(
    metric: Metric,
    points: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    median: bool = False,
    init: ArrayLike | None = None,
    solver: Solver | None = None,
    tol: float = TOL,
    max_iter: int = 100,
    return_info: bool = False,
) -> Any:
    """The point (d,) that minimises Σ wᵢ dist(·, xᵢ)² over the points (n, d); with `median=True`, Σ
    wᵢ dist(·, xᵢ).

    Karcher's flow, all logarithms in one batch, each step beginning from the paths of the last; its
    steps are scaled by what they have learned of the curvature (BFGS). It begins at `init`, or at
    the best of the points as roads between nearest neighbours measure it. Where a manifold closes
    on itself there may be several minima; it finds one.

    A mean that is not found to `tol` in `max_iter` steps warns, and so do logarithms that are not
    found: the mean is then that of the other points. With `return_info=True` also a `MeanInfo`.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    x, w = require_sample(metric, points, weights)
    tol, max_iter = _boundary.as_positive(tol, "tol"), _boundary.as_count(max_iter, "max_iter", 1)
    if init is None:
        start = medoid(metric, x, w, median)
    else:
        start = metric.require_points(init, "init")
        if start.shape != x.shape[1:]:
            raise ValueError(
                f"init should be one point of shape ({x.shape[1]},); a shape of {start.shape} "
                "arrived."
            )
        metric.require_positive(start[None], "init")
    logs = Logarithms(metric, x, 1, solver)
    means = descend(logs, w[None], start[None], tol, max_iter, median, rounds=ROUNDS)
    warn_missing(means.tangents.status, "logarithms at the mean")
    warn_of_slope(means, tol)
    if not return_info:
        return means.points[0]
    status, spread = Status(means.status[0]), float(means.value[0] * (1 if median else 2))
    missing = int(np.sum(~means.tangents.known & (means.tangents.status != NOT_ASKED)))
    info = MeanInfo(
        status == Status.CONVERGED,
        status,
        int(means.iterations[0]),
        float(means.slope[0]),
        spread,
        missing,
    )
    return means.points[0], info


def require_sample(
    metric: Metric, points: ArrayLike, weights: ArrayLike | None
) -> tuple[Array, Array]:
    """Points (n, d) of the metric, and weights (n,) that sum to one."""
    x = metric.require_points(points, "points")
    if x.ndim != 2 or not len(x):
        raise ValueError(
            f"points should have shape (n, d), at least one row; a shape of {x.shape} arrived."
        )
    metric.require_positive(x, "points")
    w = np.ones(len(x)) if weights is None else _boundary.as_floats(weights, "weights")
    if w.shape != (len(x),):
        raise ValueError(
            f"weights should have shape ({len(x)},), one for each point; a shape of {w.shape} "
            "arrived."
        )
    _boundary.require_finite(w, "weights")
    if np.any(w < 0) or not w.sum() > 0:
        raise ValueError("weights should not be negative, and not all zero.")
    return x, w / w.sum()


class Means(NamedTuple):
    """K means."""

    points: Array
    """(K, d)"""
    value: Array
    """(K,): what was minimised: half the mean squared distance, or the mean distance."""
    slope: Array
    """(K,)"""
    iterations: Array
    status: Array
    tangents: Tangents


def warn_of_slope(means: Means, tol: float) -> None:
    """Say so if a mean was not found."""
    if means.status[0] != Status.CONVERGED:
        _boundary.warn(
            f"the mean was not found to tol={tol:g}: its relative slope is {means.slope[0]:.1e} "
            "after "
            f"{means.iterations[0]} steps: raise tol or max_iter, or begin elsewhere."
        )


def descend(
    logs: Logarithms,
    weights: Array,
    start: Array,
    tol: float,
    max_iter: int,
    median: bool = False,
    rounds: int = 1,
) -> Means:
    """The means of the points with K weights (K, n), from K starts (K, d), all in one batch.

    In each frame the slope is g = −Σ w u and the next mean is where the geodesic with velocity −H g
    leads, with H from BFGS. Once they have arrived, all paths are sought anew, up to `rounds − 1`
    times: others may be shorter now.
    """
    metric, wanted = logs.metric, weights > 0
    mu, evaluations = start.copy(), np.zeros(len(start), int)
    tangents = logs.at(mu, wanted)
    here = _Slope.of(tangents, weights, median)
    fresh = np.ones(len(mu), int)  # the first logarithms were
    H, share = here.first_inverse(), np.ones(len(mu))
    status = np.full(len(mu), Status.MAX_ITERATIONS)
    for _ in range(max_iter):
        arrived = here.relative <= tol
        settled = (arrived & (fresh >= rounds)) | (share < SHORTEST) | ~np.isfinite(here.relative)
        if settled.all():
            break
        if (arrived | settled).all():  # look again, at all that the last steps only followed
            look = arrived & ~settled
            tangents, here = _merge(
                look,
                (logs.at(mu, wanted & look[:, None], fresh=True), None),
                (tangents, here),
                weights,
                median,
            )
            fresh[look] += 1
            continue
        moving = ~arrived & ~settled
        evaluations[moving] += 1
        step = -np.einsum("kij,kj->ki", H, here.g)
        step = np.where((np.sum(step * here.g, axis=1) < 0)[:, None], step, -here.g)
        trial = mu.copy()
        trial[moving] = walk(
            metric,
            mu[moving],
            Frames.at(metric, mu[moving]).write(share[moving, None] * step[moving]),
        )
        good = moving.copy()
        good[moving] = usable(metric, trial[moving])
        trial[~good] = mu[~good]
        there_tangents = logs.at(trial, wanted & good[:, None])
        there = _Slope.of(there_tangents, weights, median)
        promised = ARMIJO * share * np.sum(step * here.g, axis=1)
        close = np.abs(there.value - here.value) <= NOISE * here.value
        accept = good & (
            (there.value <= here.value + promised) | (close & (there.relative < here.relative))
        )
        H = np.where(
            accept[:, None, None],
            bfgs(H, share[:, None] * step, there.g - here.g, here.stiffness),
            H,
        )
        mu = np.where(accept[:, None], trial, mu)
        tangents, here = _merge(accept, (there_tangents, there), (tangents, here), weights, median)
        share = np.where(accept, 1.0, np.where(moving, share / 3, share))
    status[here.relative <= tol] = Status.CONVERGED
    return Means(mu, here.value, here.relative, evaluations, status, tangents)


class _Slope(NamedTuple):
    """What is minimised, at K bases, with its slopes."""

    value: Array
    """(K,)"""
    g: Array
    """(K, d)"""
    relative: Array
    """(K,): |g| relative to the typical distance, or to the weights; infinite where nothing is
    known."""
    stiffness: Array
    """(K,): the second derivative if space were flat: 1, or of a median about Σ w / distance."""

    @staticmethod
    def of(tangents: Tangents, weights: Array, median: bool) -> "_Slope":
        w = np.where(tangents.known, weights, 0.0)
        total = w.sum(axis=1, keepdims=True)
        w = w / np.where(total > 0, total, np.nan)
        u = np.where(tangents.known[..., None], tangents.u, 0.0)
        far = np.linalg.norm(u, axis=2)
        typical = np.sqrt(np.sum(w * far**2, axis=1))
        if not median:
            g = -np.einsum("kn,knd->kd", w, u)
            size = np.where(typical > 0, typical, 1.0)
            value, stiffness = 0.5 * typical**2, np.ones_like(typical)
        else:
            at = far <= SAME_PLACE * typical[:, None]
            away = np.where(at, 0.0, w / np.where(at, 1.0, far))
            g, here = -np.einsum("kn,knd->kd", away, u), np.sum(w * at, axis=1)
            # at a point of weight h, what pulls elsewhere must be stronger than h (Vardi & Zhang)
            size, length = np.ones_like(typical), np.linalg.norm(g, axis=1)
            g *= np.maximum(0.0, 1 - here / np.where(length > 0, length, 1.0))[:, None]
            value = np.sum(w * far, axis=1)
            stiffness = np.where(away.sum(axis=1) > 0, away.sum(axis=1), 1.0)
        relative = np.linalg.norm(g, axis=1) / size
        known = np.isfinite(total[:, 0]) & (total[:, 0] > 0)
        return _Slope(
            np.where(known, value, np.inf), g, np.where(known, relative, np.inf), stiffness
        )

    def first_inverse(self) -> Array:
        """H to begin with: Karcher's step, or Weiszfeld's."""
        return np.eye(self.g.shape[1]) / self.stiffness[:, None, None]


def _merge(
    which: Array,
    new: tuple[Tangents, _Slope | None],
    old: tuple[Tangents, _Slope],
    weights: Array,
    median: bool,
) -> tuple[Tangents, _Slope]:
    """The new ones in the mask (K,), else the old ones."""
    pick: Any = lambda a, b: np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    slope = _Slope.of(new[0], weights, median) if new[1] is None else new[1]
    return Tangents(*map(pick, new[0], old[0])), _Slope(*map(pick, slope, old[1]))


def bfgs(H: Array, s: Array, y: Array, stiffness: Array | float) -> Array:
    """Inverse Hessians (K, d, d) that agree with what the last steps s did to the slopes, y; (K, d)
    each.

    Second derivatives below a share of the `stiffness` are not believed: steps would become too
    long.
    """
    sy = np.sum(s * y, axis=1)
    learned = sy > FLAT * stiffness * np.sum(s * s, axis=1)
    rho = (1.0 / np.where(learned, sy, 1.0))[:, None, None]
    turn = np.eye(s.shape[1]) - rho * s[:, :, None] * y[:, None, :]
    updated = turn @ H @ turn.swapaxes(1, 2) + rho * s[:, :, None] * s[:, None, :]
    return np.where(learned[:, None, None], updated, H)
