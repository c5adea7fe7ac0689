"""Mixtures of locally adaptive normal distributions: expectation and maximisation (docs/derivations/land.md).

A component has the density exp(−½ uᵀΣ⁻¹u) / C(μ, Σ) with respect to the Riemannian volume, u the logarithm at its mean μ
in an orthonormal frame.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from orthodrome import solving
from orthodrome.metrics import Metric
from orthodrome.solvers import Auto
from orthodrome.statistics import rays
from orthodrome.statistics.estimators import Progress
from orthodrome.statistics.rays import Rays
from orthodrome.statistics.tangents import Frames, Logarithms, Tangents, moved_at_most, usable, walk

Array = np.ndarray[Any, Any]

SHARES = (1.0, 1 / 3, 1 / 9, 0.0)
"""Of the step towards a better mean, those that are tried; with the last one only Σ changes."""

TRUST = 0.6
"""How far Σ may change at once: each axis of A by a factor of e to this power. Further out the rays see too little."""

NEGLIGIBLE = 30.0
"""A component whose log density is so far below the mixture's has no share in a point, and need not be looked at."""

CHANGED = 1e-3
"""A path that is shorter by this share is another path."""

TAIL = 1e-3
"""The end of a ray that holds no more than this share of a ray's usual mass need not be looked at."""


class Components(NamedTuple):
    """K components; the first axis of each array is theirs."""

    means: Array
    """(K, d)"""
    A: Array
    """(K, d, d): Σ = A Aᵀ in the frames."""
    frames: Frames
    rays: Rays
    log_norm: Array
    """(K,): log C."""

    @staticmethod
    def of(metric: Metric, means: Array, A: Array, omega: Array, exact: bool) -> "Components":
        """Components with these means and Σ, their normalisers by rays in the directions omega (R, d)."""
        frames = Frames.at(metric, means)
        found = rays.cast(metric, means, frames.lower, A, omega, exact)
        return Components(means, A, frames, found, found.log_integral())

    def log_density(self, u: Array) -> Array:
        """log densities (K, n) with respect to the Riemannian volume; NaN where u (K, n, d) is."""
        z = np.linalg.solve(self.A, u.swapaxes(1, 2))
        return -0.5 * np.sum(z**2, axis=1) - self.log_norm[:, None]

    @property
    def covariances(self) -> Array:
        """(K, d, d), in coordinates: E Σ Eᵀ."""
        spread = self.frames.write(self.A.swapaxes(1, 2))  # rows are E times the columns of A
        return spread.swapaxes(1, 2) @ spread


@dataclasses.dataclass
class Mixture:
    """Where EM stands."""

    components: Components
    weights: Array
    """(K,)"""
    tangents: Tangents
    bound: Array
    """(K, n): no more than the distances, also of those that were not computed."""
    log_density: Array
    """(n,): of the mixture, with respect to the Riemannian volume; −∞ where no logarithm was found."""
    converged: bool = False
    iterations: int = 0
    seconds: list[float] = dataclasses.field(default_factory=list)
    history: list[float] = dataclasses.field(default_factory=list)
    """Mean log densities."""

    @property
    def log_likelihood(self) -> float:
        """The mean over all points that have a density."""
        known = np.isfinite(self.log_density)
        return float(np.mean(self.log_density[known])) if known.any() else -np.inf


@dataclasses.dataclass(frozen=True)
class Settings:
    """How EM is done."""

    omega: Array
    """(R, d): the directions of the rays."""
    exact: bool
    """Whether the normalisers have the Jacobian of the exponential map in them."""
    ridge: float
    """Added to the diagonal of the scatter."""
    tol: float
    """A mean log-likelihood that grows by less than this has converged."""
    max_iter: int
    max_seconds: float


def responsibilities(log_density: Array, weights: Array) -> tuple[Array, Array]:
    """(K, n), zero where there is no density (NaN), and log densities (n,) of the mixture, −∞ where there is none."""
    with np.errstate(divide="ignore"):
        joint = np.where(np.isnan(log_density), -np.inf, log_density) + np.log(weights)[:, None]
    total = logsumexp(joint, axis=0)
    return np.exp(joint - np.where(np.isfinite(total), total, 0.0)), total


