"""Mixtures of locally adaptive normal distributions, and what they are fitted to
(docs/derivations/land.md).

A component has the density exp(−½ uᵀΣ⁻¹u) / C(μ, Σ) with respect to the Riemannian volume, u the
logarithm at its mean μ in an orthonormal frame.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from orthodrome import _boundary
from orthodrome._types import Array
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.statistics.rays import Rays, cast, within_cut
from orthodrome.statistics.tangents import Frames, Tangents

TRUST, STALE = 0.6, 0.3
"""How far Σ may go from the one that rays were cast for: each axis of A by a factor of e to the
first power. Beyond it they see too little; and new ones are cast once it has gone as far as the
second."""


class Components(NamedTuple):
    """K components; the first axis of each array is theirs."""

    means: Array
    """(K, d)"""
    A: Array
    """(K, d, d): Σ = A Aᵀ in the frames."""
    frames: Frames
    log_norm: Array
    """(K,): log C."""

    def log_density(self, u: Array) -> Array:
        """log densities (K, n) with respect to the Riemannian volume; NaN where u (K, n, d) is."""
        z = np.linalg.solve(self.A, u.swapaxes(1, 2))
        return -0.5 * np.sum(z**2, axis=1) - self.log_norm[:, None]

    @property
    def covariances(self) -> Array:
        """(K, d, d), in coordinates: E Σ Eᵀ."""
        spread = self.frames.write(self.A.swapaxes(1, 2))  # rows are E times the columns of A
        return spread.swapaxes(1, 2) @ spread

    def where(self, which: Array, other: "Components") -> "Components":
        """These in the mask (K,), else the other's."""
        pick = lambda a, b: np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)
        return jax.tree.map(pick, self, other)

    def take(self, k: Any) -> "Components":
        """Some of them."""
        return jax.tree.map(lambda leaf: leaf[k], self)

    def rays(self, metric: Metric, omega: Array, exact: bool) -> Rays:
        """Rays in the directions omega (R, d)."""
        return cast(metric, self.means, self.frames.lower, self.A, omega, exact)

    def recast(self, rays: Rays, metric: Metric, omega: Array, exact: bool) -> Rays:
        """Their rays, new ones where Σ has gone far from the one that these were cast for."""
        apart = np.linalg.solve(self.A, rays.A) - np.eye(self.A.shape[1])
        stale = np.abs(apart).max(axis=(1, 2)) > STALE
        return rays.put(stale, self.take(stale).rays(metric, omega, exact)) if stale.any() else rays

    def normalised(self, metric: Metric, omega: Array, exact: bool, solver: Solver) -> "Components":
        """The same ones with other rays, each ended where it is no longer the shortest way (if
        exact)."""
        rays = self.rays(metric, omega, exact)
        _boundary.warn_unconverged(rays.status, "rays of the normalisers")
        if exact:
            rays = within_cut(metric, self.means, rays, solver)
        return self._replace(log_norm=rays.log_integral())


@dataclasses.dataclass
class Mixture:
    """Where EM stands."""

    components: Components
    rays: Rays
    """Of the components, cast for their Σ or for one nearby."""
    weights: Array
    """(K,)"""
    tangents: Tangents
    log_density: Array
    """(n,): of the mixture, with respect to the Riemannian volume; −∞ where no logarithm was
    found."""
    reach: Array
    """(K,): how far a mean may move, in standard deviations."""
    inverse: Array
    """(K, d, d): the inverse Hessians of the costs by the means, as far as they are known."""
    before: Array | None = None
    """(K, d): the means before the last step,"""
    slope: Array | None = None
    """(K, d): and the slopes there."""
    converged: bool = False
    iterations: int = 0
    seconds: list[float] = dataclasses.field(default_factory=list)
    history: list[float] = dataclasses.field(default_factory=list)
    """Mean log densities."""

    @property
    def rank(self) -> tuple[int, float]:
        """What tells the better of two: more points with a density, then the likelihood."""
        return int(np.sum(np.isfinite(self.log_density))), self.log_likelihood

    @property
    def log_likelihood(self) -> float:
        """The mean over all points that have a density."""
        known = np.isfinite(self.log_density)
        return float(np.mean(self.log_density[known])) if known.any() else -np.inf


