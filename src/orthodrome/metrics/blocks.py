"""Points in blocks of neighbours, so that a sum over what is near touches only that."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree

from orthodrome._types import AnyArray, Array, Count, Float, Int, JaxArray, Number
from orthodrome.memo import once

BLOCK = 128
"""Points a block: few enough to follow the data closely, enough for a matrix product."""

STREET = 32
"""Blocks a street: whole streets are found to be far away before anyone asks about their blocks."""

REFINEMENTS = 5
"""Of the distance beyond which points do not count: it is then right to a fraction of σ."""

ONE_BLOCK = 1024
"""Up to so many points, leaving some of them out does not pay."""


Sums = TypeVar("Sums")
"""Sums over points: an array, or several."""


class Blocks(eqx.Module):
    """All points, as B blocks of C points each, in streets of neighbouring blocks, and the boxes
    around both."""

    points: Array
    """(B, C, D)"""
    inside: Array
    """(B, C): 1, or 0 where the last block is filled up."""
    block_boxes: Array
    """(2, S, 32, D): the low and the high corner of each block's box; the last street may have
    empty ones."""
    street_boxes: Array
    """(2, S, D)"""
    box: Array
    """(2, D): around all points."""

    @staticmethod
    def of(points: Array) -> "Blocks":
        """Split the points, again and again, at the median of the widest coordinate."""
        leaves: list[Array] = []
        pending = [np.arange(len(points))]
        while pending:
            index = pending.pop()
            if len(index) <= BLOCK:
                leaves.append(index)
                continue
            some = points[index]
            values = some[:, np.argmax(np.ptp(some, axis=0))]
            half = BLOCK * (-(-len(index) // BLOCK) // 2)  # only the last leaf is not full
            order = np.argpartition(values, half)
            pending += [index[order[half:]], index[order[:half]]]
        blocks = points[np.stack([np.resize(leaf, BLOCK) for leaf in leaves])]
        inside = np.stack([np.arange(BLOCK) < len(leaf) for leaf in leaves]).astype(float)
        boxes = np.stack([blocks.min(axis=1), blocks.max(axis=1)])
        nowhere = np.full((-len(leaves) % STREET, points.shape[1]), np.inf)
        boxes = np.concatenate([boxes, np.stack([nowhere, -nowhere])], axis=1).reshape(
            2, -1, STREET, points.shape[1]
        )
        streets = _around(boxes)
        return Blocks(blocks, inside, boxes, streets, _around(streets))

    def near(
        self, x: Float[JaxArray, "m D"], sigma: Number, most: Number
    ) -> tuple[Int[JaxArray, " B"], Count]:
        """Blocks to sum over for the points x: their numbers first; how many.

        A block at the distance r adds at most C r² exp(−r²/2σ²), what its C points would add at the
        near end of its box. Whole streets that add less than their share of half of `most` are left
        out; then, of the other half, blocks of the streets that were not: there are fewer of them,
        and each has a larger share.
        """
        low, high = jnp.min(x, axis=0), jnp.max(x, axis=0)

        def far(boxes: AnyArray, points: Number) -> JaxArray:
            gap = jnp.maximum(jnp.maximum(boxes[0] - high, low - boxes[1]), 0.0)
            return jnp.sum(gap**2, axis=-1) / sigma**2 > _reach(points * sigma**2, 0.5 * most)

        S, (B, C, _) = self.street_boxes.shape[1], self.points.shape
        near = ~far(self.street_boxes, B * C)
        count = jnp.sum(near)
        streets = jnp.nonzero(near, size=S, fill_value=0)[0]

        def visit(k: Count, so_far: tuple[JaxArray, Count]) -> tuple[JaxArray, Count]:
            which, number = so_far
            numbers = STREET * streets[k] + jnp.arange(STREET)
            near = ~far(self.block_boxes[:, streets[k]], count * STREET * C) & (numbers < B)
            here = numbers[jnp.nonzero(near, size=STREET, fill_value=0)[0]]
            return jax.lax.dynamic_update_slice(which, here, (number,)), number + jnp.sum(near)

        nothing = jnp.zeros((S + 1) * STREET, streets.dtype), jnp.zeros((), count.dtype)
        return jax.lax.fori_loop(0, count, visit, nothing)

    def sum(
        self,
        x: Float[JaxArray, "m D"],
        sigma: Number,
        most: Number,
        term: Callable[[JaxArray, JaxArray], Sums],
    ) -> Sums:
        """Σ term(points (C, D), inside (C,)) over the blocks that are near the points x."""
        which, count = self.near(x, sigma, most)
        shape = jax.eval_shape(term, self.points[0], self.inside[0])
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)

        def add(k: Count, total: Sums) -> Sums:
            block = which[k]
            return jax.tree.map(jnp.add, total, term(self.points[block], self.inside[block]))

        return jax.lax.fori_loop(0, count, add, zero)


def _around(boxes: Array) -> Array:
    """The boxes (2, ..., D) around boxes (2, ..., k, D)."""
    return np.stack([boxes[0].min(axis=-2), boxes[1].max(axis=-2)])


def _reach(scale: Number, most: Number) -> JaxArray:
    """The u from which on scale · u exp(−u/2) ≤ most; at least 2, where it begins to fall."""
    target = 2 * jnp.log(scale / most)
    # more than the solution of u − 2 log u = target, and so is each of the next
    u = 2 * target + 1.6
    for _ in range(REFINEMENTS):
        u = target + 2 * jnp.log(jnp.maximum(u, 2.0))
    return jnp.maximum(u, 2.0)


class Neighbourhood:
    """The blocks of one set of points, ready for compiled code, and the order in which others are
    near each other."""

    def __init__(self, points: Array) -> None:
        self.blocks = Blocks.of(points)
        self._centres = cKDTree(self.blocks.points.mean(axis=1))

    def order(self, x: Array) -> Array:
        """A permutation of the points x (P, D) that puts those together that are near the same
        block."""
        return np.argsort(self._centres.query(np.nan_to_num(x))[1], kind="stable")


def neighbourhood(points: Array) -> Neighbourhood | None:
    """The neighbourhood of some points, made once for as long as they live; None if they are
    few."""
    return None if len(points) <= ONE_BLOCK else once(points, Neighbourhood)
