"""Algorithm 1 of the paper: a fixed-point iteration on the accelerations of a Gaussian process; and
its relatives."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary, batching
from orthodrome._types import AnyArray, Array, Float, JaxArray, Number
from orthodrome.curves import (
    Curve,
    GaussianProcess,
    GPCurve,
    Kernel,
    Matern,
    SquaredExponential,
    resample,
    uniform_process,
)
from orthodrome.elimination import solve_dense
from orthodrome.judging import RESIDUAL_FACTOR
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Solution, Solver
from orthodrome.status import RUNNING, Status

BACKTRACKS = 3
"""The step α = 3⁻ʲ is tried for j = 0, …, 3; the last is taken even if the error does not fall."""

FIRST_MESH, LAST_MESH = 10, 80
"""Knots of the first and of the last round of an adaptive mesh."""

BY_RESIDUAL = 0.7
"""How much of an adaptive mesh goes where the residual is; the rest is spread evenly."""

ANDERSON_MEMORY = 6
"""Steps that Anderson's method combines."""

ANDERSON_RIDGE = 1e-10
"""Relative ridge of its least squares: steps that are nearly alike say nothing about how to combine
them."""

PROFILE = 256
"""Times at which an adaptive mesh looks at the residual."""


@dataclasses.dataclass(frozen=True, repr=False)
class FixedPoint(Solver):
    """The paper's solver: find accelerations z at the knots with z = f(μ, μ'), where μ is the
    posterior mean given z.

    Each iteration evaluates z* = f(μ, μ') at the knots and moves to αz* + (1 − α)z with the first α
    = 3⁻ʲ that does not raise Σₙ eₙ, eₙ = ‖zₙ − f(μ(tₙ), μ'(tₙ))‖². It ends when eₙ ≤ tol at every
    knot. No Jacobian of f is needed.

    The test is at the knots only and in coordinates, as in the paper; what happens between them is
    for `path.residual` and `path.certified` to say.
    """

    mesh: int | str = 10
    """Knots on [0, 1], both ends included. Or "adaptive": 10 knots at first, and twice as many for
    the problems whose residual between the knots is too large, each problem's own, closer where its
    residual is larger. That needs a Matérn kernel: the squared exponential stands for
    Matern(nu=4.5) there."""
    kernel: Kernel = SquaredExponential()
    """The covariance function; without a lengthscale it takes its own default, for the paper's
    kernel λ² = ½ Δt."""
    noise: float = 1e-7
    """Σ: the variance with which the posterior mean may miss the accelerations. Needed for a stable
    Gram matrix."""
    tol: float = 0.1
    """τ: the largest squared error allowed at any knot, in the units of the coordinates. It is
    meant for data with a spread of about 1: for data k times as large, k² τ is the same test."""
    max_iter: int = 1000
    """Iterations after which a problem is given up."""
    step: str = "backtracking"
    """How z⁽ⁱ⁺¹⁾ is found: "backtracking", as above; "mann", with α = 1/(i + 1) and no test;
    "ishikawa", with a look at y = βz* + (1 − β)z first and z⁽ⁱ⁺¹⁾ = αf(y) + (1 − α)z, α = β = (i +
    1)^-½; or "anderson": the combination of the last steps whose error would be least if f were
    linear, and backtracking where that one raises Σₙ eₙ."""
    calibrate: bool = False
    """Whether the posterior's spread is scaled, at the end, by type-II maximum likelihood."""

    def __post_init__(self) -> None:
        if self.mesh != "adaptive":
            if isinstance(self.mesh, str):
                raise ValueError(
                    f'mesh should be a number of knots or "adaptive"; {self.mesh!r} arrived.'
                )
            _boundary.as_count(self.mesh, "mesh", 2)
        if self.step not in STEPS:
            raise ValueError(f"step should be one of {', '.join(STEPS)}; {self.step!r} arrived.")
        _boundary.require_instance(
            self.kernel, Kernel, "kernel", "SquaredExponential() or Matern()"
        )
        object.__setattr__(self, "noise", _boundary.as_positive(self.noise, "noise"))
        object.__setattr__(self, "tol", _boundary.as_positive(self.tol, "tol"))
        _boundary.as_count(self.max_iter, "max_iter", 0)
        if isinstance(self.mesh, int):
            # refuses what cannot be factored, before any work
            uniform_process(self.mesh, self.kernel, self.noise)

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve all problems at once."""
        if self.mesh == "adaptive":
            return self._solve_adaptively(metric, start, end, init)
        return self._solve_on(
            metric, start, end, init, uniform_process(self.mesh, self.kernel, self.noise)
        )

    def _solve_on(
        self, metric: Metric, start: Array, end: Array, init: Curve | None, process: GaussianProcess
    ) -> Solution:
        """Solve on the knots of a process, shared by all problems or each problem's own."""
        P, d = start.shape
        N = process.knots.shape[-1]
        inside = np.broadcast_to(process.knots <= 1.0, (P, N))
        own = process.knots.ndim == 2
        # knots that do not matter are looked at where the path begins, so that f is a number there
        knots = np.where(process.knots <= 1.0, process.knots, 0.0)
        weights = [process.weights(knots, order) for order in (0, 1)]
        common = _Common(
            np.asarray(self.tol), np.asarray(self.max_iter), None if own else _Mean(knots, *weights)
        )
        problems = _Problem(start, end, inside, _Mean(knots, *weights) if own else None)
        z = np.zeros((P, N, d))
        moving = np.flatnonzero(np.any(start != end, axis=1))  # from a point to itself, stay there
        if init is not None and len(moving):
            z[moving] = (
                init.take(moving).evaluate(knots[moving] if own else knots, 2)
                * inside[moving][..., None]
            )
        states = _State(
            z=z,
            target=z,
            error=np.full(P, np.inf),
            j=np.zeros(P, int),
            iteration=np.full(P, -1),
            status=np.full(P, RUNNING),
            history=np.zeros((P, 2, ANDERSON_MEMORY, N, d)) if self.step == "anderson" else None,
        )
        final = batching.iterate(
            STEPS[self.step], metric, common, problems, states, points_per_step=N
        )
        curve = GPCurve(process, start, end, final.z, self.calibrate)
        return Solution(curve, final.status, np.maximum(final.iteration, 0))

    def _solve_adaptively(
        self, metric: Metric, start: Array, end: Array, init: Curve | None
    ) -> Solution:
        """Rounds of more and more knots, for those problems whose residual between the knots is
        still too large."""
        kernel = Matern(nu=4.5) if isinstance(self.kernel, SquaredExponential) else self.kernel
        kernel = kernel.resolved(FIRST_MESH)
        N = FIRST_MESH
        knots = np.broadcast_to(np.linspace(0.0, 1.0, N), (len(start), N))
        solution = self._solve_on(
            metric, start, end, init, GaussianProcess(knots, kernel, self.noise)
        )
        if not len(start):
            return solution
        status, iterations = solution.status.copy(), solution.iterations.copy()
        latest, active = solution.curve, np.arange(len(start))  # the last round's, and whose
        curves, place = [latest], np.arange(len(start))  # all rounds', and where each problem's is
        while 2 * N <= LAST_MESH:
            N *= 2
            residual = _residual_profile(metric, latest)
            rough = residual.max(axis=1) > RESIDUAL_FACTOR * np.sqrt(self.rtol)
            rough &= status[active] != Status.NON_FINITE
            if not rough.any():
                break
            active, residual = active[rough], residual[rough]
            knots = _equidistributed(residual, N)
            solution = self._solve_on(
                metric,
                start[active],
                end[active],
                latest.take(rough),
                GaussianProcess(knots, kernel, self.noise),
            )
            latest = solution.curve
            place[active] = sum(len(curve) for curve in curves) + np.arange(len(active))
            curves.append(latest)
            status[active] = solution.status
            iterations[active] += solution.iterations
        return Solution(type(latest).join(curves).take(place), status, iterations)


