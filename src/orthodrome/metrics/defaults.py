"""The default σ and ρ of a metric learned from points, chosen so that scaling the
data changes nothing but the scale."""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree

from orthodrome import batching
from orthodrome._types import Array, Float, JaxArray

if TYPE_CHECKING:
    from orthodrome.metrics.local_pca import LocalPCA

NEIGHBOURS = 7
"""The default σ reaches the seventh neighbour of a typical point.

With Gaussian weights that counts some 14 points in two dimensions, enough for a local variance and
few enough to keep the gaps between the arms of the paper's data sets.
"""

RIDGE = 0.1
"""The default ρ, as a fraction of the typical local variance Σ wₙ (xₙ − x)² on the data."""

SIGMA_SAMPLE, RHO_SAMPLE = 10_000, 1000
"""How many of the data the defaults are chosen by, evenly picked, if there are twice as many."""

ALONE = 1e-6
"""A local variance below this fraction of σ² is that of points without neighbours: the rule then
takes σ² itself."""


def choose_sigma(data: Array) -> float:
    """The median, over the data, of the distance to the seventh neighbour that is not the point
    itself."""
    k = min(NEIGHBOURS, len(data) - 1)
    sample = data[:: max(1, len(data) // SIGMA_SAMPLE)]
    distances = np.asarray(cKDTree(data).query(sample, k=k + 1)[0])
    sigma = float(np.median(distances[:, -1]))
    if sigma > 0:
        return sigma
    apart = distances[distances > 0]  # most points are repeated: take the neighbours that differ
    return float(np.median(apart)) if len(apart) else float(np.linalg.norm(np.ptp(data, axis=0)))


def choose_rho(metric: "LocalPCA") -> float:
    """A tenth of the median local variance at the data: small against the metric there, large
    enough to bound it."""
    sample = metric.data[:: max(1, len(metric.data) // RHO_SAMPLE)]
    # a constant column has none of its own
    local = (batching.over_points(_variances, metric, sample) - metric.rho).mean(axis=1)
    typical, reach = float(np.median(local)), float(metric.sigma) ** 2
    return RIDGE * (typical if typical > ALONE * reach else reach)


def _variances(metric: "LocalPCA", x: Float[JaxArray, "m D"]) -> Float[JaxArray, "m D"]:
    return metric.raise_along(x, jnp.ones_like(x))
