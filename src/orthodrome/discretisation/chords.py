"""Curves on embedded surfaces by chords: the energy of the image g(c), from its values at the nodes
alone.

Between the nodes of an element the image is taken for the polynomial through them. With degree 1
that is a polyline in the large space, and the energy Σ ‖g(cₖ₊₁) − g(cₖ)‖² / 2h: no Jacobian is
needed for it, and a leap cannot hide between two points of a quadrature. The order is that of
`elements` (docs/derivations/pullback.md).
"""

import math
from functools import lru_cache
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import elements
from orthodrome._types import Array, Float, JaxArray, Number, Scalar
from orthodrome.discretisation.base import Discretisation
from orthodrome.discretisation.elementwise import ElementwiseModel
from orthodrome.metrics import Metric
from orthodrome.metrics.pullback import in_chunks

Parts = tuple[JaxArray, JaxArray, JaxArray, JaxArray]
"""Of some elements: energy, gradient, and Jacobians and bending terms of the nodes that move."""


class Chords(Discretisation):
    """Gauss–Newton's method on the image of a map, then Newton's: for pullbacks.

    Each point may be a pass through a large network, so meshes are coarser and quadratures less
    exact than where a tensor costs little (docs/derivations/pullback.md).
    """

    search_elements: ClassVar[int] = 8
    polish_elements: ClassVar[int] = 8
    refinement: ClassVar[int] = 4
    panels: ClassVar[int] = 4
    quadrature_share: ClassVar[float] = 1e-2
    approximate: ClassVar[bool] = True
    one_by_one: ClassVar[bool] = True

    def first_mesh(self, rtol: float) -> int:
        """Half as many elements if the length need not be known well."""
        return self.polish_elements if rtol < LAX else self.polish_elements // 2

    def explore(
        self,
        metric: Metric,
        nodes: Float[JaxArray, "N d"],
        widths: Float[JaxArray, " K"],
        curved: Number,
        precise: bool,
    ) -> ElementwiseModel:
        """The energy of the image between the nodes, in single precision where that is enough."""
        return assemble(metric, nodes, widths, metric if precise else metric.rougher(), curved)

    def gradient(
        self, metric: Metric, nodes: Float[JaxArray, "N d"], widths: Float[JaxArray, " K"]
    ) -> Float[JaxArray, "K 2 d"]:
        """By the two ends of each element alone."""
        return pull_at_ends(metric, nodes, widths)


LAX = 1e-3
"""From this tolerance on, half of the elements are enough to begin with."""


@lru_cache
def stiffness(degree: int) -> Array:
    """∫ Φₐ' Φ_b' of the basis of this degree on [0, 1]: (s + 1, s + 1)."""
    rule = elements.basis(degree)
    return rule.slopes.T @ (rule.weights[:, None] * rule.slopes)


def assemble(
    metric: Metric,
    nodes: Float[JaxArray, "N d"],
    widths: Float[JaxArray, " K"],
    rough: Metric,
    curved: Number,
) -> ElementwiseModel:
    """The energy of a curve given by its nodes, with its derivatives; what is always positive is
    Gauss–Newton's part.

    If `curved`: for each node one pass for the value and one with its transpose for the gradient,
    both exact, then d along them for J and for the rest of the second variation. Otherwise only d
    passes, for J; the Hessian is then Gauss–Newton's. What need not be exact, all of it if not
    `curved`, comes from the `rough` metric.
    """
    K, d = len(widths), nodes.shape[-1]
    degree, run = (len(nodes) - 1) // K, K
    while run % 2 == 0 and run * degree + 1 > metric.jacobians_at_once(d):
        run //= 2  # elements whose Jacobians are held at once
    if run == K:  # the ends do not move
        return ElementwiseModel(
            *_of_run(metric, rough, curved, np.arange(1, len(nodes) - 1), nodes, widths)
        )
    first, moving = np.arange(0, K, run)[:, None], np.arange(run * degree + 1)
    runs = nodes[first * degree + moving], widths[first + np.arange(run)]
    energy, *parts = jax.lax.map(lambda one: _of_run(metric, rough, curved, moving, *one), runs)
    return ElementwiseModel(jnp.sum(energy), *(part.reshape(K, *part.shape[2:]) for part in parts))


