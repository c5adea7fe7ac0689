"""Mixtures of locally adaptive normal distributions: expectation and maximisation (docs/derivations/land.md).

A component has the density exp(−½ uᵀΣ⁻¹u) / C(μ, Σ) with respect to the Riemannian volume, u the logarithm at its
mean μ in an orthonormal frame.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from orthodrome import _boundary
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.statistics.estimators import Progress
from orthodrome.statistics.means import bfgs
from orthodrome.statistics.rays import Rays, cast, within_cut
from orthodrome.statistics.tangents import NOT_ASKED, Frames, Logarithms, Tangents, usable, walk

Array = np.ndarray[Any, Any]

WARM_UP, SETTLED = 8, 0.01
"""Iterations at most in which only weights and Σ change, and the share of points that may still change sides when they
end."""

SHARES = (1.0, 1 / 4, 0.0)
"""Of the step towards a better mean, those that are tried; with the last one only Σ changes."""

REACH, LEAST_REACH = 0.3, 0.1
"""How many standard deviations a mean may move at once, at first and at last: where a step has found other paths than
it hoped for, the next one is shorter."""

STEP, COARSER = 1e-3, 4
"""Steps of the differences that tell the slope of log C, in the smallest standard deviation; every so manieth ray is
enough for it."""

TRUST, STALE = 0.6, 0.3
"""How far Σ may go from the one that rays were cast for: each axis of A by a factor of e to the first power. Beyond it
they see too little; and new ones are cast once it has gone as far as the second."""

NEGLIGIBLE = 12.0
"""A component whose log density is so far below the mixture's has no share in a point, and need not be looked at."""


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

    def normalised(self, metric: Metric, omega: Array, exact: bool, solver: Solver) -> "Components":
        """The same ones with other rays, each ended where it is no longer the shortest way (if exact)."""
        found = self.rays(metric, omega, exact)
        _boundary.warn_unconverged(found.status, "rays of the normalisers")
        if exact:
            found = within_cut(metric, self.means, found, solver)
        return self._replace(log_norm=found.log_integral())


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
    """(n,): of the mixture, with respect to the Riemannian volume; −∞ where no logarithm was found."""
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


def fit(logs: Logarithms, means: Array, settings: Settings, progress: Progress) -> Mixture:
    """EM from means (K, d). The likelihood never falls.

    A maximisation is one step, kept only if it makes the expected likelihood larger: a quasi-Newton step of the means,
    and Σ to where its moments are those of the data, on the rays that are there.
    """
    mixture = _begin(logs, means, settings, progress)
    r = _expect(mixture, progress)
    while mixture.iterations < settings.max_iter and progress.seconds < settings.max_seconds:
        before, reach = mixture.log_likelihood, mixture.reach
        _maximise(mixture, logs, r, settings)
        mixture.iterations += 1
        r = _expect(mixture, progress)
        shorter_steps_may_help = np.any((mixture.reach < reach) & (mixture.reach >= LEAST_REACH))
        if mixture.log_likelihood - before < settings.tol and not shorter_steps_may_help:
            mixture.converged = True
            break
    return mixture


