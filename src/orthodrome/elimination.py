"""Linear systems of a chain of elements, solved node by node: many nodes at once, the others after
them.

Each element couples its own unknowns with those of its two end nodes, and neighbours share a node.
The interior nodes go first. Then every other node goes, again and again, until a few are left; of
these, each gets rid of its neighbours, after that of the neighbours' neighbours, and so on: more
work, but in a loop that is compiled once. It is written out rather than left to LAPACK, which XLA
runs one small matrix at a time and never in two threads.
"""

import jax
import jax.numpy as jnp

from orthodrome._types import Count, Float, JaxArray, Scalar

UNROLL = 3
"""Up to so many pivots are written out one after the other; more of them go in a loop."""

CORRECTIONS = 2
"""An inverse alone loses digits where the matrix is ill-conditioned; so many corrections bring them
back."""

FEW = 7
"""A chain of so many nodes is not halved any more: each halving is code of its own, to be
compiled."""


def solve(
    A: Float[JaxArray, "K m m"], b: Float[JaxArray, "K m"], d: int
) -> tuple[Float[JaxArray, "K inner"], Float[JaxArray, "nodes d"], Scalar]:
    """Solve the system whose matrix and right-hand side are the sums of the elements' own, with
    zero at both ends.

    An element's unknowns are ordered interior (m − 2d of them), left node (d), right node (d).
    Returns the interior unknowns, those of the K + 1 nodes, and the smallest pivot: it is positive
    if and only if the whole symmetric matrix is positive definite.
    """
    element, smallest, gone = jnp.concatenate([A, b[..., None]], axis=-1), jnp.asarray(jnp.inf), []
    while element.shape[1] > 2 * d:
        rows, pivot = _express(element[:, :d], d)
        element = element[:, d:, d:] - _product(element[:, d:, :d], rows)
        smallest = jnp.minimum(smallest, pivot)
        gone.append(rows)
    nodes, pivot = _solve_chain(_equations(element, d), d)
    nodes = jnp.pad(nodes, ((1, 1), (0, 0)))
    known = jnp.concatenate([nodes[:-1], nodes[1:]], axis=1)
    for rows in reversed(gone):
        known = jnp.concatenate([_put_in(rows, known), known], axis=1)
    return known[:, : -2 * d], nodes, jnp.minimum(smallest, pivot)


def solve_dense(
    A: Float[JaxArray, "m m"], b: Float[JaxArray, " m"]
) -> tuple[Float[JaxArray, " m"], Scalar]:
    """The solution of one small positive definite system, and its smallest pivot."""
    if len(b) <= UNROLL:
        rows, smallest = _express(jnp.concatenate([A, b[:, None]], axis=1)[None], len(b))
        return rows[0, :, 0], smallest
    inverse, smallest = _inverse(A[None])
    x = inverse[0] @ b
    for _ in range(CORRECTIONS):
        x = x + inverse[0] @ (b - A @ x)
    return x, smallest


def _equations(
    element: Float[JaxArray, "K m columns"], d: int
) -> Float[JaxArray, "inner d columns2"]:
    """Of each inner node of a chain of elements (K, 2d, 2d + 1): (K − 1, d, 3d + 1), its columns as
    in `_replaced`."""
    left, right = slice(0, d), slice(d, 2 * d)
    a, b = element[:-1], element[1:]  # the elements before and behind each inner node
    own, load = a[:, right, right] + b[:, left, left], a[:, right, -1:] + b[:, left, -1:]
    return jnp.concatenate([own, a[:, right, left], b[:, left, right], load], axis=2)


def _solve_chain(
    chain: Float[JaxArray, "n d columns"], d: int
) -> tuple[Float[JaxArray, "n d"], Scalar]:
    """The nodes (n, d) that n equations (n, d, 3d + 1) are about, zero beyond both ends, and the
    smallest pivot."""
    n = len(chain)
    if n == 0:
        return jnp.zeros((0, d)), jnp.asarray(jnp.inf)
    if n <= FEW or n % 2 == 0:
        return _solve_short_chain(chain, d)
    rows, smallest = _express(chain[::2], d)
    rest, pivot = _solve_chain(_replaced(chain[1::2], rows[:-1], rows[1:], d), d)
    around = jnp.pad(rest, ((1, 1), (0, 0)))
    out = _put_in(rows, jnp.concatenate([around[:-1], around[1:]], axis=1))
    woven = jnp.stack([out[:-1], rest], axis=1).reshape(-1, d)
    return jnp.concatenate([woven, out[-1:]]), jnp.minimum(smallest, pivot)