def fit(logs: Logarithms, means: Array, labels: Array, settings: Settings, progress: Progress) -> Mixture:
    """EM from clusters: means (K, d) and labels (n,). The likelihood never falls.

    A maximisation is one step, taken only if it makes the expected likelihood larger: Σ to where its moments are those
    of the data, on the rays that are there, and μ along the geodesic towards the mean of the data it is responsible for.
    When nothing changes any more, all paths are sought anew; if some are shorter than those that were followed, it
    goes on from there.
    """
    metric, K = logs.metric, len(means)
    r = (labels == np.arange(K)[:, None]).astype(float)
    tangents = logs.at(means)
    A = np.linalg.cholesky(_scatter(tangents, r, settings.ridge))
    parts = Components.of(metric, means, A, settings.omega, settings.exact)
    mixture = Mixture(parts, r.sum(axis=1) / r.sum(), tangents, tangents.distance, np.zeros(0))
    r = _expect(mixture, progress)
    while mixture.iterations < settings.max_iter and progress.seconds < settings.max_seconds:
        before = mixture.log_likelihood
        _maximise(mixture, logs, r, settings)
        mixture.iterations += 1
        r = _expect(mixture, progress)
        if mixture.log_likelihood - before < settings.tol:
            fresh = logs.at(mixture.components.means, fresh=True)
            better = mixture.tangents.distance > (1 + CHANGED) * fresh.distance
            mixture.tangents, mixture.bound = fresh, np.fmin(fresh.distance, mixture.bound)
            if not better.any():
                mixture.converged = True
                break
            r = _expect(mixture, progress)
    return mixture


def _expect(mixture: Mixture, progress: Progress) -> Array:
    """Responsibilities (K, n); the mixture notes its likelihood."""
    densities = mixture.components.log_density(mixture.tangents.u)
    r, mixture.log_density = responsibilities(densities, mixture.weights)
    mixture.seconds.append(progress.seconds)
    mixture.history.append(mixture.log_likelihood)
    progress.say(f"EM {mixture.iterations}: mean log-likelihood {mixture.log_likelihood:.6f}")
    return r


def _maximise(mixture: Mixture, logs: Logarithms, r: Array, settings: Settings) -> None:
    """Better weights, and better components, each for itself, where there are any; in place."""
    metric, old, tangents = logs.metric, mixture.components, mixture.tangents
    mixture.weights = r.sum(axis=1) / r.sum()
    scatter = _scatter(tangents, r, settings.ridge)
    cost = 0.5 * _trace(old.A, scatter) + old.log_norm
    z = np.linalg.solve(old.A, scatter)
    z = np.linalg.solve(old.A, z.swapaxes(1, 2))  # A⁻¹ scatter A⁻ᵀ
    B = np.stack([_moment_matching(jax.tree.map(lambda leaf: leaf[[k]], old.rays), z[k]) for k in range(len(r))])  # noqa: B023
    A = np.linalg.cholesky(_square(np.linalg.solve(B, np.eye(len(z[0]))), old.A))
    surplus = _mean(tangents, r) - np.einsum("kij,kj->ki", old.A, old.rays.moments(B)[0])
    velocity, todo = old.frames.write(surplus), np.arange(len(r))
    for share in SHARES:
        means = old.means.copy()
        if share:
            means[todo] = walk(metric, old.means[todo], share * velocity[todo])
            tried = todo[usable(metric, means[todo])]
        else:
            tried = todo
        if not len(tried):
            continue
        parts = Components.of(metric, means[tried], A[tried], settings.omega, settings.exact)
        seen, bound = tangents, mixture.bound
        if share:
            bound = bound - moved_at_most(metric, old.means, means)[:, None]
            wanted = np.zeros(r.shape, dtype=bool)
            wanted[tried] = _may_matter(parts, bound[tried], mixture.log_density) | (r[tried] > np.exp(-NEGLIGIBLE))
            seen = logs.at(means, wanted)
            bound = np.where(seen.found, seen.distance, bound)
        now = jax.tree.map(lambda leaf: leaf[tried], seen)  # noqa: B023
        costs = 0.5 * _trace(parts.A, _scatter(now, r[tried], settings.ridge)) + parts.log_norm
        good = costs < cost[tried]
        mixture.components = _put(mixture.components, tried[good], jax.tree.map(lambda leaf: leaf[good], parts))  # noqa: B023
        mixture.tangents = _put(mixture.tangents, tried[good], jax.tree.map(lambda leaf: leaf[good], now))  # noqa: B023
        mixture.bound = _put(mixture.bound, tried[good], bound[tried[good]])
        todo = np.setdiff1d(todo, tried[good])


