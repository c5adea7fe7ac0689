"""Algorithm 1 of the paper: a fixed-point iteration on the accelerations of a Gaussian process."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import vmap

from orthodrome import _boundary, batching
from orthodrome.curves import Curve, GPCurve, Kernel, SquaredExponential, uniform_process
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Solution, Solver
from orthodrome.status import RUNNING, Status

BACKTRACKS = 3
"""The step α = 3⁻ʲ is tried for j = 0, …, 3; the last is taken even if the error does not fall."""


@dataclasses.dataclass(frozen=True, repr=False)
class FixedPoint(Solver):
    """The paper's solver: find accelerations z at the knots with z = f(μ, μ'), where μ is the posterior mean given z.

    Each iteration evaluates z* = f(μ, μ') at the knots and moves to αz* + (1 − α)z with the first α = 3⁻ʲ that does not
    raise Σₙ eₙ, eₙ = ‖zₙ − f(μ(tₙ), μ'(tₙ))‖². It ends when eₙ ≤ tol at every knot. No Jacobian of f is needed.

    The test is at the knots only and in coordinates, as in the paper; what happens between them is for
    `path.residual` and `path.certified` to say.
    """

    mesh: int = 10
    """Knots on [0, 1], both ends included."""
    kernel: Kernel = SquaredExponential()
    """The covariance function; without a lengthscale it takes its own default, for the paper's kernel λ² = ½ Δt."""
    noise: float = 1e-7
    """Σ: the variance with which the posterior mean may miss the accelerations. Needed for a stable Gram matrix."""
    tol: float = 0.1
    """τ: the largest squared error allowed at any knot, in the units of the coordinates. It is meant for data with a
    spread of about 1: for data k times as large, k² τ is the same test."""
    max_iter: int = 1000
    """Iterations after which a problem is given up."""

    def __post_init__(self) -> None:
        _boundary.as_count(self.mesh, "mesh", 2)
        _boundary.require_instance(self.kernel, Kernel, "kernel", "SquaredExponential() or Matern()")
        object.__setattr__(self, "noise", _boundary.as_positive(self.noise, "noise"))
        object.__setattr__(self, "tol", _boundary.as_positive(self.tol, "tol"))
        _boundary.as_count(self.max_iter, "max_iter", 0)
        uniform_process(self.mesh, self.kernel, self.noise)  # refuses what cannot be factored, before any work

    def solve(self, metric: Metric, start: Any, end: Any, init: Curve | None) -> Solution:
        """Solve all problems at once."""
        process = uniform_process(self.mesh, self.kernel, self.noise)
        common = _Common(
            line=process.knots,
            A=process.weights(process.knots, 0),
            B=process.weights(process.knots, 1),
            tol=np.asarray(self.tol),
            max_iter=np.asarray(self.max_iter),
        )
        P, d = start.shape
        z = np.zeros((P, self.mesh, d))
        if init is not None:
            moving = np.any(start != end, axis=1)  # from a point to itself, stay there
            z[moving] = init.take(moving).evaluate(process.knots, 2)
        states = _State(
            z=z,
            target=z,
            error=np.full(P, np.inf),
            j=np.zeros(P, int),
            iteration=np.full(P, -1),
            status=np.full(P, RUNNING),
        )
        final = batching.iterate(_step, metric, common, _Problem(start, end), states, points_per_step=self.mesh)
        return Solution(GPCurve(process, start, end, final.z), final.status, np.maximum(final.iteration, 0))


class _Common(NamedTuple):
    """Shared by all problems: the posterior mean is line + A z, its velocity (b − a) + B z."""

    line: Any
    A: Any
    B: Any
    tol: Any
    max_iter: Any


class _Problem(NamedTuple):
    start: Any
    end: Any


class _State(NamedTuple):
    """Where one problem stands between two evaluations of f."""

    z: Any
    """The accepted accelerations z⁽ⁱ⁾, (N, d)."""
    target: Any
    """z* = f at the accepted curve, (N, d)."""
    error: Any
    """Σₙ eₙ at z⁽ⁱ⁾; infinite before the first evaluation."""
    j: Any
    """Which step α = 3⁻ʲ is tried next."""
    iteration: Any
    """i; −1 before z⁽⁰⁾ has been evaluated."""
    status: Any


def _step(metric: Metric, common: _Common, problem: _Problem, state: _State) -> _State:
    """One evaluation of f at every knot: try αz* + (1 − α)z, and accept it or shorten the step.

    One trial a step, rather than a whole line search, so that the problems of a batch never wait for one another.
    """
    alpha = 3.0**-state.j
    z = alpha * state.target + (1 - alpha) * state.z
    step = problem.end - problem.start
    c = problem.start + common.line[:, None] * step + common.A @ z
    v = step + common.B @ z
    f = vmap(metric.acceleration_at)(c, v)
    e = jnp.sum((z - f) ** 2, axis=1)
    total = jnp.sum(e)

    first = state.iteration < 0
    last_try = first | (state.j == BACKTRACKS)
    finite = jnp.isfinite(total)
    accept = finite & ((total <= state.error) | last_try)
    iteration = state.iteration + accept
    status = jnp.where(
        accept & jnp.all(e <= common.tol),
        Status.CONVERGED,
        jnp.where(
            ~finite & last_try,
            Status.NON_FINITE,
            jnp.where(accept & (iteration >= common.max_iter), Status.MAX_ITERATIONS, RUNNING),
        ),
    )
    return _State(
        z=jnp.where(accept, z, state.z),
        target=jnp.where(accept, f, state.target),
        error=jnp.where(accept, total, state.error),
        j=jnp.where(accept, 0, state.j + 1),
        iteration=iteration,
        status=status,
    )
