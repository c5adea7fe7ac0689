"""Between the manifold and its tangent spaces: logarithm (points → velocity) and exponential map
(velocity → point)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import diffrax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary, batching, solving
from orthodrome._types import Array, ArrayLike, Count, Float, JaxArray, Number
from orthodrome.curves import PiecewiseCurve
from orthodrome.judging import judge
from orthodrome.measuring import initial_velocity
from orthodrome.metrics import Metric
from orthodrome.path import Path
from orthodrome.programs import Function
from orthodrome.solvers import Solution, Solver
from orthodrome.solving import Info, Outcome
from orthodrome.status import Flaw, Status

RTOL = 1e-10
"""Relative tolerance of a step of the integrator."""

ATOL = 1e-12
"""Absolute tolerance of a step, relative to the size of the initial velocity."""

SMALLEST_STEP = 1e-9
"""A step this small means that the geodesic has run into a place where the metric is not finite or
not definite."""

LOOSER = 100.0
"""How much looser the second integration is that tells the error of the first."""

EXP_RTOL = 1e-6
"""An end point this certain, relative to the length of the geodesic, counts as certified."""

STEP_REACH = 2.0
"""A step may be as long as so many of the metric's `scale`."""

LANES = 16
"""Geodesics followed in step with one another; each makes its own steps, and all wait for the
last."""

MAX_STEPS = 4096
"""Steps to t = 1 at most, for the exponential map."""

MAX_PIECES = 1024
"""Steps at most where the curve is kept: they are its pieces."""


Pair = tuple[JaxArray, JaxArray]
"""Position and velocity."""

Ended = tuple[Count, Count, tuple[JaxArray, ...]]
"""Status, steps taken, and what was asked of the solution."""


