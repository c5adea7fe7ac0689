"""Expectation and maximisation for mixtures of locally adaptive normal distributions
(docs/derivations/land.md)."""

import dataclasses

import numpy as np
from scipy.special import logsumexp

from orthodrome._types import Array
from orthodrome.statistics.estimators import Progress
from orthodrome.statistics.means import bfgs
from orthodrome.statistics.mixture import (
    Mixture,
    fitted,
    joint_density,
    responsibilities,
    scatter_of,
    trace,
    weighed,
)
from orthodrome.statistics.rays import Rays, cast
from orthodrome.statistics.tangents import NOT_ASKED, Frames, Logarithms, usable, walk

WARM_UP, SETTLED = 8, 0.01
"""Iterations at most in which only weights and Σ change, and the share of points that may still
change sides when they end."""

SHARES = (1.0, 1 / 4, 0.0)
"""Of the step towards a better mean, those that are tried; with the last one only Σ changes."""

REACH = 0.3
"""How many standard deviations a mean may move at once, at most; less where a step has found other
paths than it hoped for."""

STEP, COARSER = 1e-3, 4
"""Steps of the differences that tell the slope of log C, in the smallest standard deviation; every
fourth ray is enough for it."""

AWAY, SEEN, TRIALS, WORTH, HEAD_START = (-0.5, -0.2, 0.2, 0.5), 128, 4, 0.02, 1
"""Standard deviations from the first means to others that are tried, by how many points they are
judged, and after how many iterations; the gain in mean log-likelihood that is worth it; and
iterations of EM before it is believed."""

BETWEEN = 1e-9, 1 - 1e-9
"""The weights of components that are tried."""

NEGLIGIBLE = 12.0
"""A component whose log density is so far below the mixture's has no share in a point, and need not
be asked for."""


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

    @property
    def few(self) -> Array:
        """Some of the directions, for a rough look."""
        return self.omega[::COARSER] if len(self.omega) > COARSER else self.omega


def fit(logs: Logarithms, means: Array, settings: Settings, progress: Progress) -> Mixture:
    """EM from means (K, d). The likelihood never falls, as long as the same points have a density.

    A maximisation is one step, kept only if it makes the expected likelihood larger: a quasi-Newton
    step of the means, and Σ to where its moments are those of the data, on the rays that are there.
    """
    mixture = _begin(logs, means, settings, progress)
    rival_means = (
        _elsewhere(mixture, logs, settings) if progress.seconds < settings.max_seconds else means
    )
    if np.any(rival_means != means):
        rival = Logarithms(logs.metric, logs.points, len(means), logs.solver)
        other = _begin(rival, rival_means, settings, progress)
        for run in ((mixture, logs), (other, rival)):
            _go_on(*run, dataclasses.replace(settings, max_iter=HEAD_START), progress)
        if other.rank > mixture.rank:
            mixture, logs = other, rival
    return _go_on(mixture, logs, settings, progress)


def _go_on(mixture: Mixture, logs: Logarithms, settings: Settings, progress: Progress) -> Mixture:
    """EM, from where the mixture stands."""
    r = _responsibilities(mixture)
    while not mixture.converged and mixture.iterations < settings.max_iter:
        if mixture.iterations and progress.seconds > settings.max_seconds:
            break
        before = mixture.log_likelihood
        _maximise(mixture, logs, r, settings)
        mixture.iterations += 1
        r = _expect(mixture, progress)
        mixture.converged = mixture.log_likelihood - before < settings.tol
    return mixture


