"""PyTorch's operations on images, signals and volumes: convolutions, upsampling, pooling,
padding."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome._types import JaxArray
from orthodrome.torch.aten import Sizes, Table, each, entering, plus

Factor = float | list[float] | None
"""By which images grow: a number for an axis, a list of them, or nothing where a size is given."""

TABLE: Table = {}
operation = entering(TABLE)


@operation("conv1d", "conv2d", "conv3d")
def convolve(
    x: JaxArray,
    weight: JaxArray,
    bias: JaxArray | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> JaxArray:
    n = weight.ndim - 2
    if x.ndim == n + 1:
        return convolve(x[None], weight, bias, stride, padding, dilation, groups)[0]
    steps, spread = each(stride, n), each(dilation, n)
    around: Any = (
        padding.upper() if isinstance(padding, str) else [(p, p) for p in each(padding, n)]
    )
    size = weight.shape[2:]
    plain = groups == 1 and set(steps + spread) == {1} and not isinstance(around, str)
    if plain and all(p < k for (p, _), k in zip(around, size, strict=True)):
        # in compiled loops on CPUs a convolution is slow; one matrix product, shifted and added, is
        # not
        turned = jnp.flip(weight, range(2, 2 + n)).swapaxes(0, 1)
        return convolve_transposed(
            x, turned, bias, padding=[k - 1 - p for (p, _), k in zip(around, size, strict=True)]
        )
    out = jax.lax.conv_general_dilated(
        x, weight, steps, around, rhs_dilation=spread, feature_group_count=groups
    )
    return plus(out, bias, n)


@operation("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolve_transposed(
    x: JaxArray,
    weight: JaxArray,
    bias: JaxArray | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> JaxArray:
    """The transpose of a convolution spreads each pixel over the kernel's width.

    With stride s, the output pixel s q + r gets Σₘ x[q − m] w[r + s m]. So one matrix product gives
    what each pixel sends to all taps (m, r); shifted by m they are added, and the phases r are then
    dealt out over the pixels. No products with zeros between the pixels, as there would be if the
    input were spread out first.
    """
    n = weight.ndim - 2
    if x.ndim == n + 1:
        return convolve_transposed(
            x[None], weight, bias, stride, padding, output_padding, groups, dilation
        )[0]
    steps, spread = each(stride, n), each(dilation, n)
    into, out_of, *size = weight.shape
    if any(d > 1 for d in spread):  # the zeros between the kernel's own taps are then written out
        size = [d * (k - 1) + 1 for d, k in zip(spread, size, strict=True)]
        taps = tuple(slice(None, None, d) for d in spread)
        weight = jnp.zeros((into, out_of, *size), weight.dtype).at[(..., *taps)].set(weight)
    reach = [-(-k // s) for k, s in zip(size, steps, strict=True)]
    weight = jnp.pad(
        weight,
        [(0, 0), (0, 0), *((0, m * s - k) for m, s, k in zip(reach, steps, size, strict=True))],
    )
    pairs = [length for pair in zip(reach, steps, strict=True) for length in pair]
    shifts, turns = range(3, 3 + 2 * n, 2), range(4, 4 + 2 * n, 2)
    kernel = weight.reshape(groups, into // groups, out_of, *pairs).transpose(
        0, 1, *shifts, 2, *turns
    )
    kernel = kernel.reshape(groups, into // groups, -1)
    pixels = jnp.moveaxis(x.reshape(len(x), groups, into // groups, *x.shape[2:]), 2, -1)
    sent = pixels @ kernel[0] if groups == 1 else jnp.einsum("bg...i,git->bg...t", pixels, kernel)
    sent = sent.reshape(*sent.shape[:-1], math.prod(reach), -1)
    ahead = lambda shift: [(m, r - 1 - m) for m, r in zip(shift, reach, strict=True)]
    phases = sum(
        jnp.pad(sent[..., tap, :], [(0, 0), (0, 0), *ahead(shift), (0, 0)])
        for tap, shift in enumerate(np.ndindex(*reach))
    )
    phases = jnp.moveaxis(phases, -1, 2)
    wide = phases.shape[3:]
    phases = phases.reshape(len(x), groups * out_of, *steps, *wide)
    order = [axis for i in range(n) for axis in (2 + n + i, 2 + i)]
    full = phases.transpose(0, 1, *order).reshape(
        len(x), groups * out_of, *(w * s for w, s in zip(wide, steps, strict=True))
    )
    for axis in range(n):
        edge, extra = each(padding, n)[axis], each(output_padding, n)[axis]
        length = (x.shape[2 + axis] - 1) * steps[axis] - 2 * edge + size[axis] + extra
        # output padding may reach past the kernel
        beyond = max(0, edge + length - full.shape[2 + axis])
        full = jnp.pad(full, [(0, beyond if a == 2 + axis else 0) for a in range(full.ndim)])
        full = jax.lax.slice_in_dim(full, edge, edge + length, axis=2 + axis)
    return plus(full, bias, n)


@operation("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(x: JaxArray, size: Sequence[int] | None, *factors: Factor) -> JaxArray:
    for axis, (new, factor) in enumerate(_new_sizes(x, size, factors), 2):
        old = x.shape[axis]
        step = np.float32(old / new if factor is None else 1 / factor)  # as torch rounds it
        pixels = np.floor(np.arange(new, dtype=np.float32) * step).astype(int)
        x = jnp.take(x, np.minimum(pixels, old - 1), axis=axis)
    return x


@operation("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def upsample_linear(
    x: JaxArray, size: Sequence[int] | None, align_corners: bool, *factors: Factor
) -> JaxArray:
    for axis, (new, given) in enumerate(_new_sizes(x, size, factors), 2):
        old = x.shape[axis]
        factor = new / old if given is None else given
        if align_corners:
            place = jnp.arange(new) * ((old - 1) / max(1, new - 1))
        else:
            place = jnp.clip((jnp.arange(new) + 0.5) / factor - 0.5, 0.0, old - 1)
        left = jnp.floor(place).astype(int)
        share = (place - left).reshape(-1, *[1] * (x.ndim - axis - 1))
        at = lambda index, axis=axis, x=x: jnp.take(
            x, jnp.minimum(index, x.shape[axis] - 1), axis=axis
        )
        x = (1 - share) * at(left) + share * at(left + 1)
    return x


@operation("avg_pool1d", "avg_pool2d", "avg_pool3d")
def average_pool(
    x: JaxArray,
    size: Sequence[int],
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil: bool = False,
    include: bool = True,
    divisor: int | None = None,
) -> JaxArray:
    if ceil or not include or divisor is not None:
        raise NotImplementedError(
            "average pooling with ceil_mode, without count_include_pad or with a divisor is not "
            "known."
        )
    n = len(size)
    if x.ndim == n + 1:
        return average_pool(x[None], size, stride, padding)[0]
    window, steps = (1, 1, *each(size, n)), (1, 1, *each(stride or size, n))
    around = [(0, 0), (0, 0), *((p, p) for p in each(padding, n))]
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, steps, around) / math.prod(window)


@operation()
def pixel_shuffle(x: JaxArray, factor: int) -> JaxArray:
    n, c, h, w = x.shape
    split = x.reshape(n, c // factor**2, factor, factor, h, w).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(n, c // factor**2, h * factor, w * factor)


@operation("pad", "constant_pad_nd")
def pad(
    x: JaxArray, widths: Sequence[int], mode: str = "constant", value: float | None = None
) -> JaxArray:
    if not isinstance(mode, str):
        mode, value = "constant", mode
    if min(widths) < 0:
        raise NotImplementedError("padding by less than nothing.")
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    kinds = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return jnp.pad(
        x, pairs, kinds[mode], **({"constant_values": value or 0.0} if mode == "constant" else {})
    )


def _new_sizes(
    x: JaxArray, size: Sequence[int] | None, factors: Sequence[Factor]
) -> list[tuple[int, float | None]]:
    """Of each axis of space: how long it becomes, and by which factor if that was given.

    One overload of torch's passes the factors as a list, and either them or the size; the other one
    each by itself.
    """
    old = x.shape[2:]
    given: list[Any] = factors[0] if factors and isinstance(factors[0], list) else list(factors)
    given = given if given and given[0] is not None else [None] * len(old)
    sizes = size or [int(length * factor) for length, factor in zip(old, given, strict=True)]
    return list(zip(sizes, given, strict=True))