def _residual_profile(metric: Metric, curve: Curve) -> Array:
    """‖c'' − f(c, c')‖_M / length on PROFILE evenly spaced times between 0 and 1: (P, PROFILE)."""
    t = (np.arange(PROFILE) + 0.5) / PROFILE
    c, v, a = curve.derivatives(t)
    flat = lambda x: x.reshape(-1, x.shape[-1])
    with np.errstate(all="ignore"):
        r = flat(a) - metric.accelerations(flat(c), flat(v))
        squares = [metric.squared_norms(flat(c), u).reshape(c.shape[:2]) for u in (r, flat(v))]
        length = np.sqrt(squares[1]).mean(axis=1, keepdims=True)
        return np.nan_to_num(
            np.sqrt(squares[0]) / np.where(length > 0, length, 1.0), nan=0.0, posinf=0.0
        )


def _equidistributed(residual: Array, count: int) -> Array:
    """Knots (P, count), closer where the residual is larger: it falls with a power of their
    distance."""
    density = np.sqrt(np.sqrt(residual))
    mean = density.mean(axis=1, keepdims=True)
    density = (1 - BY_RESIDUAL) + BY_RESIDUAL * density / np.where(mean > 0, mean, 1.0)
    reached = np.concatenate([np.zeros((len(residual), 1)), np.cumsum(density, axis=1)], axis=1)
    times = np.broadcast_to(np.linspace(0.0, 1.0, PROFILE + 1)[:, None], (*reached.shape, 1))
    knots = resample(times, reached, count)[..., 0]
    knots[:, 0], knots[:, -1] = 0.0, 1.0
    return knots


