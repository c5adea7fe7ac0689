"""Riemannian metrics: what a small step costs at each point. Nothing here knows about solving."""

from orthodrome.metrics.base import Jet, Metric
from orthodrome.metrics.local_pca import LocalPCA
from orthodrome.metrics.pullback import Pullback
from orthodrome.metrics.tensor import MetricTensor

__all__ = ["Jet", "LocalPCA", "Metric", "MetricTensor", "Pullback"]
