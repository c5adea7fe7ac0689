"""What every metric has: the contract, a core for one point in plain JAX, and a face for arrays.

A new metric writes `dim` and `tensor_at`. Everything else follows from them. The rest of the
library asks a metric only through what is declared here, never for its type: hints say what is
known about a metric, and the other methods may be overridden where a faster form exists.
"""

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary, batching
from orthodrome._types import Array, ArrayLike, Float, JaxArray, Map, Scalar
from orthodrome.metrics.hints import hint
from orthodrome.metrics.positive import (
    log_volume,
    smallest_eigenvalue,
    smallest_entry,
    solve_positive,
)
from orthodrome.records import full_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Jet(NamedTuple):
    """L(x, v) = ½ vᵀ M(x) v at one point, and its derivatives: what a Newton step on the energy
    needs."""

    value: Scalar
    x: Float[JaxArray, " d"]
    v: Float[JaxArray, " d"]
    xx: Float[JaxArray, "d d"]
    xv: Float[JaxArray, "d d"]
    """∂²L / ∂xᵢ∂vⱼ"""
    vv: Float[JaxArray, "d d"]


Lowering = Callable[[JaxArray], JaxArray]
"""u ↦ M(x) u, for vectors (m, d) at m points."""

Motion = tuple[JaxArray, Lowering]
"""Accelerations at m points, and how vectors are lowered there."""

Slope = tuple[JaxArray, JaxArray, JaxArray]
"""½ vᵀ M(x) v, and its derivatives by x and by v."""


