"""Linear systems of a chain of elements, solved by cyclic reduction: all nodes at once, log₂ K times.

Each element couples its own unknowns with those of its two end nodes, and neighbours share a node. The interior
unknowns go first. Then every node gets rid of its neighbours, after that of the neighbours' neighbours, and so on.
It is written out rather than left to LAPACK, which XLA runs one small matrix at a time and never in two threads.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

UNROLL = 3
"""Up to so many pivots are written out one after the other; more of them go in a loop."""


def solve(
    A: Float[Array, "K m m"], b: Float[Array, "K m"], d: int
) -> tuple[Float[Array, "K inner"], Float[Array, "nodes d"], Float[Array, ""]]:
    """Solve the system whose matrix and right-hand side are the sums of the elements' own, with zero at both ends.

    An element's unknowns are ordered interior (m − 2d of them), left node (d), right node (d).
    Returns the interior unknowns, those of the K + 1 nodes, and the smallest pivot: it is positive if and only if the
    whole symmetric matrix is positive definite.
    """
    inner = A.shape[-1] - 2 * d
    rows, chain, smallest = _eliminate(jnp.concatenate([A, b[..., None]], axis=-1), inner)
    nodes, smallest_node = _reduce(chain, d)
    ends = jnp.concatenate([nodes[:-1], nodes[1:]], axis=-1)
    inside = rows[..., -1] - jnp.einsum("kij,kj->ki", rows[..., :-1], ends)
    return inside, nodes, jnp.minimum(smallest, smallest_node)


def solve_dense(A: Float[Array, "m m"], b: Float[Array, " m"]) -> tuple[Float[Array, " m"], Float[Array, ""]]:
    """The solution of one small positive definite system, and its smallest pivot."""
    rows, _, smallest = _eliminate(jnp.concatenate([A, b[:, None]], axis=1)[None], len(b))
    return rows[0, :, -1], smallest


def _reduce(chain: Any, d: int) -> tuple[Any, Any]:
    """The nodes of a chain of elements (K, 2d, 2d + 1) that have no interior, and the smallest pivot."""
    K = len(chain)
    if K == 1:
        return jnp.zeros((2, d)), jnp.inf
    left, right = slice(0, d), slice(d, 2 * d)
    a, b = chain[:-1], chain[1:]  # the elements before and behind each inner node
    systems = jnp.concatenate(  # (K − 1, d, 3d + 1): the node itself, the one before, the one behind, right-hand side
        [
            a[:, right, right] + b[:, left, left],
            a[:, right, left].at[:1].set(0.0),
            b[:, left, right].at[-1:].set(0.0),
            a[:, right, -1:] + b[:, left, -1:],
        ],
        axis=2,
    )

    def double(level: Any, carry: Any) -> Any:
        systems, smallest = carry
        own, before, behind, load = (systems[..., part] for part in parts)
        solved, pivot = _solve_for_own(systems, d)
        reach, place = 2**level, jnp.arange(K - 1)[:, None, None]
        at_before = jnp.where(place >= reach, jnp.roll(solved, reach, axis=0), 0.0)
        at_behind = jnp.where(place < K - 1 - reach, jnp.roll(solved, -reach, axis=0), 0.0)
        replaced = jnp.einsum("kij,kjl->kil", before, at_before), jnp.einsum("kij,kjl->kil", behind, at_behind)
        (_, further_before, back, load_before), (_, ahead, further_behind, load_behind) = (
            tuple(r[..., part] for part in parts) for r in replaced
        )
        new = [own - back - ahead, -further_before, -further_behind, load - load_before - load_behind]
        return jnp.concatenate(new, axis=2), jnp.minimum(smallest, pivot)

    parts = [slice(0, d), slice(d, 2 * d), slice(2 * d, 3 * d), slice(3 * d, 3 * d + 1)]
    levels = max(0, (K - 2)).bit_length()
    systems, smallest = jax.lax.fori_loop(0, levels, double, (systems, jnp.asarray(jnp.inf)))
    solved, pivot = _solve_for_own(systems, d)
    zero = jnp.zeros((1, d))
    return jnp.concatenate([zero, solved[..., -1], zero]), jnp.minimum(smallest, pivot)


def _solve_for_own(systems: Any, d: int) -> tuple[Any, Any]:
    """Each node expressed by the others, in the systems' layout with zeros for itself, and the smallest pivot."""
    rows, _, smallest = _eliminate(systems, d)
    return jnp.concatenate([jnp.zeros_like(rows[..., :d]), rows], axis=-1), smallest


def _eliminate(systems: Any, count: int) -> tuple[Any, Any, Any]:
    """Gauss–Jordan on the first `count` unknowns of each augmented system (K, m, columns).

    Returns their rows, which express them by the others, the system that is left for the others, and the smallest
    pivot. There is no pivoting: for a positive definite matrix none is needed, and for any other the pivot says so.
    """

    def eliminate_one(i: Any, carry: Any) -> Any:
        systems, smallest = carry
        row = systems[:, i]
        pivot = row[:, i]
        row = row / pivot[:, None]
        column = systems[:, :, i].at[:, i].set(0.0)
        systems = (systems - column[:, :, None] * row[:, None, :]).at[:, i].set(row)
        return systems, jnp.minimum(smallest, jnp.min(pivot))

    carry = (systems, jnp.asarray(jnp.inf))
    if count <= UNROLL:
        for i in range(count):
            carry = eliminate_one(i, carry)
    else:
        carry = jax.lax.fori_loop(0, count, eliminate_one, carry)
    systems, smallest = carry
    return systems[:, :count, count:], systems[:, count:, count:], smallest