class _Mean(NamedTuple):
    """The posterior mean at the knots is line + A z, its velocity (b − a) + B z."""

    line: AnyArray
    A: AnyArray
    B: AnyArray


class _Common(NamedTuple):
    """Shared by all problems."""

    tol: AnyArray
    max_iter: AnyArray
    mean: Any
    """A `_Mean`, where the knots are shared by all."""


class _Problem(NamedTuple):
    start: AnyArray
    end: AnyArray
    inside: AnyArray
    """(N,): which knots matter."""
    mean: Any
    """A `_Mean`, where the knots are each problem's own."""


class _State(NamedTuple):
    """Where one problem stands between two evaluations of f."""

    z: AnyArray
    """The accepted accelerations z⁽ⁱ⁾, (N, d)."""
    target: AnyArray
    """What the next trial goes towards: z* = f at the accepted curve, (N, d); for Ishikawa's steps
    y."""
    error: AnyArray
    """Σₙ eₙ at z⁽ⁱ⁾; infinite before the first evaluation."""
    j: AnyArray
    """Which step is tried next."""
    iteration: AnyArray
    """i; −1 before z⁽⁰⁾ has been evaluated."""
    status: AnyArray
    history: AnyArray
    """(2, m, N, d): the last m changes of z* − z and of z, for Anderson's steps."""


def _evaluate(
    metric: Metric, common: _Common, problem: _Problem, z: Float[JaxArray, "N d"]
) -> tuple[Float[JaxArray, "N d"], Float[JaxArray, " N"]]:
    """f at the knots of the curve with accelerations z, and the squared errors eₙ."""
    mean = problem.mean if common.mean is None else common.mean
    step = problem.end - problem.start
    c = problem.start + mean.line[:, None] * step + mean.A @ z
    v = step + mean.B @ z
    f = jnp.where(problem.inside[:, None], metric.motion_along(c, v)[0], 0.0)
    return f, jnp.sum((z - f) ** 2, axis=1)


def _trial(state: _State) -> JaxArray:
    """αz* + (1 − α)z with α = 3⁻ʲ."""
    alpha = 3.0**-state.j
    return alpha * state.target + (1 - alpha) * state.z


def _backtracking_step(metric: Metric, common: _Common, problem: _Problem, state: _State) -> _State:
    """One evaluation of f at every knot: try αz* + (1 − α)z, and accept it or shorten the step.

    One trial a step, rather than a whole line search, so that the problems of a batch never wait
    for one another.
    """
    z = _trial(state)
    f, e = _evaluate(metric, common, problem, z)
    return _accepted(common, state, z, f, e, last_try=state.j == BACKTRACKS)


