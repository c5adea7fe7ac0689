"""What training lowers: negative evidence lower bounds, means over a batch."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome._types import JaxArray, Number, PyTree

HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)

LEAST_LOG_STD = -5.0
"""The decoder may not be surer than e⁻⁵ of the data's range: points it hits exactly would make the
loss infinite."""


def gaussian(networks: PyTree, kl_weight: Number, rows: JaxArray, key: JaxArray) -> JaxArray:
    """Of encoder and mean, with one standard deviation for everything."""
    z, divergence = _posterior(networks["encoder"], rows, key)
    log_std = jnp.maximum(networks["log_std"], LEAST_LOG_STD)
    return jnp.mean(
        _negative_log_normal(rows, jax.vmap(networks["mean"])(z), log_std) + kl_weight * divergence
    )


def bernoulli(networks: PyTree, kl_weight: Number, rows: JaxArray, key: JaxArray) -> JaxArray:
    """Of encoder and mean, for data in [0, 1]."""
    z, divergence = _posterior(networks["encoder"], rows, key)
    logits = jax.vmap(dataclasses.replace(networks["mean"], output="linear"))(z)
    surprise = jnp.sum(jax.nn.softplus(logits) - rows * logits, axis=1)
    spread = jnp.mean((rows - jax.nn.sigmoid(logits)) ** 2)
    follow = (
        networks["log_std"] - jax.lax.stop_gradient(0.5 * jnp.log(spread))
    ) ** 2  # where the variance begins
    return jnp.mean(surprise + kl_weight * divergence) + follow


def variance(learned: PyTree, held: PyTree, rows: JaxArray, key: JaxArray) -> JaxArray:
    """Of the standard deviation as a function of the latent point, with encoder and mean held
    fixed."""
    networks, std = held
    z, _ = _posterior(networks["encoder"], rows, key)
    log_std = jnp.log(jax.vmap(std.with_learned(learned))(z))
    return jnp.mean(
        _negative_log_normal(
            rows, jax.vmap(networks["mean"])(z), jnp.maximum(log_std, LEAST_LOG_STD)
        )
    )


def _posterior(encoder: PyTree, rows: JaxArray, key: JaxArray) -> tuple[Any, Any]:
    """A sample of q(z | x) and its divergence from the prior, for each row."""
    mean, log_variance = jnp.split(jax.vmap(encoder)(rows), 2, axis=1)
    z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape, mean.dtype)
    return z, 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - log_variance - 1, axis=1)


def _negative_log_normal(rows: JaxArray, mean: JaxArray, log_std: JaxArray) -> JaxArray:
    return jnp.sum(0.5 * ((rows - mean) * jnp.exp(-log_std)) ** 2 + log_std + HALF_LOG_TAU, axis=1)
