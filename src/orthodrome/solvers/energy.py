"""Descent on the energy of a curve: Newton's method with the second variation, safeguarded so that
it goes down."""

import dataclasses
import enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary, batching, chords, elements, krylov
from orthodrome.batching import STEP_TILE
from orthodrome.curves import Curve, PiecewiseCurve, straight_line
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Array, Solution, Solver
from orthodrome.status import RUNNING, Status

ARMIJO = 1e-4
"""A step counts as a descent if it gains this fraction of what its slope promised."""

SHORTEST = 1e-7
"""A step this small that still does not descend is the end of the road."""

REACH = 1.0
"""A step moves the curve by at most so many of its own lengths."""

LEAST_DAMPING, DAMPING_GROWTH, MOST_DAMPING = 1e-3, 4.0, 1e9
"""Damping is in units of the Laplacian, the part of the second variation that is always positive.
The least one decides how shallow a saddle can still be left."""

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
the curve's length; by less after only a little of such a step was taken, or it would go to and fro
across a narrow valley; then by more again.
"""


@dataclasses.dataclass(frozen=True, repr=False)
class Energy(Solver):
    """Minimise the energy over piecewise polynomials, by Newton's method.

    The curve has `elements` pieces of `degree` s with s Gauss points each: degree 1 is a polyline
    with the midpoint rule, which finds its way from afar; degree 3 is the Gauss collocation
    solution of order 6 (docs/derivations/energy.md). On the pullback of a map it begins with
    Gauss–Newton steps in single precision, which are cheap. Where the second variation is not
    positive it is damped by the metric's Laplacian until it is; steps that do not descend are
    shortened; and they are bent a little, so that a saddle is left. So it ends in a local
    minimiser.
    """

    elements: int = 32
    """Pieces: a power of two."""
    degree: int = 3
    """Of the polynomials: 1 to 4."""
    tol: float = 1e-8
    """It ends when another Newton step promises to lower the energy by less than this fraction."""
    max_iter: int = 200
    """Evaluations of the energy after which a problem is given up."""

    def __post_init__(self) -> None:
        count = _boundary.as_count(self.elements, "elements", 1)
        if count & (count - 1):
            raise ValueError(f"elements should be a power of two; {count} arrived.")
        if _boundary.as_count(self.degree, "degree", 1) > 4:
            raise ValueError(f"degree should be 1 to 4; {self.degree} arrived.")
        object.__setattr__(self, "tol", _boundary.as_positive(self.tol, "tol"))
        _boundary.as_count(self.max_iter, "max_iter", 1)

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Descend from `init`, or from the straight line."""
        breaks = np.broadcast_to(
            np.linspace(0.0, 1.0, self.elements + 1), (len(start), self.elements + 1)
        )
        times = elements.node_times(np.linspace(0.0, 1.0, self.elements + 1), self.degree)
        nodes = straight_line(start, end, times, 0)
        if init is not None:
            moving = np.any(start != end, axis=1)  # from a point to itself, stay there
            nodes = np.where(moving[:, None, None], init.evaluate(times), nodes)
        found = descend(metric, nodes, breaks, self.tol, self.max_iter)
        return Solution(smooth(metric, found.nodes, breaks), found.status, found.iterations)


class Look(enum.Enum):
    """When a descent looks at the second variation, on the pullback of a map: a look costs several
    of Gauss–Newton's steps, which do without. On other metrics it always looks."""

    NEVER = 0
    """It may end in a saddle, or before it has quite arrived: a curve to begin with."""
    AT_THE_END = 1
    ALWAYS = 2
    """Then `Descent.bent` says whether there was more than one way to go."""


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
    look: Look = Look.AT_THE_END,
) -> Descent:
    """Lower the energy of P curves, given by nodes (P, N, d) and breaks (P, K + 1), as far as it
    goes."""
    common = _Common(
        np.asarray(tol),
        np.asarray(max_iter),
        np.asarray(least_damping),
        np.asarray(look is Look.NEVER),
        precise=False,
    )
    wary = look is Look.ALWAYS or not metric.embedded
    found = _descend(metric, nodes, breaks, common, wary, np.zeros(len(nodes), int))
    again = (found.status != Status.CONVERGED) & (found.iterations < max_iter)
    if metric.embedded and again.any():  # single precision was perhaps not enough
        precise = common._replace(precise=True)
        more = _descend(metric, nodes[again], breaks[again], precise, wary, found.iterations[again])
        for old, new in zip(found, more, strict=True):
            old[again] = new
    return found