def _begin(logs: Logarithms, means: Array, settings: Settings, progress: Progress) -> Mixture:
    """The weights and Σ that suit these means, from the points that are nearest to each, on few
    rays."""
    metric, tangents, frames = logs.metric, logs.at(means), Frames.at(logs.metric, means)
    if not tangents.known.any():
        raise ValueError(
            "no logarithm of any point was found at the first means: try another solver, or "
            "means_init."
        )
    labels = np.argmin(np.where(tangents.known, tangents.distance, np.inf), axis=0)
    r = (labels == np.arange(len(means))[:, None]).astype(float)
    A = np.linalg.cholesky(scatter_of(tangents, r, settings.ridge))
    rays = cast(metric, means, frames.lower, A, settings.few, settings.exact)
    for _ in range(WARM_UP):
        parts, _ = fitted(rays, means, frames, scatter_of(tangents, r, settings.ridge))
        weights = r.sum(axis=1) / r.sum()
        r, _ = responsibilities(parts.log_density(tangents.u), weights)
        changed = np.mean(np.argmax(r, axis=0) != labels)
        labels = np.argmax(r, axis=0)
        progress.say(f"beginning: {changed:.1%} of the points changed sides")
        if changed <= SETTLED:
            break
        rays = parts.recast(rays, metric, settings.few, settings.exact)
    rays = parts.rays(metric, settings.omega, settings.exact)
    parts = parts._replace(log_norm=rays.log_integral())
    mixture = Mixture(
        parts, rays, weights, tangents, np.zeros(0), np.full(len(means), REACH), parts.covariances
    )
    _expect(mixture, progress)
    return mixture


def _expect(mixture: Mixture, progress: Progress) -> Array:
    """Responsibilities (K, n); the mixture notes its likelihood."""
    r = _responsibilities(mixture)
    mixture.seconds.append(progress.seconds)
    mixture.history.append(mixture.log_likelihood)
    progress.say(f"EM {mixture.iterations}: mean log-likelihood {mixture.log_likelihood:.6f}")
    return r


def _responsibilities(mixture: Mixture) -> Array:
    densities = mixture.components.log_density(mixture.tangents.u)
    r, mixture.log_density = responsibilities(densities, mixture.weights)
    return r


def _maximise(mixture: Mixture, logs: Logarithms, r: Array, settings: Settings) -> None:
    """Better weights, and better components, each for itself, where there are any; in place."""
    metric, old, tangents = logs.metric, mixture.components, mixture.tangents
    mixture.weights = r.sum(axis=1) / r.sum()
    scatter = scatter_of(tangents, r, settings.ridge)
    cost = 0.5 * trace(old.A, scatter) + old.log_norm
    unturned = np.linalg.inv(np.linalg.cholesky(scatter))
    mixture.rays = old.recast(mixture.rays, metric, settings.omega, settings.exact)
    paths, step = logs.paths(), _step(mixture, logs, r, settings)
    # look for better means along paths that are followed, which is cheap
    best, means, best_rays = cost, old.means, mixture.rays
    for share in SHARES:
        todo = best >= cost
        trial = old.means.copy()
        trial[todo] = (
            walk(metric, old.means[todo], share * step[todo]) if share else old.means[todo]
        )
        todo[todo] = usable(metric, trial[todo])
        if not todo.any():
            continue
        trial[~todo] = old.means[~todo]
        frames, seen, rays = Frames.at(metric, trial), tangents, mixture.rays
        if share:
            seen = logs.at(trial, todo[:, None] & (r > np.exp(-NEGLIGIBLE)))
        now = scatter_of(seen, r, settings.ridge)
        if share:
            # a new frame may be turned against the old one, and what lay along the data should
            # still do so
            A = np.linalg.cholesky(now) @ unturned @ old.A
            some = cast(
                metric, trial[todo], frames.lower[todo], A[todo], settings.omega, settings.exact
            )
            rays = mixture.rays.put(todo, some)
        _, costs = fitted(rays, trial, frames, now, todo)
        better = todo & (costs < best)
        best, means = np.where(better, costs, best), np.where(better[:, None], trial, means)
        best_rays = rays.where(better, best_rays)
    better = _move(mixture, logs, r, means, best_rays, best < cost, settings)
    free = better & np.any(means != old.means, axis=1)
    logs.restore(~free, paths)
    mixture.reach = np.where(
        ~better,
        mixture.reach / 4,
        np.where(free, np.minimum(2 * mixture.reach, REACH), mixture.reach),
    )