class Metric(eqx.Module):
    """A Riemannian metric M(x) on ℝᵈ.

    The methods that end in `_at` take one point and are plain JAX: jit, vmap and differentiate them
    in your own precision. The other methods take any array of points `(..., d)` and return NumPy
    float64.
    """

    # --- the contract: these two are mandatory ---

    @property
    @abc.abstractmethod
    def dim(self) -> int | None:
        """The number of coordinates, or None if the metric takes points of any dimension."""

    @abc.abstractmethod
    def tensor_at(self, x: Float[JaxArray, " d"]) -> Float[JaxArray, "d d"]:
        """M(x), symmetric and positive definite."""

    # --- the contract: hints, each with its default (docs/how-to/custom-metric.md) ---

    @hint
    def data(self) -> Array | None:
        """The points (n, d) that the metric was learned from; None if there are none.

        Starts of a descent and routes of `Graph` run along them, pictures and cards show them, and
        their covariance scales the Gaussian process of a path.
        """
        return None

    @hint
    def scale(self) -> float | Array:
        """The distance in coordinates over which the metric can change; infinite if not known.

        No panel of a certificate and no step of `exp_map` is longer than twice this, so that narrow
        features are not missed. `Auto` calls a problem easy whose ends are a few of it apart.
        """
        return np.inf

    @hint
    def concurrent(self) -> bool:
        """Whether its compiled code may run in several threads at once.

        It may not if it calls batched LAPACK routines (Cholesky, eigenvalues, LU): two such calls
        at the same time can stop XLA for good, with jax 0.10.2 from d = 32 on
        (`python benchmarks/lapack_in_threads.py` shows it). A user's function may make such calls,
        so the default is the safe answer.
        """
        return False

    @hint
    def diagonal(self) -> bool:
        """Whether the tensor is diagonal everywhere. Nothing here then calls LAPACK, and in many
        dimensions that saves much work."""
        return False

    @hint
    def embedded(self) -> bool:
        """Whether it is the Euclidean pullback of the map `embed_at`. The energy of a curve then
        needs no tensor."""
        return False

    @hint
    def cure(self) -> str:
        """What to do where the tensor is not positive definite, for the error that says so."""
        return "mend the metric or leave those points out"

    @hint
    def parameters(self) -> dict[str, Array] | None:
        """The arguments of its constructor, all of them arrays, by name; None if it has others.

        With them the metric is written into the files of its paths, and made again from there.
        """
        return None

    @hint
    def facts(self) -> Sequence[tuple[str, str]]:
        """What a notebook card says of it: names and values."""
        return [("made as", repr(self))]

    def smoother(self, factor: float) -> "Metric | None":
        """The metric with its `scale` multiplied by the factor, to see past small features; None if
        there is no such metric. One of the starts of a descent is a path on it."""
        return None

    def rougher(self) -> "Metric":
        """The metric to fewer digits, if that is cheaper: good enough for the first steps of a
        descent. Only an `embedded` metric is asked for it."""
        return self

    def prepared(self) -> "Metric":
        """The metric in the form that compiled code takes. Made once for as long as it lives."""
        return self

    def order(self, points: Array) -> Array | None:
        """A permutation of points (P, d) that puts near ones together, if evaluation profits."""
        return None

    def at_once(self, dim: int) -> int:
        """How many points to evaluate together at most: with many more, memory would be slow."""
        return 2**30

    def prior_covariance(self, dim: int) -> Array:
        """S (d, d), which scales the Gaussian process of a path: the data's covariance, or the
        identity where there is no data."""
        return np.eye(dim) if self.data is None else np.atleast_2d(np.cov(self.data, rowvar=False))

    def embed_at(self, x: Float[JaxArray, " d"]) -> Float[JaxArray, " D"]:
        """The map that an `embedded` metric is the pullback of."""
        raise TypeError(f"{type(self).__name__} is not the pullback of a map.")

    def jacobians_at_once(self, dim: int) -> int:
        """How many Jacobians of `embed_at` may be held in memory together."""
        return self.at_once(dim)

    # --- the core: one point, plain JAX ---

    def inner_at(
        self, x: Float[JaxArray, " d"], u: Float[JaxArray, " d"], v: Float[JaxArray, " d"]
    ) -> Scalar:
        """uᵀ M(x) v."""
        return u @ self.tensor_at(x) @ v

    def acceleration_at(
        self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]
    ) -> Float[JaxArray, " d"]:
        """f(x, v): the acceleration of the geodesic through x with velocity v, eq. (2) of the
        paper.

        Written as d/dt (M v) = ½ ∇ₓ vᵀ M v, so M c'' = ½ ∇ₓ(vᵀ M v) − (D_v M) v: one gradient and
        one directional derivative, never ∂vec M/∂x (docs/derivations/geodesic_equation.md).
        """
        M, dM = jax.jvp(self.tensor_at, (x,), (v,))
        push = jax.grad(lambda y: 0.5 * self.inner_at(y, v, v))(x)
        return solve_positive(M, push - dM @ v)

    def lower_at(self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]) -> Float[JaxArray, " d"]:
        """M(x) v: the momentum that belongs to the velocity v."""
        return self.tensor_at(x) @ v

    def raise_at(self, x: Float[JaxArray, " d"], p: Float[JaxArray, " d"]) -> Float[JaxArray, " d"]:
        """M(x)⁻¹ p: the velocity that belongs to the momentum p."""
        return solve_positive(self.tensor_at(x), p)

    def slope_at(self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]) -> Slope:
        """½ vᵀ M(x) v with its derivatives by x and v."""
        energy = lambda y, u: 0.5 * self.inner_at(y, u, u)
        value, slopes = jax.value_and_grad(energy, argnums=(0, 1))(x, v)
        return value, *slopes

    def jet_at(self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]) -> Jet:
        """½ vᵀ M(x) v with its first and second derivatives."""
        xx, vx = jax.jacfwd(lambda y, u: self.slope_at(y, u)[1:])(x, v)
        return Jet(*self.slope_at(x, v), xx, vx.T, self.tensor_at(x))

    def variation_at(self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]) -> Jet:
        """What the second variation of the energy needs of the geodesic through x with velocity v.

        The jet, or another that differs by what cancels along the whole geodesic.
        """
        return self.jet_at(x, v)

    def log_volume_at(self, x: Float[JaxArray, " d"]) -> Scalar:
        """½ log det M(x): how much volume the metric gives to a unit of coordinate volume."""
        M = self.tensor_at(x)
        return 0.5 * jnp.sum(jnp.log(jnp.diagonal(M))) if self.diagonal else log_volume(M)

    def smallest_eigenvalue_at(self, x: Float[JaxArray, " d"]) -> Scalar:
        """The smallest eigenvalue of M(x); NaN where M is not finite or not symmetric."""
        M = self.tensor_at(x)
        return smallest_entry(M) if self.diagonal else smallest_eigenvalue(M)

    # --- the core once more: m points (m, d) that lie near each other, such as those of a curve ---

    def lower_along(self, x: Float[JaxArray, "m d"]) -> Lowering:
        """u ↦ M(x) u, for vectors (m, d)."""
        M = jax.vmap(self.tensor_at)(x)
        return lambda u: jnp.einsum("mij,mj->mi", M, u)

    def launch_along(
        self, x: Float[JaxArray, "m d"], p: Float[JaxArray, "m d"]
    ) -> tuple[Float[JaxArray, "m d"], Float[JaxArray, "m d"]]:
        """Velocity and acceleration of the geodesics through x with momenta p = M c'."""
        v = self.raise_along(x, p)
        return v, self.motion_along(x, v)[0]

    def raise_along(
        self, x: Float[JaxArray, "m d"], p: Float[JaxArray, "m d"]
    ) -> Float[JaxArray, "m d"]:
        """M(x)⁻¹ p."""
        return jax.vmap(self.raise_at)(x, p)

    def motion_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Motion:
        """f(x, v), and u ↦ M(x) u."""
        return jax.vmap(self.acceleration_at)(x, v), self.lower_along(x)

    def slope_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Slope:
        """½ vᵀ M(x) v with its derivatives by x and v."""
        return jax.vmap(self.slope_at)(x, v)

    def jet_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Jet:
        """½ vᵀ M(x) v with its first and second derivatives."""
        return jax.vmap(self.jet_at)(x, v)

    def variation_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Jet:
        """What the second variation of the energy needs of the geodesics through x with velocities
        v."""
        return self.jet_along(x, v)

    def log_volume_along(self, x: Float[JaxArray, "m d"]) -> Float[JaxArray, " m"]:
        """½ log det M(x)."""
        return self._apart(self.log_volume_at, x)

    def smallest_eigenvalue_along(self, x: Float[JaxArray, "m d"]) -> Float[JaxArray, " m"]:
        """The smallest eigenvalue of M(x); NaN where M is not finite or not symmetric."""
        return self._apart(self.smallest_eigenvalue_at, x)

    def _apart(self, function: Map, x: Float[JaxArray, "m d"]) -> Float[JaxArray, " m"]:
        """A function that may call LAPACK, for each point: in no batch if that could stop XLA."""
        one_by_one = self.concurrent and not self.diagonal
        return jax.lax.map(function, x) if one_by_one else jax.vmap(function)(x)

    # --- the face: arrays of points, NumPy float64 ---

    def tensor(self, points: ArrayLike) -> Array:
        """M at each point: (..., d) → (..., d, d)."""
        return self._map(_tensor, points=points)

    __call__ = tensor

    def inner(self, points: ArrayLike, u: ArrayLike, v: ArrayLike) -> Array:
        """uᵀ M v at each point: three arrays (..., d) → (...)."""
        return self._map(_inner, points=points, u=u, v=v)

    def norm(self, points: ArrayLike, v: ArrayLike) -> Array:
        """√(vᵀ M v), the length of the tangent vector v at each point: (..., d) → (...)."""
        return self._map(_norm, points=points, v=v)

    def log_volume(self, points: ArrayLike) -> Array:
        """½ log det M at each point: (..., d) → (...)."""
        return self._map(_log_volume, points=points)

    def acceleration(self, points: ArrayLike, v: ArrayLike) -> Array:
        """f(x, v), the geodesic acceleration at each point with velocity v: (..., d) → (..., d)."""
        return self._map(_acceleration, points=points, v=v)

    def accelerations(self, x: Array, v: Array) -> Array:
        """`acceleration` for the library's own (P, d) arrays: no checks, NaN where there is no
        number."""
        return batching.over_points(_acceleration, self, x, v)

    def squared_norms(self, x: Array, v: Array) -> Array:
        """vᵀ M v for the library's own (P, d) arrays: no checks, NaN where there is no number."""
        return batching.over_points(_inner, self, x, v, v)

    def require_points(self, value: ArrayLike, name: str) -> Array:
        """Points `(..., d)` this metric can be evaluated at, or an error that says why not."""
        return _boundary.as_points(value, name, self.dim)

    def require_positive(self, points: Array, name: str) -> None:
        """Refuse points `(P, d)` at which the tensor is not symmetric, finite and positive
        definite."""
        smallest = batching.over_points(_smallest_eigenvalue, self, points)
        bad = np.flatnonzero(~(smallest > 0))
        if len(bad):
            eigenvalue = smallest[bad[0]]
            what = (
                "is not finite or not symmetric"
                if np.isnan(eigenvalue)
                else f"has the smallest eigenvalue {eigenvalue:.3g}"
            )
            raise ValueError(
                f"the metric should be symmetric, finite and positive definite; at {name} = "
                f"{points[bad[0]]} it {what} ({len(bad)} of {len(points)} such points): "
                f"{self.cure}."
            )

    # --- for people ---

    def plot(self, data: ArrayLike | None = None, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw what a step costs, and the data over it; returns matplotlib's axes.

        `data` are the points to show; without them, the metric's own. See
        `orthodrome.plotting.scene`.
        """
        from orthodrome import plotting

        return plotting.scene(self, data, ax, **style)

    def _repr_html_(self) -> str:
        from orthodrome import notebook

        return notebook.metric_card(self)

    def _map(self, function: Callable[..., JaxArray], **arrays: ArrayLike) -> Array:
        names = list(arrays)
        points = self.require_points(arrays.pop("points"), "points")
        vectors = [
            _boundary.as_points(value, name, points.shape[-1]) for name, value in arrays.items()
        ]
        flat, shape = _boundary.broadcast([points, *vectors], names)
        out = batching.over_points(function, self, *flat)
        return out.reshape((*shape, *out.shape[1:]))[()]

    # --- files ---

    kinds: ClassVar[dict[str, type["Metric"]]] = {}
    """Every metric's class by its full name, so that files can name it."""

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        Metric.kinds[full_name(cls)] = cls


# Module-level functions, so that compiled code is shared by all metrics of one kind. Points are
# (m, d).


def _tensor(metric: Metric, x: Float[JaxArray, "m d"]) -> Float[JaxArray, "m d d"]:
    lower = metric.lower_along(x)
    return jnp.stack(
        [lower(jnp.broadcast_to(axis, x.shape)) for axis in jnp.eye(x.shape[1])], axis=2
    )


def _inner(
    metric: Metric,
    x: Float[JaxArray, "m d"],
    u: Float[JaxArray, "m d"],
    v: Float[JaxArray, "m d"],
) -> Float[JaxArray, " m"]:
    return jnp.sum(u * metric.lower_along(x)(v), axis=1)


def _norm(
    metric: Metric, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]
) -> Float[JaxArray, " m"]:
    return jnp.sqrt(_inner(metric, x, v, v))


def _log_volume(metric: Metric, x: Float[JaxArray, "m d"]) -> Float[JaxArray, " m"]:
    return metric.log_volume_along(x)


def _acceleration(
    metric: Metric, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]
) -> Float[JaxArray, "m d"]:
    return metric.motion_along(x, v)[0]


def _smallest_eigenvalue(metric: Metric, x: Float[JaxArray, "m d"]) -> Float[JaxArray, " m"]:
    return metric.smallest_eigenvalue_along(x)