def _descend(
    metric: Metric, nodes: Array, breaks: Array, common: "_Common", wary: bool, evaluations: Array
) -> Descent:
    """`evaluations` (P,) were spent on each problem before."""
    P = len(nodes)
    states = _State(
        nodes=nodes,
        step=np.zeros_like(nodes),
        length=np.zeros(P),
        slope=np.zeros(P),
        energy=np.full(P, np.inf),
        damping=np.zeros(P),
        bend=np.full(P, BEND),
        curved=np.full(P, wary),
        exact=np.full(P, not metric.embedded or common.precise),
        bent=np.zeros(P, dtype=bool),
        iteration=evaluations,
        status=np.full(P, RUNNING),
    )
    # problems on an embedded metric go one by one: a tile of several would pay for all that each of
    # them can do without
    points = STEP_TILE if metric.embedded else nodes.shape[1] - 1
    final = batching.iterate(_step, metric, common, np.diff(breaks), states, points_per_step=points)
    return Descent(final.nodes, final.energy, final.status, final.iteration, final.bent)


def smooth(metric: Metric, nodes: Array, breaks: Array) -> PiecewiseCurve:
    """The curves through the ends of the elements, with the velocities and accelerations of a
    geodesic there."""
    return PiecewiseCurve(
        breaks,
        *batching.over_curves(_hermite, metric, nodes, np.diff(breaks), points=nodes.shape[1]),
    )


def first_velocity(metric: Metric, nodes: Array, breaks: Array) -> Array:
    """c'(0) (P, d) of the geodesics that pass through the nodes (P, N, d).

    c(h) = c(0) + h c'(0) + ∫ (h − t) c'' dt on the first element, where c'' = f(c, c') is taken at
    its Gauss points.
    """
    degree = (nodes.shape[1] - 1) // (breaks.shape[1] - 1)
    rule, h = elements.basis(degree), breaks[:, 1, None]
    local = (
        np.concatenate([nodes[:, 1:degree], nodes[:, :1], nodes[:, degree : degree + 1]], axis=1)
        - nodes[:, :1]
    )
    c = nodes[:, :1] + np.einsum("ga,pad->pgd", rule.values, local)
    v = np.einsum("ga,pad->pgd", rule.slopes, local) / h[..., None]
    d = nodes.shape[2]
    f = metric.accelerations(c.reshape(-1, d), v.reshape(-1, d)).reshape(c.shape)
    return local[:, -1] / h - h * np.einsum("g,pgd->pd", rule.weights * (1 - rule.gauss), f)


def _hermite(metric: Metric, nodes: Any, widths: Any) -> tuple[Any, Any, Any]:
    gradient = chords.pull_at_ends if metric.embedded else elements.gradient
    return elements.hermite(metric, nodes, widths, gradient(metric, nodes, widths))


def _explore(
    metric: Metric, nodes: Any, widths: Any, curved: Any, precise: bool
) -> elements.Sum | krylov.Space:
    """The energy around a curve, in the way that suits the metric."""
    if metric.embedded:
        return chords.assemble(
            metric, nodes, widths, metric if precise else metric.rougher(), curved
        )
    return (krylov.explore if krylov.pays(metric, nodes.shape[-1]) else elements.assemble)(
        metric, nodes, widths
    )


class _Common(NamedTuple):
    tol: Any
    max_iter: Any
    least_damping: Any
    hasty: Any
    """Whether Gauss–Newton's steps may have the last word."""
    precise: bool
    """Whether second derivatives on an embedded metric are in double precision too."""


class _State(NamedTuple):
    """Where one descent stands between two evaluations of the energy."""

    nodes: Any
    """The best curve so far, (N, d)."""
    step: Any
    """The direction being tried, (N, d)."""
    length: Any
    """How much of it."""
    slope: Any
    """The derivative of the energy along it, negative."""
    energy: Any
    damping: Any
    bend: Any
    """Of the next step, if it has to be damped."""
    curved: Any
    """Whether the Hessian is the second variation, Newton's, or only Gauss–Newton's part of it."""
    exact: Any
    """Whether the energy is known in double precision."""
    bent: Any
    iteration: Any
    status: Any


