"""Metrics that a map into a larger space induces: a surface, a decoder, a stochastic generator."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from orthodrome import _boundary
from orthodrome.metrics.base import Metric, solve_positive
from orthodrome.metrics.tensor import output_shape


class Pullback(Metric):
    """The metric M = JᵀJ that a map g: ℝᵈ → ℝᴰ pulls back: a step in x costs what it moves g(x).

    `mean` is a JAX function of one point `(d,)`, with an output of any shape (flattened). With `std`, the pair is a
    stochastic generator y = mean(x) + std(x) ∘ ε, and M = JμᵀJμ + JσᵀJσ is its expected metric (Sec. 4.2 of the paper;
    `std` is the standard deviation, not the variance). That is the pullback of the stacked map (mean, std).

    Both should be pure functions. They are compiled once: weights that live in an object and change later are not seen,
    unless the object is a JAX pytree (an equinox module, or `jax.tree_util.Partial` of a function and its weights).
    """

    mean: Callable[[Any], Any]
    std: Callable[[Any], Any] | None

    def __init__(self, mean: Callable[[Any], Any], std: Callable[[Any], Any] | None = None) -> None:
        self.mean = _boundary.require_callable(mean, "mean")
        self.std = None if std is None else _boundary.require_callable(std, "std")

    @property
    def dim(self) -> None:
        """None: the map decides which points it takes."""
        return None

    def embed_at(self, x: Float[Array, " d"]) -> Float[Array, " D"]:
        """g(x): the map's output, flattened, with the standard deviations stacked beneath it if there are any."""
        maps = [self.mean] if self.std is None else [self.mean, self.std]
        return jnp.concatenate([jnp.ravel(jnp.asarray(g(x), dtype=x.dtype)) for g in maps])

    def tensor_at(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        J = jax.jacfwd(self.embed_at)(x)
        return J.T @ J

    def inner_at(self, x: Float[Array, " d"], u: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, ""]:
        _, push = jax.linearize(self.embed_at, x)
        return push(u) @ push(v)

    def acceleration_at(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """c'' = −M⁻¹ Jᵀ g''[v, v]: d forward passes for J and one of second order (docs/derivations)."""
        J = jax.jacfwd(self.embed_at)(x)
        velocity = lambda y: jax.jvp(self.embed_at, (y,), (v,))[1]
        _, bend = jax.jvp(velocity, (x,), (v,))
        return -solve_positive(J.T @ J, J.T @ bend)

    def require_points(self, value: Any, name: str) -> np.ndarray[Any, Any]:
        points = _boundary.as_points(value, name)
        d = points.shape[-1]
        shapes = [output_shape(g, d, f"the metric's map, given {name},") for g in (self.mean, self.std) if g]
        sizes = [int(np.prod(shape)) for shape in shapes]
        if len(set(sizes)) > 1:
            raise ValueError(f"mean and std should have outputs of the same size; {shapes[0]} and {shapes[1]} arrived.")
        if sum(sizes) < d:
            raise ValueError(
                f"{name} has {d} coordinates and the metric's map has only {sum(sizes)} outputs: the pullback metric "
                f"would not be positive definite; pass points with fewer coordinates."
            )
        return points
