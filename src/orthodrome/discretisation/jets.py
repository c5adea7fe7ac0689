"""Elements with jets: the energy and its second variation from those of the metric at Gauss
points."""

import jax.numpy as jnp

from orthodrome import elements
from orthodrome._types import Float, JaxArray, Number
from orthodrome.discretisation.base import Discretisation
from orthodrome.discretisation.elementwise import ElementwiseModel
from orthodrome.metrics import Jet, Metric


class Jets(Discretisation):
    """Newton's method with all second derivatives: for metrics in few dimensions."""

    def explore(
        self,
        metric: Metric,
        nodes: Float[JaxArray, "N d"],
        widths: Float[JaxArray, " K"],
        curved: Number,
        precise: bool,
    ) -> ElementwiseModel:
        """The energy to the second order, whether or not that was asked for: it costs no more."""
        return assemble(metric, nodes, widths)


def assemble(
    metric: Metric, nodes: Float[JaxArray, "N d"], widths: Float[JaxArray, " K"]
) -> ElementwiseModel:
    """The energy ½ ∫ c'ᵀ M c' of a curve given by its nodes, with its derivatives."""
    c, v = elements.at_gauss_points(nodes, widths)
    d = c.shape[-1]
    jet = metric.jet_along(c.reshape(-1, d), v.reshape(-1, d))
    jet = Jet(*(leaf.reshape(*c.shape[:2], *leaf.shape[1:]) for leaf in jet))
    rule = elements.basis(c.shape[1])
    weight = widths[:, None] * rule.weights
    slopes = jnp.asarray(rule.slopes) / widths[:, None, None]
    values = jnp.broadcast_to(rule.values, slopes.shape)
    hessian, laplacian = elements.couple(weight, values, slopes, jet)
    gradient = elements.by_nodes(widths, jet.x, jet.v)
    return ElementwiseModel(jnp.sum(weight * jet.value), gradient, hessian, laplacian)
