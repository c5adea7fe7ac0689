"""What every metric has: a core for one point in plain JAX, and a face for arrays of points in
NumPy.

A new metric writes `dim` and `tensor_at`; everything else follows, and may be overridden where a
faster form exists.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from orthodrome import _boundary, batching, elimination

SYMMETRY_TOLERANCE = 1e-10
"""A tensor whose two halves differ by more than this, relative to its largest entry, is a mistake
and not rounding."""


class Jet(NamedTuple):
    """L(x, v) = ½ vᵀ M(x) v at one point with its derivatives, all that a Newton step on the energy
    needs."""

    value: Float[Array, ""]
    x: Float[Array, " d"]
    v: Float[Array, " d"]
    xx: Float[Array, "d d"]
    xv: Float[Array, "d d"]
    """∂²L / ∂xᵢ∂vⱼ"""
    vv: Float[Array, "d d"]


class Metric(eqx.Module):
    """A Riemannian metric M(x) on ℝᵈ.

    The methods that end in `_at` take one point and are plain JAX: jit, vmap and differentiate them
    in your own precision. The others take any array of points `(..., d)` and return NumPy float64.
    """

    @property
    @abc.abstractmethod
    def dim(self) -> int | None:
        """The number of coordinates, or None if the metric takes points of any dimension."""

    diagonal: ClassVar[bool] = False
    """Whether the tensor is diagonal everywhere: in many dimensions that saves much work."""

    cure: ClassVar[str] = "mend the metric or leave those points out"
    """What to do where the tensor is not positive definite."""

    @property
    def concurrent(self) -> bool:
        """Whether its compiled code may run in several threads at once.

        Batched LAPACK calls (Cholesky, eigenvalues), which a function of a user may make, may not:
        from about d = 16 on, two of them at the same time stop XLA for good.
        """
        return False

    @property
    def embedded(self) -> bool:
        """Whether it is the Euclidean pullback of a map `embed_at`: then the energy of a curve
        needs no tensor."""
        return False

    @property
    def scale(self) -> Any:
        """The coordinate distance over which the metric can change: a coarser look may miss
        something."""
        return np.inf

    # --- the core: one point, plain JAX ---

    @abc.abstractmethod
    def tensor_at(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        """M(x)."""

    def inner_at(
        self, x: Float[Array, " d"], u: Float[Array, " d"], v: Float[Array, " d"]
    ) -> Float[Array, ""]:
        """uᵀ M(x) v."""
        return u @ self.tensor_at(x) @ v

    def acceleration_at(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """f(x, v): the acceleration of the geodesic through x with velocity v, eq. (2) of the
        paper.

        Written as d/dt (M v) = ½ ∇ₓ vᵀ M v, so M c'' = ½ ∇ₓ(vᵀ M v) − (D_v M) v: one gradient and
        one directional derivative, never ∂vec M/∂x (docs/derivations/geodesic_equation.md).
        """
        M, dM = jax.jvp(self.tensor_at, (x,), (v,))
        push = jax.grad(lambda y: 0.5 * self.inner_at(y, v, v))(x)
        return solve_positive(M, push - dM @ v)

    def lower_at(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """M(x) v: the momentum that belongs to the velocity v."""
        return self.tensor_at(x) @ v

    def raise_at(self, x: Float[Array, " d"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        """M(x)⁻¹ p: the velocity that belongs to the momentum p."""
        return solve_positive(self.tensor_at(x), p)

    def slope_at(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> tuple[Any, Any, Any]:
        """½ vᵀ M(x) v with its derivatives by x and v."""
        energy = lambda y, u: 0.5 * self.inner_at(y, u, u)
        value, slopes = jax.value_and_grad(energy, argnums=(0, 1))(x, v)
        return value, *slopes

    def jet_at(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Jet:
        """½ vᵀ M(x) v with its first and second derivatives."""
        xx, vx = jax.jacfwd(lambda y, u: self.slope_at(y, u)[1:])(x, v)
        return Jet(*self.slope_at(x, v), xx, vx.T, self.tensor_at(x))

    def variation_at(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Jet:
        """What the second variation of the energy needs of the geodesic through x with velocity v.

        The jet, or another that differs by what cancels along the whole geodesic.
        """
        return self.jet_at(x, v)

    def embed_at(self, x: Float[Array, " d"]) -> Float[Array, " D"]:
        """The map that an `embedded` metric is the pullback of."""
        raise TypeError(f"{type(self).__name__} is not the pullback of a map.")

    def room(self, dim: int) -> int:
        """How many Jacobians of `embed_at` may be held at once."""
        raise TypeError(f"{type(self).__name__} is not the pullback of a map.")

    def at_once(self, dim: int) -> int:
        """How many points it is good to evaluate at once, at most: with many more, memory would
        slow them down."""
        return 2**30

    def log_volume_at(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        """½ log det M(x): how much volume the metric gives to a unit of coordinate volume."""
        return log_volume(self.tensor_at(x))

    def smallest_eigenvalue_at(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        """The smallest eigenvalue of M(x); NaN where M is not finite or not symmetric."""
        return smallest_eigenvalue(self.tensor_at(x))

    def smoother(self, factor: float) -> "Metric | None":
        """The metric with its `scale` so many times as large, to see past small features; None if
        there is none."""
        return None

    def rougher(self) -> "Metric":
        """The metric to fewer digits, if that is cheaper: good enough to look for the way."""
        return self

    def prior_covariance(self, dim: int) -> np.ndarray[Any, Any]:
        """S, the (d, d) covariance that sets the scale of the Gaussian process; the identity where
        there is no data."""
        return np.eye(dim)

    # --- the core once more: m points (m, d) that lie near each other, such as those of a curve ---

    def prepared(self) -> "Metric":
        """This metric as compiled code takes it, once a call."""
        return self

    def order(self, points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """A permutation of points (P, d) that puts near ones together, if that pays."""
        return None

    def lower_along(self, x: Float[Array, "m d"]) -> Callable[[Any], Any]:
        """u ↦ M(x) u, for vectors (m, d)."""
        M = jax.vmap(self.tensor_at)(x)
        return lambda u: jnp.einsum("mij,mj->mi", M, u)

    def launch_along(self, x: Float[Array, "m d"], p: Float[Array, "m d"]) -> tuple[Any, Any]:
        """Velocity and acceleration of the geodesics through x with momenta p = M c'."""
        v = self.raise_along(x, p)
        return v, self.motion_along(x, v)[0]

    def raise_along(self, x: Float[Array, "m d"], p: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """M(x)⁻¹ p."""
        return jax.vmap(self.raise_at)(x, p)

    def motion_along(
        self, x: Float[Array, "m d"], v: Float[Array, "m d"]
    ) -> tuple[Any, Callable[[Any], Any]]:
        """f(x, v), and u ↦ M(x) u."""
        return jax.vmap(self.acceleration_at)(x, v), self.lower_along(x)

    def slope_along(self, x: Float[Array, "m d"], v: Float[Array, "m d"]) -> tuple[Any, Any, Any]:
        """½ vᵀ M(x) v with its derivatives by x and v."""
        return jax.vmap(self.slope_at)(x, v)

    def jet_along(self, x: Float[Array, "m d"], v: Float[Array, "m d"]) -> Jet:
        """½ vᵀ M(x) v with its first and second derivatives."""
        return jax.vmap(self.jet_at)(x, v)

    def variation_along(self, x: Float[Array, "m d"], v: Float[Array, "m d"]) -> Jet:
        """What the second variation of the energy needs of the geodesics through x with velocities
        v."""
        return self.jet_along(x, v)

    def log_volume_along(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """½ log det M(x)."""
        return jax.vmap(self.log_volume_at)(x)

    def smallest_eigenvalue_along(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The smallest eigenvalue of M(x); NaN where M is not finite or not symmetric."""
        return jax.vmap(self.smallest_eigenvalue_at)(x)

    # --- the face: arrays of points, NumPy float64 ---

    def tensor(self, points: Any) -> np.ndarray[Any, Any]:
        """M at each point: (..., d) → (..., d, d)."""
        return self._map(_tensor, points=points)

    __call__ = tensor

    def inner(self, points: Any, u: Any, v: Any) -> np.ndarray[Any, Any]:
        """uᵀ M v at each point: three arrays (..., d) → (...)."""
        return self._map(_inner, points=points, u=u, v=v)

    def norm(self, points: Any, v: Any) -> np.ndarray[Any, Any]:
        """√(vᵀ M v), the length of the tangent vector v at each point: (..., d) → (...)."""
        return self._map(_norm, points=points, v=v)

    def log_volume(self, points: Any) -> np.ndarray[Any, Any]:
        """½ log det M at each point: (..., d) → (...)."""
        return self._map(_log_volume, points=points)

    def acceleration(self, points: Any, v: Any) -> np.ndarray[Any, Any]:
        """f(x, v), the geodesic acceleration at each point with velocity v: (..., d) → (..., d)."""
        return self._map(_acceleration, points=points, v=v)

    def accelerations(
        self, x: np.ndarray[Any, Any], v: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """`acceleration` for the library's own (P, d) arrays: no checks, NaN where there is no
        number."""
        return batching.over_points(_acceleration, self, x, v)

    def squared_norms(
        self, x: np.ndarray[Any, Any], v: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """vᵀ M v for the library's own (P, d) arrays: no checks, NaN where there is no number."""
        return batching.over_points(_inner, self, x, v, v)

    def require_points(self, value: Any, name: str) -> np.ndarray[Any, Any]:
        """Points `(..., d)` this metric can be evaluated at, or an error that says why not."""
        return _boundary.as_points(value, name, self.dim)

    def require_positive(self, points: np.ndarray[Any, Any], name: str) -> None:
        """Refuse points `(P, d)` at which the tensor is not symmetric, finite and positive
        definite."""
        smallest = batching.over_points(_smallest_eigenvalue, self, points)
        bad = np.flatnonzero(~(smallest > 0))
        if len(bad):
            found = smallest[bad[0]]
            what = (
                "is not finite or not symmetric"
                if np.isnan(found)
                else f"has the smallest eigenvalue {found:.3g}"
            )
            raise ValueError(
                f"the metric should be symmetric, finite and positive definite; at {name} = "
                f"{points[bad[0]]} it {what} "
                f"({len(bad)} of {len(points)} such points): {self.cure}."
            )

    # --- for people ---

    def plot(self, data: Any = None, ax: Any = None, **style: Any) -> Any:
        """Draw what a step costs, and the data over it; returns matplotlib's axes.

        `data` are the points to show, which a `LocalPCA` has itself. See
        `orthodrome.plotting.scene`.
        """
        from orthodrome import plotting

        return plotting.scene(self, data, ax, **style)

    def _repr_html_(self) -> str:
        from orthodrome import notebook

        return notebook.metric_card(self)

    def _map(self, function: Any, **arrays: Any) -> np.ndarray[Any, Any]:
        names = list(arrays)
        points = self.require_points(arrays.pop("points"), "points")
        vectors = [
            _boundary.as_points(value, name, points.shape[-1]) for name, value in arrays.items()
        ]
        flat, shape = _boundary.broadcast([points, *vectors], names)
        out = batching.over_points(function, self, *flat)
        return out.reshape((*shape, *out.shape[1:]))[()]


def solve_positive(M: Float[Array, "d d"], y: Float[Array, " d"]) -> Float[Array, " d"]:
    """M⁻¹ y for a positive definite M; NaN for any other, where an LU solve would return a
    plausible number."""
    x, pivot = elimination.solve_dense(M, y)
    return jnp.where(pivot > 0, x, jnp.nan)


def log_volume(M: Float[Array, "d d"]) -> Float[Array, ""]:
    """½ log det M."""
    return jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(M))))