def _begin(logs: Logarithms, means: Array, settings: Settings, progress: Progress) -> Mixture:
    """The weights and Σ that suit these means, from the points that are nearest to each, on few rays."""
    metric, tangents, frames = logs.metric, logs.at(means), Frames.at(logs.metric, means)
    labels = np.argmin(np.where(tangents.found, tangents.distance, np.inf), axis=0)
    r = (labels == np.arange(len(means))[:, None]).astype(float)
    shape: Array = np.eye(means.shape[1])  # A relative to the scatter's own factor
    for _ in range(WARM_UP):
        scatter = scatter_of(tangents, r, settings.ridge)
        lower = np.linalg.cholesky(scatter)
        found = cast(metric, means, frames.lower, lower @ shape, settings.omega[::COARSER], settings.exact)
        parts, _ = _fitted(found, means, frames, scatter)
        shape, weights = np.linalg.solve(lower, parts.A), r.sum(axis=1) / r.sum()
        r, _ = responsibilities(parts.log_density(tangents.u), weights)
        changed = np.mean(np.argmax(r, axis=0) != labels)
        labels = np.argmax(r, axis=0)
        progress.say(f"beginning: {changed:.1%} of the points changed sides")
        if changed <= SETTLED:
            break
    found = parts.rays(metric, settings.omega, settings.exact)
    parts = parts._replace(log_norm=found.log_integral())
    return Mixture(parts, found, weights, tangents, np.zeros(0), np.full(len(means), REACH), parts.covariances)


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
    scatter = scatter_of(tangents, r, settings.ridge)
    cost = 0.5 * _trace(old.A, scatter) + old.log_norm
    unturned = np.linalg.inv(np.linalg.cholesky(scatter))
    _recast(mixture, metric, settings)
    paths, step = logs.paths(), _step(mixture, logs, r, settings)
    # look for better means along paths that are followed, which is cheap
    best, means, found = cost, old.means, mixture.rays
    for share in SHARES:
        todo = best >= cost
        trial = old.means.copy()
        trial[todo] = walk(metric, old.means[todo], share * step[todo]) if share else old.means[todo]
        todo[todo] = usable(metric, trial[todo])
        if not todo.any():
            continue
        trial[~todo] = old.means[~todo]
        frames, seen, rays = Frames.at(metric, trial), tangents, mixture.rays
        if share:
            seen = logs.at(trial, todo[:, None] & (r > np.exp(-NEGLIGIBLE)))
        now = scatter_of(seen, r, settings.ridge)
        if share:
            # a new frame may be turned against the old one, and what lay along the data should still do so
            A = np.linalg.cholesky(now) @ unturned @ old.A
            some = cast(metric, trial[todo], frames.lower[todo], A[todo], settings.omega, settings.exact)
            rays = mixture.rays.put(todo, some)
        _, costs = _fitted(rays, trial, frames, now, todo)
        better = todo & (costs < best)
        best, means = np.where(better, costs, best), np.where(better[:, None], trial, means)
        found = rays.where(better, found)
    # then make sure of the shortest paths there, where they matter
    todo = best < cost
    moved = todo & np.any(means != old.means, axis=1)
    guess = old.log_density(tangents.u)
    matter = np.maximum(r, responsibilities(guess, mixture.weights)[0]) > np.exp(-NEGLIGIBLE)
    seen = logs.at(means, moved[:, None] & (matter | ~tangents.found), fresh=True)
    seen = seen.where(seen.status != NOT_ASKED, tangents)
    parts, costs = _fitted(found, means, Frames.at(metric, means), scatter_of(seen, r, settings.ridge), todo)
    better = todo & (costs < cost)
    logs.restore(~better, paths)
    mixture.components, mixture.rays = parts.where(better, old), found.where(better, mixture.rays)
    mixture.tangents = seen.where(np.broadcast_to(better[:, None], r.shape), tangents)
    stuck, free = ~better, better & moved
    mixture.reach = np.where(
        stuck, mixture.reach / 4, np.where(free, np.minimum(2 * mixture.reach, REACH), mixture.reach)
    )


def _recast(mixture: Mixture, metric: Metric, settings: Settings) -> None:
    """New rays where Σ has gone far from the one they were cast for."""
    parts = mixture.components
    apart = np.linalg.solve(parts.A, mixture.rays.A) - np.eye(parts.A.shape[1])
    stale = np.abs(apart).max(axis=(1, 2)) > STALE
    if stale.any():
        mixture.rays = mixture.rays.put(stale, parts.take(stale).rays(metric, settings.omega, settings.exact))


def _step(mixture: Mixture, logs: Logarithms, r: Array, settings: Settings) -> Array:
    """Quasi-Newton steps (K, d) of the means, within reach."""
    parts = mixture.components
    slope = _slope(mixture, logs, r, settings)
    if mixture.before is not None and mixture.slope is not None:  # what the last step did to the slope
        mixture.inverse = bfgs(mixture.inverse, parts.means - mixture.before, slope - mixture.slope, 0.0)
    mixture.before, mixture.slope = parts.means, slope
    downhill = np.einsum("ki,kij,kj->k", slope, mixture.inverse, slope) > 0
    mixture.inverse = np.where(downhill[:, None, None], mixture.inverse, parts.covariances)
    step = -np.einsum("kij,kj->ki", mixture.inverse, slope)
    far = np.linalg.norm(np.linalg.solve(parts.A, parts.frames.read(step)[..., None])[..., 0], axis=1)
    return step / np.maximum(1.0, far / mixture.reach)[:, None]


