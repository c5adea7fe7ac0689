"""Small positive definite matrices: equations, volumes, eigenvalues."""

import jax.numpy as jnp

from orthodrome import elimination
from orthodrome._types import Float, JaxArray, Scalar

SYMMETRY_TOLERANCE = 1e-10
"""A tensor whose two halves differ by more than this, relative to its largest entry, is a mistake
and not rounding."""


def solve_positive(M: Float[JaxArray, "d d"], y: Float[JaxArray, " d"]) -> Float[JaxArray, " d"]:
    """M⁻¹ y for a positive definite M; NaN for any other, where an LU solve would return a
    plausible number."""
    x, pivot = elimination.solve_dense(M, y)
    return jnp.where(pivot > 0, x, jnp.nan)


def log_volume(M: Float[JaxArray, "d d"]) -> Scalar:
    """½ log det M."""
    return jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(M))))


def smallest_eigenvalue(M: Float[JaxArray, "d d"]) -> Scalar:
    """NaN where M is not symmetric."""
    symmetric = jnp.max(jnp.abs(M - M.T)) <= SYMMETRY_TOLERANCE * jnp.max(jnp.abs(M))
    return jnp.where(symmetric, jnp.linalg.eigvalsh(M)[0], jnp.nan)


def smallest_entry(M: Float[JaxArray, "d d"]) -> Scalar:
    """The smallest eigenvalue of a diagonal tensor; NaN where it is not diagonal, or not finite."""
    entries = jnp.diagonal(M)
    sound = jnp.all(jnp.isfinite(M)) & jnp.all(jnp.diag(entries) == M)
    return jnp.where(sound, jnp.min(entries), jnp.nan)
