"""How the energy of a curve becomes numbers: one class for each way, and the choice between
them."""

from orthodrome.discretisation.base import Discretisation, LocalModel
from orthodrome.discretisation.chords import Chords
from orthodrome.discretisation.jets import Jets
from orthodrome.discretisation.matrix_free import MatrixFree
from orthodrome.metrics import Metric

__all__ = ["Chords", "Discretisation", "Jets", "LocalModel", "MatrixFree", "discretise"]

MANY = 32
"""From this dimension on, second variations of a metric with a diagonal tensor are not written
down. To write them costs d² a point and to eliminate them d³ an element, where products with them
cost d; but a product looks at all data again (docs/derivations/energy.md)."""


def discretise(metric: Metric, dim: int) -> Discretisation:
    """How curves on a metric are discretised in so many dimensions: the only place that chooses.

    To add a way, write its class in a file beside this one, and say here when it is taken.
    """
    if metric.embedded:
        return Chords()
    return MatrixFree() if metric.diagonal and dim >= MANY else Jets()