def _may_matter(parts: Components, bound: Array, log_density: Array) -> Array:
    """(K, n): whether a component's log density could come near the mixture's, at distances no less than the bound."""
    widest = np.linalg.norm(parts.A, 2, axis=(1, 2))[:, None]
    most = -0.5 * (np.maximum(bound, 0.0) / widest) ** 2 - parts.log_norm[:, None]
    return ~(most < log_density - NEGLIGIBLE)


def _moment_matching(found: Rays, scatter: Array) -> Array:
    """B (d, d), lower triangular, for which zzᵀ has the mean `scatter` (d, d) under the density exp(−½|Bz|²).

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
        slope = B @ (scatter - found.moments(B[None])[1][0])
        value = 0.5 * np.trace(B @ scatter @ B.T) + found.log_integral(B[None])[0]
        return float(value), np.concatenate([slope[diagonal] * B[diagonal], slope[below]])

    x = np.zeros(d + len(below[0]))
    return unpack(minimize(cost, x, jac=True, method="L-BFGS-B", bounds=[(-TRUST, TRUST)] * len(x)).x)


def _weighed(tangents: Tangents, r: Array) -> tuple[Array, Array]:
    """Weights (K, n) that sum to one over the logarithms that were found, and these (K, n, d), 0 elsewhere."""
    w = np.where(tangents.found, r, 0.0)
    total = w.sum(axis=1, keepdims=True)
    return w / np.where(total > 0, total, 1.0), np.where(tangents.found[..., None], tangents.u, 0.0)


def _mean(tangents: Tangents, r: Array) -> Array:
    return np.einsum("kn,kni->ki", *_weighed(tangents, r))


def _scatter(tangents: Tangents, r: Array, ridge: float) -> Array:
    """The mean of u uᵀ (K, d, d)."""
    w, u = _weighed(tangents, r)
    return np.einsum("kni,knj->kij", w[..., None] * u, u) + ridge * np.eye(u.shape[2])


def _trace(A: Array, scatter: Array) -> Array:
    """tr(Σ⁻¹ scatter) (K,)."""
    return np.trace(np.linalg.solve(_square(A), scatter), axis1=1, axis2=2)


def _square(A: Array, by: Array | None = None) -> Array:
    """A Aᵀ, or (by A)(by A)ᵀ."""
    A = A if by is None else by @ A
    return A @ A.swapaxes(1, 2)


def _put(old: Any, index: Array, new: Any) -> Any:
    """The old arrays with some of their rows replaced."""

    def put(a: Array, b: Array) -> Array:
        a = a.copy()
        a[index] = b
        return a

    return jax.tree.map(put, old, new)


def within_cut(metric: Metric, parts: Components) -> Components:
    """The components with every ray ended where it is no longer the shortest way, and log C accordingly.

    Behind the cut locus points are counted that another ray has reached by a shorter way. The paths to the ends of the
    rays' masses tell which rays got there, and halving the others tells where.
    """
    found = parts.rays
    K, R, T, d = found.points.shape
    share = np.exp(found.log_shares() - parts.log_norm[:, None, None]) * R
    rest = np.cumsum(share[..., ::-1], axis=2)[..., ::-1]
    last = np.sum(rest > TAIL, axis=2) - 1  # (K, R); −1 for rays without mass
    radius = np.linalg.norm(np.einsum("kij,krtj->krti", parts.A, found.z), axis=3)

    def shortest(k: Array, r: Array, t: Array) -> Array:
        way = np.empty(len(k))
        for block, _, judged in solving.solve(metric, parts.means[k], found.points[k, r, t], Auto()):
            way[block] = judged.verdict.length
        return ~(way < (1 - CHANGED) * radius[k, r, t])

    k, r = np.nonzero(last >= 0)
    inside, outside = np.full(len(k), -1), last[k, r]  # the last look that is surely inside, and one to be tested
    test, end = outside.copy(), np.full((K, R), T - 1)
    while len(k):
        good = shortest(k, r, test)
        inside, outside = np.where(good, test, inside), np.where(good, outside, test)
        done = outside - inside <= 1
        end[k[done], r[done]] = np.where(inside == last[k, r], T - 1, inside)[done]
        k, r, inside, outside = (array[~done] for array in (k, r, inside, outside))
        test = (inside + outside) // 2
    cut = found._replace(log_weight=np.where(np.arange(T) <= end[..., None], found.log_weight, -np.inf))
    return parts._replace(rays=cut, log_norm=cut.log_integral())
