"""PyTorch's operations that sum: products, means, norms, normalisations, attention."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from orthodrome._types import JaxArray
from orthodrome.torch.archive import Kind
from orthodrome.torch.aten import (
    Dims,
    Table,
    as_kind,
    axes_of,
    entering,
    per_channel,
    plus,
    require_eval,
)

TABLE: Table = {}
operation = entering(TABLE)


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
