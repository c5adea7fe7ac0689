"""Descent on the energy of a curve: Newton's method with the second variation, safeguarded so that it always goes down."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import _boundary, batching, elements
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

LEAST_DAMPING, DAMPING_GROWTH, MOST_DAMPING = 0.1, 4.0, 1e9
"""Damping is in units of the Laplacian, the part of the second variation that is always positive."""

ROUNDING = 1e-12
"""A promised relative gain in energy below this drowns in rounding: the descent has arrived."""

KICK, TURNS, PUSHES = 0.1, 3, 3
"""A saddle is left by this fraction of the curve's length, along a direction found by so many inverse iterations; so
many saddles a problem, at most."""


@dataclasses.dataclass(frozen=True, repr=False)
class Energy(Solver):
    """Minimise the energy over piecewise polynomials, by Newton's method.

    The curve has `elements` pieces of `degree` s with s Gauss points each: degree 1 is a polyline with the midpoint
    rule, which finds its way from afar; degree 3 is the Gauss collocation solution of order 6 (docs/derivations/energy.md).
    Where the second variation is not positive it is damped by the metric's Laplacian until it is; steps that do not
    descend are shortened; a saddle is left along a direction of negative curvature. So it ends in a local minimiser.
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
        breaks = np.broadcast_to(np.linspace(0.0, 1.0, self.elements + 1), (len(start), self.elements + 1))
        times = elements.node_times(breaks[0], self.degree)
        nodes = straight_line(start, end, times, 0)
        if init is not None:
            moving = np.any(start != end, axis=1)  # from a point to itself, stay there
            nodes = np.where(moving[:, None, None], init.evaluate(times), nodes)
        found = descend(metric, nodes, breaks, self.tol, self.max_iter)
        return Solution(smooth(metric, found.nodes, breaks), found.status, found.iterations)


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
    """(P,): whether the second variation was anywhere on the way not positive. If not, there was one way to go."""


def descend(metric: Metric, nodes: Array, breaks: Array, tol: float, max_iter: int, pushes: int = PUSHES) -> Descent:
    """Lower the energy of P curves, given by nodes (P, N, d) and breaks (P, K + 1), as far as it goes."""
    P = len(nodes)
    states = _State(
        nodes=nodes,
        step=np.zeros_like(nodes),
        length=np.zeros(P),
        slope=np.zeros(P),
        energy=np.full(P, np.inf),
        damping=np.zeros(P),
        bent=np.zeros(P, dtype=bool),
        iteration=np.zeros(P, int),
        status=np.full(P, RUNNING),
    )
    common = _Common(np.asarray(tol), np.asarray(max_iter))
    widths = np.diff(breaks)
    final = batching.iterate(_step, metric, common, widths, states, points_per_step=nodes.shape[1] - 1)
    found = Descent(final.nodes, final.energy, final.status, final.iteration, final.bent)
    saddle = found.status == Status.SADDLE
    if pushes and saddle.any():
        beside = batching.over_points(_push_off, metric, found.nodes[saddle], widths[saddle], tile=_tile(nodes))
        lower = descend(metric, beside, breaks[saddle], tol, max_iter, pushes - 1)
        for kept, new in zip(found, lower._replace(bent=True), strict=True):
            kept[saddle] = new
    return found


def smooth(metric: Metric, nodes: Array, breaks: Array) -> PiecewiseCurve:
    """The curves through the ends of the elements, with the velocities and accelerations of a geodesic there."""
    return PiecewiseCurve(
        breaks, *batching.over_points(elements.hermite, metric, nodes, np.diff(breaks), tile=_tile(nodes))
    )