def log_map(
    metric: Metric,
    base: ArrayLike,
    point: ArrayLike,
    solver: Solver | None = None,
    return_info: bool = False,
) -> Any:
    """The velocity c'(0) at `base` of the shortest path to `point`: (..., d). Its Riemannian norm
    is the distance.

    It is that of the geodesic which the solver's curve approximates, closer to it than the curve's
    own `path.velocity(0)` (`measuring.initial_velocity`); where the solver did not converge it is
    the curve's own.

    With `return_info=True` also an `Info` with converged, certified, status and error of each
    problem.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    a, b, shape = solving.require_ends(metric, base, point, ("base", "point"))
    velocity, statuses, outcomes = np.empty_like(a), list[Array](), list[Outcome]()
    for block, solution in solving.solve(metric, a, b, solver):
        own = solution.curve.evaluate(np.zeros(1), 1)[:, 0]
        converged = solution.converged[:, None]
        velocity[block] = np.where(converged, initial_velocity(metric, solution.curve), own)
        statuses.append(solution.status)
        if return_info:  # judged now, so that the block's curves need not be kept
            outcomes.append(Outcome.of(solution))
    _boundary.warn_unconverged(np.concatenate(statuses), "logarithms")
    velocity = velocity.reshape((*shape, a.shape[-1]))
    return (velocity, Outcome.join(outcomes).info(shape)) if return_info else velocity


def exp_map(metric: Metric, base: ArrayLike, velocity: ArrayLike, return_info: bool = False) -> Any:
    """The point at t = 1 of the geodesic that leaves `base` with `velocity`: (..., d).

    A geodesic that cannot be followed to t = 1 gives NaN, its status says why, and the call warns.

    With `return_info=True` also an `Info`: its `error` is how far apart the ends of two
    integrations lie, whose tolerances differ by a factor of 100, relative to the length;
    `certified` says that it is below 1e-6.
    """
    a, v, shape = _require_velocity(metric, base, velocity)
    status, _, (offset, w) = _integrated(_shoot, metric, a, v, RTOL)
    arrived = status == Status.CONVERGED
    end = np.where(arrived[:, None], a + offset, np.nan)
    _boundary.warn_unconverged(status, "geodesics")
    shaped = end.reshape((*shape, a.shape[-1]))
    if not return_info:
        return shaped
    error = np.full(len(a), np.nan)
    error[arrived] = _disagreement(metric, *(x[arrived] for x in (a, v, offset, w)))
    columns = (arrived, error <= EXP_RTOL, status, error)
    return shaped, Info(*(column.reshape(shape)[()] for column in columns))


def geodesic(metric: Metric, base: ArrayLike, velocity: ArrayLike) -> Path:
    """The geodesic that leaves `base` with `velocity`, for t from 0 to 1, as a `Path`.

    One that cannot be followed to t = 1 ends, as a curve, where it stopped, and says so in
    `status`.
    """
    a, v, shape = _require_velocity(metric, base, velocity)
    status, steps, (t, offset, w) = _integrated(_trace, metric, a, v, RTOL)
    # a curve's breaks are its own steps; behind the last one it repeats it
    most = max(1, steps.max(initial=0))
    row, kept = np.arange(len(a))[:, None], np.minimum(np.arange(most + 1), steps[:, None])
    t, c, w = (
        np.concatenate([first[:, None], rest], axis=1)[row, kept]
        for first, rest in ((np.zeros(len(a)), t), (a, a[:, None] + offset), (v, w))
    )
    # one that stopped early is stretched to t = 1, as its status tells; one that could not start
    # stays where it is
    reached = t[:, -1:]
    w = w * reached[..., None]
    t = np.where(kept == steps[:, None], 1.0, t / np.where(reached > 0, reached, 1.0))
    t[:, 0] = 0.0
    acceleration = metric.accelerations(
        c.reshape(-1, c.shape[-1]), w.reshape(-1, c.shape[-1])
    ).reshape(c.shape)
    acceleration[steps == 0] = 0.0
    curve = PiecewiseCurve(t, c, w, acceleration)
    verdict = judge(metric, curve, a, curve.end)
    verdict = dataclasses.replace(
        verdict, flaw=np.where(status == Status.CONVERGED, verdict.flaw, Flaw.CUT_SHORT)
    )
    _boundary.warn_unconverged(status, "geodesics")
    return Path(metric, Solution(curve, status, steps, judged=verdict), shape, "geodesic()")


def _require_velocity(
    metric: Metric, base: ArrayLike, velocity: ArrayLike
) -> tuple[Array, Array, tuple[int, ...]]:
    metric = solving.require_metric(metric)
    points = metric.require_points(base, "base")
    metric.require_positive(points.reshape(-1, points.shape[-1]), "base")
    vectors = _boundary.as_points(velocity, "velocity", points.shape[-1])
    (a, v), shape = _boundary.broadcast([points, vectors], ["base", "velocity"])
    return a, v, shape


def _integrated(
    integrate: Function, metric: Metric, a: Array, v: Array, rtol: float
) -> tuple[Array, Array, tuple[Array, ...]]:
    return batching.over_curves(
        integrate, metric, a, v, np.full(len(a), rtol), points=batching.POINT_TILE // LANES
    )


def _disagreement(metric: Metric, a: Array, v: Array, offset: Array, w: Array) -> Array:
    """How far a looser integration ends from a tight one, and how much the speed changed, relative
    to the length."""
    status, _, (other, _) = _integrated(_shoot, metric, a, v, LOOSER * RTOL)
    length, end = metric.norm(a, v), a + offset
    gap, slip = metric.norm(end, other - offset), np.abs(metric.norm(end, w) - length)
    error = np.maximum(gap, slip) / np.where(length > 0, length, 1.0)
    return np.where(status == Status.CONVERGED, error, np.inf)


def _shoot(
    metric: Metric, a: Float[JaxArray, " d"], v: Float[JaxArray, " d"], rtol: Number
) -> Ended:
    read = lambda solution: tuple(y[0] for y in solution.ys)
    return _integrate(metric, a, v, rtol, diffrax.SaveAt(t1=True), MAX_STEPS, read)


def _trace(
    metric: Metric, a: Float[JaxArray, " d"], v: Float[JaxArray, " d"], rtol: Number
) -> Ended:
    return _integrate(
        metric,
        a,
        v,
        rtol,
        diffrax.SaveAt(steps=True),
        MAX_PIECES,
        lambda solution: (solution.ts, *solution.ys),  # type: ignore[misc, arg-type]
    )


def _integrate(
    metric: Metric,
    a: Float[JaxArray, " d"],
    v: Float[JaxArray, " d"],
    rtol: Number,
    saveat: diffrax.SaveAt,
    max_steps: int,
    read: Callable[[diffrax.Solution], tuple[JaxArray, ...]],
) -> Ended:
    """u'' = f(a + u, u') from t = 0 to 1, u the way from the base, by an adaptive Runge–Kutta
    method of order 8."""

    def field(t: Number, y: Pair, args: None) -> Pair:
        u, w = y
        return w, metric.motion_along((a + u)[None], w[None])[0][0]

    size = jnp.linalg.norm(v)
    size = jnp.where(size > 0, size, 1.0)
    # Where the metric is flat, steps grow without limit and would pass over the data: no step is
    # longer than its scale.
    longest = STEP_REACH * metric.scale / size
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8(),
        t0=0.0,
        t1=1.0,
        dt0=None,
        y0=(jnp.zeros_like(a), v),
        saveat=saveat,
        stepsize_controller=diffrax.PIDController(
            rtol, ATOL * size, dtmin=SMALLEST_STEP, dtmax=longest, force_dtmin=False
        ),
        max_steps=max_steps,
        throw=False,
    )
    ok = solution.result == diffrax.RESULTS.successful
    out_of_steps = solution.result == diffrax.RESULTS.max_steps_reached
    status = jnp.where(
        ok, Status.CONVERGED, jnp.where(out_of_steps, Status.MAX_STEPS, Status.NON_FINITE)
    )
    return status, solution.stats["num_accepted_steps"], read(solution)
