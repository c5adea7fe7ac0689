"""The Gaussian process of the paper: a curve as the posterior mean given its ends and its
accelerations at the knots.

The amplitude V cancels from the mean (docs/derivations/gaussian_process.md), so the weights depend
only on the mesh, the kernel and the noise: one Cholesky factor serves every problem in every
dimension. Knowing both ends is folded into the kernel first, which leaves the ends exact and the
matrix better conditioned.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg

from orthodrome._types import Array, Index
from orthodrome.curves.base import Curve
from orthodrome.curves.kernels import Kernel
from orthodrome.curves.piecewise import spread_as

SAFE_RCOND = 1e-14
"""A Gram matrix whose smallest and largest eigenvalue are further apart is refused: rounding would
decide it."""

ENDS = np.array([0.0, 1.0])

FAR = 1e3
"""Knots so far outside [0, 1], and from one another, have no covariance with anything in it."""

BLOCK_NUMBERS = 2**22
"""Weights evaluated at once, where each curve has its own: bounds memory (32 MiB)."""


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A scalar process on [0, 1] that knows both its ends and, up to noise, its accelerations at
    the knots."""

    knots: Array
    """(N,), or (P, N): a mesh of its own for each of P curves; those with fewer knots have the rest
    far outside [0, 1], where they matter to nothing (`far_knots`)."""
    kernel: Kernel
    noise: float

    def __post_init__(self) -> None:
        if not self.knots.size:
            return
        eigenvalues = np.linalg.eigvalsh(self._gram)
        smallest, largest = eigenvalues[..., 0].min(), eigenvalues[..., -1].max()
        if not np.all(eigenvalues[..., 0] > SAFE_RCOND * eigenvalues[..., -1]):
            raise ValueError(
                f"a mesh of {self.knots.shape[-1]} knots with noise {self.noise:g} and "
                f"{self.kernel} is not safe: the "
                f"Gram matrix has eigenvalues from {smallest:.1e} to {largest:.1e}. Take more "
                "noise, fewer knots, a "
                "shorter lengthscale or a Matern kernel."
            )

    def prior(self, t: Array, s: Array, t_order: int, s_order: int) -> Array:
        """∂ᵗ∂ˢ of the kernel k̃(t, s) given both ends: (T, S)."""
        k = self.kernel.covariance
        between_ends = np.linalg.solve(k(ENDS, ENDS, 0, 0), k(ENDS, s, 0, s_order))
        return k(t, s, t_order, s_order) - k(t, ENDS, t_order, 0) @ between_ends

    def weights(self, t: Array, order: int) -> Array:
        """W (T, N) such that the posterior mean's derivative is line⁽ᵒʳᵈᵉʳ⁾(t) + W z, z the knots'
        accelerations."""
        W = self._regress(t, order)
        # At the ends W is zero but for rounding, which the accelerations multiply: take the
        # straight line through those errors out, so that the ends are exact.
        left, right = self._end_errors[..., :1, :], self._end_errors[..., 1:, :]
        if order == 0:
            return W - (1 - t)[..., None] * left - t[..., None] * right
        return W - (right - left) if order == 1 else W

    def covariance(self, t: Array, s: Array, t_order: int = 0, s_order: int = 0) -> Array:
        """∂ᵗ∂ˢ of the posterior kernel (T, S), before the amplitude V."""
        return self.prior(t, s, t_order, s_order) - self._regress(t, t_order) @ self.prior(
            self.knots, s, 2, s_order
        )

    def _regress(self, t: Array, order: int) -> Array:
        load = self.prior(t, self.knots, order, 2).swapaxes(-1, -2)
        factor = np.broadcast_to(self._factor, (*load.shape[:-2], *self._factor.shape[-2:]))
        return np.asarray(scipy.linalg.cho_solve((factor, True), load)).swapaxes(-1, -2)

    def evidence_scale(self, z: Array, V: Array) -> Array:
        """The factor on the amplitude V (P, d, d) under which the accelerations z (P, N, d) are
        likeliest: (P,).

        Type-II maximum likelihood: the mean of zᵀ (V ⊗ G)⁻¹ z over all N d numbers, G the knots'
        Gram matrix.
        """
        factor = np.broadcast_to(self._factor, (len(z), *self._factor.shape[-2:]))
        white = np.asarray(scipy.linalg.cho_solve((factor, True), z))
        inside = np.broadcast_to(self.knots <= 1.0, z.shape[:2]).sum(axis=1)
        return np.einsum("pni,pij,pnj->p", z, np.linalg.pinv(V), white) / (inside * z.shape[2])

    def take(self, index: Index) -> "GaussianProcess":
        """The process of some of the curves."""
        return self if self.knots.ndim == 1 else dataclasses.replace(self, knots=self.knots[index])

    @cached_property
    def _gram(self) -> Array:
        return self.prior(self.knots, self.knots, 2, 2) + self.noise * np.eye(self.knots.shape[-1])

    @cached_property
    def _factor(self) -> Array:
        return np.linalg.cholesky(self._gram)

    @cached_property
    def _end_errors(self) -> Array:
        return self._regress(ENDS, 0)


def far_knots(knots: Array, count: int) -> Array:
    """The meshes (P, N) with more knots, `count` in all, that do not matter."""
    extra = FAR * np.arange(1, count - knots.shape[1] + 1)
    return np.concatenate([knots, np.broadcast_to(extra, (len(knots), len(extra)))], axis=1)


