"""torch itself as a function that JAX can differentiate: slower than a graph in JAX, and for any
module.

Two operations are closed under everything JAX does with them, to any order
(docs/derivations/pullback.md). For a map g, a point x, directions u₁ … uₖ and a weight w on the
output:

    along(x; u₁ … uₖ) = ∂ᵤ₁ … ∂ᵤₖ g(x)                      the k-th derivative along the directions
    back(x, w; u₁ … uₖ) = ∇ₓ ⟨w, ∂ᵤ₁ … ∂ᵤₖ g(x)⟩               and its gradient

Each is linear in every argument but x; the derivative of either by x along v is the same with one
more direction v, and the transpose of one is the other.
"""

import math
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from orthodrome._types import Array, JaxArray

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

THREADS = 1
"""Of torch while it computes for JAX: more get in each other's way on the small batches of a
curve."""


class Callback(eqx.Module):
    """A decoder that calls torch: a function of one point `(d,)`."""

    host: "Host" = eqx.field(static=True)

    @classmethod
    def of(cls, module: "Module", rows: "Tensor", output: int | None) -> "Callback":
        """A module in eval mode and float64, for inputs like this row."""
        return cls(Host(module, rows, output))

    @property
    def dim(self) -> int:
        """d: the number of coordinates of a point."""
        return math.prod(self.host.point_shape)

    def __call__(self, x: JaxArray) -> Any:
        """The decoder's output for one point, without the batch axis."""
        x = as_real(x)
        if x.shape != (self.dim,):
            raise ValueError(
                f"the decoder takes one point of shape ({self.dim},); a shape of {x.shape} arrived."
            )
        return along.bind(x, host=self.host).reshape(self.host.output_shape)


class Host:
    """A torch module, and its derivatives for many points at once. Compared by identity."""

    def __init__(self, module: "Module", rows: "Tensor", output: int | None) -> None:
        import torch

        self.torch, self.module = torch, module
        self.batched, self.point_shape = rows.ndim > 1, tuple(rows.shape[rows.ndim > 1 :])
        moving = rows.clone().requires_grad_(True)
        outputs, again = (torch.utils._pytree.tree_leaves(module(moving)) for _ in range(2))
        names = [str(i) if isinstance(out, torch.Tensor) else None for i, out in enumerate(outputs)]
        self.output = chosen_output(output, names, "the module")
        out = outputs[self.output]
        if not out.requires_grad:
            raise ValueError(
                "torch cannot differentiate the module's output: an operation in it has no "
                "derivative, or leaves torch "
                "(.numpy(), .detach()); its derivatives would all be zero."
            )
        if not torch.equal(out.nan_to_num(), again[self.output].nan_to_num()):
            raise ValueError(
                "the module's output depends on chance, also in eval mode: take that out of it."
            )
        self.output_shape = tuple(out.shape[self.batched :])

    def _images(self, points: "Tensor") -> "Tensor":
        """g of points (B, d): (B, D)."""
        choose = lambda out: self.torch.utils._pytree.tree_leaves(out)[self.output]
        shaped = points.reshape(-1, *self.point_shape)
        if self.batched:
            return choose(self.module(shaped)).reshape(len(points), -1)
        return self.torch.stack([choose(self.module(point)).reshape(-1) for point in shaped])

    def derivative(self, back: bool, x: Array, *further: Array) -> Array:
        """`along` or `back` of many points, (B, ...) each, by gradients of gradients alone.

        torch has no forward derivatives of some operations and wrong ones of others; its gradients
        are sound.
        """
        with _ONE_AT_A_TIME:  # what follows sets things for the whole process
            return self._derivative(back, x, *further)

    def _derivative(self, back: bool, *arrays: Array) -> Array:
        torch = self.torch
        threads = torch.get_num_threads()
        torch.set_num_threads(THREADS)
        try:
            x, *given = (torch.from_numpy(np.array(array, dtype=np.float64)) for array in arrays)
            if not back and not given:
                with torch.no_grad():
                    return self._images(x).numpy()
            x.requires_grad_(True)
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                # the other ways to compute attention have no second derivatives
                images = self._images(x)
            weight = given[0] if back else torch.zeros_like(images)
            weight, directions = weight.requires_grad_(True), given[1:] if back else given
            # ⟨w, g(x)⟩, and then its derivative along one direction after another
            form = torch.sum(weight * images)
            for u in directions:
                form = torch.sum(u * self._gradient(form, x))
            return self._gradient(form, x if back else weight).detach().numpy()
        finally:
            torch.set_num_threads(threads)

    def _gradient(self, form: "Tensor", by: "Tensor") -> "Tensor":
        if not form.requires_grad:
            return self.torch.zeros_like(by)
        (gradient,) = self.torch.autograd.grad(form, by, create_graph=True, allow_unused=True)
        return self.torch.zeros_like(by) if gradient is None else gradient


_ONE_AT_A_TIME = threading.Lock()


def as_real(x: JaxArray) -> Any:
    """A point of single or double precision; any other numbers are made so."""
    x = jnp.asarray(x)
    return x if x.dtype in (jnp.float32, jnp.float64) else x.astype(jnp.result_type(float))


