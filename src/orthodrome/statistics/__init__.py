"""Statistics on manifolds: means, clusters, densities, principal directions, neighbours."""

from orthodrome.statistics.kmeans import GeodesicKMeans
from orthodrome.statistics.land import LAND
from orthodrome.statistics.means import MeanInfo, frechet_mean

__all__ = ["LAND", "GeodesicKMeans", "MeanInfo", "frechet_mean"]