def _move(
    mixture: Mixture,
    logs: Logarithms,
    r: Array,
    means: Array,
    rays: Rays,
    which: Array,
    settings: Settings,
) -> Array:
    """Components in the mask (K,) take these means (K, d), with their rays, if that is better; says
    which do, (K,).

    It is judged by the shortest paths there, found anew, of all points that matter.
    """
    old, tangents = mixture.components, mixture.tangents
    cost = 0.5 * trace(old.A, scatter_of(tangents, r, settings.ridge)) + old.log_norm
    moved = which & np.any(means != old.means, axis=1)
    guess = old.log_density(tangents.u)
    matter = np.maximum(r, responsibilities(guess, mixture.weights)[0]) > np.exp(-NEGLIGIBLE)
    seen = logs.at(means, moved[:, None] & (matter | ~tangents.known), fresh=True)
    seen = seen.where(seen.status != NOT_ASKED, tangents)
    frames = Frames.at(logs.metric, means)
    parts, costs = fitted(rays, means, frames, scatter_of(seen, r, settings.ridge), which)
    # a mean from which fewer points are seen is no better
    lost = np.any(matter & tangents.known & ~seen.known, axis=1)
    better = which & (costs < cost) & ~lost
    mixture.components, mixture.rays = parts.where(better, old), rays.where(better, mixture.rays)
    mixture.tangents = seen.where(np.broadcast_to(better[:, None], r.shape), tangents)
    return better


def _elsewhere(mixture: Mixture, logs: Logarithms, settings: Settings) -> Array:
    """Better means (K, d) on the geodesics along the largest axes, each tried while the other
    components stay.

    A mean's likelihood is rugged, because the ways to far points jump as it moves: no slope leads
    over that.
    """
    metric, parts, (K, d) = logs.metric, mixture.components, mixture.components.means.shape
    _, size, axes = np.linalg.svd(parts.A.swapaxes(1, 2))  # the rows of `axes` are those of Σ
    longest = parts.frames.write(size[:, :1] * axes[:, 0])
    tried = np.array([0.0, *AWAY])
    steps = (tried[:, None] * longest[:, None]).reshape(-1, d)
    repeated = lambda array: np.repeat(array, len(tried), axis=0)
    flat = walk(metric, repeated(parts.means), steps)
    flat = np.where(usable(metric, flat)[:, None], flat, repeated(parts.means))
    likelihood = _if_at(flat, len(tried), mixture, logs, settings).reshape(K, -1)
    best = np.argmax(likelihood, axis=1)
    better = likelihood[np.arange(K), best] > likelihood[:, 0] + WORTH
    return np.where(better[:, None], flat.reshape(K, -1, d)[np.arange(K), best], parts.means)


def _if_at(
    bases: Array, each: int, mixture: Mixture, logs: Logarithms, settings: Settings
) -> Array:
    """About what the mean log-likelihood would be if a component had one of these means (KT, d), T
    = `each` for each component, the first of them its own."""
    metric, parts = logs.metric, mixture.components
    repeated = lambda array: np.repeat(array, each, axis=0)
    some = _evenly(np.flatnonzero(np.isfinite(mixture.log_density)), SEEN)
    joint = joint_density(parts.log_density(mixture.tangents.u)[:, some], mixture.weights)
    own = np.eye(len(joint), dtype=bool)[..., None]
    # (KT, n): all components but the own one
    rest = repeated(logsumexp(np.where(own, -np.inf, joint), axis=1))
    r = repeated(np.exp(joint - logsumexp(joint, axis=0)))
    own_weight = np.clip(repeated(mixture.weights), *BETWEEN)
    tangents = Logarithms(metric, logs.points[some], len(bases), logs.solver).at(bases)
    frames = Frames.at(metric, bases)
    lower = np.linalg.cholesky(scatter_of(tangents, r, settings.ridge))
    A = lower @ np.linalg.solve(repeated(lower[::each]), repeated(parts.A))
    rays = cast(metric, bases, frames.lower, A, settings.few, settings.exact)
    for _ in range(TRIALS):
        trial, _ = fitted(rays, bases, frames, scatter_of(tangents, r, settings.ridge))
        weight = np.clip(r.mean(axis=1), *BETWEEN)
        density = joint_density(trial.log_density(tangents.u), weight)
        total = np.logaddexp(density, rest + np.log((1 - weight) / (1 - own_weight))[:, None])
        r = np.where(
            np.isfinite(total), np.exp(density - np.where(np.isfinite(total), total, 0.0)), 0.0
        )
    return np.mean(total, axis=1)


