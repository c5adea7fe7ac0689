"""orthodrome: shortest paths, distances and statistics on Riemannian manifolds learned from data.

The public names, in the order of the flow: data → metric → curve → solver → path → maps and
distances → statistics. Each is imported when it is first used, so that `import orthodrome` costs
next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from orthodrome import datasets, gradients, io, models, plotting
    from orthodrome._boundary import ConvergenceWarning
    from orthodrome.baselines import Collocation, HennigHauberg
    from orthodrome.compilation import enable_compilation_cache
    from orthodrome.curves import Matern, SquaredExponential
    from orthodrome.distances import distance, distance_matrix
    from orthodrome.maps import exp_map, geodesic, log_map
    from orthodrome.metrics import LocalPCA, Metric, MetricTensor, Pullback
    from orthodrome.path import Path, shortest_path
    from orthodrome.solvers import Auto, Energy, FixedPoint, Graph, Solver
    from orthodrome.solving import Info
    from orthodrome.statistics import (
        LAND,
        GeodesicKMeans,
        MeanInfo,
        TangentPCA,
        frechet_mean,
        interpolate,
        neighbors,
    )
    from orthodrome.status import Status
    from orthodrome.torch import from_torch

_HOME = {
    "datasets": None,
    "io": None,
    "Metric": "metrics",
    "LocalPCA": "metrics",
    "Pullback": "metrics",
    "MetricTensor": "metrics",
    "from_torch": "torch",
    "models": None,
    "SquaredExponential": "curves",
    "Matern": "curves",
    "Solver": "solvers",
    "Auto": "solvers",
    "Graph": "solvers",
    "Energy": "solvers",
    "FixedPoint": "solvers",
    "HennigHauberg": "baselines",
    "Collocation": "baselines",
    "shortest_path": "path",
    "Path": "path",
    "Status": "status",
    "Info": "solving",
    "ConvergenceWarning": "_boundary",
    "distance": "distances",
    "distance_matrix": "distances",
    "log_map": "maps",
    "exp_map": "maps",
    "geodesic": "maps",
    "gradients": None,
    "frechet_mean": "statistics",
    "MeanInfo": "statistics",
    "interpolate": "statistics",
    "neighbors": "statistics",
    "GeodesicKMeans": "statistics",
    "LAND": "statistics",
    "TangentPCA": "statistics",
    "plotting": None,
    "enable_compilation_cache": "compilation",
}
"""Where each public name lives, as `room` or `room.file`; None for a module of its own."""

__all__ = [
    "LAND",
    "Auto",
    "Collocation",
    "ConvergenceWarning",
    "Energy",
    "FixedPoint",
    "GeodesicKMeans",
    "Graph",
    "HennigHauberg",
    "Info",
    "LocalPCA",
    "Matern",
    "MeanInfo",
    "Metric",
    "MetricTensor",
    "Path",
    "Pullback",
    "Solver",
    "SquaredExponential",
    "Status",
    "TangentPCA",
    "datasets",
    "distance",
    "distance_matrix",
    "enable_compilation_cache",
    "exp_map",
    "frechet_mean",
    "from_torch",
    "geodesic",
    "gradients",
    "interpolate",
    "io",
    "log_map",
    "models",
    "neighbors",
    "plotting",
    "shortest_path",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'orthodrome' has no attribute {name!r}")
    home = _HOME[name]
    module = importlib.import_module(f"orthodrome.{home or name}")
    value = module if home is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