def _slope(mixture: Mixture, logs: Logarithms, r: Array, settings: Settings) -> Array:
    """The derivative of ½ tr(Σ⁻¹ scatter) + log C by the means (K, d), A held fixed in the frames.

    Of the scatter from the second variation along the paths, as u = L⁻¹p with p the momentum at the mean; of log C and
    of L by small steps.
    """
    metric, parts = logs.metric, mixture.components
    K, d = parts.means.shape
    w, u = _weighed(mixture.tangents, r)
    pull = np.linalg.solve(parts.A @ parts.A.swapaxes(1, 2), u.swapaxes(1, 2))  # Σ⁻¹u, (K, d, n)
    lowered = np.linalg.solve(parts.frames.lower.swapaxes(1, 2), pull).swapaxes(1, 2)  # L⁻ᵀΣ⁻¹u, (K, n, d)
    by_paths = -np.einsum("kn,kni,knij->kj", w, lowered, logs.stiffness(w > np.exp(-NEGLIGIBLE)))
    small = STEP * np.sqrt(np.linalg.eigvalsh(parts.covariances)[:, 0])
    aside = small[:, None, None] * np.concatenate([np.zeros((1, d)), np.eye(d)])
    bases = (parts.means[:, None] + aside).reshape(-1, d)
    lower, A = Frames.at(metric, bases).lower, np.repeat(parts.A, d + 1, axis=0)
    log_norm = cast(metric, bases, lower, A, settings.omega[::COARSER], settings.exact).log_integral()
    log_norm, lower = log_norm.reshape(K, d + 1), lower.reshape(K, d + 1, d, d)
    turned = (lower[:, 1:] - lower[:, :1]) / small[:, None, None, None]
    by_frame = -np.einsum("kn,kni,kjia,kna->kj", w, lowered, turned, u, optimize=True)
    return by_paths + by_frame + (log_norm[:, 1:] - log_norm[:, :1]) / small[:, None]


def _fitted(
    found: Rays, means: Array, frames: Frames, scatter: Array, which: Array | None = None
) -> tuple[Components, Array]:
    """The best components with these means for data with the scatter (K, d, d), near their rays' Σ, and costs (K,).

    With a mask `which` (K,), only of those; the costs of the others are infinite.
    """
    K, A = len(means), found.A
    which = np.ones(K, dtype=bool) if which is None else which
    log_norm, sharper = np.full(K, np.nan), A.copy()
    white = np.linalg.solve(A, np.linalg.solve(A, scatter).swapaxes(1, 2))  # A⁻¹ scatter A⁻ᵀ
    for k in map(int, np.flatnonzero(which)):
        B = _moment_matching(found.one(k), white[k])
        log_norm[k] = found.one(k).log_integral(B[None])[0]
        sharper[k] = np.linalg.solve(B.T, A[k].T).T  # A B⁻¹
    costs = np.where(which, 0.5 * _trace(sharper, scatter) + log_norm, np.inf)
    return Components(means, sharper, frames, log_norm), costs


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
    """The mean of u (K, d)."""
    return np.einsum("kn,kni->ki", *_weighed(tangents, r))


def scatter_of(tangents: Tangents, r: Array, ridge: float) -> Array:
    """The mean of u uᵀ (K, d, d)."""
    w, u = _weighed(tangents, r)
    return np.einsum("kni,knj->kij", w[..., None] * u, u) + ridge * np.eye(u.shape[2])


def _trace(A: Array, scatter: Array) -> Array:
    """tr(Σ⁻¹ scatter) (K,)."""
    return np.trace(np.linalg.solve(A @ A.swapaxes(1, 2), scatter), axis1=1, axis2=2)
