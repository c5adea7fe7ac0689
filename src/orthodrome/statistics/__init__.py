"""Statistics on manifolds: means, clusters, densities, principal directions, neighbours,
interpolation."""

from orthodrome.statistics.interpolation import interpolate
from orthodrome.statistics.kmeans import GeodesicKMeans
from orthodrome.statistics.land import LAND
from orthodrome.statistics.means import MeanInfo, frechet_mean
from orthodrome.statistics.neighbours import neighbors
from orthodrome.statistics.tangent_pca import TangentPCA

__all__ = [
    "LAND",
    "GeodesicKMeans",
    "MeanInfo",
    "TangentPCA",
    "frechet_mean",
    "interpolate",
    "neighbors",
]
