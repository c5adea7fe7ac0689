"""The networks of a variational autoencoder: functions of one point, in plain JAX, whose weights
are their leaves."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from orthodrome._types import JaxArray

ACTIVATIONS = {
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "linear": lambda x: x,
}
"""By name, so that a network can be written to a file, and two of the same shape share their
compiled code."""


class MLP(eqx.Module):
    """Linear layers with an activation between them, and another after the last."""

    weights: list[Any]
    biases: list[Any]
    activation: str = eqx.field(static=True)
    output: str = eqx.field(static=True)

    @classmethod
    def random(cls, key: JaxArray, sizes: Sequence[int], activation: str, output: str) -> "MLP":
        """Layers of these sizes, with Glorot's weights."""
        keys = jax.random.split(key, len(sizes) - 1)
        spread = [(2.0 / (into + out)) ** 0.5 for into, out in pairwise(sizes)]
        shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        weights = [
            s * jax.random.normal(k, shape)
            for k, s, shape in zip(keys, spread, shapes, strict=True)
        ]
        return cls(weights, [jnp.zeros(out) for out in sizes[1:]], activation, output)

    def __call__(self, x: Float[Array, " a"]) -> Float[Array, " b"]:
        """The network's output for one point."""
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            last = i == len(self.weights) - 1
            weight, bias = (jnp.asarray(leaf, x.dtype) for leaf in (weight, bias))
            x = ACTIVATIONS[self.output if last else self.activation](weight @ x + bias)
        return x


class Encoder(eqx.Module):
    """x ↦ mean and log variance of q(z | x), for data in their own units."""

    network: MLP
    center: Any
    scale: Any

    def __call__(self, x: Float[Array, " D"]) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """The posterior of one point."""
        mean, log_variance = jnp.split(self.network((x - self.center) / self.scale), 2)
        return mean, log_variance


class Mean(eqx.Module):
    """z ↦ the mean of p(x | z): a network in the box that the data fill, moved and stretched to
    their own units."""

    concurrent: ClassVar[bool] = True

    network: MLP
    center: Any
    scale: Any

    @property
    def dim(self) -> int:
        """d: the number of latent coordinates."""
        return self.network.weights[0].shape[1]

    def __call__(self, z: Float[Array, " d"]) -> Float[Array, " D"]:
        """The decoder's mean at one latent point."""
        return jnp.asarray(self.center, z.dtype) + jnp.asarray(self.scale, z.dtype) * self.network(
            z
        )


class NetworkStd(eqx.Module):
    """z ↦ the standard deviation of p(x | z), by a network. Far from the data it says nothing in
    particular."""

    concurrent: ClassVar[bool] = True

    network: MLP
    scale: Any

    @property
    def learned(self) -> MLP:
        """What training changes."""
        return self.network

    def with_learned(self, learned: MLP) -> "NetworkStd":
        """The same with something else learned."""
        return NetworkStd(learned, self.scale)

    def __call__(self, z: Float[Array, " d"]) -> Float[Array, " D"]:
        """The decoder's standard deviation at one latent point."""
        return jnp.asarray(self.scale, z.dtype) * jnp.exp(self.network(z))


class RBFStd(eqx.Module):
    """z ↦ the standard deviation of p(x | z), large away from the data (Arvanitidis et al. 2018).

    The precision β(z) = W φ(z) + ζ is a sum of bumps φₖ(z) = exp(−λₖ ‖z − cₖ‖²) around centres
    among the latent codes, with positive weights W; σ = β^(−½). Beyond the bumps only the floor ζ
    is left.
    """

    concurrent: ClassVar[bool] = True

    centers: Any
    """(K, d)"""
    decays: Any
    """λ: (K,)"""
    weights: Any
    """W: (D, K)"""
    floor: Any
    """ζ"""
    scale: Any

    @property
    def learned(self) -> Any:
        """What training changes: the logarithms of the weights, which keeps these positive."""
        return jnp.log(self.weights)

    def with_learned(self, learned: JaxArray) -> "RBFStd":
        """The same with something else learned."""
        return RBFStd(self.centers, self.decays, jnp.exp(learned), self.floor, self.scale)

    def __call__(self, z: Float[Array, " d"]) -> Float[Array, " D"]:
        """The decoder's standard deviation at one latent point."""
        centers, decays, weights, floor, scale = (
            jnp.asarray(leaf, z.dtype)
            for leaf in (self.centers, self.decays, self.weights, self.floor, self.scale)
        )
        bumps = jnp.exp(-decays * jnp.sum((z - centers) ** 2, axis=1))
        return scale / jnp.sqrt(weights @ bumps + floor)
