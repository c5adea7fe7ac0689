"""Descent on the energy of a curve: Newton's method with the second variation, safeguarded so that
it goes down (docs/derivations/energy.md)."""

import enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import batching, elements
from orthodrome._types import AnyArray, Array, Flag, Float, JaxArray, Number, Scalar
from orthodrome.batching import STEP_TILE
from orthodrome.curves import PiecewiseCurve
from orthodrome.discretisation import Discretisation, LocalModel, discretise
from orthodrome.metrics import Metric
from orthodrome.status import RUNNING, Status

ARMIJO = 1e-4
"""A step counts as a descent if it gains this fraction of what its slope promised: the usual value,
small because a Newton step far from the end gains much less than its slope says."""

SHORTEST = 1e-7
"""A step this small that still does not descend is the end of the road."""

REACH = 1.0
"""A step moves the curve by at most so many of its own lengths. Without a bound, a step along a
nearly flat direction leaves the data altogether."""

LEAST_DAMPING, DAMPING_GROWTH, MOST_DAMPING = 1e-3, 4.0, 1e9
"""Damping is in units of the Laplacian, the part of the second variation that is always positive.
The least one decides how shallow a saddle can still be left. Where damping grows by 16, the paths
of `benchmarks/constants.py` take 1.15 times the time; by 2, as long as by 4."""

ROUNDING = 1e-12
"""A promised relative gain in energy below this drowns in rounding: the descent has arrived."""

ROUGH = 1e-5
"""Relative noise of an energy in single precision: differences below it count as none."""

SLOW = 0.25
"""Gauss–Newton's method gives way to Newton's when a step promises more than this fraction of what
the last one did."""

LITTLE = 0.1
"""A step of which no more than this was taken had to be shortened more than once."""

BEND, BEND_GROWTH = 0.03, 4.0
"""Where the second variation is not positive, a step is bent by a wave of this size, in units of
the curve's length. After only a little of such a step was taken it is bent by less, or it would go
to and fro across a narrow valley, and then by more again. With a
tenth and with ten times of it, the 180 paths of `benchmarks/constants.py` stay within 0.1 % of the
shortest."""


class CurvatureCheck(enum.Enum):
    """When a descent looks at the second variation, where that costs more than it does without.

    On the pullback of a map it costs several Gauss–Newton steps. Elsewhere every model has it.
    """

    NEVER = 0
    """The descent may end in a saddle, or a little too early: a curve to begin from."""
    AT_THE_END = 1
    ALWAYS = 2
    """Then `Descent.bent` says whether there was more than one way down."""


class Descent(NamedTuple):
    """Where P descents ended."""

    nodes: Array
    """(P, N, d)"""
    energy: Array
    """(P,)"""
    status: Array
    """(P,)"""
    iterations: Array
    """(P,): evaluations of the energy."""
    bent: Array
    """(P,): whether the second variation was not positive, where it was looked at."""

    @property
    def length(self) -> Array:
        """(P,): what the energy says it is; infinite where that is no number."""
        return np.where(np.isfinite(self.energy), np.sqrt(2 * self.energy), np.inf)


def descend(
    metric: Metric,
    nodes: Array,
    breaks: Array,
    tol: float,
    max_iter: int,
    least_damping: float = LEAST_DAMPING,
    check: CurvatureCheck = CurvatureCheck.AT_THE_END,
) -> Descent:
    """Lower the energy of P curves, given by nodes (P, N, d) and breaks (P, K + 1), until a step
    promises less than `tol` of it."""
    discretisation = discretise(metric, nodes.shape[-1])
    settings = _Settings(
        discretisation,
        np.asarray(tol),
        np.asarray(max_iter),
        np.asarray(least_damping),
        np.asarray(check is CurvatureCheck.NEVER),
        precise=False,
    )
    curved = check is CurvatureCheck.ALWAYS or not discretisation.approximate
    result = _descend(metric, nodes, breaks, settings, curved, np.zeros(len(nodes), int))
    again = (result.status != Status.CONVERGED) & (result.iterations < max_iter)
    if discretisation.approximate and again.any():  # perhaps for lack of digits
        precise, spent = settings._replace(precise=True), result.iterations[again]
        repeated = _descend(metric, nodes[again], breaks[again], precise, curved, spent)
        for whole, some in zip(result, repeated, strict=True):
            whole[again] = some
    return result


