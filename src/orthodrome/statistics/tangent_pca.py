"""Principal geodesics: principal component analysis in the tangent space at the Fréchet mean."""

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from orthodrome import _boundary, maps, solving
from orthodrome._types import Array, ArrayLike
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.statistics import means
from orthodrome.statistics.estimators import require_data, require_queries
from orthodrome.statistics.medoids import medoid
from orthodrome.statistics.tangents import Frames, Logarithms, Tangents, warn_missing


class TangentPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The directions from the Fréchet mean in which the data spread most, along geodesics.

    After `fit`: `mean_` (d,), `components_` (k, d) (velocities at the mean of length one,
    orthogonal in the metric), `explained_variance_` (k,) (mean squares of the coordinates along
    them), `explained_variance_ratio_`, `metric_`, `failed_` (n,) (points whose logarithm was not
    found, which are left out with a warning).
    """

    def __init__(
        self,
        n_components: int | None = None,
        metric: Metric | None = None,
        *,
        tol: float = means.TOL,
        max_iter: int = 100,
        solver: Solver | None = None,
    ) -> None:
        """Settings only; `fit` checks them.

        n_components: how many directions; None for all.
        metric: of the manifold; None learns a `LocalPCA` from the data.
        tol, max_iter: of the Fréchet mean.
        solver: of the logarithms; None means `Auto()`.
        """
        self.n_components = n_components
        self.metric = metric
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver

    def fit(self, X: ArrayLike, y: object = None) -> "TangentPCA":
        """Find mean and directions of data (n, d)."""
        solver = solving.require_solver(self.solver)
        X, metric = require_data(self, X)
        d = X.shape[1]
        count = (
            d
            if self.n_components is None
            else _boundary.as_count(self.n_components, "n_components", 1)
        )
        if count > d:
            raise ValueError(
                f"n_components should be at most the {d} coordinates; {count} arrived."
            )
        tol = _boundary.as_positive(self.tol, "tol")
        steps = _boundary.as_count(self.max_iter, "max_iter", 1)
        logs, w = Logarithms(metric, X, 1, solver), np.full((1, len(X)), 1.0 / len(X))
        centre = means.descend(
            logs, w, medoid(metric, X, w[0])[None], tol, steps, rounds=means.ROUNDS
        )
        means.warn_of_slope(centre, tol)
        warn_missing(centre.tangents.status, "logarithms at the mean")
        u = centre.tangents.u[0][centre.tangents.known[0]]
        _, singular, directions = np.linalg.svd(u, full_matrices=False)
        rank = len(singular)
        directions = (
            np.concatenate([directions, _completed(directions, d)]) if rank < d else directions
        )
        variance = np.zeros(d)
        variance[:rank] = singular**2 / len(u)
        # each direction's largest coordinate is positive, as in scikit-learn
        directions *= np.sign(directions[np.arange(d), np.argmax(np.abs(directions), axis=1)])[
            :, None
        ]
        self.metric_, self.mean_ = metric, centre.points[0]
        self.components_ = Frames.at(metric, centre.points).write(directions[None, :count])[0]
        self.explained_variance_ = variance[:count]
        total = variance.sum()
        self.explained_variance_ratio_ = variance[:count] / (total if total > 0 else 1.0)
        self.failed_ = ~centre.tangents.known[0]
        self.n_iter_ = int(centre.iterations[0])
        self._n_features_out = count
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The coordinates (n, k) of points (n, d) along the components; NaN, with a warning, where
        no logarithm was found."""
        X = require_queries(self, X)
        tangents: Tangents = Logarithms(self.metric_, X, 1, solving.require_solver(self.solver)).at(
            self.mean_[None]
        )
        warn_missing(tangents.status, "logarithms at the mean")
        axes = Frames.at(self.metric_, self.mean_[None]).read(self.components_[None])[0]
        return tangents.u[0] @ axes.T

    def inverse_transform(self, Z: ArrayLike) -> Array:
        """The points (n, d) that geodesics with these coordinates (n, k) lead to."""
        check_is_fitted(self)
        Z = _boundary.as_points(Z, "Z", len(self.components_))
        return maps.exp_map(self.metric_, self.mean_, Z @ self.components_)


def _completed(directions: Array, d: int) -> Array:
    """More directions, so that together they are an orthonormal basis."""
    return np.linalg.svd(directions, full_matrices=True)[2][len(directions) :]
