"""PyTorch's operations in JAX: what the graph of an exported decoder is made of, under the names
torch gives them.

Each takes and gives arrays with torch's axes (batch, channels, space...) and torch's arguments.
They agree with torch to rounding in value and derivatives, also where a simpler formula would not
(softplus beyond its threshold).
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from orthodrome._types import JaxArray
from orthodrome.torch.archive import Kind

Operation = Callable[..., Any]

Dims = int | Sequence[int] | None
"""Axes that are summed over, or the like; None or () for all of them."""

Sizes = int | Sequence[int]
"""One number for all axes of an image, or one for each."""

Table = dict[str, Operation]
"""By name, without the overload: `aten.add.Tensor` is `add`."""


def entering(table: Table) -> Callable[..., Any]:
    """A decorator that enters a function into the table, under its own name or under others."""

    def operation(*names: str) -> Callable[[Operation], Operation]:
        def enter(function: Operation) -> Operation:
            table.update(dict.fromkeys(names or (function.__name__.rstrip("_"),), function))
            return function

        return enter

    return operation


TABLE: Table = {}
operation = entering(TABLE)


# --- one number at a time ---

TABLE |= {
    "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "exp": jnp.exp,
    "log": jnp.log, "log1p": jnp.log1p, "expm1": jnp.expm1, "sqrt": jnp.sqrt,
    "rsqrt": jax.lax.rsqrt, "neg": jnp.negative, "abs": jnp.abs, "sin": jnp.sin, "cos": jnp.cos,
    "atan": jnp.arctan, "sinh": jnp.sinh, "cosh": jnp.cosh, "erf": jax.lax.erf,
    "square": jnp.square, "reciprocal": jnp.reciprocal, "silu": jax.nn.silu, "pow": jnp.power,
    "log_sigmoid": jax.nn.log_sigmoid, "softsign": jax.nn.soft_sign, "selu": jax.nn.selu,
    "hardsigmoid": jax.nn.hard_sigmoid, "hardswish": jax.nn.hard_swish, "maximum": jnp.maximum,
    "minimum": jnp.minimum, "sign": jnp.sign, "floor": jnp.floor, "ceil": jnp.ceil,
    "asin": jnp.arcsin, "acos": jnp.arccos, "tan": jnp.tan, "erfc": jax.lax.erfc, "exp2": jnp.exp2,
    "log2": jnp.log2, "mul": jnp.multiply, "mm": jnp.matmul, "bmm": jnp.matmul,
    "matmul": jnp.matmul, "logical_not": jnp.logical_not,
    **{name: getattr(operator, name) for name in ("gt", "ge", "lt", "le", "eq", "ne")},
}  # fmt: skip


@operation()
def softplus(x: JaxArray, beta: float = 1.0, threshold: float = 20.0) -> JaxArray:
    straight = beta * x > threshold  # there torch takes x itself
    return jnp.where(straight, x, jnp.log1p(jnp.exp(jnp.where(straight, 0.0, beta * x))) / beta)


@operation()
def mish(x: JaxArray) -> JaxArray:
    return x * jnp.tanh(jax.nn.softplus(x))


@operation()
def gelu(x: JaxArray, approximate: str = "none") -> JaxArray:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@operation()
def elu(x: JaxArray, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> JaxArray:
    below = jnp.expm1(input_scale * jnp.where(x > 0, 0.0, x))
    return scale * jnp.where(x > 0, x, alpha * below)


@operation()
def celu(x: JaxArray, alpha: float = 1.0) -> JaxArray:
    return jax.nn.celu(x, alpha)


@operation()
def leaky_relu(x: JaxArray, slope: float = 0.01) -> JaxArray:
    return jnp.where(x > 0, x, slope * x)


@operation("prelu", "_prelu_kernel")
def prelu(x: JaxArray, slope: JaxArray) -> JaxArray:
    return jnp.where(x > 0, x, per_channel(slope, x.ndim) * x)


# at a kink each takes the side that torch takes: a clamp passes derivatives at its bounds, a hard
# tanh does not


@operation("clamp", "clip")
def clamp(
    x: JaxArray, min: JaxArray | float | None = None, max: JaxArray | float | None = None
) -> JaxArray:
    x = x if min is None else jnp.where(x < min, min, x)
    return x if max is None else jnp.where(x > max, max, x)


@operation()
def clamp_min(x: JaxArray, min: JaxArray | float | None) -> JaxArray:
    return clamp(x, min)


@operation()
def clamp_max(x: JaxArray, max: JaxArray | float | None) -> JaxArray:
    return clamp(x, None, max)


@operation()
def hardtanh(x: JaxArray, low: float = -1.0, high: float = 1.0) -> JaxArray:
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x))


@operation()
def relu6(x: JaxArray) -> JaxArray:
    return hardtanh(x, 0.0, 6.0)


@operation()
def glu(x: JaxArray, dim: int = -1) -> JaxArray:
    value, gate = jnp.split(x, 2, axis=dim)
    return value * jax.nn.sigmoid(gate)


@operation()
def threshold(x: JaxArray, least: float, value: float) -> JaxArray:
    return jnp.where(x > least, x, value)


@operation()
def softshrink(x: JaxArray, width: float = 0.5) -> JaxArray:
    return jnp.where(x > width, x - width, jnp.where(x < -width, x + width, 0.0))


@operation()
def hardshrink(x: JaxArray, width: float = 0.5) -> JaxArray:
    return jnp.where(jnp.abs(x) > width, x, 0.0)


@operation()
def rrelu(
    x: JaxArray, low: float = 1 / 8, high: float = 1 / 3, training: bool = False, *_: object
) -> JaxArray:
    require_eval(training)
    return leaky_relu(x, (low + high) / 2)  # what it is in eval mode


@operation()
def where(condition: JaxArray, x: JaxArray, y: JaxArray) -> JaxArray:
    return jnp.where(condition, x, y)


@operation()
def add(x: JaxArray, y: JaxArray, alpha: float = 1) -> JaxArray:
    return x + alpha * y


@operation()
def sub(x: JaxArray, y: JaxArray, alpha: float = 1) -> JaxArray:
    return x - alpha * y


@operation()
def rsub(x: JaxArray, y: JaxArray, alpha: float = 1) -> JaxArray:
    return y - alpha * x


@operation()
def div(x: JaxArray, y: JaxArray, rounding_mode: str | None = None) -> JaxArray:
    return {None: lambda q: q, "floor": jnp.floor, "trunc": jnp.trunc}[rounding_mode](x / y)


# --- kinds of numbers ---


@operation("to", "_to_copy")
def to(x: JaxArray, *args: Kind | int | None, **kwargs: Kind | None) -> JaxArray:
    kinds = [value for value in (*args, *kwargs.values()) if isinstance(value, Kind)]
    return as_kind(x, kinds[0] if kinds else None)


@operation()
def type_as(x: JaxArray, other: JaxArray) -> JaxArray:
    return x.astype(other.dtype)


def as_kind(x: JaxArray, kind: Kind | None) -> JaxArray:
    """The numbers as truth values, whole numbers or real ones; real ones keep their precision."""
    if kind is None or (kind.name == "float" and jnp.issubdtype(x.dtype, jnp.floating)):
        return x
    return x.astype({"bool": bool, "int": int, "float": float}[kind.name])


def require_eval(training: bool) -> None:
    """Refuse what depends on chance."""
    if training:
        raise NotImplementedError(
            "in training mode it depends on chance: call .eval() on the module and export again."
        )


# --- small things ---


def axes_of(dim: Dims) -> int | tuple[int, ...] | None:
    """Axes as JAX takes them; none at all means all of them."""
    return dim if dim is None or isinstance(dim, int) else tuple(dim) or None


def each(value: Sizes, n: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values if len(values) == n else values * n


def per_channel(values: JaxArray, ndim: int) -> JaxArray:
    return values.reshape(-1, *[1] * (ndim - 2))


def plus(x: JaxArray, bias: JaxArray | None, space: int = 0) -> JaxArray:
    return x if bias is None else x + bias.reshape(-1, *[1] * space)
