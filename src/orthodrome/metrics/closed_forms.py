"""The acceleration and the jet of the local-PCA metric at one point, from moments of the data about
it (docs/derivations/energy.md)."""

import jax.numpy as jnp

from orthodrome._types import AnyArray, Float, JaxArray, Scalar
from orthodrome.metrics import moments
from orthodrome.metrics.base import Jet


def motion(
    x: Float[JaxArray, " D"],
    v: Float[JaxArray, " D"],
    raw: Float[JaxArray, " F"],
    sigma: AnyArray,
    rho: AnyArray,
) -> tuple[JaxArray, JaxArray]:
    """f = v ∘ (∂S v) / S − ½ S ∘ (∂Sᵀ q) with q = (v/S)², and S; `raw`: sums over `monomials`."""
    m = moments.about(x, *moments.tables(raw, len(x), 3))
    S = jnp.maximum(jnp.diagonal(m.second), 0.0) + rho
    slope = m.third / sigma**2 - 2 * jnp.diag(m.first)  # ∂Sᵢ/∂xⱼ
    return v * (slope @ v) / S - 0.5 * S * ((v / S) ** 2 @ slope), S


def jet(
    v: Float[JaxArray, " D"],
    q: Float[JaxArray, " D"],
    S: Float[JaxArray, " D"],
    m: moments.Moments,
    total_a: Scalar,
    second_a: Float[JaxArray, "D D"],
    sigma: AnyArray,
) -> Jet:
    """½ vᵀ M v with its derivatives, with q = −½ (v/S)² and a = Σᵢ qᵢ rᵢ²: Σ w a and Σ w a r rᵀ."""
    slope = m.third / sigma**2 - 2 * jnp.diag(m.first)  # ∂Sᵢ/∂xⱼ
    bend = (  # Σᵢ qᵢ ∂²Sᵢ
        second_a / sigma**4
        - 2 / sigma**2 * (q[:, None] + q[None, :]) * m.second
        + jnp.diag(2 * q * m.total - total_a / sigma**2)
    )
    vx = -(v / S**2)[:, None] * slope
    xx = bend + slope.T @ ((v**2 / S**3)[:, None] * slope)
    return Jet(0.5 * jnp.sum(v**2 / S), slope.T @ q, v / S, xx, vx.T, jnp.diag(1 / S))
