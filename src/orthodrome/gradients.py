"""Distances that JAX can differentiate, by the end points and by whatever the metric is made of.

No solver is unrolled: a geodesic is stationary, so only its ends and the metric along it matter
(docs/derivations/gradients.md). `jax.grad` of a distance costs little more than the distance.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary, solving
from orthodrome._types import Array, ArrayLike, JaxArray
from orthodrome.measuring import ENDS, GAUSS_WEIGHTS, gauss_times
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver

PANELS = 64
"""Panels of four Gauss points along each path; where a path has more pieces, fewer panels than
pieces still see it closely enough, as its velocity is smooth."""

TIMES = PANELS * len(GAUSS_WEIGHTS)


def distance(metric: Metric, a: ArrayLike, b: ArrayLike, solver: Solver | None = None) -> JaxArray:
    """The length of the shortest path from `a` to `b`, points (..., d) that broadcast → (...), as
    JAX arrays.

    Differentiable, once, by `a`, `b` and the arrays in `metric` (for a `LocalPCA` its `data`,
    `sigma` and `rho`; for a `Pullback` the weights of a map that is a JAX pytree). Works under jit,
    grad and vmap. The gradient is that of the path that was found: right where the shortest path is
    unique; 0 where a = b.

    Call it in float64: `with jax.enable_x64(True):`. What is not converged warns, as
    `orthodrome.distance` does.
    """
    solver = solving.require_solver(solver)
    _boundary.require_instance(metric, Metric, "metric", "a metric such as LocalPCA(data)")
    _refuse_closures(metric)
    for point, name in ((a, "a"), (b, "b")):
        if not isinstance(point, jax.core.Tracer):
            metric.require_points(point, name)
        elif metric.dim is not None and jnp.shape(point)[-1:] != (metric.dim,):
            raise ValueError(
                f"{name} should have shape (..., {metric.dim}); a shape of {jnp.shape(point)} "
                "arrived."
            )
    a, b = jnp.broadcast_arrays(jnp.asarray(a), jnp.asarray(b))
    if a.dtype != jnp.float64:
        raise TypeError(
            f"distance needs float64; {a.dtype} arrived: call it under `with "
            "jax.enable_x64(True):`."
        )
    arrays, rest = eqx.partition(metric, eqx.is_array)
    fixed = jax.lax.stop_gradient((arrays, a, b))
    points, d = a.shape[:-1], a.shape[-1]
    shapes = [
        (*points,),
        (*points, TIMES),
        (*points, TIMES, d),
        (*points, TIMES, d),
        (*points, 2, d),
    ]
    length, weight, c, v, ends = jax.pure_callback(
        lambda arrays, a, b: _solve(eqx.combine(arrays, rest), a, b, solver),
        tuple(jax.ShapeDtypeStruct(shape, jnp.float64) for shape in shapes),
        *fixed,
        vmap_method="sequential",
    )
    # First variation: ∂d/∂b = M(b) c'(1)/d, ∂d/∂a = −M(a) c'(0)/d. Envelope theorem: ∂d/∂θ = (1/2d)
    # ∫ c'ᵀ ∂M/∂θ c'.
    per = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1.0), 0.0)
    lower, inner = jnp.vectorize(metric.lower_at, signature="(d),(d)->(d)"), metric.inner_at
    inner = jnp.vectorize(inner, signature="(d),(d),(d)->()")
    push = jax.lax.stop_gradient(
        [lower(x, u) for x, u in ((a, ends[..., 0, :]), (b, ends[..., 1, :]))]
    )
    by_ends = per * (jnp.sum(push[1] * b, axis=-1) - jnp.sum(push[0] * a, axis=-1))
    by_metric = 0.5 * per * jnp.sum(weight * inner(c, v, v), axis=-1)
    slope = by_ends + by_metric
    return length + slope - jax.lax.stop_gradient(slope)


def _refuse_closures(metric: Metric) -> None:
    """A function that has a traced number inside is no part of the metric that jax could see."""
    for leaf in jax.tree.leaves(metric):
        cells = [cell.cell_contents for cell in getattr(leaf, "__closure__", None) or ()]
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(cells)):
            raise TypeError(
                "the metric's function takes a number that is being differentiated from outside "
                "of it, where jax does "
                "not see it: make it a part of the metric, "
                "MetricTensor(jax.tree_util.Partial(function, number), dim)."
            )


def _solve(metric: Metric, a: ArrayLike, b: ArrayLike, solver: Solver) -> tuple[Array, ...]:
    """Lengths, Gauss weights, points and velocities of the paths, and their velocities at both
    ends: NumPy arrays."""
    metric = jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, metric)
    start, end, shape = solving.require_ends(metric, np.asarray(a), np.asarray(b), ("a", "b"))
    columns, status = [], []
    for _, solution in solving.solve(metric, start, end, solver):
        curve = solution.curve
        times, widths = gauss_times(curve, PANELS)
        weights = np.broadcast_to(
            widths[..., None] * GAUSS_WEIGHTS, (len(curve), PANELS, len(GAUSS_WEIGHTS))
        )
        times = times.reshape(*times.shape[:-2], TIMES)
        along, ends = curve.derivatives(times, (0, 1)), curve.evaluate(ENDS, 1)
        columns.append((solution.verdict.length, weights.reshape(-1, TIMES), *along, ends))
        status.append(solution.status)
    _boundary.warn_unconverged(np.concatenate(status), "paths")
    return tuple(
        np.concatenate(column).reshape((*shape, *column[0].shape[1:]))
        for column in zip(*columns, strict=True)
    )
