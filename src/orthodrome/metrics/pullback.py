"""Metrics that a map into a larger space induces: a surface, a decoder, a stochastic generator."""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Var

from orthodrome import _boundary
from orthodrome._types import Array, ArrayLike, Float, JaxArray, Map, Scalar
from orthodrome.memo import once
from orthodrome.metrics.base import Jet, Lowering, Metric, Motion, Slope
from orthodrome.metrics.positive import log_volume, smallest_eigenvalue, solve_positive
from orthodrome.metrics.tensor import output_shape

CHUNK = 2**22
"""Numbers in the derivatives that are held at once, those of the map's widest layer: bounds memory
(32 MiB), however many outputs the map has."""

CACHED = 2**16
"""Numbers in the derivatives that are formed at once where they need not be held, those of the
map's widest layer: they should stay in a core's cache."""


LOOPS = "scan", "while"
"""What JAX calls them."""

Rows = TypeVar("Rows")
"""Arrays with a row for each point."""


class Pullback(Metric):
    """The metric M = JᵀJ that a map g: ℝᵈ → ℝᴰ pulls back: a step in x costs what it moves g(x).

    `mean` is a JAX function of one point `(d,)`, with an output of any shape (flattened). With
    `std`, the pair is a stochastic generator y = mean(x) + std(x) ∘ ε, and M = JμᵀJμ + JσᵀJσ is its
    expected metric (Sec. 4.2 of the paper; `std` is the standard deviation, not the variance). That
    is the pullback of the stacked map (mean, std).

    `ambient` measures the output space instead of the Euclidean metric: positive weights of the
    output's shape, or a metric with a diagonal tensor such as `LocalPCA` of the data. Then M = Jᵀ A
    J, with A at the mean. `ridge` adds ridge · I to M, for directions in which the map is flat:
    without it, a step there costs nothing, M is not positive and there is no shortest path. Zero,
    the default, adds nothing.

    Both maps should be pure functions. They are compiled once: weights that live in an object and
    change later are not seen, unless the object is a JAX pytree (an equinox module, or
    `jax.tree_util.Partial` of a function and its weights).
    """

    cure: ClassVar[str] = (
        "where the map is flat, pass a ridge; else mend the map or leave those points out"
    )

    mean: Map
    std: Map | None
    ambient: Any
    """Weights, flattened, or a metric, or None."""
    ridge: Array | None
    """None for zero."""

    def __init__(
        self,
        mean: Map,
        std: Map | None = None,
        *,
        ambient: ArrayLike | Metric | None = None,
        ridge: float = 0.0,
    ) -> None:
        if any(kind.__module__.startswith("torch.") for kind in type(mean).__mro__):
            raise TypeError(
                "mean is a PyTorch module: pass orthodrome.from_torch(module, example)."
            )
        self.mean = _boundary.require_callable(mean, "mean")
        self.std = None if std is None else _boundary.require_callable(std, "std")
        self.ambient = _require_ambient(ambient)
        self.ridge = None if ridge == 0 else np.asarray(_boundary.as_positive(ridge, "ridge"))

    def __repr__(self) -> str:
        maps = ", ".join(_name(g) for g in (self.mean, self.std) if g is not None)
        ambient = "" if self.ambient is None else f", ambient={_name(self.ambient)}"
        return (
            f"Pullback({maps}{ambient}{'' if self.ridge is None else f', ridge={self.ridge:.4g}'})"
        )

    @property
    def dim(self) -> None:
        """None: the map decides which points it takes."""
        return None

    @property
    def concurrent(self) -> bool:
        parts = (self.mean, self.std, self.ambient)
        return all(_concurrent(part) for part in parts if callable(part))

    @property
    def embedded(self) -> bool:
        return not isinstance(self.ambient, Metric)

    def embed_at(self, x: Float[JaxArray, " d"]) -> Float[JaxArray, " D"]:
        """The map whose Euclidean pullback this is, unless the ambient metric varies: its output,
        flattened, with whatever else costs something beneath it: the standard deviations, and
        √ridge · x."""
        maps = [self.mean] if self.std is None else [self.mean, self.std]
        parts = [jnp.ravel(jnp.asarray(g(x), dtype=x.dtype)) for g in maps]
        if self.ambient is not None and self.embedded:
            parts = [jnp.sqrt(jnp.asarray(self.ambient, x.dtype)) * part for part in parts]
        if self.ridge is not None:
            parts.append(jnp.sqrt(jnp.asarray(self.ridge, x.dtype)) * x)
        return jnp.concatenate(parts)

    def _weights_at(self, x: Float[JaxArray, " d"]) -> Float[JaxArray, " D"]:
        """What the ambient metric says a step in each coordinate of `embed_at` costs."""
        y = jnp.ravel(jnp.asarray(self.mean(x), dtype=x.dtype))
        costs = self.ambient.lower_at(y, jnp.ones_like(y))
        costs = [costs] if self.std is None else [costs, costs]
        return jnp.concatenate([*costs, jnp.ones_like(x)] if self.ridge is not None else costs)

    def _square(
        self, x: Float[JaxArray, " d"], J: Float[JaxArray, "D d"]
    ) -> Float[JaxArray, "d d"]:
        """Jᵀ A J."""
        return J.T @ J if self.embedded else (J.T * self._weights_at(x)) @ J

    def tensor_at(self, x: Float[JaxArray, " d"]) -> Float[JaxArray, "d d"]:
        return self._square(x, jax.jacfwd(self.embed_at)(x))

    def inner_at(
        self, x: Float[JaxArray, " d"], u: Float[JaxArray, " d"], v: Float[JaxArray, " d"]
    ) -> Scalar:
        _, push = jax.linearize(self.embed_at, x)
        return push(u) @ push(v) if self.embedded else push(u) @ (self._weights_at(x) * push(v))

    def acceleration_at(
        self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]
    ) -> Float[JaxArray, " d"]:
        return self._motion_at(x, v)[0]

    def _motion_at(
        self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]
    ) -> tuple[JaxArray, JaxArray]:
        """c'' and M. c'' = −M⁻¹ Jᵀ g''[v, v]: d passes for J and one of second order
        (docs/derivations/pullback.md)."""
        J, bend = jax.jacfwd(self.embed_at)(x), self._bend_at(x, v)
        M = self._square(x, J)
        if self.embedded:
            return -solve_positive(M, J.T @ bend), M
        push = J @ v
        costs, change = jax.jvp(self._weights_at, (x,), (v,))
        lift = jax.grad(lambda y: 0.5 * self._weights_at(y) @ push**2)(x)
        return solve_positive(M, lift - J.T @ (costs * bend + change * push)), M

    def _bend_at(self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]) -> Float[JaxArray, " D"]:
        """g''[v, v]."""
        velocity = lambda y: jax.jvp(self.embed_at, (y,), (v,))[1]
        return jax.jvp(velocity, (x,), (v,))[1]

    def variation_at(self, x: Float[JaxArray, " d"], v: Float[JaxArray, " d"]) -> Jet:
        """As in `Metric`; in a Euclidean space without third derivatives
        (docs/derivations/pullback.md)."""
        if not self.embedded:
            return super().variation_at(x, v)
        J, bend = jax.jacfwd(self.embed_at)(x), self._bend_at(x, v)
        M, push = J.T @ J, J @ v
        # the acceleration in the large space, normal to the surface
        across = bend - J @ solve_positive(M, J.T @ bend)

        def along(y: JaxArray) -> tuple[JaxArray, JaxArray]:
            g = lambda z: jax.jvp(self.embed_at, (z,), (v,))
            return g(y)[1], jax.vjp(self.embed_at, y)[1](across)[0]

        B, bent = jax.jacfwd(along)(x)
        return Jet(0.5 * push @ push, B.T @ push, J.T @ push, B.T @ B - bent, B.T @ J, M)

    def rougher(self) -> Metric:
        rough = eqx.tree_at(lambda metric: metric.mean, self, _InSingle(self.mean))
        return (
            rough
            if self.std is None
            else eqx.tree_at(lambda metric: metric.std, rough, _InSingle(self.std))
        )

    # --- many points: as many at once as their Jacobians have room ---

    def lower_along(self, x: Float[JaxArray, "m d"]) -> Lowering:
        M = self._each(self.tensor_at, x)
        return lambda u: jnp.einsum("mij,mj->mi", M, u)

    def motion_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Motion:
        f, M = self._each(self._motion_at, x, v)
        return f, lambda u: jnp.einsum("mij,mj->mi", M, u)

    def launch_along(
        self, x: Float[JaxArray, "m d"], p: Float[JaxArray, "m d"]
    ) -> tuple[JaxArray, JaxArray]:
        if not self.embedded:
            return super().launch_along(x, p)

        def launch(x: JaxArray, p: JaxArray) -> tuple[JaxArray, JaxArray]:
            J = jax.jacfwd(self.embed_at)(x)
            M = J.T @ J
            v = solve_positive(M, p)
            return v, -solve_positive(M, J.T @ self._bend_at(x, v))

        return self._each(launch, x, p)

    def raise_along(
        self, x: Float[JaxArray, "m d"], p: Float[JaxArray, "m d"]
    ) -> Float[JaxArray, "m d"]:
        return self._each(self.raise_at, x, p)

    def slope_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Slope:
        return self._each(self.slope_at, x, v)

    def jet_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Jet:
        return self._each(self.jet_at, x, v)

    def variation_along(self, x: Float[JaxArray, "m d"], v: Float[JaxArray, "m d"]) -> Jet:
        return self._each(self.variation_at, x, v)

    def log_volume_along(self, x: Float[JaxArray, "m d"]) -> Float[JaxArray, " m"]:
        return jax.lax.map(log_volume, self._each(self.tensor_at, x))

    def smallest_eigenvalue_along(self, x: Float[JaxArray, "m d"]) -> Float[JaxArray, " m"]:
        # one by one: see `concurrent`
        return jax.lax.map(smallest_eigenvalue, self._each(self.tensor_at, x))

    def _each(self, function: Callable[..., Rows], *rows: JaxArray) -> Rows:
        return in_chunks(function, self.at_once(rows[0].shape[-1]), *rows)

    def at_once(self, dim: int) -> int:
        return max(1, CACHED // once(self, _derivatives, dim))

    def jacobians_at_once(self, dim: int) -> int:
        """How many Jacobians may be held at once, with all that goes before them in a network."""
        return max(1, CHUNK // once(self, _derivatives, dim))

    def require_points(self, value: ArrayLike, name: str) -> Array:
        points = _boundary.as_points(value, name, getattr(self.mean, "dim", None))
        d = points.shape[-1]
        shapes = [
            output_shape(g, d, f"the metric's map, given {name},")
            for g in (self.mean, self.std)
            if g
        ]
        sizes = [int(np.prod(shape)) for shape in shapes]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"mean and std should have outputs of the same size; {shapes[0]} and {shapes[1]} "
                "arrived."
            )
        if sum(sizes) < d and self.ridge is None:
            raise ValueError(
                f"{name} has {d} coordinates and the metric's map has only {sum(sizes)} outputs: "
                "the pullback metric "
                f"would not be positive definite; pass points with fewer coordinates, or a ridge."
            )
        allowed = (None, sizes[0]) if isinstance(self.ambient, Metric) else (1, sizes[0])
        measured = self.ambient.dim if isinstance(self.ambient, Metric) else np.size(self.ambient)
        if self.ambient is not None and measured not in allowed:
            raise ValueError(
                f"ambient measures {measured} coordinates; the metric's map has {sizes[0]} outputs."
            )
        return points


def _derivatives(metric: Pullback, dim: int) -> int:
    """The numbers in the widest layer of a Jacobian."""
    return dim * widest(lambda x: metric.embed_at(x), dim)


class _InSingle(eqx.Module):
    """A map in single precision: several times faster, if it has much to do."""

    map: Map

    @property
    def concurrent(self) -> bool:
        return _concurrent(self.map)

    def __call__(self, x: Float[JaxArray, " d"]) -> JaxArray:
        return jnp.asarray(self.map(x.astype(jnp.float32)), x.dtype)


def widest(g: Map, dim: int) -> int:
    """The size of the largest array that a function of one point makes of it on its way."""

    def largest(program: Jaxpr, moving: list[bool]) -> int:
        """Of those that depend on the inputs marked as moving: weights do not."""
        depends = {var for var, moves in zip(program.invars, moving, strict=True) if moves}
        sizes = [1]
        for step in program.eqns:
            moving = [isinstance(var, Var) and var in depends for var in step.invars]
            if any(moving):
                depends.update(step.outvars)
                sizes += [var.aval.size for var in step.outvars]  # type: ignore[attr-defined]
                for part in filter(_program, jax.tree.leaves(step.params, is_leaf=_program)):
                    inner = getattr(part, "jaxpr", part)
                    # a part takes the last of the step's inputs; in a loop, what does not move at
                    # first may later
                    given = moving if step.primitive.name not in LOOPS else []
                    sizes.append(largest(inner, ([True] * len(inner.invars) + given)[len(given) :]))
        return max(sizes)

    program = jax.make_jaxpr(g)(jax.ShapeDtypeStruct((dim,), jnp.result_type(float))).jaxpr
    return largest(program, [True])


def _program(value: object) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


def in_chunks(function: Callable[..., Rows], most: int, *rows: JaxArray) -> Rows:
    """The function of one row for all rows, so many at once."""
    if len(rows[0]) <= most:
        return jax.vmap(function)(*rows)
    return jax.lax.map(lambda row: function(*row), rows, batch_size=most if most > 1 else None)


def _require_ambient(ambient: ArrayLike | Metric | None) -> Array | Metric | None:
    if ambient is None:
        return None
    if isinstance(ambient, Metric):
        if not ambient.diagonal:
            raise TypeError(
                "ambient should be a metric with a diagonal tensor, such as LocalPCA, or positive "
                "weights; "
                f"{type(ambient).__name__} arrived."
            )
        return ambient
    weights = np.ravel(_boundary.as_floats(ambient, "ambient"))
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ValueError(
            "ambient should be positive, finite weights of the output's coordinates; others "
            "arrived."
        )
    return weights


def _concurrent(map_: object) -> bool:
    """Whether a map, or an ambient metric, says that it may run in several threads (see
    `Metric`)."""
    return bool(getattr(map_, "concurrent", False))


def _name(thing: object) -> str:
    return getattr(thing, "__name__", type(thing).__name__)