def _solve_short_chain(
    chain: Float[JaxArray, "n d columns"], d: int
) -> tuple[Float[JaxArray, "n d"], Scalar]:
    n = len(chain)
    place = jnp.arange(n)[:, None, None]

    def double(level: Count, carry: tuple[JaxArray, Scalar]) -> tuple[JaxArray, Scalar]:
        chain, smallest = carry
        rows, pivot = _express(chain, d)
        reach = 2**level
        before = jnp.where(place >= reach, jnp.roll(rows, reach, axis=0), 0.0)
        behind = jnp.where(place < n - reach, jnp.roll(rows, -reach, axis=0), 0.0)
        return _replaced(chain, before, behind, d), jnp.minimum(smallest, pivot)

    levels = max(0, n - 1).bit_length()
    chain, smallest = jax.lax.fori_loop(0, levels, double, (chain, jnp.asarray(jnp.inf)))
    rows, pivot = _express(chain, d)
    return rows[..., -1], jnp.minimum(smallest, pivot)


def _replaced(chain: JaxArray, before: JaxArray, behind: JaxArray, d: int) -> JaxArray:
    """Equations with the columns the node itself (d), the one before (d), the one behind (d) and
    the right-hand side, where the one before and the one behind are replaced by what `_express`
    says of them."""
    own, by_before, by_behind, load = jnp.split(chain, [d, 2 * d, 3 * d], axis=2)
    further_before, back, load_before = jnp.split(_product(by_before, before), [d, 2 * d], axis=2)
    ahead, further_behind, load_behind = jnp.split(_product(by_behind, behind), [d, 2 * d], axis=2)
    new = [own - back - ahead, -further_before, -further_behind, load - load_before - load_behind]
    return jnp.concatenate(new, axis=2)


def _put_in(rows: JaxArray, known: JaxArray) -> JaxArray:
    """The nodes that `_express` expressed by others, when those (K, columns) are known."""
    return rows[..., -1] - jnp.einsum("kij,kj->ki", rows[..., :-1], known)


def _product(a: JaxArray, b: JaxArray) -> JaxArray:
    return jnp.einsum("kij,kjl->kil", a, b)


def _express(equations: JaxArray, d: int) -> tuple[JaxArray, JaxArray]:
    """A⁻¹ B for K equations [A | B] (K, d, columns), A the first d columns, and the smallest pivot.

    There is no pivoting: for a positive definite matrix none is needed, and for any other the pivot
    says so.
    """
    if d > UNROLL:
        inverse, smallest = _inverse(equations[..., :d])
        return _product(inverse, equations[..., d:]), smallest
    smallest = jnp.asarray(jnp.inf)
    for i in range(d):
        row, column = equations[:, i], equations[:, :, i]
        smallest = jnp.minimum(smallest, jnp.min(row[:, i]))
        row = row / row[:, i, None]
        equations = (
            (equations - column.at[:, i].set(0.0)[:, :, None] * row[:, None]).at[:, i].set(row)
        )
    return equations[..., d:], smallest


def _inverse(A: Float[JaxArray, "K d d"]) -> tuple[Float[JaxArray, "K d d"], Scalar]:
    """Of K matrices (K, d, d), and the smallest pivot."""
    return jax.lax.fori_loop(0, A.shape[1], _invert_by_one, (A, jnp.asarray(jnp.inf)))


def _invert_by_one(i: Count, carry: tuple[JaxArray, Scalar]) -> tuple[JaxArray, Scalar]:
    """One unknown changes sides: after all of them have, the matrices (K, d, d) are inverted where
    they stand."""
    A, smallest = carry
    own = jnp.arange(A.shape[1]) == i
    row, column = (jax.lax.dynamic_index_in_dim(A, i, axis) for axis in (1, 2))
    pivot = jax.lax.dynamic_index_in_dim(row, i, 2)
    row = jnp.where(own, 1.0, row) / pivot
    A = jnp.where(own[:, None], row, jnp.where(own, 0.0, A) - column * row)
    return A, jnp.minimum(smallest, jnp.min(pivot))