def _step(metric: Metric, common: _Common, widths: Any, state: _State) -> _State:
    """One evaluation: the energy of the curve that is tried, with what the next Newton step
    needs."""
    trial = state.nodes + state.length * state.step
    here = _explore(metric, trial, widths, state.curved, common.precise)
    first, finite = jnp.isinf(state.energy), jnp.isfinite(here.energy)
    gain = here.energy - state.energy
    slack = jnp.where(state.exact, 0.0, ROUGH * here.energy)
    accept = finite & (
        first | (gain <= ARMIJO * state.length * jnp.minimum(state.slope, 0.0) + slack)
    )

    # if this curve is taken: the next direction, or the end
    bend = jnp.where(
        state.length <= LITTLE,
        state.bend * state.length,
        jnp.minimum(state.bend * BEND_GROWTH, BEND),
    )
    # a bent step that had to be shortened was bent too much
    bend = jnp.where(state.damping > 0, bend, state.bend)
    step, damping = _damped_step(here, state.damping, common.least_damping, bend)
    slope, stride = here.slope(step), here.stride(step)
    step = jnp.where(slope > 0, -1.0, 1.0) * here.nodes(step)  # the bend may have gone uphill
    slope, size = -jnp.abs(slope), jnp.sqrt(2 * here.energy)
    length = jnp.where(stride > REACH * size, REACH * size / stride, 1.0)
    definite = damping == 0
    promise = jnp.maximum(common.tol, ROUNDING) * here.energy
    near = definite & (-slope <= promise) | (here.energy == 0)
    arrived = near & (state.curved | common.hasty)
    curved = state.curved | accept & (near | (slope < SLOW * state.slope) & ~first) & ~common.hasty
    # if not: a shorter step, where the parabola through what is known has its minimum
    shorter = -0.5 * state.slope * state.length**2 / (gain - state.slope * state.length)
    shorter = jnp.clip(jnp.where(finite, shorter, 0.0), 0.1 * state.length, 0.5 * state.length)

    iteration = state.iteration + 1
    exhausted = (iteration >= common.max_iter) | (~accept & (shorter < SHORTEST))
    status = jnp.where(
        accept & arrived,
        Status.CONVERGED,
        jnp.where(
            first & ~finite,
            Status.NON_FINITE,
            jnp.where(exhausted, Status.MAX_ITERATIONS, RUNNING),
        ),
    )
    # the last Newton step is taken on trust: it squares an error that is small already
    energy = jnp.where(status == Status.CONVERGED, here.energy + 0.5 * slope, here.energy)
    trial = jnp.where(
        status == Status.CONVERGED, trial + jnp.where(jnp.isfinite(step), step, 0.0), trial
    )
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
        exact=pick(state.curved, state.exact) | common.precise,
        bent=state.bent | (accept & ~definite),
        iteration=iteration,
        status=status,
    )


def _damped_step(
    here: elements.Sum | krylov.Space, last: Any, least: Any, bend: Any
) -> tuple[Any, Any]:
    """Newton's step and damping 0 where the second variation is positive, else a damped and bent
    step, and its damping.

    The bend is a small wave that is no direction's own; the damped system amplifies of it what
    leads downhill most steeply. Without it, a curve that is symmetric would never leave the plane
    of symmetry.
    """
    least = jnp.maximum(last / DAMPING_GROWTH, least)
    pull = bend * jnp.sqrt(2 * here.energy) * here.wave()

    def indefinite(carry: Any) -> Any:
        damping, _, pivot = carry
        return ~(pivot > 0) & (damping < MOST_DAMPING) & jnp.isfinite(here.energy)

    def grow(carry: Any) -> Any:
        damping = carry[0]
        damping = jnp.where(damping < 0, 0.0, jnp.maximum(damping * DAMPING_GROWTH, least))
        return damping, *here.solve(damping, jnp.where(damping > 0, pull, 0.0))

    damping, step, _ = jax.lax.while_loop(
        indefinite, grow, (jnp.asarray(-1.0), here.still(), jnp.asarray(-1.0))
    )
    return step, damping
