"""PyTorch's operations in JAX: what the graph of an exported decoder is made of, under the names
torch gives them.

Each takes and gives arrays with torch's axes (batch, channels, space...) and torch's arguments.
They agree with torch to rounding in value and derivatives, also where a simpler formula would not
(softplus beyond its threshold).
"""

import math
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


# --- sums and norms ---


@operation()
def linear(x: JaxArray, weight: JaxArray, bias: JaxArray | None = None) -> JaxArray:
    return plus(x @ weight.T, bias)


@operation()
def addmm(bias: JaxArray, x: JaxArray, y: JaxArray, beta: float = 1, alpha: float = 1) -> JaxArray:
    return beta * bias + alpha * (x @ y)


@operation()
def einsum(formula: str, operands: Sequence[Any], **_: object) -> JaxArray:
    return jnp.einsum(formula, *operands)


@operation()
def softmax(x: JaxArray, dim: int, dtype: Kind | None = None) -> JaxArray:
    return jax.nn.softmax(x, axis=dim)


@operation()
def log_softmax(x: JaxArray, dim: int, dtype: Kind | None = None) -> JaxArray:
    return jax.nn.log_softmax(x, axis=dim)


@operation()
def mean(
    x: JaxArray, dim: Dims = None, keepdim: bool = False, dtype: Kind | None = None
) -> JaxArray:
    return jnp.mean(as_kind(x, dtype), axis=axes_of(dim), keepdims=keepdim)


@operation()
def sum_(
    x: JaxArray, dim: Dims = None, keepdim: bool = False, dtype: Kind | None = None
) -> JaxArray:
    return jnp.sum(as_kind(x, dtype), axis=axes_of(dim), keepdims=keepdim)


@operation()
def amax(x: JaxArray, dim: Dims = (), keepdim: bool = False) -> JaxArray:
    return jnp.max(x, axis=axes_of(dim), keepdims=keepdim)


@operation()
def amin(x: JaxArray, dim: Dims = (), keepdim: bool = False) -> JaxArray:
    return jnp.min(x, axis=axes_of(dim), keepdims=keepdim)


@operation()
def var(
    x: JaxArray,
    dim: Dims = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> JaxArray:
    if isinstance(dim, bool):  # an overload without axes
        unbiased, dim = dim, None
    freedom = int(unbiased if correction is None else correction)
    return jnp.var(x, axis=axes_of(dim), ddof=freedom, keepdims=keepdim)


@operation()
def linalg_vector_norm(
    x: JaxArray, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: Kind | None = None
) -> JaxArray:
    axes, size = axes_of(dim), jnp.abs(x)
    if math.isinf(ord):
        return (jnp.max if ord > 0 else jnp.min)(size, axis=axes, keepdims=keepdim)
    if ord == 0:
        raise NotImplementedError("a norm of order 0 counts: it has no derivative.")
    total = jnp.sum(size**ord, axis=axes, keepdims=keepdim)
    nothing = total == 0  # its derivative there is zero for torch
    return jnp.where(nothing, 0.0, jnp.where(nothing, 1.0, total) ** (1 / ord))


@operation()
def batch_norm(
    x: JaxArray,
    weight: JaxArray | None,
    bias: JaxArray | None,
    mean: JaxArray | None,
    var: JaxArray | None,
    training: bool,
    _: float,
    eps: float,
    *__: object,
) -> JaxArray:
    if training or mean is None or var is None:
        raise ValueError(
            "batch normalisation over the batch has no meaning for one point: call .eval() on the "
            "module."
        )
    scale = 1 / jnp.sqrt(var + eps) if weight is None else weight / jnp.sqrt(var + eps)
    shift = -mean * scale if bias is None else bias - mean * scale
    return x * per_channel(scale, x.ndim) + per_channel(shift, x.ndim)


@operation()
def layer_norm(
    x: JaxArray,
    shape: Sequence[int],
    weight: JaxArray | None = None,
    bias: JaxArray | None = None,
    eps: float = 1e-5,
    *_: object,
) -> JaxArray:
    out = _standardised(x, tuple(range(-len(shape), 0)), eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


@operation()
def rms_norm(
    x: JaxArray, shape: Sequence[int], weight: JaxArray | None = None, eps: float | None = None
) -> JaxArray:
    axes = tuple(range(-len(shape), 0))
    out = x / jnp.sqrt(
        jnp.mean(x**2, axis=axes, keepdims=True) + (jnp.finfo(x.dtype).eps if eps is None else eps)
    )
    return out if weight is None else out * weight


@operation()
def group_norm(
    x: JaxArray,
    groups: int,
    weight: JaxArray | None = None,
    bias: JaxArray | None = None,
    eps: float = 1e-5,
    *_: object,
) -> JaxArray:
    out = _standardised(x.reshape(len(x), groups, -1), (-1,), eps).reshape(x.shape)
    out = out if weight is None else out * per_channel(weight, x.ndim)
    return out if bias is None else out + per_channel(bias, x.ndim)


@operation()
def instance_norm(
    x: JaxArray,
    weight: JaxArray | None,
    bias: JaxArray | None,
    mean: JaxArray | None,
    var: JaxArray | None,
    own: bool,
    momentum: float,
    eps: float,
    *_: object,
) -> JaxArray:
    if not own:
        return batch_norm(x, weight, bias, mean, var, False, momentum, eps)
    return group_norm(x, x.shape[1], weight, bias, eps)


def _standardised(x: JaxArray, axes: tuple[int, ...], eps: float) -> JaxArray:
    centred = x - jnp.mean(x, axis=axes, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred**2, axis=axes, keepdims=True) + eps)


# --- attention ---


@operation()
def scaled_dot_product_attention(
    q: JaxArray,
    k: JaxArray,
    v: JaxArray,
    mask: JaxArray | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> JaxArray:
    require_eval(dropout > 0)
    if enable_gqa:  # several queries share a key
        k, v = (jnp.repeat(heads, q.shape[-3] // heads.shape[-3], axis=-3) for heads in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        mask = jnp.tril(jnp.ones(scores.shape[-2:], dtype=bool))
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    # a row that sees nothing gives nothing
    nothing = jnp.all(jnp.isneginf(scores), axis=-1, keepdims=True)
    return jnp.where(nothing, 0.0, jax.nn.softmax(jnp.where(nothing, 0.0, scores), axis=-1)) @ v


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
