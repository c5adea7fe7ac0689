"""K-means with geodesic distances and Fréchet means."""

from typing import NamedTuple

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)

from orthodrome import _boundary, solving
from orthodrome._types import Array, ArrayLike, RandomState
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.statistics import means
from orthodrome.statistics.estimators import (
    Progress,
    as_generator,
    require_clusters,
    require_data,
    require_queries,
)
from orthodrome.statistics.tangents import Logarithms, Tangents, moved_at_most, warn_missing
from orthodrome.status import Status

MEAN_STEPS = 5
"""Steps towards the means between two assignments: they need not be exact before the clusters
are."""


class GeodesicKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """K-means on a manifold: distances along shortest paths, centers that are Fréchet means.

    After `fit`: `cluster_centers_` (K, d), `labels_` (n,), `inertia_` (the sum of squared
    distances), `n_iter_`, `converged_`, `metric_`. A point from which no path to any center was
    found has the label −1, is left out of the means and of the inertia, and is warned about.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        metric: Metric | None = None,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 50,
        tol: float = 1e-4,
        solver: Solver | None = None,
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        """Settings only; `fit` checks them.

        n_clusters: how many.
        metric: on which distances are measured; None learns a `LocalPCA` from the data.
        init: "k-means++" (by geodesic distances), "random" (points of the data), or centers
        (n_clusters, d).
        n_init: beginnings from other seeds; the best one is kept.
        max_iter: assignments, at most, for each beginning.
        tol: the slope, relative to the cluster's spread, at which a center counts as a mean.
        solver: of the paths; None means `Auto()`.
        verbose: a line for each assignment, on standard error.
        random_state: a number for repeatable results.
        """
        self.n_clusters = n_clusters
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> "GeodesicKMeans":
        """Find the clusters of data (n, d)."""
        solver = solving.require_solver(self.solver)
        for name in ("n_init", "max_iter"):
            _boundary.as_count(getattr(self, name), name, 1)
        _boundary.as_positive(self.tol, "tol")
        X, metric = require_data(self, X)
        count = require_clusters(self.n_clusters, "n_clusters", X)
        given = self._require_init(metric, X, count)
        rng, progress = as_generator(self.random_state), Progress(self.verbose)
        best = None
        for _ in range(self.n_init if given is None else 1):
            logs = Logarithms(metric, X, count, solver)
            if given is not None:
                start = given
            elif self.init == "random":
                start = X[rng.choice(len(X), count, replace=False)]
            else:
                start = seed(logs, count, rng, trials=2 + int(np.log(count)))
            clusters = cluster(logs, start, self.tol, self.max_iter, progress)
            best = clusters if best is None or clusters.inertia < best.inertia else best
        assert best is not None
        self.metric_ = metric
        self.cluster_centers_, self.labels_, self.inertia_ = best.centers, best.labels, best.inertia
        self.n_iter_, self.converged_ = best.iterations, best.converged
        self._n_features_out = count
        warn_missing(best.tangents.status, "logarithms at the centers")
        if not best.converged:
            _boundary.warn(
                f"labels or centers still changed after {best.iterations} assignments: raise "
                "max_iter, or tol."
            )
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The nearest center of each point (n, d): (n,)."""
        return nearest(self._tangents(X))[0]

    def transform(self, X: ArrayLike) -> Array:
        """The distances (n, K) of points (n, d) to the centers; NaN, with a warning, where no path
        was found."""
        return self._tangents(X).distance.T

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Minus the sum of squared distances to the nearest centers."""
        return -float(np.sum(nearest(self._tangents(X))[1] ** 2))

    def _tangents(self, X: ArrayLike) -> Tangents:
        X = require_queries(self, X)
        logs = Logarithms(
            self.metric_, X, len(self.cluster_centers_), solving.require_solver(self.solver)
        )
        tangents = logs.at(self.cluster_centers_)
        warn_missing(tangents.status, "paths to the centers")
        return tangents

    def _require_init(self, metric: Metric, X: Array, count: int) -> Array | None:
        if isinstance(self.init, str):
            if self.init not in ("k-means++", "random"):
                raise ValueError(
                    f"init should be 'k-means++', 'random' or centers; {self.init!r} arrived."
                )
            return None
        return require_centers(metric, self.init, "init", (count, X.shape[1]))


def require_centers(metric: Metric, value: ArrayLike, name: str, shape: tuple[int, int]) -> Array:
    """Centers (K, d) to begin with."""
    centers = metric.require_points(value, name)
    if centers.shape != shape:
        raise ValueError(
            f"{name} should have shape {shape}, a row a center; {centers.shape} arrived."
        )
    metric.require_positive(centers, name)
    return centers


def seed(logs: Logarithms, count: int, rng: np.random.Generator, trials: int) -> Array:
    """Centers (count, d) among the points: k-means++.

    Each is the best of a few points that are drawn with probabilities like their squared distances
    from those before.
    """
    x = logs.points
    centers, far = np.empty((count, x.shape[1])), np.full(len(x), np.inf)
    for k in range(count):
        if k == 0:
            chosen = rng.integers(len(x), size=1)
        else:
            mass = np.where(np.isfinite(far), far, 0.0) ** 2
            even = np.full(len(x), 1.0 / len(x))  # more centers than different points
            chosen = rng.choice(len(x), trials, p=mass / mass.sum() if mass.sum() > 0 else even)
            chosen = np.unique(chosen)
        tried = Logarithms(logs.metric, x, len(chosen), logs.solver)
        distance = tried.at(x[chosen]).distance
        nearer = np.fmin(far, np.where(np.isnan(distance), np.inf, distance))
        j = int(np.argmin(np.sum(np.where(np.isfinite(nearer), nearer, 0.0) ** 2, axis=1)))
        centers[k], far = x[chosen[j]], nearer[j]
        logs.adopt(k, tried, j)
    return centers


class Clusters(NamedTuple):
    """K clusters of n points."""

    centers: Array
    labels: Array
    inertia: float
    iterations: int
    converged: bool
    tangents: Tangents


def cluster(
    logs: Logarithms, start: Array, tol: float, max_iter: int, progress: Progress
) -> Clusters:
    """Lloyd's algorithm: assign each point to the nearest center, move the centers to the means,
    until nothing changes.

    A distance is only computed where the center could be the nearest: it is at least the last one
    known minus the distance that the center has moved since (Elkan's bound).
    """
    centers, K = start, len(start)
    tangents = logs.at(centers)
    labels, distance = nearest(tangents)
    bound = np.where(tangents.known, tangents.distance, np.inf)
    converged, iteration = False, 0
    while not converged and iteration < max_iter:
        iteration += 1
        centers, labels = _fill(logs, centers, labels, distance)
        weights = (labels == np.arange(K)[:, None]).astype(float)
        updated = means.descend(logs, weights, centers, tol, MEAN_STEPS)
        bound = bound - moved_at_most(logs.metric, centers, updated.points)[:, None]
        centers, own = updated.points, updated.tangents
        distance = np.where(own.known, own.distance, np.inf).min(axis=0)
        rivals = ~own.known & (bound < distance)
        of_rivals = logs.at(centers, rivals)
        tangents = own.where(own.known, of_rivals)
        bound = np.where(tangents.known, tangents.distance, np.where(rivals, np.inf, bound))
        before = labels
        labels, distance = nearest(tangents)
        progress.say(
            f"k-means {iteration}: inertia {_inertia(distance):.6g}, {np.sum(labels != before)} "
            "labels changed"
        )
        converged = bool(np.all(labels == before) and np.all(updated.status == Status.CONVERGED))
    return Clusters(centers, labels, _inertia(distance), iteration, converged, tangents)


def nearest(tangents: Tangents) -> tuple[Array, Array]:
    """The number of the nearest base and its distance, for each of n points; −1 and NaN where none
    is known."""
    distance = np.where(tangents.known, tangents.distance, np.inf)
    labels = np.argmin(distance, axis=0)
    least = distance.min(axis=0)
    return np.where(np.isfinite(least), labels, -1), np.where(np.isfinite(least), least, np.nan)


def _inertia(distance: Array) -> float:
    return float(np.nansum(distance**2))


def _fill(logs: Logarithms, centers: Array, labels: Array, distance: Array) -> tuple[Array, Array]:
    """A center without points moves to the point that is furthest from its own, as in
    scikit-learn."""
    empty = np.setdiff1d(np.arange(len(centers)), labels)
    if not len(empty):
        return centers, labels
    centers, labels = centers.copy(), labels.copy()
    for k, i in zip(empty, np.argsort(-np.nan_to_num(distance)), strict=False):
        centers[k], labels[i] = logs.points[i], k
    return centers, labels
