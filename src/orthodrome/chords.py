"""Curves on embedded surfaces by chords: the energy of the image g(c), from its values at the nodes
alone.

Between the nodes of an element the image is taken for the polynomial through them. With degree 1
that is a polyline in the large space, and the energy Σ ‖g(cₖ₊₁) − g(cₖ)‖² / 2h: no Jacobian is
needed for it, and a leap cannot hide between two points of a quadrature. The order is that of
`elements` (docs/derivations/pullback.md).
"""

import math
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


def assemble(
    metric: Metric,
    nodes: Float[Array, "N d"],
    widths: Float[Array, " K"],
    rough: Metric,
    curved: Any,
) -> elements.Sum:
    """The energy of a curve given by its nodes, with its derivatives; what is always positive is
    Gauss–Newton's part.

    If `curved`: for each node one pass for the value and one with its transpose for the gradient,
    both exact, then d along them for J and for the rest of the second variation. Otherwise only d
    passes, for J; the Hessian is then Gauss–Newton's. What need not be exact, all of it if not
    `curved`, comes from the `rough` metric.
    """
    K, d = len(widths), nodes.shape[-1]
    degree, run = (len(nodes) - 1) // K, K
    while run % 2 == 0 and run * degree + 1 > metric.room(d):
        run //= 2  # elements whose Jacobians are held at once
    if run == K:  # the ends do not move
        return elements.Sum(
            *_of_run(metric, rough, curved, np.arange(1, len(nodes) - 1), nodes, widths)
        )
    first, moving = np.arange(0, K, run)[:, None], np.arange(run * degree + 1)
    runs = nodes[first * degree + moving], widths[first + np.arange(run)]
    energy, *parts = jax.lax.map(lambda one: _of_run(metric, rough, curved, moving, *one), runs)
    return elements.Sum(jnp.sum(energy), *(part.reshape(K, *part.shape[2:]) for part in parts))


def _of_run(
    metric: Metric,
    rough: Metric,
    curved: Any,
    moving: np.ndarray[Any, Any],
    nodes: Any,
    widths: Any,
) -> tuple[Any, ...]:
    """What `elements.Sum` says of some elements behind one another, if only the nodes numbered
    `moving` move."""
    K, (N, d) = len(widths), nodes.shape
    corners = (N - 1) // K + 1
    S = stiffness(corners - 1) / widths[:, None, None]
    fixed = np.setdiff1d(np.arange(N), moving)

    def everywhere(some: Any) -> Any:
        size = math.prod(some.shape[1:])
        return jnp.zeros((N, size)).at[moving].set(some.reshape(-1, size))

    def pulled(images: Any) -> tuple[Any, Any]:
        local = _relative(elements.element_nodes(images, K))
        pulls = S @ local
        return 0.5 * jnp.sum(local * pulls), elements.gather(pulls)

    def exactly(nodes: Any) -> Any:
        images, back = jax.vjp(jax.vmap(metric.embed_at), nodes)
        energy, pull = pulled(images)
        along = lambda x, w: (rough.embed_at(x), jax.vjp(rough.embed_at, x)[1](w)[0])
        J, rest = jax.vmap(jax.jacfwd(along))(nodes[moving], pull[moving])
        return energy, back(pull)[0], J, everywhere(rest)

    def roughly(nodes: Any) -> Any:
        with_image = lambda x: 2 * (rough.embed_at(x),)
        J, images = in_chunks(
            jax.jacfwd(with_image, has_aux=True), metric.at_once(d), nodes[moving]
        )
        energy, pull = pulled(
            everywhere(images).at[fixed].set(jax.vmap(rough.embed_at)(nodes[fixed]))
        )
        return (
            energy,
            everywhere(jnp.einsum("nDi,nD->ni", J, pull[moving])),
            J,
            jnp.zeros((N, d * d)),
        )

    energy, gradient, J, rest = jax.lax.cond(curved, exactly, roughly, nodes)
    J = elements.element_nodes(everywhere(J.swapaxes(1, 2)), K).reshape(K, corners * d, -1)
    laplacian = J @ J.swapaxes(1, 2) * jnp.repeat(jnp.repeat(S, d, axis=1), d, axis=2)
    rest = elements.deal(rest, K).reshape(K, corners, d, d)
    rest = jnp.einsum("kaij,ab->kaibj", rest, jnp.eye(corners)).reshape(laplacian.shape)
    return energy, elements.deal(gradient, K), laplacian + rest, laplacian


def _relative(images: Float[Array, "*K corners D"]) -> Float[Array, "*K corners D"]:
    """Relative to the left end of its element, short elements far from the origin keep their
    digits."""
    return images - images[..., -2:-1, :]


def pull_at_ends(
    metric: Metric, nodes: Float[Array, "N d"], widths: Float[Array, " K"]
) -> Float[Array, "K 2 d"]:
    """The derivative of the energy of each element by its two ends."""

    def of_element(c: Any, width: Any) -> Any:
        images = jax.vmap(metric.embed_at)(c)
        pull = stiffness(len(c) - 1)[-2:] @ _relative(images) / width
        return jax.vjp(jax.vmap(metric.embed_at), c[-2:])[1](pull)[0]

    local = elements.element_nodes(nodes, len(widths))
    _, corners, d = local.shape
    return in_chunks(of_element, max(1, metric.room(d) // corners), local, widths)
