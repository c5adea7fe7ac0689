"""PyTorch's operations that only move numbers about, or make new ones: views, joins, cuts,
constants."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from orthodrome.torch.archive import Kind
from orthodrome.torch.aten import Table, as_kind, entering, require_eval

TABLE: Table = {}
operation = entering(TABLE)


@operation("contiguous", "clone", "alias", "lift_fresh_copy", "_assert_tensor_metadata")
def same(x: Any, *_: Any, **__: Any) -> Any:
    return x


@operation("detach")
def detach(x: Any) -> Any:
    return jax.lax.stop_gradient(x)


@operation("dropout", "feature_dropout", "alpha_dropout")
def dropout(x: Any, share: float, training: bool) -> Any:
    require_eval(training)
    return x


@operation("view", "reshape", "_unsafe_view")
def reshape(x: Any, shape: Sequence[int]) -> Any:
    return x.reshape(shape)


@operation()
def flatten(x: Any, first: int = 0, last: int = -1) -> Any:
    first, last = first % x.ndim, last % x.ndim
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


@operation()
def unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


@operation()
def unsqueeze(x: Any, dim: int) -> Any:
    return jnp.expand_dims(x, dim)


@operation()
def squeeze(x: Any, dim: Any = None) -> Any:
    axes = range(x.ndim) if dim is None else (dim if isinstance(dim, list) else [dim])
    return jnp.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))


@operation()
def permute(x: Any, dims: Sequence[int]) -> Any:
    return jnp.transpose(x, dims)


@operation("transpose", "swapaxes")
def transpose(x: Any, one: int, other: int) -> Any:
    return jnp.swapaxes(x, one, other)


@operation("t", "numpy_T")
def turn(x: Any) -> Any:
    return x.T


@operation()
def expand(x: Any, shape: Sequence[int], implicit: bool = False) -> Any:
    old = (1,) * (len(shape) - x.ndim) + x.shape
    return jnp.broadcast_to(x, [o if s == -1 else s for s, o in zip(shape, old, strict=True)])


@operation()
def expand_as(x: Any, other: Any) -> Any:
    return jnp.broadcast_to(x, other.shape)


@operation()
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, value, x)


@operation()
def tril(x: Any, diagonal: int = 0) -> Any:
    return jnp.tril(x, diagonal)


@operation()
def triu(x: Any, diagonal: int = 0) -> Any:
    return jnp.triu(x, diagonal)


@operation()
def repeat(x: Any, times: Sequence[int]) -> Any:
    return jnp.tile(x, times)


@operation("cat", "concat")
def cat(parts: Sequence[Any], dim: int = 0) -> Any:
    return jnp.concatenate(parts, axis=dim)


@operation()
def stack(parts: Sequence[Any], dim: int = 0) -> Any:
    return jnp.stack(parts, axis=dim)


@operation("split", "split_with_sizes")
def split(x: Any, size: Any, dim: int = 0) -> Any:
    ends = (
        range(size, x.shape[dim], size)
        if isinstance(size, int)
        else [sum(size[: i + 1]) for i in range(len(size) - 1)]
    )
    return jnp.split(x, list(ends), axis=dim)


@operation()
def chunk(x: Any, count: int, dim: int = 0) -> Any:
    return split(x, -(-x.shape[dim] // count), dim)


@operation("slice")
def cut(
    x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    return jax.lax.slice_in_dim(x, *slice(start, end).indices(x.shape[dim])[:2], step, dim)


@operation()
def select(x: Any, dim: int, index: int) -> Any:
    return jnp.take(x, index, axis=dim)


@operation()
def index(x: Any, indices: Sequence[Any]) -> Any:
    return x[tuple(slice(None) if i is None else i for i in indices)]


@operation()
def flip(x: Any, dims: Sequence[int]) -> Any:
    return jnp.flip(x, dims)


@operation()
def roll(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    return jnp.roll(x, shifts, dims or None)


@operation()
def unbind(x: Any, dim: int = 0) -> Any:
    return [jnp.take(x, i, axis=dim) for i in range(x.shape[dim])]


@operation()
def sym_size(x: Any, dim: int) -> int:
    return x.shape[dim]


@operation()
def arange(*bounds: Any, dtype: Kind | None = None) -> Any:
    return as_kind(jnp.arange(*bounds), dtype)


@operation("zeros", "new_zeros")
def zeros(*args: Any, dtype: Kind | None = None) -> Any:
    return as_kind(jnp.zeros(args[-1]), dtype)


@operation("ones", "new_ones")
def ones(*args: Any, dtype: Kind | None = None) -> Any:
    return as_kind(jnp.ones(args[-1]), dtype)


@operation("full", "new_full")
def full(*args: Any, dtype: Kind | None = None) -> Any:
    return as_kind(jnp.full(*args[-2:]), dtype)


@operation()
def zeros_like(x: Any, dtype: Kind | None = None) -> Any:
    return jnp.zeros_like(as_kind(x, dtype))


@operation()
def ones_like(x: Any, dtype: Kind | None = None) -> Any:
    return jnp.ones_like(as_kind(x, dtype))


@operation()
def full_like(x: Any, value: Any, dtype: Kind | None = None) -> Any:
    return jnp.full_like(as_kind(x, dtype), value)
