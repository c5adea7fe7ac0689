"""PyTorch's operations that only move numbers about, or make new ones: views, joins, cuts,
constants."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from orthodrome._types import AnyArray, JaxArray
from orthodrome.torch.archive import Kind
from orthodrome.torch.aten import Dims, Sizes, Table, as_kind, entering, require_eval

TABLE: Table = {}
operation = entering(TABLE)


@operation("contiguous", "clone", "alias", "lift_fresh_copy", "_assert_tensor_metadata")
def same(x: JaxArray, *_: object, **__: object) -> JaxArray:
    return x


@operation("detach")
def detach(x: JaxArray) -> JaxArray:
    return jax.lax.stop_gradient(x)


@operation("dropout", "feature_dropout", "alpha_dropout")
def dropout(x: JaxArray, share: float, training: bool) -> JaxArray:
    require_eval(training)
    return x


@operation("view", "reshape", "_unsafe_view")
def reshape(x: JaxArray, shape: Sequence[int]) -> JaxArray:
    return x.reshape(shape)


@operation()
def flatten(x: JaxArray, first: int = 0, last: int = -1) -> JaxArray:
    first, last = first % x.ndim, last % x.ndim
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


@operation()
def unflatten(x: JaxArray, dim: int, sizes: Sequence[int]) -> JaxArray:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


@operation()
def unsqueeze(x: JaxArray, dim: int) -> JaxArray:
    return jnp.expand_dims(x, dim)


@operation()
def squeeze(x: JaxArray, dim: Dims = None) -> JaxArray:
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return jnp.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))


@operation()
def permute(x: JaxArray, dims: Sequence[int]) -> JaxArray:
    return jnp.transpose(x, dims)


@operation("transpose", "swapaxes")
def transpose(x: JaxArray, one: int, other: int) -> JaxArray:
    return jnp.swapaxes(x, one, other)


@operation("t", "numpy_T")
def turn(x: JaxArray) -> JaxArray:
    return x.T


@operation()
def expand(x: JaxArray, shape: Sequence[int], implicit: bool = False) -> JaxArray:
    old = (1,) * (len(shape) - x.ndim) + x.shape
    return jnp.broadcast_to(x, [o if s == -1 else s for s, o in zip(shape, old, strict=True)])


@operation()
def expand_as(x: JaxArray, other: JaxArray) -> JaxArray:
    return jnp.broadcast_to(x, other.shape)


@operation()
def masked_fill(x: JaxArray, mask: JaxArray, value: float) -> JaxArray:
    return jnp.where(mask, value, x)


@operation()
def tril(x: JaxArray, diagonal: int = 0) -> JaxArray:
    return jnp.tril(x, diagonal)


@operation()
def triu(x: JaxArray, diagonal: int = 0) -> JaxArray:
    return jnp.triu(x, diagonal)


@operation()
def repeat(x: JaxArray, times: Sequence[int]) -> JaxArray:
    return jnp.tile(x, times)


@operation("cat", "concat")
def cat(parts: Sequence[Any], dim: int = 0) -> JaxArray:
    return jnp.concatenate(parts, axis=dim)


@operation()
def stack(parts: Sequence[Any], dim: int = 0) -> JaxArray:
    return jnp.stack(parts, axis=dim)


@operation("split", "split_with_sizes")
def split(x: JaxArray, size: Sizes, dim: int = 0) -> list[JaxArray]:
    ends = (
        range(size, x.shape[dim], size)
        if isinstance(size, int)
        else [sum(size[: i + 1]) for i in range(len(size) - 1)]
    )
    return jnp.split(x, list(ends), axis=dim)


@operation()
def chunk(x: JaxArray, count: int, dim: int = 0) -> list[JaxArray]:
    return split(x, -(-x.shape[dim] // count), dim)


@operation("slice")
def cut(
    x: JaxArray, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> JaxArray:
    return jax.lax.slice_in_dim(x, *slice(start, end).indices(x.shape[dim])[:2], step, dim)


@operation()
def select(x: JaxArray, dim: int, index: int) -> JaxArray:
    return jnp.take(x, index, axis=dim)


@operation()
def index(x: JaxArray, indices: Sequence[Any]) -> JaxArray:
    return x[tuple(slice(None) if i is None else i for i in indices)]


@operation()
def flip(x: JaxArray, dims: Sequence[int]) -> JaxArray:
    return jnp.flip(x, dims)


@operation()
def roll(x: JaxArray, shifts: Sequence[int], dims: Sequence[int] = ()) -> JaxArray:
    return jnp.roll(x, shifts, dims or None)


@operation()
def unbind(x: JaxArray, dim: int = 0) -> list[JaxArray]:
    return [jnp.take(x, i, axis=dim) for i in range(x.shape[dim])]


@operation()
def sym_size(x: JaxArray, dim: int) -> int:
    return x.shape[dim]


@operation()
def arange(*bounds: AnyArray, dtype: Kind | None = None) -> JaxArray:
    return as_kind(jnp.arange(*bounds), dtype)


@operation("zeros", "new_zeros")
def zeros(*args: AnyArray, dtype: Kind | None = None) -> JaxArray:
    return as_kind(jnp.zeros(args[-1]), dtype)


@operation("ones", "new_ones")
def ones(*args: AnyArray, dtype: Kind | None = None) -> JaxArray:
    return as_kind(jnp.ones(args[-1]), dtype)


@operation("full", "new_full")
def full(*args: AnyArray, dtype: Kind | None = None) -> JaxArray:
    return as_kind(jnp.full(*args[-2:]), dtype)


@operation()
def zeros_like(x: JaxArray, dtype: Kind | None = None) -> JaxArray:
    return jnp.zeros_like(as_kind(x, dtype))


@operation()
def ones_like(x: JaxArray, dtype: Kind | None = None) -> JaxArray:
    return jnp.ones_like(as_kind(x, dtype))


@operation()
def full_like(x: JaxArray, value: float, dtype: Kind | None = None) -> JaxArray:
    return jnp.full_like(as_kind(x, dtype), value)
