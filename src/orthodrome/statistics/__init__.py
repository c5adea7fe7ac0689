"""Statistics on manifolds: means, clusters, densities, principal directions, neighbours."""

from orthodrome.statistics.means import MeanInfo, frechet_mean

__all__ = ["MeanInfo", "frechet_mean"]