def chosen_output(output: int | None, tensors: list[str | None], name: str) -> int:
    """Which of a module's outputs, None for those that are no tensors; refuse one that is not
    there."""
    if output is None and len(tensors) == 1:
        output = 0
    if output is None or not 0 <= output < len(tensors) or tensors[output] is None:
        usable = ", ".join(str(i) for i, tensor in enumerate(tensors) if tensor is not None)
        raise ValueError(
            f"{name} returns {len(tensors)} outputs; {output} arrived: pass output= one of "
            f"{usable}."
        )
    return output


along, back = Primitive("torch_along"), Primitive("torch_back")


def _call(is_back: bool, *arrays: JaxArray, host: Host) -> Any:
    """For one point or, with a leading axis, for many."""
    dtype, single = arrays[0].dtype, arrays[0].ndim == 1
    rows = [_as_bits(array[None] if single else array) for array in arrays]
    size = arrays[0].shape[-1] if is_back else math.prod(host.output_shape)
    shape = jax.eval_shape(_as_bits, jax.ShapeDtypeStruct((len(rows[0]), size), dtype))
    of_bits = lambda bits: np.asarray(bits).view(dtype)[..., 0]
    compute = lambda *rows: (
        host.derivative(is_back, *map(of_bits, rows)).astype(dtype)[..., None].view(np.uint32)
    )
    bits = jax.pure_callback(compute, shape, *rows)
    out = jax.lax.bitcast_convert_type(bits if dtype == np.float64 else bits[..., 0], dtype)
    return out[0] if single else out


def _as_bits(numbers: JaxArray) -> JaxArray:
    """Numbers as pieces of 32 bits, a new last axis. JAX would round float64 on the way to a
    callback, which runs in a thread that knows nothing of the caller's precision."""
    bits = jax.lax.bitcast_convert_type(numbers, jnp.uint32)
    return bits if bits.ndim > numbers.ndim else bits[..., None]


def _shape(is_back: bool, *arrays: JaxArray, host: Host) -> Any:
    size = arrays[0].shape[-1] if is_back else math.prod(host.output_shape)
    return jax.core.ShapedArray((*arrays[0].shape[:-1], size), arrays[0].dtype)


def _batch(
    primitive: Primitive, arrays: JaxArray, axes: Sequence[int | None], *, host: Host
) -> Any:
    (size,) = {
        array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None
    }
    whole = [
        jnp.broadcast_to(array, (size, *array.shape))
        if axis is None
        else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(arrays, axes, strict=True)
    ]
    out = primitive.bind(*(rows.reshape(-1, rows.shape[-1]) for rows in whole), host=host)
    return out.reshape(*whole[0].shape[:-1], out.shape[-1]), 0


def _jvp(
    primitive: Primitive, primals: Sequence[JaxArray], tangents: Sequence[JaxArray], *, host: Host
) -> Any:
    out = primitive.bind(*primals, host=host)
    x_dot, *rest = tangents
    parts = [] if isinstance(x_dot, ad.Zero) else [primitive.bind(*primals, x_dot, host=host)]
    for place, tangent in enumerate(rest, 1):
        if not isinstance(tangent, ad.Zero):
            changed = [*primals[:place], tangent, *primals[place + 1 :]]
            parts.append(primitive.bind(*changed, host=host))
    return out, sum(parts[1:], parts[0])


def _transpose_along(cotangent: JaxArray, x: JaxArray, *directions: JaxArray, host: Host) -> Any:
    """⟨w, along(x; …, uⱼ, …)⟩ as a function of uⱼ is ⟨back(x, w; the rest), uⱼ⟩."""
    out = [None] * (1 + len(directions))
    for place, u in enumerate(directions):
        if ad.is_undefined_primal(u):
            rest = [*directions[:place], *directions[place + 1 :]]
            out[1 + place] = back.bind(x, cotangent, *rest, host=host)
    return out


def _transpose_back(
    cotangent: JaxArray, x: JaxArray, weight: JaxArray, *directions: JaxArray, host: Host
) -> Any:
    """⟨v, back(x, w; u…)⟩ = ⟨w, along(x; u…, v)⟩."""
    out = [None] * (2 + len(directions))
    if ad.is_undefined_primal(weight):
        out[1] = along.bind(x, *directions, cotangent, host=host)
    for place, u in enumerate(directions):
        if ad.is_undefined_primal(u):
            rest = [*directions[:place], *directions[place + 1 :]]
            out[2 + place] = back.bind(x, weight, *rest, cotangent, host=host)
    return out


for _primitive, _is_back, _transpose in (
    (along, False, _transpose_along),
    (back, True, _transpose_back),
):
    _primitive.def_impl(partial(_call, _is_back))
    _primitive.def_abstract_eval(partial(_shape, _is_back))
    batching.primitive_batchers[_primitive] = partial(_batch, _primitive)
    ad.primitive_jvps[_primitive] = partial(_jvp, _primitive)
    ad.primitive_transposes[_primitive] = _transpose
    mlir.register_lowering(
        _primitive, mlir.lower_fun(partial(_call, _is_back), multiple_results=False)
    )
