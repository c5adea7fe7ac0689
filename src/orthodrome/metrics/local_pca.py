"""The non-parametric metric of the paper (Sec. 4.1): short where the data are, long where they are
not."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary
from orthodrome._types import AnyArray, Array, ArrayLike, Float, JaxArray, Scalar
from orthodrome.metrics import closed_forms, moments
from orthodrome.metrics.base import Jet, Lowering, Metric, Motion, Slope
from orthodrome.metrics.blocks import Blocks, neighbourhood
from orthodrome.metrics.defaults import choose_rho, choose_sigma

TRUNCATION = 1e-10
"""How much of M may be left out, at most, when far data are skipped."""

IN_CACHE = 2**16
"""Pairs of points and data that are weighed at once: their weights stay in a core's cache."""

CHUNK = 64
"""Points along a curve for which near data are gathered together."""

FEW_DATA = 64
"""Compiled code takes at least so many data, or a multiple that has four binary digits: data sets
of nearly the same size then share it."""

FEW_SLOPES = 8
"""Up to this dimension all slopes of the local variances cost less than a second pass over the
data."""


Sums = TypeVar("Sums")
"""Sums over the data, a row a point: an array, or several."""

Chunk = TypeVar("Chunk")
"""What is known of some points: arrays with a row for each."""


