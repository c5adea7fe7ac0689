"""The model of the energy that is written down, element by element, and solved by elimination."""

from typing import NamedTuple

import jax.numpy as jnp

from orthodrome import elements, elimination
from orthodrome._types import Float, JaxArray, Number, Scalar


class ElementwiseModel(NamedTuple):
    """A `LocalModel` whose steps are nodes and whose loads are the elements' own, m = (s + 1) d."""

    energy: Scalar
    gradient: Float[JaxArray, "K corners d"]
    hessian: Float[JaxArray, "K m m"]
    laplacian: Float[JaxArray, "K m m"]
    """The part of the Hessian that is always positive: η ↦ ∫ η'ᵀ M η'."""

    def wave(self) -> Float[JaxArray, "K corners d"]:
        """The load of a wave of size one that has a share in every slow variation."""
        K, corners, d = self.gradient.shape
        u = jnp.linspace(0.0, jnp.pi, K * (corners - 1) + 1)[:, None]
        wave = (jnp.sin(u) + 0.5 * jnp.sin(2 * u)) * jnp.cos(jnp.arange(d))
        return elements.times(self.laplacian, wave) / self.stride(wave)

    def still(self) -> Float[JaxArray, "N d"]:
        """The step that moves nothing."""
        K, corners, d = self.gradient.shape
        return jnp.zeros((K * (corners - 1) + 1, d))

    def solve(
        self, damping: Number, pull: JaxArray | float
    ) -> tuple[Float[JaxArray, "N d"], Scalar]:
        """−(H + damping · B)⁻¹ (gradient − pull), zero at both ends, and the smallest pivot."""
        K, _, d = self.gradient.shape
        load = (pull - self.gradient).reshape(K, -1)
        inside, ends, pivot = elimination.solve(self.hessian + damping * self.laplacian, load, d)
        corners = [inside.reshape(K, -1, d), ends[:-1, None], ends[1:, None]]
        return elements.nodes_of(jnp.concatenate(corners, axis=1)), pivot

    def slope(self, step: Float[JaxArray, "N d"]) -> Scalar:
        """The derivative of the energy along a step."""
        return elements.inner(self.gradient, step)

    def stride(self, step: Float[JaxArray, "N d"]) -> Scalar:
        """The size of a step, as the Laplacian measures it."""
        return jnp.sqrt(elements.inner(elements.times(self.laplacian, step), step))

    def nodes(self, step: Float[JaxArray, "N d"]) -> Float[JaxArray, "N d"]:
        """A step as nodes of a curve: what it is already."""
        return step