def joint_density(log_density: Array, weights: Array) -> Array:
    """log (weight times density) (K, n): −∞ where there is no density (NaN), or no weight."""
    with np.errstate(divide="ignore"):
        return np.where(np.isnan(log_density), -np.inf, log_density) + np.log(weights)[:, None]


def responsibilities(log_density: Array, weights: Array) -> tuple[Array, Array]:
    """(K, n), zero where there is no density (NaN), and log densities (n,) of the mixture, −∞ where
    there is none."""
    joint = joint_density(log_density, weights)
    total = logsumexp(joint, axis=0)
    return np.exp(joint - np.where(np.isfinite(total), total, 0.0)), total


def fitted(
    rays: Rays, means: Array, frames: Frames, scatter: Array, which: Array | None = None
) -> tuple[Components, Array]:
    """The best components with these means for data with the scatter (K, d, d), near their rays' Σ,
    and costs (K,).

    With a mask `which` (K,), only of those; the costs of the others are infinite.
    """
    K, A = len(means), rays.A
    which = np.ones(K, dtype=bool) if which is None else which
    log_norm, sharper = np.full(K, np.nan), A.copy()
    white = np.linalg.solve(A, np.linalg.solve(A, scatter).swapaxes(1, 2))  # A⁻¹ scatter A⁻ᵀ
    for k in map(int, np.flatnonzero(which)):
        B = _moment_matching(rays.one(k), white[k])
        log_norm[k] = rays.one(k).log_integral(B[None])[0]
        sharper[k] = np.linalg.solve(B.T, A[k].T).T  # A B⁻¹
    costs = np.where(which, 0.5 * trace(sharper, scatter) + log_norm, np.inf)
    return Components(means, sharper, frames, log_norm), costs


def _moment_matching(rays: Rays, scatter: Array) -> Array:
    """B (d, d), lower triangular, for which zzᵀ has the mean `scatter` (d, d) under the density
    exp(−½|Bz|²).

    It minimises ½ tr(B scatter Bᵀ) + log C(B), which is convex in BᵀB; within the trust region.
    """
    d = len(scatter)
    diagonal, below = np.diag_indices(d), np.tril_indices(d, -1)

    def unpack(x: Array) -> Array:
        B = np.zeros((d, d))
        B[diagonal], B[below] = np.exp(x[:d]), x[d:]
        return B

    def cost(x: Array) -> tuple[float, Array]:
        B = unpack(x)
        slope = B @ (scatter - rays.moments(B[None])[1][0])
        value = 0.5 * np.trace(B @ scatter @ B.T) + rays.log_integral(B[None])[0]
        return float(value), np.concatenate([slope[diagonal] * B[diagonal], slope[below]])

    x = np.zeros(d + len(below[0]))
    return unpack(
        minimize(cost, x, jac=True, method="L-BFGS-B", bounds=[(-TRUST, TRUST)] * len(x)).x
    )


def weighed(tangents: Tangents, r: Array) -> tuple[Array, Array]:
    """Weights (K, n) that sum to one over the logarithms that were found, and these (K, n, d), 0
    elsewhere."""
    w = np.where(tangents.known, r, 0.0)
    total = w.sum(axis=1, keepdims=True)
    return w / np.where(total > 0, total, 1.0), np.where(tangents.known[..., None], tangents.u, 0.0)


def scatter_of(tangents: Tangents, r: Array, ridge: float) -> Array:
    """The mean of u uᵀ (K, d, d)."""
    w, u = weighed(tangents, r)
    return np.einsum("kni,knj->kij", w[..., None] * u, u) + ridge * np.eye(u.shape[2])


def trace(A: Array, scatter: Array) -> Array:
    """tr(Σ⁻¹ scatter) (K,)."""
    return np.trace(np.linalg.solve(A @ A.swapaxes(1, 2), scatter), axis1=1, axis2=2)
