"""Tangent spaces at a few bases, in orthonormal frames, and the logarithms of many points there,
all in one batch."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary, batching, elements, solving
from orthodrome._types import Array, Float, JaxArray
from orthodrome.discretisation.jets import assemble
from orthodrome.measuring import initial_velocity
from orthodrome.metrics import Metric
from orthodrome.roadmap import edge_lengths
from orthodrome.solvers import Solver
from orthodrome.status import Status

SAMPLES = np.linspace(0.0, 1.0, 33)
"""Times at which paths are remembered, to begin from when their bases have moved."""

STRIDE = 0.5
"""A step of a walk is as long as this share of the metric's `scale`."""

FEWEST_STEPS, MOST_STEPS = 8, 64
"""Of a walk."""


PIECES = 8
"""Straight edges that measure how far a base has moved, from above."""


class Frames(NamedTuple):
    """Orthonormal frames E of K tangent spaces: EᵀME = 1. They change smoothly from base to
    base."""

    lower: Array
    """(K, d, d): L with M = L Lᵀ; then E = L⁻ᵀ."""

    @staticmethod
    def at(metric: Metric, bases: Array) -> "Frames":
        """The frames at bases (K, d)."""
        return Frames(np.linalg.cholesky(metric.tensor(bases)))

    def read(self, velocity: Array) -> Array:
        """Coordinates u (K, ..., d) of tangent vectors v: u = Lᵀ v, so that |u| is the length of
        v."""
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

    def where(self, which: Array, other: "Tangents") -> "Tangents":
        """These in the mask (K, n), else the other's."""
        return Tangents(
            np.where(which[..., None], self.u, other.u), np.where(which, self.status, other.status)
        )

    @property
    def known(self) -> Array:
        """(K, n): which logarithms were asked for and found."""
        return self.status == Status.CONVERGED

    @property
    def distance(self) -> Array:
        """(K, n)"""
        return np.linalg.norm(self.u, axis=2)


NOT_ASKED = -2
"""The status of a problem that was not asked for."""


class Logarithms:
    """The logarithms of n points at K bases that move: each begins from the last path that was
    found for it."""

    def __init__(self, metric: Metric, points: Array, bases: int, solver: Solver) -> None:
        self.metric, self.points, self.solver = metric, points, solver
        self._lines = np.full((bases, len(points), len(SAMPLES), points.shape[1]), np.nan)

    def at(self, bases: Array, wanted: Array | None = None, fresh: bool = False) -> Tangents:
        """Those of all points, or of the `wanted` (K, n), at bases (K, d); if `fresh`, forgetting
        the last paths."""
        K, (n, d) = len(self._lines), self.points.shape
        k, i = np.nonzero(np.ones((K, n), dtype=bool) if wanted is None else wanted)
        velocity, status = np.full((K, n, d), np.nan), np.full((K, n), NOT_ASKED)
        if not len(k):
            return Tangents(velocity, status)
        known = np.isfinite(self._lines[k, i, 0, 0]) & (not fresh)
        ended = np.full(len(k), NOT_ASKED)
        same = np.all(bases[k] == self.points[i], axis=1)
        velocity[k[same], i[same]], ended[same] = 0.0, Status.CONVERGED
        for tracked in (True, False):
            todo = np.flatnonzero(known & ~same if tracked else ended != Status.CONVERGED)
            for first in range(0, len(todo), solving.BLOCK):
                some = todo[first : first + solving.BLOCK]
                at = k[some], i[some]
                lines, v, ended[some] = (
                    self._track(bases, *at) if tracked else self._find(bases, *at)
                )
                good = ended[some] == Status.CONVERGED
                at = k[some[good]], i[some[good]]
                self._lines[at], velocity[at] = lines[good], v[good]
        status[k, i] = ended
        return Tangents(Frames.at(self.metric, bases).read(velocity), status)

    def stiffness(self, wanted: Array) -> Array:
        """(K, n, d, d): minus the derivative of the momentum M c'(0) by the base, the point held
        fixed; 0 elsewhere.

        The second variation of the energy along the last paths, with all but their starts
        eliminated.
        """
        K, n, _, d = self._lines.shape
        out = np.zeros((K, n, d, d))
        known = wanted & np.isfinite(self._lines[..., 0, 0])
        out[known] = batching.over_curves(
            _stiffness, self.metric, self._lines[known], points=len(SAMPLES)
        )
        return out

    def paths(self) -> Array:
        """The last paths, to be handed back to `restore`."""
        return self._lines.copy()

    def restore(self, which: Array, paths: Array) -> None:
        """Begin from these paths again, for the bases in the mask (K,)."""
        self._lines[which] = paths[which]

    def adopt(self, k: int, other: "Logarithms", j: int) -> None:
        """Remember the paths of another's j-th base as those of the k-th."""
        self._lines[k] = other._lines[j]

    def _track(self, bases: Array, k: Array, i: Array) -> tuple[Array, Array, Array]:
        return self.solver.track(self.metric, bases[k], self.points[i], self._lines[k, i])

    def _find(self, bases: Array, k: Array, i: Array) -> tuple[Array, Array, Array]:
        solution = self.solver.solve(self.metric, bases[k], self.points[i], None)
        return (
            solution.curve.evaluate(SAMPLES),
            initial_velocity(self.metric, solution.curve),
            solution.status,
        )


def _stiffness(metric: Metric, line: Float[JaxArray, "N d"]) -> Any:
    pieces, d = len(line) - 1, line.shape[1]
    around = assemble(metric, line, jnp.full(pieces, 1.0 / pieces))

    def response(axis: Float[JaxArray, " d"]) -> Any:
        moved = jnp.zeros_like(line).at[0].set(axis)
        step, _ = around._replace(gradient=elements.times(around.hessian, moved)).solve(0.0, 0.0)
        return elements.times(around.hessian, moved + step)[
            0, -2
        ]  # the left end of the first element

    return jax.vmap(response)(jnp.eye(d)).T


def walk(metric: Metric, bases: Array, velocity: Array) -> Array:
    """About where the exponential map leads, (K, d): good enough for a step that is then judged by
    where it ends.

    Runge and Kutta's method of order 4 with a few steps, outside of compiled code: nothing is
    compiled for it.
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
    good: Array = np.asarray(np.isfinite(bases).all(axis=1))
    tensors = metric.tensor(bases[good])
    good[good] = np.isfinite(tensors).all(axis=(1, 2))
    good[good] = np.linalg.eigvalsh(metric.tensor(bases[good]))[:, 0] > 0
    return good


def moved_at_most(metric: Metric, before: Array, after: Array) -> Array:
    """No less than the distances between K pairs of points, (K,): the lengths of straight lines."""
    t = np.linspace(0.0, 1.0, PIECES + 1)[:, None, None]
    stops = (1 - t) * before + t * after
    return np.sum([edge_lengths(metric, stops[i], stops[i + 1]) for i in range(PIECES)], axis=0)


def warn_missing(status: Array, what: str) -> None:
    """Warn of logarithms that were asked for and not found."""
    _boundary.warn_unconverged(status[status != NOT_ASKED], what)