@lru_cache(maxsize=64)
def uniform_process(mesh: int, kernel: Kernel, noise: float) -> GaussianProcess:
    """The process on `mesh` evenly spaced knots, both ends included; made once for each setting."""
    return GaussianProcess(np.linspace(0.0, 1.0, mesh), kernel.resolved(mesh), noise)


@dataclasses.dataclass(frozen=True, eq=False)
class GPCurve(Curve):
    """P curves as posterior means of one Gaussian process: eq. (5) of the paper."""

    process: GaussianProcess
    start: Array
    """(P, d)"""
    end: Array
    """(P, d)"""
    z: Array
    """(P, N, d): the accelerations at the knots, which parametrise the curve."""
    calibrated: bool = False
    """Whether the posterior's spread is scaled to what the accelerations make likeliest."""

    has_posterior: ClassVar[bool] = True

    @property
    def pieces(self) -> int:
        """Intervals between knots: how finely the curve can bend."""
        return self.process.knots.shape[-1] - 1

    def mesh(self, panels: int) -> Array:
        """Times (panels + 1,) that are evenly spaced as the knots are, or (P, panels + 1) that
        follow each's own."""
        knots = self.process.knots
        if knots.ndim == 1:
            return np.linspace(0.0, 1.0, panels + 1)
        return spread_as(np.minimum(knots, 1.0), panels)

    def evaluate(self, t: Array, order: int = 0) -> Array:
        """The curve's derivative of this order at the times (T,): (P, T, d)."""
        line = straight_line(self.start, self.end, t, order)
        if self.process.knots.ndim == 1:
            return line + self.process.weights(t, order) @ self.z
        # the weights are each curve's own
        size = max(1, BLOCK_NUMBERS // max(1, t.shape[-1] * self.z.shape[1]))
        blocks = [slice(first, first + size) for first in range(0, len(self), size)]
        times = np.broadcast_to(t, (len(self), t.shape[-1]))
        bends = [
            self.process.take(some).weights(times[some], order) @ self.z[some] for some in blocks
        ]
        return line + np.concatenate(bends) if bends else line

    def covariance(self, t: Array, S: Array) -> Array:
        """The posterior covariance of the points at the times (T,), (P, T, d, d); S (d, d) sets the
        amplitude V."""
        in_time = self.process.covariance(t, t)
        variance = np.diagonal(in_time, axis1=-2, axis2=-1).clip(min=0.0)
        return variance[..., None, None] * self._amplitude(S)[:, None]

    def deviations(self, t: Array, S: Array, noise: Array) -> Array:
        """Standard normal numbers (n, P, T, d) as deviations from the mean that are drawn from the
        posterior."""
        in_time = square_root(self.process.covariance(t, t))
        in_space = square_root(self._amplitude(S))
        return in_time @ noise @ in_space.swapaxes(-1, -2)

    def _amplitude(self, S: Array) -> Array:
        V = amplitude(self.start, self.end, S)
        return self.process.evidence_scale(self.z, V)[:, None, None] * V if self.calibrated else V

    def take(self, index: Index) -> Self:
        """Some of the curves."""
        rows = {name: getattr(self, name)[index] for name in ("start", "end", "z")}
        return dataclasses.replace(self, process=self.process.take(index), **rows)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Several curves behind one another, whose processes differ in their knots at most."""
        first = parts[0]
        process, z = first.process, [part.z for part in parts]
        if process.knots.ndim == 2:  # a mesh for each curve
            most = max(part.z.shape[1] for part in parts)
            knots = np.concatenate([far_knots(part.process.knots, most) for part in parts])
            z = [np.pad(part.z, ((0, 0), (0, most - part.z.shape[1]), (0, 0))) for part in parts]
            process = dataclasses.replace(process, knots=knots)
        start, end = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("start", "end")
        )
        return cls(process, start, end, np.concatenate(z), first.calibrated)

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The process in parts: its kernel is a setting."""
        process = self.process
        arrays = {"knots": process.knots, "noise": np.asarray(process.noise)}
        arrays |= {"start": self.start, "end": self.end, "z": self.z}
        return {"kernel": process.kernel.packed(), "calibrated": self.calibrated}, arrays

    @classmethod
    def unpacked(cls, settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The curves, and their process."""
        kernel = Kernel.unpacked(settings["kernel"])
        process = GaussianProcess(arrays["knots"], kernel, float(arrays["noise"]))
        calibrated = bool(settings["calibrated"])
        return cls(process, arrays["start"], arrays["end"], arrays["z"], calibrated)


def straight_line(start: Array, end: Array, t: Array, order: int) -> Array:
    """m(t) = a + t(b − a), the prior mean, or one of its derivatives: (P, T, d)."""
    step = (end - start)[:, None, :]
    if order == 0:
        # the second half is measured from the end, so that both ends come out exact
        from_end = end[:, None, :] - (1 - t)[..., None] * step
        return np.where(t[..., None] <= 0.5, start[:, None, :] + t[..., None] * step, from_end)
    return np.broadcast_to(
        step if order == 1 else np.zeros_like(step), (len(start), t.shape[-1], start.shape[1])
    )


def amplitude(start: Array, end: Array, S: Array) -> Array:
    """V = [(a−b)ᵀ S (a−b)] · S for each of P curves from a to b: (P, d, d)."""
    step = end - start
    return np.einsum("pi,ij,pj->p", step, S, step)[:, None, None] * S


def square_root(covariance: Array) -> Array:
    """R with R Rᵀ = covariance, for a positive semi-definite one that rounding may have pushed
    slightly below."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(values.clip(min=0.0))[..., None, :]
