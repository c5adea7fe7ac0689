"""Curves on embedded surfaces by chords: the energy of the image g(c), from its values at the nodes alone.

Between the nodes of an element the image is taken for the polynomial through them. With degree 1 that is a polyline in
the large space, and the energy Σ ‖g(cₖ₊₁) − g(cₖ)‖² / 2h: no Jacobian is needed for it, and a leap cannot hide between
two points of a quadrature. The order is that of `elements` (docs/derivations/pullback.md).
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from orthodrome import elements
from orthodrome.metrics import Metric
from orthodrome.metrics.pullback import in_chunks


@lru_cache
def stiffness(degree: int) -> np.ndarray[Any, Any]:
    """∫ Φₐ' Φ_b' of the basis of this degree on [0, 1]: (s + 1, s + 1)."""
    rule = elements.basis(degree)
    return rule.slopes.T @ (rule.weights[:, None] * rule.slopes)


def assemble(metric: Metric, nodes: Float[Array, "N d"], widths: Float[Array, " K"]) -> elements.Sum:
    """The energy of a curve given by its nodes, with its derivatives; what is always positive is Gauss–Newton's part.

    For each node: one pass for the value, one with its transpose for the gradient, d along them for J and the rest.
    """
    local = elements.element_nodes(nodes, len(widths))
    _, corners, d = local.shape
    S = stiffness(corners - 1)

    def of_element(c: Any, width: Any) -> tuple[Any, Any, Any, Any]:
        energy, pull = _pull(metric, c, width)
        along = lambda x, w: (metric.embed_at(x), jax.vjp(metric.embed_at, x)[1](w)[0])
        J, bent = jax.vmap(jax.jacfwd(along))(c, pull)
        gradient = jnp.einsum("aDi,aD->ai", J, pull)
        flat = J.swapaxes(1, 2).reshape(corners * d, -1)
        gram = (flat @ flat.T).reshape(corners, d, corners, d)
        laplacian = gram * (S / width)[:, None, :, None]
        hessian = laplacian + jnp.einsum("ab,aij->aibj", jnp.eye(corners), bent)
        return energy, gradient, *(h.reshape(corners * d, corners * d) for h in (hessian, laplacian))

    energy, gradient, hessian, laplacian = _over_elements(metric, of_element, local, widths)
    return elements.Sum(jnp.sum(energy), gradient, hessian, laplacian)


def gradient(metric: Metric, nodes: Float[Array, "N d"], widths: Float[Array, " K"]) -> Float[Array, "K corners d"]:
    """The derivative of the energy by the nodes of each element."""

    def of_element(c: Any, width: Any) -> Any:
        _, pull = _pull(metric, c, width)
        return jax.vmap(lambda x, w: jax.vjp(metric.embed_at, x)[1](w)[0])(c, pull)

    return _over_elements(metric, of_element, elements.element_nodes(nodes, len(widths)), widths)


def _pull(metric: Metric, c: Float[Array, "corners d"], width: Any) -> tuple[Any, Any]:
    """The energy of one element's image, and its derivative by the image's nodes (corners, D)."""
    image = jax.vmap(metric.embed_at)(c)
    image = image - image[-2]  # relative to the left end, short elements far from the origin keep their digits
    pull = stiffness(len(c) - 1) @ image / width
    return 0.5 * jnp.sum(image * pull), pull


def _over_elements(metric: Metric, function: Any, local: Any, widths: Any) -> Any:
    _, corners, d = local.shape
    return in_chunks(function, max(1, metric.room(d) // corners), local, widths)
