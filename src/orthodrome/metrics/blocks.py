"""Points in blocks of neighbours, so that a sum over what is near touches only that."""

import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.spatial import cKDTree

BLOCK = 256
"""Points a block: small enough to follow the data, large enough for a matrix product."""

ONE_BLOCK = 1024
"""Up to so many points, leaving some of them out does not pay."""

RADII = np.arange(2.0, 14.0, 0.5)
"""Up to which distance points may have to be looked at, in units of σ."""


class Blocks(eqx.Module):
    """All points, as B blocks of C points each, and the boxes around them."""

    points: Any
    """(B, C, D)"""
    inside: Any
    """(B, C): 1, or 0 where the last block is filled up."""
    low: Any
    """(B, D)"""
    high: Any
    """(B, D)"""

    @property
    def corners(self) -> Float[Array, "corners D"]:
        """Points whose box holds all points."""
        return jnp.concatenate([self.low, self.high])

    @staticmethod
    def of(points: np.ndarray[Any, Any]) -> "Blocks":
        """Split the points, again and again, at the median of the widest coordinate."""
        leaves: list[np.ndarray[Any, Any]] = []
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
        filled = np.stack([np.resize(leaf, BLOCK) for leaf in leaves])
        inside = np.stack([np.arange(BLOCK) < len(leaf) for leaf in leaves]).astype(float)
        blocks = points[filled]
        return Blocks(blocks, inside, blocks.min(axis=1), blocks.max(axis=1))

    def near(self, x: Float[Array, "m D"], sigma: Any, most: Any) -> tuple[Int[Array, " B"], Int[Array, ""]]:
        """Blocks to sum over for the points x: their numbers first; how many.

        Left out are those further away than a radius, the smallest of `RADII` beyond which no Σ r² exp(−r²/2σ²) is
        larger than `most`: each of the C points of a block adds at most what it would add at the near end of its box.
        """
        gap = jnp.maximum(jnp.maximum(self.low - jnp.max(x, axis=0), jnp.min(x, axis=0) - self.high), 0.0)
        u = jnp.sum(gap**2, axis=1) / sigma**2
        bound = self.points.shape[1] * sigma**2 * u * jnp.exp(-u / 2)  # falls for u > 2, that is for all of RADII
        beyond = u > RADII[:, None] ** 2
        enough = jnp.sum(jnp.where(beyond, bound, 0.0), axis=1) <= most
        near = jnp.where(jnp.any(enough), ~beyond[jnp.argmax(enough)], True)
        return jnp.nonzero(near, size=len(u), fill_value=0)[0], jnp.sum(near)

    def sum(self, x: Float[Array, "m D"], sigma: Any, most: Any, term: Callable[..., Any]) -> Any:
        """Σ term(points (C, D), inside (C,)) over the blocks that are near the points x."""
        which, count = self.near(x, sigma, most)
        shape = jax.eval_shape(term, self.points[0], self.inside[0])
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)

        def add(k: Any, total: Any) -> Any:
            block = which[k]
            return jax.tree.map(jnp.add, total, term(self.points[block], self.inside[block]))

        return jax.lax.fori_loop(0, count, add, zero)


class Neighbourhood:
    """The blocks of one set of points, ready for compiled code, and the order in which others are near each other."""

    def __init__(self, points: np.ndarray[Any, Any]) -> None:
        self.blocks = Blocks.of(points)
        self._centres = cKDTree((np.asarray(self.blocks.low) + np.asarray(self.blocks.high)) / 2)

    def order(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A permutation of the points x (P, D) that puts those together that are near the same block."""
        return np.argsort(self._centres.query(np.nan_to_num(x))[1], kind="stable")


def neighbourhood(points: np.ndarray[Any, Any]) -> Neighbourhood | None:
    """The neighbourhood of some points, made once for as long as they live; None if they are few."""
    if len(points) <= ONE_BLOCK:
        return None
    key = id(points)
    if key not in _MADE:
        _MADE[key] = Neighbourhood(points)
        weakref.finalize(points, _MADE.pop, key, None)
    return _MADE[key]


_MADE: dict[int, Neighbourhood] = {}