def _descend(
    metric: Metric,
    nodes: Array,
    breaks: Array,
    settings: "_Settings",
    curved: bool,
    spent: Array,
) -> Descent:
    """`curved`: whether the first models have all of the second variation; `spent` (P,):
    evaluations of each problem before."""
    P, discretisation = len(nodes), settings.discretisation
    states = _State(
        nodes=nodes,
        step=np.zeros_like(nodes),
        length=np.zeros(P),
        slope=np.zeros(P),
        energy=np.full(P, np.inf),
        damping=np.zeros(P),
        bend=np.full(P, BEND),
        curved=np.full(P, curved),
        exact=np.full(P, not discretisation.approximate or settings.precise),
        bent=np.zeros(P, dtype=bool),
        iteration=spent,
        status=np.full(P, RUNNING),
    )
    points = STEP_TILE if discretisation.one_by_one else nodes.shape[1] - 1
    final = batching.iterate(
        _step, metric, settings, np.diff(breaks), states, points_per_step=points
    )
    return Descent(final.nodes, final.energy, final.status, final.iteration, final.bent)


def smooth(metric: Metric, nodes: Array, breaks: Array) -> PiecewiseCurve:
    """The curves through the ends of the elements, with the velocities and accelerations of a
    geodesic there."""
    columns = batching.over_curves(_hermite, metric, nodes, np.diff(breaks), points=nodes.shape[1])
    return PiecewiseCurve(breaks, *columns)


def _hermite(
    metric: Metric, nodes: Float[JaxArray, "N d"], widths: Float[JaxArray, " K"]
) -> tuple[JaxArray, JaxArray, JaxArray]:
    gradient = discretise(metric, nodes.shape[-1]).gradient(metric, nodes, widths)
    return elements.hermite(metric, nodes, widths, gradient)


def first_velocity(metric: Metric, nodes: Array, breaks: Array) -> Array:
    """c'(0) (P, d) of the geodesics that pass through the nodes (P, N, d).

    c(h) = c(0) + h c'(0) + ∫ (h − t) c'' dt on the first element, where c'' = f(c, c') is taken at
    its Gauss points.
    """
    degree = (nodes.shape[1] - 1) // (breaks.shape[1] - 1)
    rule, h = elements.basis(degree), breaks[:, 1, None]
    corners = [nodes[:, 1:degree], nodes[:, :1], nodes[:, degree : degree + 1]]
    local = np.concatenate(corners, axis=1) - nodes[:, :1]
    c = nodes[:, :1] + np.einsum("ga,pad->pgd", rule.values, local)
    v = np.einsum("ga,pad->pgd", rule.slopes, local) / h[..., None]
    d = nodes.shape[2]
    f = metric.accelerations(c.reshape(-1, d), v.reshape(-1, d)).reshape(c.shape)
    return local[:, -1] / h - h * np.einsum("g,pgd->pd", rule.weights * (1 - rule.gauss), f)


class _Settings(NamedTuple):
    """Shared by all problems."""

    discretisation: Discretisation
    tol: AnyArray
    max_iter: AnyArray
    least_damping: AnyArray
    hasty: AnyArray
    """Whether approximate models may have the last word."""
    precise: bool
    """Whether all models are in double precision."""


class _State(NamedTuple):
    """Where one descent stands between two evaluations of the energy; of P of them, (P, ...)."""

    nodes: AnyArray
    """The best curve so far, (N, d)."""
    step: AnyArray
    """The direction being tried, (N, d)."""
    length: AnyArray
    """How much of it."""
    slope: AnyArray
    """The derivative of the energy along it, negative."""
    energy: AnyArray
    damping: AnyArray
    bend: AnyArray
    """Of the next step, if it has to be damped."""
    curved: AnyArray
    """Whether the next model has all of the second variation, or only Gauss–Newton's part of it."""
    exact: AnyArray
    """Whether the energy is known in double precision."""
    bent: AnyArray
    iteration: AnyArray
    status: AnyArray