def _of_run(
    metric: Metric,
    rough: Metric,
    curved: Number,
    moving: Array,
    nodes: Float[JaxArray, "N d"],
    widths: Float[JaxArray, " K"],
) -> Parts:
    """What `ElementwiseModel` says of some elements behind one another, if only the nodes numbered
    `moving` move."""
    K, (N, d) = len(widths), nodes.shape
    corners = (N - 1) // K + 1
    S = jnp.asarray(stiffness(corners - 1)) / widths[:, None, None]
    fixed = np.setdiff1d(np.arange(N), moving)

    def everywhere(some: JaxArray) -> JaxArray:
        size = math.prod(some.shape[1:])
        return jnp.zeros((N, size)).at[moving].set(some.reshape(-1, size))

    def pulled(images: JaxArray) -> tuple[JaxArray, JaxArray]:
        local = _relative(elements.element_nodes(images, K))
        pulls = S @ local
        return 0.5 * jnp.sum(local * pulls), elements.gather(pulls)

    def exactly(nodes: JaxArray) -> Parts:
        images, back = jax.vjp(jax.vmap(metric.embed_at), nodes)
        energy, pull = pulled(images)
        along = lambda x, w: (rough.embed_at(x), jax.vjp(rough.embed_at, x)[1](w)[0])
        J, rest = jax.vmap(jax.jacfwd(along))(nodes[moving], pull[moving])
        return energy, back(pull)[0], J, everywhere(rest)

    def roughly(nodes: JaxArray) -> Parts:
        with_image = lambda x: 2 * (rough.embed_at(x),)
        J, images = in_chunks(
            jax.jacfwd(with_image, has_aux=True), metric.at_once(d), nodes[moving]
        )
        at_ends = jax.vmap(rough.embed_at)(nodes[fixed])
        energy, pull = pulled(everywhere(images).at[fixed].set(at_ends))
        gradient = everywhere(jnp.einsum("nDi,nD->ni", J, pull[moving]))
        return energy, gradient, J, jnp.zeros((N, d * d))

    energy, gradient, J, rest = jax.lax.cond(curved, exactly, roughly, nodes)
    J = elements.element_nodes(everywhere(J.swapaxes(1, 2)), K).reshape(K, corners * d, -1)
    laplacian = J @ J.swapaxes(1, 2) * jnp.repeat(jnp.repeat(S, d, axis=1), d, axis=2)
    rest = elements.deal(rest, K).reshape(K, corners, d, d)
    rest = jnp.einsum("kaij,ab->kaibj", rest, jnp.eye(corners)).reshape(laplacian.shape)
    return energy, elements.deal(gradient, K), laplacian + rest, laplacian


def _relative(images: Float[JaxArray, "*K corners D"]) -> Float[JaxArray, "*K corners D"]:
    """Relative to the left end of its element, short elements far from the origin keep their
    digits."""
    return images - images[..., -2:-1, :]


def pull_at_ends(
    metric: Metric, nodes: Float[JaxArray, "N d"], widths: Float[JaxArray, " K"]
) -> Float[JaxArray, "K 2 d"]:
    """The derivative of the energy of each element by its two ends."""

    def of_element(c: Float[JaxArray, "corners d"], width: Scalar) -> Float[JaxArray, "2 d"]:
        images = jax.vmap(metric.embed_at)(c)
        pull = stiffness(len(c) - 1)[-2:] @ _relative(images) / width
        return jax.vjp(jax.vmap(metric.embed_at), c[-2:])[1](pull)[0]

    local = elements.element_nodes(nodes, len(widths))
    _, corners, d = local.shape
    return in_chunks(of_element, max(1, metric.jacobians_at_once(d) // corners), local, widths)