def smallest_eigenvalue(M: Float[Array, "d d"]) -> Float[Array, ""]:
    """NaN where M is not symmetric."""
    symmetric = jnp.max(jnp.abs(M - M.T)) <= SYMMETRY_TOLERANCE * jnp.max(jnp.abs(M))
    return jnp.where(symmetric, jnp.linalg.eigvalsh(M)[0], jnp.nan)


# Module-level functions, so that compiled code is shared by all metrics of one kind. Points are (m,
# d).


def _tensor(metric: Metric, x: Any) -> Any:
    lower = metric.lower_along(x)
    return jnp.stack(
        [lower(jnp.broadcast_to(axis, x.shape)) for axis in jnp.eye(x.shape[1])], axis=2
    )


def _inner(metric: Metric, x: Any, u: Any, v: Any) -> Any:
    return jnp.sum(u * metric.lower_along(x)(v), axis=1)


def _norm(metric: Metric, x: Any, v: Any) -> Any:
    return jnp.sqrt(_inner(metric, x, v, v))


def _log_volume(metric: Metric, x: Any) -> Any:
    return metric.log_volume_along(x)


def _acceleration(metric: Metric, x: Any, v: Any) -> Any:
    return metric.motion_along(x, v)[0]


def _smallest_eigenvalue(metric: Metric, x: Any) -> Any:
    return metric.smallest_eigenvalue_along(x)