def _tile(nodes: Array) -> int:
    return max(1, batching.POINT_TILE // nodes.shape[1])


class _Common(NamedTuple):
    tol: Any
    max_iter: Any


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
    bent: Any
    iteration: Any
    status: Any


def _step(metric: Metric, common: _Common, widths: Any, state: _State) -> _State:
    """One evaluation: the energy of the curve that is tried, with what the next Newton step needs."""
    trial = state.nodes + state.length * state.step
    total = elements.assemble(metric, trial, widths)
    first, finite = state.iteration == 0, jnp.isfinite(total.energy)
    gain = total.energy - state.energy
    accept = finite & (first | (gain <= ARMIJO * state.length * state.slope))

    # if this curve is taken: the next direction, or the end
    step, damping = _damped_step(total, state.damping, trial.shape[-1])
    slope = elements.inner(total.gradient, step)
    size = jnp.sqrt(2 * total.energy)
    stride = jnp.sqrt(elements.inner(elements.times(total.laplacian, step), step))
    length = jnp.where(stride > REACH * size, REACH * size / stride, 1.0)
    arrived = (-slope <= jnp.maximum(common.tol, ROUNDING) * total.energy) | (total.energy == 0)
    # if not: a shorter step, where the parabola through what is known has its minimum
    shorter = -0.5 * state.slope * state.length**2 / (gain - state.slope * state.length)
    shorter = jnp.clip(jnp.where(finite, shorter, 0.0), 0.1 * state.length, 0.5 * state.length)

    iteration = state.iteration + 1
    exhausted = (iteration >= common.max_iter) | (~accept & (shorter < SHORTEST))
    status = jnp.where(
        accept & arrived,
        jnp.where(damping > 0, Status.SADDLE, Status.CONVERGED),
        jnp.where(
            first & ~finite,
            Status.NON_FINITE,
            jnp.where(exhausted, Status.MAX_ITERATIONS, RUNNING),
        ),
    )
    # the last Newton step is taken on trust: it squares an error that is small already
    trial = jnp.where(status == Status.CONVERGED, trial + jnp.where(jnp.isfinite(step), step, 0.0), trial)
    pick = lambda new, old: jnp.where(accept, new, old)
    return _State(
        nodes=pick(trial, state.nodes),
        step=pick(step, state.step),
        length=pick(length, shorter),
        slope=pick(slope, state.slope),
        energy=pick(total.energy, state.energy),
        damping=pick(damping, state.damping),
        bent=state.bent | (accept & (damping > 0)),
        iteration=iteration,
        status=status,
    )


def _damped_step(total: elements.Sum, last: Any, d: int) -> tuple[Any, Any]:
    """Newton's step and damping 0 where the second variation is positive, else a damped step and its damping."""

    least = jnp.maximum(last / DAMPING_GROWTH, LEAST_DAMPING)

    def indefinite(carry: Any) -> Any:
        damping, _, pivot = carry
        return ~(pivot > 0) & (damping < MOST_DAMPING) & jnp.isfinite(total.energy)

    def grow(carry: Any) -> Any:
        damping = carry[0]
        damping = jnp.where(damping < 0, 0.0, jnp.maximum(damping * DAMPING_GROWTH, least))
        return damping, *elements.newton_step(total, damping, d)

    nodes = jnp.zeros((len(total.gradient) * (total.gradient.shape[-1] // d - 1) + 1, d))
    damping, step, _ = jax.lax.while_loop(indefinite, grow, (jnp.asarray(-1.0), nodes, jnp.asarray(-1.0)))
    return step, damping


def _push_off(metric: Metric, nodes: Any, widths: Any) -> Any:
    """A curve beside a saddle, moved along a direction in which the energy falls (or as it was, if there is none)."""
    d = nodes.shape[-1]
    total = elements.assemble(metric, nodes, widths)
    _, damping = _damped_step(total, jnp.zeros(()), d)

    def turn(direction: Any) -> Any:  # inverse iteration towards the most negative eigenvector of H against B
        load = elements.times(total.laplacian, direction)
        turned, _ = elements.newton_step(total._replace(gradient=-load), damping, d)
        return turned / jnp.sqrt(elements.inner(elements.times(total.laplacian, turned), turned))

    wave = jnp.sin(jnp.linspace(0.0, jnp.pi, len(nodes)))[:, None] * jnp.cos(jnp.arange(d))  # no axis is special
    direction = wave
    for _ in range(TURNS):
        direction = turn(direction)
    downhill = jnp.where(elements.inner(total.gradient, direction) > 0, -1.0, 1.0)
    return nodes + downhill * KICK * jnp.sqrt(2 * total.energy) * direction
