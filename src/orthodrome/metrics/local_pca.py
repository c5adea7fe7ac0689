"""The non-parametric metric of the paper (Sec. 4.1): short where the data are, long where they are not."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import cKDTree

from orthodrome import _boundary, batching
from orthodrome.metrics.base import Jet, Metric

NEIGHBOURS = 7
"""The default σ reaches the seventh neighbour of a typical point.

With Gaussian weights that counts some 14 points in two dimensions, enough for a local variance and few enough to keep
the gaps between the arms of the paper's data sets.
"""

RIDGE = 0.1
"""The default ρ, as a fraction of the typical local variance Σ wₙ (xₙ − x)² on the data."""

ALONE = 1e-6
"""A local variance below this fraction of σ² is that of points without neighbours: the rule then takes σ² itself."""


MOST_MOMENTS = 2**22
"""Numbers in a table of the data's moments, at most; beyond it, derivatives are taken one direction at a time."""


class LocalPCA(Metric):
    """The inverse of the local diagonal covariance of the data.

    M_dd(x) = (Σₙ wₙ(x) (x_nd − x_d)² + ρ)⁻¹ with wₙ(x) = exp(−‖xₙ − x‖² / 2σ²).

    `data` has shape (n, D). `sigma` is the reach of the weights: smaller follows the data more closely and bends more.
    `rho` keeps the metric finite where there are no data: 1/√ρ is the cost of a unit step there.

    Left out, they are chosen from the data so that scaling the data changes nothing but the scale: `sigma` is the
    median distance to the seventh neighbour (`choose_sigma`), `rho` a tenth of the median local variance at the data
    (`choose_rho`).
    """

    concurrent: ClassVar[bool] = True

    data: np.ndarray[Any, Any]
    sigma: np.ndarray[Any, Any]
    rho: np.ndarray[Any, Any]
    center: np.ndarray[Any, Any]

    def __init__(self, data: Any, sigma: float | None = None, rho: float | None = None) -> None:
        # NumPy float64, not jnp: outside the float64 scope jnp.asarray would round to float32. Arrays of no dimension
        # rather than floats: compiled code then serves every σ and ρ.
        self.data = _boundary.as_data(data)
        self.center = np.median(self.data, axis=0)  # not the mean: one far outlier would cost every point its digits
        self.sigma = np.asarray(choose_sigma(self.data) if sigma is None else _boundary.as_positive(sigma, "sigma"))
        if not 0 < self.sigma**2 < np.inf:
            raise ValueError(
                f"data should have numbers whose squares are numbers too; sigma would be {self.sigma:g}: rescale them."
            )
        self.rho = np.asarray(0.0 if rho is None else _boundary.as_positive(rho, "rho"))
        if rho is None:
            self.rho = np.asarray(choose_rho(self))

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.data.shape[-1]

    @property
    def scale(self) -> Any:
        """σ: the metric cannot change over less."""
        return self.sigma

    @property
    def features(self) -> Float[Array, "n F"]:
        """(n, 2D + 1): 1, the centred data and their squares. Every sum over the data is a product with this matrix."""
        centred = jnp.asarray(self.data) - self.center
        return jnp.concatenate([jnp.ones((len(centred), 1)), centred, centred**2], axis=1)

    def variance_at(self, x: Float[Array, " D"]) -> Float[Array, " D"]:
        """Σₙ wₙ(x) (xₙ − x)² + ρ, the diagonal of M⁻¹.

        Squares are expanded, so that both the exponents and the sums are products with `features`; for a batch of
        points vmap turns them into two matrix products. The price is rounding of about 1e-16 Σ wₙ (spread of the
        data)², which float64 can afford and float32 cannot. It must not turn a sum of squares negative.
        """
        if x.dtype != jnp.float64:
            raise TypeError(
                f"LocalPCA needs float64; x is {x.dtype}: call it under `with jax.enable_x64(True):`, or use the "
                "methods for arrays, which see to that."
            )
        D = x.shape[0]
        x = x - self.center
        moments = self._weights_at(x) @ self.features
        total, first, second = moments[0], moments[1 : D + 1], moments[D + 1 :]
        return jnp.maximum(second - 2 * x * first + x**2 * total, 0.0) + self.rho

    def _weights_at(self, x: Float[Array, " D"]) -> Float[Array, " n"]:
        """wₙ at the point x, centred as the data are."""
        squared_distance = self.features @ jnp.concatenate([jnp.dot(x, x)[None], -2 * x, jnp.ones_like(x)])
        return jnp.exp(-squared_distance / (2 * self.sigma**2))

    def tensor_at(self, x: Float[Array, " D"]) -> Float[Array, "D D"]:
        return jnp.diag(1 / self.variance_at(x))

    def inner_at(self, x: Float[Array, " D"], u: Float[Array, " D"], v: Float[Array, " D"]) -> Float[Array, ""]:
        return jnp.sum(u * v / self.variance_at(x))

    def acceleration_at(self, x: Float[Array, " D"], v: Float[Array, " D"]) -> Float[Array, " D"]:
        """With S = variance: c'' = S ∘ (v ∘ D_v S / S² − ½ ∇ₓ(S·q)), q = (v / S)² held fixed: O(nD) a point."""
        S, dS = jax.jvp(self.variance_at, (x,), (v,))
        _, pull = jax.vjp(self.variance_at, x)
        (slope,) = pull((v / S) ** 2)
        return v * dS / S - 0.5 * S * slope

    def lower_at(self, x: Float[Array, " D"], v: Float[Array, " D"]) -> Float[Array, " D"]:
        return v / self.variance_at(x)

    def raise_at(self, x: Float[Array, " D"], p: Float[Array, " D"]) -> Float[Array, " D"]:
        return self.variance_at(x) * p

    def jet_at(self, x: Float[Array, " D"], v: Float[Array, " D"]) -> Jet:
        """Closed forms (docs/derivations/energy.md): two products with moments up to the third order of the data."""
        n, D = self.data.shape
        if n * D * D > MOST_MOMENTS:
            return super().jet_at(x, v)
        y = self.data - self.center
        yy = y[:, :, None] * y[:, None, :]
        pairs = jnp.concatenate([jnp.ones((n, 1)), y, yy.reshape(n, -1)], axis=1)
        cubes = (y**2)[:, :, None] * y[:, None, :]
        x = x - self.center
        w = self._weights_at(x)

        def moments(w: Any) -> tuple[Any, Any, Any]:  # Σ w, Σ w r, Σ w r rᵀ with r = y − x
            m = w @ pairs
            m0, m1, m2 = m[0], m[1 : D + 1], m[D + 1 :].reshape(D, D)
            first = m1 - m0 * x
            return m0, first, m2 - jnp.outer(x, m1) - jnp.outer(first, x)

        total, first, second = moments(w)
        # Σ w rᵢ² rⱼ = Σ w (yᵢ² − 2 xᵢ yᵢ + xᵢ²) rⱼ, and Σ w yᵢ² rⱼ = third − xⱼ Σ w yᵢ²
        diagonal = jnp.diagonal(second)
        squares = diagonal + 2 * x * first + x**2 * total
        third = (w @ cubes.reshape(n, -1)).reshape(D, D) - jnp.outer(squares, x)
        third = third - 2 * x[:, None] * (second + jnp.outer(x, first)) + jnp.outer(x**2, first)
        S = jnp.maximum(diagonal, 0.0) + self.rho
        slope = third / self.sigma**2 - 2 * jnp.diag(first)  # ∂Sᵢ/∂xⱼ
        q = -0.5 * (v / S) ** 2
        a = (y**2) @ q - y @ (2 * x * q) + jnp.sum(x**2 * q)
        total_a, _, second_a = moments(w * a)
        bend = (  # Σᵢ qᵢ ∂²Sᵢ
            second_a / self.sigma**4
            - 2 / self.sigma**2 * (q[:, None] + q[None, :]) * second
            + jnp.diag(2 * q * total - total_a / self.sigma**2)
        )
        vx = -(v / S**2)[:, None] * slope
        xx = bend + slope.T @ ((v**2 / S**3)[:, None] * slope)
        return Jet(0.5 * jnp.sum(v**2 / S), slope.T @ q, v / S, xx, vx.T, jnp.diag(1 / S))

    def log_volume_at(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        return -0.5 * jnp.sum(jnp.log(self.variance_at(x)))

    def smallest_eigenvalue_at(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        return 1 / jnp.max(self.variance_at(x))

    def smoother(self, factor: float) -> "LocalPCA":
        return eqx.tree_at(lambda metric: metric.sigma, self, np.asarray(factor * self.sigma))

    def prior_covariance(self, dim: int) -> np.ndarray[Any, Any]:
        return np.atleast_2d(np.cov(self.data, rowvar=False))

    def __repr__(self) -> str:
        n, D = self.data.shape
        return f"LocalPCA({n} points in {D} dimensions, sigma={self.sigma:.4g}, rho={self.rho:.4g})"


def choose_sigma(data: np.ndarray[Any, Any]) -> float:
    """The median, over the data, of the distance to the seventh neighbour that is not the point itself."""
    k = min(NEIGHBOURS, len(data) - 1)
    distances = np.asarray(cKDTree(data).query(data, k=k + 1)[0])
    sigma = float(np.median(distances[:, -1]))
    if sigma > 0:
        return sigma
    apart = distances[distances > 0]  # most points are repeated: take the neighbours that differ
    return float(np.median(apart)) if len(apart) else float(np.linalg.norm(np.ptp(data, axis=0)))


def choose_rho(metric: LocalPCA) -> float:
    """A tenth of the median local variance at the data: small against the metric there, large enough to bound it."""
    sample = metric.data[:: max(1, len(metric.data) // 1000)]
    local = batching.over_points(_variance, metric, sample).mean(axis=1)  # a constant column has none of its own
    typical, reach = float(np.median(local)), float(metric.sigma) ** 2
    return RIDGE * (typical if typical > ALONE * reach else reach)


def _variance(metric: LocalPCA, x: Any) -> Any:
    return metric.variance_at(x)
