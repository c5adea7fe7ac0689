"""A metric given by its own formula."""

import equinox as eqx
import jax
import jax.numpy as jnp

from orthodrome import _boundary
from orthodrome._types import Float, JaxArray, Map
from orthodrome.metrics.base import Metric


class MetricTensor(Metric):
    """The metric M(x) = `function(x)`.

    `function` is a pure JAX function of one point `(d,)` that returns a symmetric positive definite
    `(d, d)` array; `dim` is d. The half-plane, for example: `MetricTensor(lambda x: jnp.eye(2) /
    x[1] ** 2, dim=2)`.
    """

    function: Map
    size: int = eqx.field(static=True)

    def __init__(self, function: Map, dim: int) -> None:
        self.function = _boundary.require_callable(function, "function")
        self.size = _boundary.as_count(dim, "dim", 1)
        shape = output_shape(function, self.size, "function")
        if shape != (dim, dim):
            raise ValueError(
                f"function should return shape ({dim}, {dim}) for a point of shape ({dim},); "
                f"{shape} arrived."
            )

    def __repr__(self) -> str:
        return (
            f"MetricTensor({getattr(self.function, '__name__', type(self.function).__name__)}, "
            f"dim={self.size})"
        )

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.size

    def tensor_at(self, x: Float[JaxArray, " d"]) -> Float[JaxArray, "d d"]:
        return jnp.asarray(self.function(x), dtype=x.dtype)


def output_shape(function: Map, dim: int, name: str) -> tuple[int, ...]:
    """The shape that `function` returns for one point of `dim` coordinates, found without computing
    anything."""
    with _boundary.double_precision():
        try:
            out = jax.eval_shape(
                lambda x: jnp.asarray(function(x)), jax.ShapeDtypeStruct((dim,), jnp.float64)
            )
        except Exception as error:
            raise ValueError(
                f"{name} should be a JAX function of one point of shape ({dim},); calling it "
                "raised "
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            ) from error
    return out.shape