class LocalPCA(Metric):
    """The inverse of the local diagonal covariance of the data.

    M_dd(x) = (Σₙ wₙ(x) (x_nd − x_d)² + ρ)⁻¹ with wₙ(x) = exp(−‖xₙ − x‖² / 2σ²).

    `data` has shape (n, D). `sigma` is the reach of the weights: smaller follows the data more
    closely and bends more. `rho` keeps the metric finite where there are no data: 1/√ρ is the cost
    of a unit step there.

    Left out, they are chosen from the data so that scaling the data changes nothing but the scale:
    `sigma` is the median distance to the seventh neighbour (`choose_sigma`), `rho` a tenth of the
    median local variance at the data (`choose_rho`).

    With more than a thousand data, paths and distances look only at those near them: what is left
    out changes M by less than `truncation`, relatively (docs/derivations/local_pca.md). The methods
    that end in `_at` always take all data.
    """

    diagonal: ClassVar[bool] = True
    concurrent: ClassVar[bool] = True

    data: Array
    sigma: Array
    rho: Array
    center: Array
    truncation: Array
    blocks: Blocks | None
    """The data once more, in blocks, where compiled code works on many of them."""
    absent: Array | None
    """(n,): where compiled code works on few of them, ∞ for rows that only fill the array up, 0 for
    the data."""

    def __init__(
        self,
        data: ArrayLike,
        sigma: float | None = None,
        rho: float | None = None,
        truncation: float = TRUNCATION,
    ) -> None:
        # NumPy float64, not jnp: outside the float64 scope jnp.asarray would round to float32.
        # Arrays of no dimension rather than floats: compiled code then serves every σ and ρ.
        self.data = _boundary.as_data(data)
        self.data.setflags(write=False)  # compiled code has a copy, which would not see a change
        # not the mean: one far outlier would cost every point its digits
        self.center = np.median(self.data, axis=0)
        self.sigma = np.asarray(
            choose_sigma(self.data) if sigma is None else _boundary.as_positive(sigma, "sigma")
        )
        if not 0 < self.sigma**2 < np.inf:
            raise ValueError(
                "data should have numbers whose squares are numbers too; sigma would be "
                f"{self.sigma:g}: rescale them."
            )
        self.truncation = np.asarray(_boundary.as_positive(truncation, "truncation"))
        self.blocks = self.absent = None
        self.rho = np.asarray(
            choose_rho(LocalPCA(self.data, float(self.sigma), float(self.sigma**2)))
            if rho is None
            else _boundary.as_positive(rho, "rho")
        )

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.data.shape[-1]

    @property
    def scale(self) -> Array:
        """σ: the metric cannot change over less."""
        return self.sigma

    @property
    def parameters(self) -> dict[str, Array]:
        """All that it is made of."""
        return {
            "data": self.data,
            "sigma": self.sigma,
            "rho": self.rho,
            "truncation": self.truncation,
        }

    @property
    def facts(self) -> Sequence[tuple[str, str]]:
        """The size of the data, σ and ρ."""
        n, D = self.data.shape
        return [
            ("learned from", f"{n} points in {D} dimensions"),
            ("σ", f"{self.sigma:.4g}"),
            ("ρ", f"{self.rho:.4g}"),
        ]

    @property
    def features(self) -> Float[JaxArray, "n F"]:
        """(n, 2D + 1): 1, the centred data and their squares. Every sum over the data is a product
        with this matrix."""
        centred = jnp.asarray(self.data) - self.center
        return jnp.concatenate([jnp.ones((len(centred), 1)), centred, centred**2], axis=1)

    def variance_at(self, x: Float[JaxArray, " D"]) -> Float[JaxArray, " D"]:
        """Σₙ wₙ(x) (xₙ − x)² + ρ, the diagonal of M⁻¹.

        Squares are expanded, so that both the exponents and the sums are products with `features`;
        for a batch of points vmap turns them into two matrix products. The price is rounding of
        about 1e-16 Σ wₙ (spread of the data)², which float64 can afford and float32 cannot. It must
        not turn a sum of squares negative.
        """
        if x.dtype != jnp.float64:
            raise TypeError(
                f"LocalPCA needs float64; x is {x.dtype}: call it under `with "
                "jax.enable_x64(True):`, or use the "
                "methods for arrays, which see to that."
            )
        D = x.shape[0]
        x = x - self.center
        sums = self._weights_at(x) @ self.features
        total, first, second = sums[0], sums[1 : D + 1], sums[D + 1 :]
        return jnp.maximum(second - 2 * x * first + x**2 * total, 0.0) + self.rho

    def _weights_at(self, x: Float[JaxArray, " D"]) -> Float[JaxArray, " n"]:
        """wₙ at the point x, centred as the data are."""
        squared_distance = self.features @ jnp.concatenate(
            [jnp.dot(x, x)[None], -2 * x, jnp.ones_like(x)]
        )
        if self.absent is not None:
            squared_distance += self.absent
        return jnp.exp(-squared_distance / (2 * self.sigma**2))

    def tensor_at(self, x: Float[JaxArray, " D"]) -> Float[JaxArray, "D D"]:
        return jnp.diag(1 / self.variance_at(x))

    def inner_at(
        self, x: Float[JaxArray, " D"], u: Float[JaxArray, " D"], v: Float[JaxArray, " D"]
    ) -> Scalar:
        return jnp.sum(u * v / self.variance_at(x))

    def acceleration_at(
        self, x: Float[JaxArray, " D"], v: Float[JaxArray, " D"]
    ) -> Float[JaxArray, " D"]:
        """With S = variance: c'' = S ∘ (v ∘ D_v S / S² − ½ ∇ₓ(S·q)), q = (v / S)² held fixed: O(nD)
        a point."""
        S, dS = jax.jvp(self.variance_at, (x,), (v,))
        _, pull = jax.vjp(self.variance_at, x)
        (slope,) = pull((v / S) ** 2)
        return v * dS / S - 0.5 * S * slope

    def lower_at(self, x: Float[JaxArray, " D"], v: Float[JaxArray, " D"]) -> Float[JaxArray, " D"]:
        return v / self.variance_at(x)

    def raise_at(self, x: Float[JaxArray, " D"], p: Float[JaxArray, " D"]) -> Float[JaxArray, " D"]:
        return self.variance_at(x) * p

    def log_volume_at(self, x: Float[JaxArray, " D"]) -> Scalar:
        return -0.5 * jnp.sum(jnp.log(self.variance_at(x)))

    def smallest_eigenvalue_at(self, x: Float[JaxArray, " D"]) -> Scalar:
        return 1 / jnp.max(self.variance_at(x))

    # --- many points at once ---

    def prepared(self) -> "LocalPCA":
        near = neighbourhood(self.data)
        if near is not None:
            return eqx.tree_at(lambda metric: metric.blocks, self, near.blocks, is_leaf=_is_none)
        n = len(self.data)
        rows = np.minimum(np.arange(_round(n)), n - 1)
        absent = np.where(np.arange(_round(n)) < n, 0.0, np.inf)
        filled = eqx.tree_at(lambda metric: metric.data, self, self.data[rows])
        return eqx.tree_at(lambda metric: metric.absent, filled, absent, is_leaf=_is_none)

    def order(self, points: Array) -> Array | None:
        near = neighbourhood(self.data)
        return None if near is None else near.order(points)

    def lower_along(self, x: Float[JaxArray, "m D"]) -> Lowering:
        S = self._in_chunks(self._variances, x)
        return lambda u: u / S

    def raise_along(
        self, x: Float[JaxArray, "m D"], p: Float[JaxArray, "m D"]
    ) -> Float[JaxArray, "m D"]:
        return self._in_chunks(self._variances, x) * p

    def log_volume_along(self, x: Float[JaxArray, "m D"]) -> Float[JaxArray, " m"]:
        return -0.5 * jnp.sum(jnp.log(self._in_chunks(self._variances, x)), axis=1)

    def smallest_eigenvalue_along(self, x: Float[JaxArray, "m D"]) -> Float[JaxArray, " m"]:
        return 1 / jnp.max(self._in_chunks(self._variances, x), axis=1)

    def motion_along(self, x: Float[JaxArray, "m D"], v: Float[JaxArray, "m D"]) -> Motion:
        f, S = self._in_chunks(self._motions, x, v)
        return f, lambda u: u / S

    def slope_along(self, x: Float[JaxArray, "m D"], v: Float[JaxArray, "m D"]) -> Slope:
        return self._in_chunks(self._slopes, x, v)

    def jet_along(self, x: Float[JaxArray, "m D"], v: Float[JaxArray, "m D"]) -> Jet:
        return self._in_chunks(self._jets, x, v)

    def _in_chunks(self, function: Callable[..., Chunk], *arrays: JaxArray) -> Chunk:
        """The function of some points, for so many of them at a time that all it needs stays in the
        cache."""
        m = len(arrays[0])
        most = CHUNK if self.blocks is not None else max(1, IN_CACHE // len(self.data))
        count = -(-m // most)
        if count == 1:
            return function(*arrays)
        size = -(-m // count)
        rows = np.minimum(np.arange(count * size), m - 1)
        chunks = [array[rows].reshape(count, size, *array.shape[1:]) for array in arrays]
        out = jax.lax.map(lambda chunk: function(*chunk), chunks)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:m], out)

    def _sum(
        self, x: Float[JaxArray, "m D"], columns: Callable[[JaxArray, JaxArray], Sums]
    ) -> tuple[Float[JaxArray, "m D"], Sums]:
        """Σₙ columns(wₙ, yₙ) for the points x, where y and x are measured from the middle of x; and
        that x.

        Measured from there, the expanded squares keep their digits: what is far away has no weight.
        A point that is
        nowhere near the data, or no number, has no say in where the middle is: the others must not
        suffer from it.
        """
        points = x
        low, high = (
            self.blocks.box
            if self.blocks
            else (jnp.min(self.data, axis=0), jnp.max(self.data, axis=0))
        )
        middle = jnp.mean(jnp.clip(jnp.where(jnp.isnan(x), low, x), low, high), axis=0)
        middle = jax.lax.stop_gradient(middle)  # nothing depends on it
        x = x - middle
        half = 0.5 * jnp.sum(x**2, axis=1)

        def term(data: AnyArray, inside: AnyArray) -> Sums:
            y = data - middle
            squares = (
                jnp.sum(y**2, axis=1)
                if self.absent is None
                else jnp.sum(y**2, axis=1) + self.absent
            )
            exponent = x @ y.T - half[:, None] - 0.5 * squares
            w = jnp.exp(exponent / self.sigma**2)
            return columns(w, y) if inside is None else columns(w * inside, y)

        if self.blocks is None:
            return x, term(self.data, None)
        return x, self.blocks.sum(points, self.sigma, self.truncation * self.rho, term)

    def _variances(self, x: Float[JaxArray, "m D"]) -> Float[JaxArray, "m D"]:
        x, sums = self._sum(x, lambda w, y: w @ moments.with_squares(y))
        return jnp.maximum(self._about(x, sums)[2], 0.0) + self.rho

    def _motions(
        self, x: Float[JaxArray, "m D"], v: Float[JaxArray, "m D"]
    ) -> tuple[JaxArray, JaxArray]:
        """f and the local variances S: with q = (v/S)², f = v ∘ (∂S v) / S − ½ S ∘ (∂Sᵀ q)."""
        D = x.shape[1]
        if D <= FEW_SLOPES:
            x, raw = self._sum(x, lambda w, y: w @ moments.monomials(y, 3))
            return jax.vmap(partial(closed_forms.motion, sigma=self.sigma, rho=self.rho))(x, v, raw)

        def both(w: JaxArray, y: JaxArray) -> tuple[JaxArray, JaxArray]:
            features = moments.with_squares(y)
            return w @ features, (w * (v @ y.T)) @ features

        start = x
        x, (sums, sums_v) = self._sum(x, both)
        _, first, squares = self._about(x, sums)
        S = jnp.maximum(squares, 0.0) + self.rho
        # Σ w (r·v) r²
        turned = self._about(x, sums_v)[2] - jnp.sum(v * x, axis=1, keepdims=True) * squares
        along = turned / self.sigma**2 - 2 * v * first
        return v * along / S - 0.5 * S * self._pulled(start, x, (v / S) ** 2, first), S

    def _slopes(self, x: Float[JaxArray, "m D"], v: Float[JaxArray, "m D"]) -> Slope:
        """½ Σ v²/S, and its derivatives by x and v."""
        start = x
        x, sums = self._sum(x, lambda w, y: w @ moments.with_squares(y))
        _, first, squares = self._about(x, sums)
        S = jnp.maximum(squares, 0.0) + self.rho
        return (
            0.5 * jnp.sum(v**2 / S, axis=1),
            -0.5 * self._pulled(start, x, (v / S) ** 2, first),
            v / S,
        )

    def _about(
        self, x: Float[JaxArray, "m D"], sums: Float[JaxArray, "m F"]
    ) -> tuple[JaxArray, JaxArray, JaxArray]:
        """Σ w, Σ w r and Σ w r² from sums over the columns 1, y, y²."""
        total, first, second = jnp.split(sums, [1, 1 + x.shape[1]], axis=1)
        return total, first - x * total, moments.square_about(x, total, first, second)

    def _pulled(
        self,
        start: Float[JaxArray, "m D"],
        x: Float[JaxArray, "m D"],
        q: Float[JaxArray, "m D"],
        first: Float[JaxArray, "m D"],
    ) -> Float[JaxArray, "m D"]:
        """Σᵢ qᵢ ∂Sᵢ, where x is `start` seen from the middle, and first is Σ w r."""

        def pulled(w: JaxArray, y: JaxArray) -> JaxArray:
            a = q @ (y**2).T - (2 * x * q) @ y.T + jnp.sum(x**2 * q, axis=1, keepdims=True)
            return (w * a) @ jnp.concatenate([jnp.ones((len(y), 1)), y], axis=1)

        _, pull = self._sum(start, pulled)
        return (pull[:, 1:] - x * pull[:, :1]) / self.sigma**2 - 2 * q * first

    def _jets(self, x: Float[JaxArray, "m D"], v: Float[JaxArray, "m D"]) -> Jet:
        """Closed forms (docs/derivations/energy.md) from moments of the data up to the fourth
        order."""
        D = x.shape[1]
        start = x
        if D <= moments.FEW:
            x, raw = self._sum(x, lambda w, y: w @ moments.monomials(y, 4))
            tables = jax.vmap(partial(moments.tables, dim=D, order=4))(raw)
        else:
            x, raw = self._sum(x, lambda w, y: w @ moments.monomials(y, 3))
            tables = jax.vmap(partial(moments.tables, dim=D, order=3))(raw)
        m = jax.vmap(moments.about)(x, *tables[:4])
        S = jnp.maximum(jnp.diagonal(m.second, axis1=1, axis2=2), 0.0) + self.rho
        q = -0.5 * (v / S) ** 2
        if D <= moments.FEW:
            of_a = jax.vmap(moments.weighed)(x, q, *tables)
        else:

            def again(w: JaxArray, y: JaxArray) -> JaxArray:
                a = q @ (y**2).T - (2 * x * q) @ y.T + jnp.sum(x**2 * q, axis=1, keepdims=True)
                return (w * a) @ moments.monomials(y, 2)

            of_a = jax.vmap(partial(moments.tables, dim=D, order=2))(self._sum(start, again)[1])
        second_a = jax.vmap(moments.second_about)(x, *of_a)
        jet = partial(closed_forms.jet, sigma=self.sigma)
        return jax.vmap(jet)(v, q, S, m, of_a[0], second_a)

    def smoother(self, factor: float) -> "LocalPCA":
        return eqx.tree_at(lambda metric: metric.sigma, self, np.asarray(factor * self.sigma))

    def __repr__(self) -> str:
        n, D = self.data.shape
        return f"LocalPCA({n} points in {D} dimensions, sigma={self.sigma:.4g}, rho={self.rho:.4g})"


def _is_none(leaf: object) -> bool:
    return leaf is None


def _round(n: int) -> int:
    """The size of the array that compiled code takes so many data in."""
    step = FEW_DATA if n <= 2 * FEW_DATA else 1 << (n - 1).bit_length() - 4
    return -(-n // step) * step
