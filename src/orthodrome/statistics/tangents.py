"""Tangent spaces at a few bases, seen in orthonormal frames, and the logarithms of many points there, all in one batch."""

from typing import Any, NamedTuple

import numpy as np

from orthodrome import _boundary, solving
from orthodrome.curves import Curve, PiecewiseCurve
from orthodrome.judging import initial_velocity
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.status import Status

Array = np.ndarray[Any, Any]

SAMPLES = np.linspace(0.0, 1.0, 33)
"""Times at which paths are remembered, to begin from when their bases have moved."""

STRIDE = 0.5
"""A step of a walk is as long as this share of the metric's `scale`."""

FEWEST_STEPS, MOST_STEPS = 8, 64
"""Of a walk."""


class Frames(NamedTuple):
    """Orthonormal frames E of K tangent spaces: EᵀME = 1. They change smoothly from base to base."""

    lower: Array
    """(K, d, d): L with M = L Lᵀ; then E = L⁻ᵀ."""

    @staticmethod
    def at(metric: Metric, bases: Array) -> "Frames":
        """The frames at bases (K, d)."""
        return Frames(np.linalg.cholesky(metric.tensor(bases)))

    def read(self, velocity: Array) -> Array:
        """Coordinates u (K, ..., d) of tangent vectors v: u = Lᵀ v, so that |u| is the length of v."""
        return np.einsum("kij,k...i->k...j", self.lower, velocity)

    def write(self, u: Array) -> Array:
        """The tangent vectors (K, ..., d) with these coordinates."""
        flat = u.reshape(len(u), -1, u.shape[-1]).swapaxes(1, 2)
        return np.linalg.solve(self.lower.swapaxes(1, 2), flat).swapaxes(1, 2).reshape(u.shape)


class Tangents(NamedTuple):
    """The logarithms of n points at K bases, in orthonormal frames."""

    u: Array
    """(K, n, d); NaN where it was not asked for or not found."""
    status: Array
    """(K, n): `Status` numbers, of those that were not asked for `NOT_ASKED`."""

    @property
    def found(self) -> Array:
        """(K, n)"""
        return self.status == Status.CONVERGED

    @property
    def distance(self) -> Array:
        """(K, n)"""
        return np.linalg.norm(self.u, axis=2)


NOT_ASKED = -2
"""The status of a problem that nobody wanted solved."""


class Logarithms:
    """The logarithms of n points at K bases that move: each begins from the last path that was found for it."""

    def __init__(self, metric: Metric, points: Array, bases: int, solver: Solver) -> None:
        self.metric, self.points, self.solver = metric, points, solver
        self._ways = np.full((bases, len(points), len(SAMPLES), points.shape[1]), np.nan)

    def at(self, bases: Array, wanted: Array | None = None, fresh: bool = False) -> Tangents:
        """Those of all points, or of the `wanted` (K, n), at bases (K, d); if `fresh`, forgetting the last paths."""
        K, n, d = self._ways.shape[0], *self.points.shape
        k, i = np.nonzero(np.ones((K, n), dtype=bool) if wanted is None else wanted)
        velocity, status = np.full((K, n, d), np.nan), np.full((K, n), NOT_ASKED)
        if not len(k):
            return Tangents(velocity, status)
        a, b, old = bases[k], self.points[i], self._ways[k, i]
        known = np.isfinite(old[:, 0, 0]) & (not fresh)
        found = np.full(len(k), NOT_ASKED)
        if known.any():
            moved = old[known] + (1 - SAMPLES)[:, None] * (a[known] - old[known, 0])[:, None]
            follower = self.solver.follower(self.metric)
            found[known] = self._solve(k[known], i[known], a[known], b[known], follower, moved, velocity)
        cold = found != Status.CONVERGED
        if cold.any():
            found[cold] = self._solve(k[cold], i[cold], a[cold], b[cold], self.solver, None, velocity)
        status[k, i] = found
        return Tangents(Frames.at(self.metric, bases).read(velocity), status)

    def adopt(self, k: int, other: "Logarithms", j: int) -> None:
        """Remember the paths of another's j-th base as those of the k-th."""
        self._ways[k] = other._ways[j]

    def _solve(
        self, k: Array, i: Array, a: Array, b: Array, solver: Solver, begin: Array | None, velocity: Array
    ) -> Array:
        """Solve some problems, remember their ways, write their velocities (K, n, d); returns their status."""
        init = None if begin is None else PiecewiseCurve.through(begin)
        statuses = []
        for block, solution, _ in solving.solve(self.metric, a, b, solver, init):
            good = np.flatnonzero(solution.status == Status.CONVERGED)
            at = k[block][good], i[block][good]
            curve: Curve = solution.curve.take(good)
            self._ways[at] = curve.evaluate(SAMPLES)
            velocity[at] = initial_velocity(self.metric, curve)
            statuses.append(solution.status)
        return np.concatenate(statuses)


def walk(metric: Metric, bases: Array, velocity: Array) -> Array:
    """About where the exponential map leads, (K, d): good enough for a step that is then judged by where it ends.

    Runge and Kutta's method of order 4 with a few steps, outside of compiled code: nothing is compiled for it.
    """
    far = np.linalg.norm(velocity, axis=1).max(initial=0.0)
    steps = int(np.clip(np.ceil(far / (STRIDE * metric.scale)), FEWEST_STEPS, MOST_STEPS))
    h, x, v = 1.0 / steps, bases, velocity
    for _ in range(steps):
        a1 = metric.accelerations(x, v)
        a2 = metric.accelerations(x + h / 2 * v, v + h / 2 * a1)
        a3 = metric.accelerations(x + h / 2 * v + h**2 / 4 * a1, v + h / 2 * a2)
        a4 = metric.accelerations(x + h * v + h**2 / 2 * a2, v + h * a3)
        x, v = x + h * v + h**2 / 6 * (a1 + a2 + a3), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return x


def usable(metric: Metric, bases: Array) -> Array:
    """(K,): where the metric is finite and positive definite."""
    good = np.isfinite(bases).all(axis=1)
    tensors = metric.tensor(bases[good])
    good[good] = np.isfinite(tensors).all(axis=(1, 2))
    good[good] = np.linalg.eigvalsh(metric.tensor(bases[good]))[:, 0] > 0
    return good


def warn_missing(status: Array, what: str) -> None:
    """Warn of logarithms that were asked for and not found."""
    _boundary.warn_unconverged(status[status != NOT_ASKED], what)