def _accepted(
    common: _Common,
    state: _State,
    z: Float[JaxArray, "N d"],
    f: Float[JaxArray, "N d"],
    e: Float[JaxArray, " N"],
    last_try: Number,
) -> _State:
    """Accept the trial z if it does not raise the error or is the last one, else try the next."""
    total = jnp.sum(e)
    last_try = last_try | (state.iteration < 0)
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
    return state._replace(
        z=jnp.where(accept, z, state.z),
        target=jnp.where(accept, f, state.target),
        error=jnp.where(accept, total, state.error),
        j=jnp.where(accept, 0, state.j + 1),
        iteration=iteration,
        status=status,
    )


def _mann_step(metric: Metric, common: _Common, problem: _Problem, state: _State) -> _State:
    """z⁽ⁱ⁺¹⁾ = αz* + (1 − α)z⁽ⁱ⁾ with α = 1/(i + 1), whatever becomes of the error."""
    first = state.iteration < 0
    alpha = jnp.where(first, 0.0, 1.0 / (state.iteration + 1))
    z = alpha * state.target + (1 - alpha) * state.z
    f, e = _evaluate(metric, common, problem, z)
    return _accepted(common, state, z, f, e, last_try=jnp.asarray(True))


def _ishikawa_step(metric: Metric, common: _Common, problem: _Problem, state: _State) -> _State:
    """First y = βf(z) + (1 − β)z, then z⁽ⁱ⁺¹⁾ = αf(y) + (1 − α)z, with α = β = (i + 1)^-½: two
    evaluations a step."""
    looking = state.j == 0  # at z itself
    alpha = 1 / jnp.sqrt(jnp.maximum(state.iteration, 0) + 1.0)
    f, e = _evaluate(metric, common, problem, jnp.where(looking, state.z, state.target))
    after = _accepted(common, state, state.z, f, e, last_try=jnp.asarray(True))
    look = after._replace(target=alpha * f + (1 - alpha) * state.z, j=jnp.ones_like(state.j))
    finite = jnp.all(jnp.isfinite(f))
    move = state._replace(
        z=alpha * f + (1 - alpha) * state.z,
        j=jnp.zeros_like(state.j),
        status=jnp.where(finite, RUNNING, Status.NON_FINITE),
    )
    return jax.tree.map(lambda a, b: jnp.where(looking, a, b), look, move)


def _anderson_step(metric: Metric, common: _Common, problem: _Problem, state: _State) -> _State:
    """Anderson's combination of the last steps is tried first (j = 0), then z* and shorter steps
    towards it."""
    gap = state.target - state.z
    changes, moves = state.history
    known = jnp.sum(changes**2, axis=(1, 2))
    gram = jnp.einsum("mnd,knd->mk", changes, changes)
    gram = gram + jnp.diag(jnp.where(known > 0, ANDERSON_RIDGE * jnp.sum(known), 1.0))
    weights, _ = solve_dense(gram, jnp.einsum("mnd,nd->m", changes, gap))
    mixed = state.z + gap - jnp.einsum("m,mnd->nd", weights, changes + moves)
    shorter = _trial(state._replace(j=jnp.maximum(state.j - 1, 0)))
    z = jnp.where(state.j == 0, mixed, shorter)
    f, e = _evaluate(metric, common, problem, z)
    new = _accepted(common, state, z, f, e, last_try=state.j == BACKTRACKS + 1)
    fresh = jnp.stack([(f - z) - gap, z - state.z])[:, None]
    history = jnp.concatenate([fresh, state.history[:, :-1]], axis=1)
    keep = (new.iteration > state.iteration) & (state.iteration >= 0)
    return new._replace(history=jnp.where(keep, history, state.history))


STEPS = {
    "backtracking": _backtracking_step,
    "mann": _mann_step,
    "ishikawa": _ishikawa_step,
    "anderson": _anderson_step,
}
