"""What the estimators share: data and metric from the user, progress for people."""

import sys
import time

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from orthodrome import _boundary, solving
from orthodrome._types import Array, ArrayLike, RandomState
from orthodrome.metrics import LocalPCA, Metric


def require_data(estimator: BaseEstimator, X: ArrayLike, least: int = 2) -> tuple[Array, Metric]:
    """The data (n, d) to fit, and the metric: the estimator's own, or a `LocalPCA` learned from
    these data."""
    x: Array = validate_data(
        estimator, _boundary.detached(X, "X"), dtype=np.float64, ensure_min_samples=least
    )
    if estimator.metric is None:
        return x, LocalPCA(x)
    metric = solving.require_metric(estimator.metric)
    _require_on(metric, x)
    return x, metric


def require_queries(estimator: BaseEstimator, X: ArrayLike) -> Array:
    """Points (n, d) for an estimator that was fitted."""
    check_is_fitted(estimator)
    x: Array = validate_data(estimator, _boundary.detached(X, "X"), dtype=np.float64, reset=False)
    _require_on(estimator.metric_, x)
    return x


def require_clusters(n_clusters: int, name: str, X: Array) -> int:
    """How many clusters or components, no more than there are points."""
    count = _boundary.as_count(n_clusters, name, 1)
    if count > len(X):
        raise ValueError(f"n_samples={len(X)} should be at least {name}={count}: ask for fewer.")
    return count


def as_generator(random_state: RandomState) -> np.random.Generator:
    """NumPy's generator from what scikit-learn takes: a number, None, a generator, or a
    RandomState."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.random.default_rng(random_state)


class Progress:
    """Lines on standard error, if they are wanted, and the time since it was made."""

    def __init__(self, show: bool) -> None:
        self.show, self.began = show, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self.began

    def say(self, line: str) -> None:
        """One line."""
        if self.show:
            print(f"{self.seconds:7.1f} s  {line}", file=sys.stderr, flush=True)


def _require_on(metric: Metric, X: Array) -> None:
    metric.require_points(X, "X")
    metric.require_positive(X, "X")
