"""The Gaussian process of Hennig & Hauberg (2014): a curve given its ends and accelerations with
noise of their own.

Here the noise Λₙ of an observation is not a multiple of the amplitude V, so V does not cancel, and
each problem has a Gram matrix G = K ⊗ V + diag(Λ₁, …, Λ_N) of its own, of N d rows
(docs/derivations/hennig_hauberg.md).
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from orthodrome._types import Array
from orthodrome.curves import Curve, GaussianProcess, Kernel, straight_line
from orthodrome.curves.gp import square_root

BLOCK_NUMBERS = 2**22
"""Numbers of Gram matrices held at once: bounds memory (32 MiB)."""


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyGPCurve(Curve):
    """P curves as posterior means, each of a process of its own."""

    shared: ClassVar[tuple[str, ...]] = ("knots",)
    has_posterior: ClassVar[bool] = True

    knots: Array
    """(N,)"""
    kernel: Kernel
    """Whose lengthscale is each curve's own."""
    noise: float
    """Added to the kernel's Gram matrix, for stability."""
    lengthscale: Array
    """(P,)"""
    start: Array
    """(P, d)"""
    end: Array
    """(P, d)"""
    V: Array
    """(P, d, d): the amplitude."""
    z: Array
    """(P, N, d): the accelerations that were observed."""
    z_noise: Array
    """(P, N, d, d): Λₙ, the covariance with which they were."""
    weights: Array
    """(P, N, d): V G⁻¹ z, the curve is the straight line plus Σₙ k(t, tₙ) times these."""

    @property
    def pieces(self) -> int:
        """Intervals between knots: how finely the curve can bend."""
        return len(self.knots) - 1

    def mesh(self, panels: int) -> Array:
        """Times (panels + 1,) that are evenly spaced as the knots are."""
        return np.linspace(0.0, 1.0, panels + 1)

    def evaluate(self, t: Array, order: int = 0) -> Array:
        """The curve's derivative of this order at the times (T,): (P, T, d)."""
        out = np.array(straight_line(self.start, self.end, t, order))
        for rows, process in self._processes():
            out[rows] += process.prior(t, self.knots, order, 2) @ self.weights[rows]
        return out

    def covariance(self, t: Array, S: Array) -> Array:
        """The posterior covariance of the points at the times (T,): (P, T, d, d)."""
        T, d = t.shape[-1], self.start.shape[1]
        joint = self._covariance(t).reshape(len(self), T, d, T, d)
        # never negative, as rounding may make it at the ends
        root = square_root(np.einsum("ptitj->ptij", joint))
        return root @ root.swapaxes(-1, -2)

    def deviations(self, t: Array, S: Array, noise: Array) -> Array:
        """Standard normal numbers (n, P, T, d) as deviations from the mean that are drawn from the
        posterior."""
        flat = noise.reshape(*noise.shape[:2], -1, 1)
        return (square_root(self._covariance(t)) @ flat).reshape(noise.shape)

    def _covariance(self, t: Array) -> Array:
        """(P, T d, T d)."""
        T, d = t.shape[-1], self.start.shape[1]
        out = np.zeros((len(self), T * d, T * d))
        for rows, process in self._processes():
            between = process.prior(t, self.knots, 0, 2)
            size = max(1, BLOCK_NUMBERS // (len(self.knots) * d) ** 2)
            for some in (rows[i : i + size] for i in range(0, len(rows), size)):
                V = self.V[some]
                cross = kronecker(between, V)
                known = cross @ np.linalg.solve(
                    gram(process, self.knots, V, self.z_noise[some]), cross.swapaxes(1, 2)
                )
                out[some] = kronecker(process.prior(t, t, 0, 0), V) - known
        return out

    def _processes(self) -> Iterator[tuple[Array, GaussianProcess]]:
        """The curves of each lengthscale, and its process."""
        for value in np.unique(self.lengthscale):
            kernel = dataclasses.replace(self.kernel, lengthscale=float(value))
            yield (
                np.flatnonzero(self.lengthscale == value),
                GaussianProcess(self.knots, kernel, self.noise),
            )

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The kernel is a setting, the noise an array."""
        arrays = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        kernel = arrays.pop("kernel")
        return {"kernel": kernel.packed()}, arrays | {"noise": np.asarray(self.noise)}

    @classmethod
    def unpacked(cls, settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The curves, and their kernel."""
        names = {field.name for field in dataclasses.fields(cls)} - {"kernel", "noise"}
        kernel = Kernel.unpacked(settings["kernel"])
        rows = {name: arrays[name] for name in names}
        return cls(kernel=kernel, noise=float(arrays["noise"]), **rows)


def gram(process: GaussianProcess, knots: Array, V: Array, z_noise: Array) -> Array:
    """G = K ⊗ V + diag(Λₙ), the covariance of the accelerations that are observed at the knots
    (m,): (P, m d, m d)."""
    P, m, d = z_noise.shape[:3]
    K = process.prior(knots, knots, 2, 2) + process.noise * np.eye(m)
    G = kronecker(K, V).reshape(P, m, d, m, d)
    n = np.arange(m)
    G[:, n, :, n, :] += z_noise.swapaxes(0, 1)
    return G.reshape(P, m * d, m * d)


def kronecker(K: Array, V: Array) -> Array:
    """K (T, m) ⊗ V (P, d, d), as (P, T d, m d)."""
    P, d = V.shape[:2]
    return np.einsum("tm,pij->ptimj", K, V).reshape(P, K.shape[0] * d, K.shape[1] * d)