def _step(
    metric: Metric, settings: _Settings, widths: Float[JaxArray, " K"], state: _State
) -> _State:
    """One evaluation: the energy of the curve that is tried, with what the next Newton step
    needs."""
    trial = state.nodes + state.length * state.step
    here = settings.discretisation.explore(metric, trial, widths, state.curved, settings.precise)
    first, finite = jnp.isinf(state.energy), jnp.isfinite(here.energy)
    change = here.energy - state.energy
    slack = jnp.where(state.exact, 0.0, ROUGH * here.energy)
    promised = ARMIJO * state.length * jnp.minimum(state.slope, 0.0)
    accept = finite & (first | (change <= promised + slack))

    # if this curve is taken: the next direction, or the end
    bend = jnp.where(
        state.length <= LITTLE,
        state.bend * state.length,  # a bent step that had to be shortened was bent too much
        jnp.minimum(state.bend * BEND_GROWTH, BEND),
    )
    bend = jnp.where(state.damping > 0, bend, state.bend)
    step, damping = _damped_step(here, state.damping, settings.least_damping, bend)
    slope, stride = here.slope(step), here.stride(step)
    step = jnp.where(slope > 0, -1.0, 1.0) * here.nodes(step)  # the bend may have gone uphill
    slope, size = -jnp.abs(slope), jnp.sqrt(2 * here.energy)
    length = jnp.where(stride > REACH * size, REACH * size / stride, 1.0)
    definite = damping == 0
    promise = jnp.maximum(settings.tol, ROUNDING) * here.energy
    near = definite & (-slope <= promise) | (here.energy == 0)
    arrived = near & (state.curved | settings.hasty)
    slow = (slope < SLOW * state.slope) & ~first
    curved = state.curved | accept & (near | slow) & ~settings.hasty
    # if not: a shorter step, where the parabola through what is known has its minimum
    shorter = -0.5 * state.slope * state.length**2 / (change - state.slope * state.length)
    shorter = jnp.where(finite, shorter, 0.0)
    shorter = jnp.clip(shorter, 0.1 * state.length, 0.5 * state.length)

    iteration = state.iteration + 1
    exhausted = (iteration >= settings.max_iter) | (~accept & (shorter < SHORTEST))
    status = jnp.where(exhausted, Status.MAX_ITERATIONS, RUNNING)
    status = jnp.where(first & ~finite, Status.NON_FINITE, status)
    status = jnp.where(accept & arrived, Status.CONVERGED, status)
    # the last Newton step is taken on trust: it squares an error that is small already
    ended = status == Status.CONVERGED
    energy = jnp.where(ended, here.energy + 0.5 * slope, here.energy)
    trial = jnp.where(ended, trial + jnp.where(jnp.isfinite(step), step, 0.0), trial)
    pick = lambda new, old: jnp.where(accept, new, old)
    return _State(
        nodes=pick(trial, state.nodes),
        step=pick(step, state.step),
        length=pick(length, shorter),
        slope=pick(slope, state.slope),
        energy=pick(energy, state.energy),
        damping=pick(damping, state.damping),
        bend=pick(bend, state.bend),
        curved=curved,
        exact=pick(state.curved, state.exact) | settings.precise,
        bent=state.bent | (accept & ~definite),
        iteration=iteration,
        status=status,
    )


def _damped_step(
    here: LocalModel, last: Number, least: Number, bend: Number
) -> tuple[JaxArray, Scalar]:
    """Newton's step and damping 0 where the second variation is positive, else a damped and bent
    step, and its damping.

    The bend is a small wave with a share in every slow variation; the damped system amplifies of it
    what leads downhill most steeply. Without it, a curve that is symmetric would never leave the
    plane of symmetry.
    """
    least = jnp.maximum(last / DAMPING_GROWTH, least)
    pull = bend * jnp.sqrt(2 * here.energy) * here.wave()

    def indefinite(carry: tuple[Scalar, JaxArray, Scalar]) -> Flag:
        damping, _, pivot = carry
        return ~(pivot > 0) & (damping < MOST_DAMPING) & jnp.isfinite(here.energy)

    def grow(carry: tuple[Scalar, JaxArray, Scalar]) -> tuple[Scalar, JaxArray, Scalar]:
        damping = carry[0]
        damping = jnp.where(damping < 0, 0.0, jnp.maximum(damping * DAMPING_GROWTH, least))
        return damping, *here.solve(damping, jnp.where(damping > 0, pull, 0.0))

    none = jnp.asarray(-1.0)
    damping, step, _ = jax.lax.while_loop(indefinite, grow, (none, here.still(), none))
    return step, damping
