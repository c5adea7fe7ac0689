"""LAND: mixtures of locally adaptive normal distributions, the normal distributions of a curved
space."""

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted

from orthodrome import _boundary, maps, solving
from orthodrome._types import Array, ArrayLike, RandomState
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.statistics import em, kmeans, mixture, rays
from orthodrome.statistics.estimators import (
    Progress,
    as_generator,
    require_clusters,
    require_data,
    require_queries,
)
from orthodrome.statistics.medoids import medoids
from orthodrome.statistics.tangents import Logarithms, Tangents, warn_missing

FINER = 2
"""In the end the normalisers are integrated over so many times as many rays."""

MOST_DRAWS = 100
"""Rounds in which points behind the cut locus are drawn again."""

POOL = 8
"""Rays cast for each sample: samples are drawn among their directions."""


class LAND(DensityMixin, ClusterMixin, BaseEstimator):
    """A mixture of locally adaptive normal distributions (Arvanitidis et al., 2016), fitted by
    maximum likelihood.

    A component has the density exp(−½ uᵀΣ⁻¹u) / C(μ, Σ) with respect to the volume of the manifold,
    where u is the logarithm of x at the mean μ in an orthonormal frame. On a flat metric it is a
    Gaussian mixture.

    After `fit`: `weights_` (K,), `means_` (K, d), `covariances_` (K, d, d) of the velocities at the
    means, in the coordinates of the data (EΣEᵀ with `frames_` E), `log_norms_` (log C), `labels_`,
    `lower_bound_` (the mean log density of the data), `converged_`, `n_iter_`, `history_` (seconds
    and mean log density for each iteration), `failed_` (n, K) (logarithms that were not found),
    `metric_`.
    """

    def __init__(
        self,
        n_components: int = 1,
        metric: Metric | None = None,
        *,
        normalizer: str = "riemannian",
        n_rays: int = 128,
        tol: float = 1e-3,
        reg_covar: float = 1e-6,
        max_iter: int = 50,
        max_seconds: float | None = None,
        n_init: int = 1,
        means_init: ArrayLike | None = None,
        failed: str = "omit",
        solver: Solver | None = None,
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        """Settings only; `fit` checks them.

        n_components: how many.
        metric: on which distances are measured; None learns a `LocalPCA` from the data.
        normalizer: "riemannian" has the Jacobian of the exponential map in C, so that densities
            integrate to one; "2016" leaves it out, as the paper of that year did.
        n_rays: directions in which C is integrated. The error of C falls with their number.
        tol: the mean log density has converged when it grows by less than this in an iteration.
        reg_covar: added to the diagonal of each Σ's scatter.
        max_iter, max_seconds: EM ends after so many iterations, or after the iteration in which so
        much time is over.
        n_init: how many of the best clusterings to begin from, at most; the likeliest end is kept.
        means_init: (n_components, d): means to begin with; None looks for them among the data, by
            k-medoids with distances along roads between nearest neighbours.
        failed: what becomes of a point whose logarithm at a mean is not found: "omit" gives it no
            density under that component, and leaves it out of the fit if it has none under any,
            with a warning; "raise" is an error.
        solver: of the logarithms; None means `Auto()`.
        verbose: a line for each iteration, on standard error.
        random_state: a number for repeatable results.
        """
        self.n_components = n_components
        self.metric = metric
        self.normalizer = normalizer
        self.n_rays = n_rays
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_init = n_init
        self.means_init = means_init
        self.failed = failed
        self.solver = solver
        self.verbose = verbose
        self.random_state = random_state

    # --- learning ---

    def fit(self, X: ArrayLike, y: object = None) -> "LAND":
        """Fit the mixture to data (n, d)."""
        solver, exact = self._require_settings()
        X, metric = require_data(self, X)
        count = require_clusters(self.n_components, "n_components", X)
        centers = self._require_centers(metric, X, count)
        rng, progress = as_generator(self.random_state), Progress(self.verbose)
        seed = int(rng.integers(2**31))
        settings = em.Settings(
            omega=rays.directions(self.n_rays, X.shape[1], seed),
            exact=exact,
            ridge=float(self.reg_covar),
            tol=float(self.tol),
            max_iter=self.max_iter,
            max_seconds=np.inf if self.max_seconds is None else float(self.max_seconds),
        )
        best: mixture.Mixture | None = None
        starts = medoids(metric, X, count, rng)[: self.n_init] if centers is None else [centers]
        for start in starts:
            fitted = em.fit(Logarithms(metric, X, count, solver), start, settings, progress)
            if best is None or fitted.rank > best.rank:
                best = fitted
            if progress.seconds > settings.max_seconds:
                break
        assert best is not None
        self._keep(
            best, metric, X, rays.directions(FINER * self.n_rays, X.shape[1], seed), exact, solver
        )
        progress.say(f"done: mean log density {self.lower_bound_:.6f}")
        return self

    def _keep(
        self,
        fitted: mixture.Mixture,
        metric: Metric,
        X: Array,
        omega: Array,
        exact: bool,
        solver: Solver,
    ) -> None:
        parts = fitted.components.normalised(metric, omega, exact, solver)
        self.metric_, self.weights_, self.means_ = metric, fitted.weights, parts.means
        self.covariances_, self.log_norms_ = parts.covariances, parts.log_norm
        self.frames_ = np.linalg.inv(parts.frames.lower).swapaxes(1, 2)
        self.components_ = parts
        r, density = mixture.responsibilities(parts.log_density(fitted.tangents.u), fitted.weights)
        volume = metric.log_volume(X)
        known = np.isfinite(density)
        self.labels_ = np.where(known, np.argmax(r, axis=0), -1)
        self.lower_bound_ = float(np.mean((density + volume)[known])) if known.any() else -np.inf
        self.failed_ = ~fitted.tangents.known.T
        self.n_iter_, self.converged_ = fitted.iterations, fitted.converged
        shift = float(np.mean(volume[known])) if known.any() else 0.0
        self.history_ = {
            "seconds": np.array(fitted.seconds),
            "lower_bound": np.array(fitted.history) + shift,
        }
        self._require_found(fitted.tangents)
        empty = int(np.sum(fitted.weights <= 0))
        if empty:
            _boundary.warn(
                f"{empty} of {len(fitted.weights)} components have no points: ask for fewer, or "
                "begin elsewhere."
            )
        if not fitted.converged:
            _boundary.warn(
                f"the mixture did not converge in {fitted.iterations} iterations: raise max_iter "
                "or max_seconds, or tol."
            )

    # --- using ---

    def score_samples(self, X: ArrayLike) -> Array:
        """log densities (n,) of points (n, d), with respect to the Lebesgue measure of their
        coordinates: summed over a grid of cells, the density gives one. −∞, with a warning, where
        no logarithm was found."""
        X = require_queries(self, X)
        return self._expect(X)[1] + self.metric_.log_volume(X)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean log density of points (n, d)."""
        return float(np.mean(self.score_samples(X)))

    def predict_proba(self, X: ArrayLike) -> Array:
        """The responsibilities (n, K) of the components for points (n, d); NaN, with a warning,
        where none is known."""
        r, density = self._expect(require_queries(self, X))
        return np.where(np.isfinite(density), r, np.nan).T

    def predict(self, X: ArrayLike) -> Array:
        """The likeliest component (n,) for points (n, d); −1, with a warning, where none is
        known."""
        r, density = self._expect(require_queries(self, X))
        return np.where(np.isfinite(density), np.argmax(r, axis=0), -1)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Array, Array]:
        """Points (n_samples, d) drawn from the mixture, and which components they are from.

        Directions are drawn among many rays by their masses, then radii along them. What lies
        behind the cut locus, where another way is shorter, is drawn again.
        """
        check_is_fitted(self)
        count = _boundary.as_count(n_samples, "n_samples", 1)
        rng = as_generator(self.random_state if random_state is None else random_state)
        labels = np.sort(rng.choice(len(self.weights_), count, p=self.weights_))
        points = np.concatenate(
            [self._sample(k, int(np.sum(labels == k)), rng) for k in np.unique(labels)]
        )
        return points, labels

    def bic(self, X: ArrayLike) -> float:
        """The Bayesian information criterion on points (n, d): the lower the better."""
        X = require_queries(self, X)
        return -2 * float(np.sum(self.score_samples(X))) + self._n_parameters * float(
            np.log(len(X))
        )

    def aic(self, X: ArrayLike) -> float:
        """Akaike's information criterion on points (n, d): the lower the better."""
        return -2 * float(np.sum(self.score_samples(X))) + 2 * self._n_parameters

    @property
    def _n_parameters(self) -> int:
        K, d = self.means_.shape
        return K * (d + d * (d + 1) // 2) + K - 1

    def _expect(self, X: Array) -> tuple[Array, Array]:
        """Responsibilities (K, n), and log densities (n,) with respect to the volume of the
        manifold."""
        logs = Logarithms(self.metric_, X, len(self.means_), solving.require_solver(self.solver))
        tangents = logs.at(self.means_)
        self._require_found(tangents)
        return mixture.responsibilities(self.components_.log_density(tangents.u), self.weights_)

    def _sample(self, k: int, count: int, rng: np.random.Generator) -> Array:
        part, solver = self.components_.take([k]), solving.require_solver(self.solver)
        mean, drawn = part.means[0], np.zeros((0, part.means.shape[1]))
        omega = rng.standard_normal((POOL * count + self.n_rays, len(mean)))
        omega /= np.linalg.norm(omega, axis=1, keepdims=True)
        part_rays = part.rays(self.metric_, omega, self.normalizer == "riemannian")
        for _ in range(MOST_DRAWS):
            u = part_rays.draw(count - len(drawn), rng)
            x = maps.exp_map(self.metric_, mean, part.frames.write(u[None])[0])
            reached = np.isfinite(x).all(axis=1)
            x, length = x[reached], np.linalg.norm(u[reached], axis=1)
            inside = rays.is_shortest(
                self.metric_, np.broadcast_to(mean, x.shape), x, length, solver
            )
            drawn = np.concatenate([drawn, x[inside]])
            if len(drawn) == count:
                return drawn
        raise ValueError(
            f"of {count} points only {len(drawn)} were drawn from component {k} in {MOST_DRAWS} "
            "rounds: the solver "
            "finds shorter ways to nearly all of them; try another solver."
        )

    # --- checks ---

    def _require_settings(self) -> tuple[Solver, bool]:
        for name in ("max_iter", "n_init"):
            _boundary.as_count(getattr(self, name), name, 1)
        _boundary.as_count(self.n_rays, "n_rays", 8)
        for name in ("tol", "reg_covar") + (() if self.max_seconds is None else ("max_seconds",)):
            _boundary.as_positive(getattr(self, name), name)
        _boundary.one_of(self.normalizer, "normalizer", ("riemannian", "2016"))
        _boundary.one_of(self.failed, "failed", ("omit", "raise"))
        return solving.require_solver(self.solver), self.normalizer == "riemannian"

    def _require_centers(self, metric: Metric, X: Array, count: int) -> Array | None:
        if self.means_init is None:
            return None
        return kmeans.require_centers(metric, self.means_init, "means_init", (count, X.shape[1]))

    def _require_found(self, tangents: Tangents) -> None:
        lost = int(np.sum(~tangents.known.any(axis=0)))
        if self.failed == "raise" and not tangents.known.all():
            missing = int(np.sum(~tangents.known))
            raise ValueError(
                f"{missing} of {tangents.status.size} logarithms were not found (failed='raise'): "
                "try another solver, "
                "or failed='omit', which gives such points no density under the component."
            )
        warn_missing(
            tangents.status, f"logarithms at the means ({lost} points have no density at all)"
        )
