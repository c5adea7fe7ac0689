"""The Gaussian process of the paper: a curve as the posterior mean given its ends and its accelerations at the knots.

The amplitude V cancels from the mean (docs/derivations/gaussian_process.md), so the weights depend only on the mesh,
the kernel and the noise: one Cholesky factor serves every problem in every dimension. Knowing both ends is folded into
the kernel first, which leaves the ends exact and the matrix better conditioned.
"""

import dataclasses
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.linalg

from orthodrome.curves.kernels import Kernel

Array = np.ndarray[Any, Any]

SAFE_RCOND = 1e-14
"""A Gram matrix whose smallest and largest eigenvalue are further apart is refused: rounding would decide it."""

ENDS = np.array([0.0, 1.0])


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A scalar process on [0, 1] that knows both its ends and, up to noise, its accelerations at the knots."""

    knots: Array
    kernel: Kernel
    noise: float

    def __post_init__(self) -> None:
        eigenvalues = np.linalg.eigvalsh(self._gram)
        if not eigenvalues[0] > SAFE_RCOND * eigenvalues[-1]:
            raise ValueError(
                f"a mesh of {len(self.knots)} knots with noise {self.noise:g} and {self.kernel} is not safe: the Gram "
                f"matrix has eigenvalues from {eigenvalues[0]:.1e} to {eigenvalues[-1]:.1e}. Take more noise, fewer "
                "knots, a shorter lengthscale or a Matern kernel."
            )

    def prior(self, t: Array, s: Array, t_order: int, s_order: int) -> Array:
        """∂ᵗ∂ˢ of the kernel k̃(t, s) given both ends: (T, S)."""
        between_ends = np.linalg.solve(self._stationary(ENDS, ENDS, 0, 0), self._stationary(ENDS, s, 0, s_order))
        return self._stationary(t, s, t_order, s_order) - self._stationary(t, ENDS, t_order, 0) @ between_ends

    def weights(self, t: Array, order: int) -> Array:
        """W (T, N) such that the posterior mean's derivative is line⁽ᵒʳᵈᵉʳ⁾(t) + W z, z the knots' accelerations."""
        W = self._regress(t, order)
        # At the ends W is zero but for rounding, which the accelerations multiply: take the straight line through
        # those errors out, so that the ends are exact.
        left, right = self._end_errors
        if order == 0:
            return W - (1 - t)[:, None] * left - t[:, None] * right
        return W - (right - left) if order == 1 else W

    def covariance(self, t: Array, s: Array, t_order: int = 0, s_order: int = 0) -> Array:
        """∂ᵗ∂ˢ of the posterior kernel (T, S), before the amplitude V."""
        return self.prior(t, s, t_order, s_order) - self._regress(t, t_order) @ self.prior(self.knots, s, 2, s_order)

    def _stationary(self, t: Array, s: Array, t_order: int, s_order: int) -> Array:
        # d/ds of φ(t − s) changes the sign
        return (-1) ** s_order * self.kernel.derivative(t[:, None] - s[None, :], t_order + s_order)

    def _regress(self, t: Array, order: int) -> Array:
        return scipy.linalg.cho_solve(self._factor, self.prior(t, self.knots, order, 2).T).T

    @cached_property
    def _gram(self) -> Array:
        return self.prior(self.knots, self.knots, 2, 2) + self.noise * np.eye(len(self.knots))

    @cached_property
    def _factor(self) -> Any:
        return scipy.linalg.cho_factor(self._gram, lower=True)

    @cached_property
    def _end_errors(self) -> Array:
        return self._regress(ENDS, 0)


@lru_cache(maxsize=64)
def uniform_process(mesh: int, kernel: Kernel, noise: float) -> GaussianProcess:
    """The process on `mesh` evenly spaced knots, both ends included; made once for each setting."""
    return GaussianProcess(np.linspace(0.0, 1.0, mesh), kernel.resolved(mesh), noise)


@dataclasses.dataclass(frozen=True, eq=False)
class GPCurve:
    """P curves as posterior means of one Gaussian process: eq. (5) of the paper."""

    process: GaussianProcess
    start: Array
    """(P, d)"""
    end: Array
    """(P, d)"""
    z: Array
    """(P, N, d): the accelerations at the knots, which parametrise the curve."""

    @property
    def pieces(self) -> int:
        """Intervals between knots: how finely the curve can bend."""
        return len(self.process.knots) - 1

    def mesh(self, panels: int) -> Array:
        """Evenly spaced times (panels + 1,), the same for all curves."""
        return np.linspace(0.0, 1.0, panels + 1)

    def evaluate(self, t: Array, order: int = 0) -> Array:
        """The curve's derivative of this order at the times (T,): (P, T, d)."""
        return straight_line(self.start, self.end, t, order) + self.process.weights(t, order) @ self.z

    def take(self, index: Any) -> "GPCurve":
        """Some of the curves."""
        return dataclasses.replace(self, start=self.start[index], end=self.end[index], z=self.z[index])

    def __len__(self) -> int:
        return len(self.start)


def straight_line(start: Array, end: Array, t: Array, order: int) -> Array:
    """m(t) = a + t(b − a), the prior mean, or one of its derivatives: (P, T, d)."""
    step = (end - start)[:, None, :]
    if order == 0:
        # the second half is measured from the end, so that both ends come out exact
        from_end = end[:, None, :] - (1 - t)[:, None] * step
        return np.where(t[:, None] <= 0.5, start[:, None, :] + t[:, None] * step, from_end)
    return np.broadcast_to(step if order == 1 else np.zeros_like(step), (len(start), len(t), start.shape[1]))