def _evenly(items: Array, most: int) -> Array:
    """At most so many of the items, evenly picked."""
    return items if len(items) <= most else items[np.linspace(0, len(items) - 1, most).astype(int)]


def _step(mixture: Mixture, logs: Logarithms, r: Array, settings: Settings) -> Array:
    """Quasi-Newton steps (K, d) of the means, within reach."""
    parts = mixture.components
    slope = _slope(mixture, logs, r, settings)
    if (
        mixture.before is not None and mixture.slope is not None
    ):  # what the last step did to the slope
        mixture.inverse = bfgs(
            mixture.inverse, parts.means - mixture.before, slope - mixture.slope, 0.0
        )
    mixture.before, mixture.slope = parts.means, slope
    downhill = np.einsum("ki,kij,kj->k", slope, mixture.inverse, slope) > 0
    mixture.inverse = np.where(downhill[:, None, None], mixture.inverse, parts.covariances)
    step = -np.einsum("kij,kj->ki", mixture.inverse, slope)
    far = np.linalg.norm(
        np.linalg.solve(parts.A, parts.frames.read(step)[..., None])[..., 0], axis=1
    )
    return step / np.maximum(1.0, far / mixture.reach)[:, None]


def _slope(mixture: Mixture, logs: Logarithms, r: Array, settings: Settings) -> Array:
    """The derivative of ½ tr(Σ⁻¹ scatter) + log C by the means (K, d), A held fixed in the frames.

    Of the scatter from the second variation along the paths, as u = L⁻¹p with p the momentum at the
    mean; of log C and of L by small steps.
    """
    metric, parts = logs.metric, mixture.components
    K, d = parts.means.shape
    w, u = weighed(mixture.tangents, r)
    pull = np.linalg.solve(parts.A @ parts.A.swapaxes(1, 2), u.swapaxes(1, 2))  # Σ⁻¹u, (K, d, n)
    # L⁻ᵀΣ⁻¹u, (K, n, d)
    lowered = np.linalg.solve(parts.frames.lower.swapaxes(1, 2), pull).swapaxes(1, 2)
    by_paths = -np.einsum("kn,kni,knij->kj", w, lowered, logs.stiffness(w > np.exp(-NEGLIGIBLE)))
    small = STEP * np.sqrt(np.linalg.eigvalsh(parts.covariances)[:, 0])
    aside = small[:, None, None] * np.concatenate([np.zeros((1, d)), np.eye(d)])
    bases = (parts.means[:, None] + aside).reshape(-1, d)
    lower, A = Frames.at(metric, bases).lower, np.repeat(parts.A, d + 1, axis=0)
    log_norm = cast(metric, bases, lower, A, settings.few, settings.exact).log_integral()
    log_norm, lower = log_norm.reshape(K, d + 1), lower.reshape(K, d + 1, d, d)
    turned = (lower[:, 1:] - lower[:, :1]) / small[:, None, None, None]
    by_frame = -np.einsum("kn,kni,kjia,kna->kj", w, lowered, turned, u, optimize=True)
    return by_paths + by_frame + (log_norm[:, 1:] - log_norm[:, :1]) / small[:, None]
