"""Sums over weighed data, Σ w, Σ w y, Σ w y yᵀ, …: as columns of one matrix product, as tables,
about another point."""

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from orthodrome._types import Array, Float, JaxArray, Scalar

FEW = 4
"""Up to this dimension all moments of the fourth order cost less than a second pass over the
data."""


class Moments(NamedTuple):
    """Of the weighed data about one point, r = y − x."""

    total: Scalar
    """Σ w"""
    first: Float[JaxArray, " D"]
    """Σ w r"""
    second: Float[JaxArray, "D D"]
    """Σ w r rᵀ"""
    third: Float[JaxArray, "D D"]
    """Σ w rᵢ² rⱼ"""


def about(
    x: Float[JaxArray, " D"],
    one: Scalar,
    y: Float[JaxArray, " D"],
    yy: Float[JaxArray, "D D"],
    yyy: JaxArray,
) -> Moments:
    """From moments about the origin: Σ w, Σ w y, Σ w y yᵀ and Σ w yᵢ yⱼ yₖ, or only the Σ w yᵢ² yⱼ
    of them."""
    first, squares = y - one * x, jnp.diagonal(yy)
    cubes = yyy if yyy.ndim == 2 else jnp.einsum("iij->ij", yyy)
    # Σ w (yᵢ² − 2 xᵢ yᵢ + xᵢ²) rⱼ
    third = (
        cubes
        - jnp.outer(squares, x)
        - 2 * x[:, None] * (yy - jnp.outer(y, x))
        + jnp.outer(x**2, first)
    )
    return Moments(one, first, second_about(x, one, y, yy), third)


def second_about(
    x: Float[JaxArray, " D"], one: Scalar, y: Float[JaxArray, " D"], yy: Float[JaxArray, "D D"]
) -> Float[JaxArray, "D D"]:
    """Σ w (y − x)(y − x)ᵀ from Σ w, Σ w y and Σ w y yᵀ."""
    return yy - jnp.outer(x, y) - jnp.outer(y - one * x, x)


def weighed(
    x: Float[JaxArray, " D"],
    q: Float[JaxArray, " D"],
    one: Scalar,
    y: Float[JaxArray, " D"],
    yy: Float[JaxArray, "D D"],
    yyy: Float[JaxArray, "D D D"],
    yyyy: Float[JaxArray, "D D D"],
) -> list[JaxArray]:
    """Σ w a, Σ w a y and Σ w a y yᵀ with a = Σᵢ qᵢ (yᵢ − xᵢ)²."""
    qx, qxx = 2 * q * x, q @ x**2
    return [
        q @ jnp.diagonal(yy) - qx @ y + qxx * one,
        q @ jnp.einsum("iij->ij", yyy) - qx @ yy + qxx * y,
        jnp.einsum("i,ijk->jk", q, yyyy) - jnp.einsum("i,ijk->jk", qx, yyy) + qxx * yy,
    ]


def square_about(x: JaxArray, one: JaxArray, y: JaxArray, yy: JaxArray) -> JaxArray:
    """Σ w (y − x)² from Σ w, Σ w y and Σ w y²."""
    return yy - 2 * x * y + x**2 * one


def with_squares(y: Float[JaxArray, "n D"]) -> Float[JaxArray, "n F"]:
    """Columns 1, yᵢ, yᵢ²."""
    return jnp.concatenate([jnp.ones((len(y), 1)), y, y**2], axis=1)


def monomials(y: Float[JaxArray, "n D"], order: int) -> Float[JaxArray, "n F"]:
    """Columns of products of up to so many coordinates: all that `tables` needs.

    1, yᵢ, yᵢ yⱼ; of the third order yᵢ² yⱼ, or yᵢ yⱼ yₖ if there is a fourth, which is yᵢ² yⱼ yₖ.
    """
    n, D = y.shape
    if D > FEW:
        i, j = np.triu_indices(D)
        third = [((y**2)[:, :, None] * y[:, None, :]).reshape(n, -1)] if order == 3 else []
        return jnp.concatenate([jnp.ones((n, 1)), y, y[:, i] * y[:, j], *third], axis=1)
    done: dict[tuple[int, ...], JaxArray] = {(): jnp.ones(n)}
    monomials, _ = _without_repetition(D, order)
    for monomial in monomials[1:]:
        done[monomial] = done[monomial[:-1]] * y[:, monomial[-1]]
    return jnp.stack([done[monomial] for monomial in monomials], axis=1)


def tables(raw: Float[JaxArray, " F"], dim: int, order: int) -> list[JaxArray]:
    """Sums over the columns of `monomials`, as tensors."""
    if dim > FEW:
        i, j = np.triu_indices(dim)
        place = np.zeros((dim, dim), int)
        place[i, j] = place[j, i] = dim + 1 + np.arange(len(i))
        third = [raw[dim + 1 + len(i) :].reshape(dim, dim)] if order == 3 else []
        return [raw[0], raw[1 : dim + 1], raw[place], *third]
    return [raw[place] for place in _without_repetition(dim, order)[1]]


@lru_cache
def _without_repetition(dim: int, order: int) -> tuple[list[tuple[int, ...]], list[Array]]:
    """Each monomial once, as a sorted tuple of coordinates, and where the tables find their
    entries."""
    axes = range(dim)
    tables: list[list[tuple[int, ...]]] = [
        [()],
        [(i,) for i in axes],
        [(i, j) for i in axes for j in axes],
    ]
    if order == 3:
        tables.append([(i, i, j) for i in axes for j in axes])
    if order == 4:
        triples = [(i, j, k) for i in axes for j in axes for k in axes]
        tables.append([*triples])
        tables.append([(i, i, j, k) for i, j, k in triples])
    number: dict[tuple[int, ...], int] = {}
    places = [
        [number.setdefault(tuple(sorted(entry)), len(number)) for entry in table]
        for table in tables
    ]
    ranks = [0, 1, 2, 2] if order == 3 else [0, 1, 2, 3, 3]
    return list(number), [
        np.reshape(p, (dim,) * rank) for p, rank in zip(places, ranks, strict=False)
    ]
