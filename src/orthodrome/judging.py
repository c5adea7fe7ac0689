"""The judge: what can be said about any curve, whoever made it, from the metric alone.

Length and energy by quadrature on the curve itself, the geodesic equation's residual between the
knots as well as at them, the speed, an estimate of the error of the length, and a certificate
(docs/derivations/certificate.md).
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from orthodrome import batching, elements, elimination, krylov
from orthodrome.curves import Curve
from orthodrome.metrics import Metric
from orthodrome.status import Flaw

Array = np.ndarray[Any, Any]

RTOL = 1e-4
"""The relative error of length a certificate speaks for, unless the solver asks for another."""

GAUSS_POINTS = 4
"""Gauss–Legendre points a panel: exact for degree 7, and not one of them on a knot of a uniform
mesh."""

GAUSS, GAUSS_WEIGHTS = elements.basis(GAUSS_POINTS).gauss, elements.basis(GAUSS_POINTS).weights
"""The rule on [0, 1]."""


PANELS, FEW_PANELS = 8, 4
"""Panels of the first quadrature at least; it has half as many as the curve has pieces, the next
one twice that. Few where each point is dear: on the pullback of a map, which may be a large
network."""

CLOSE_LOOKS = 3
"""How many meshes, each twice as fine, may be tried until the second variation is positive on one:
a coarse one can miss that it is."""

MOST_PANELS = 1024
"""No quadrature has more panels, except the second of a curve with more pieces."""

PANEL_REACH = 2.0
"""A panel, with its four points, may be as long as so many of the metric's `scale`; longer ones may
miss something."""

QUADRATURE_RTOL, ROUGH_QUADRATURE_RTOL = 1e-3, 1e-2
"""A length is believed if two successive ones say that its own error is below this fraction of the
tolerance; below the larger one where each point is dear."""

QUADRATURE_GAIN = 16.0
"""The finer of two quadratures is at least so much closer than their difference: 256 times on a
smooth curve."""

LEAP = 10.0
"""The steps between the points looked at, each measured where it begins, may together be so many
times as long as the curve. A curve that leaps to where the metric is another can have next to no
speed at all points looked at, and its length is then not a number to believe."""

CAUTION = 2.0
"""The estimate of the error is multiplied by this: it is right to first order, and the rest should
lie below it."""

RESIDUAL_FACTOR = 10.0
"""The residual's root mean square along the curve may be so many √rtol: `error` goes with its
square. Its maximum says less: where the metric has kinks, as that of a network with ELU has, no
smooth curve can make it small."""

ENDS = np.array([0.0, 1.0])

ENDS_RTOL = 1e-9
"""How far a curve's end may lie from the point asked for, relative to the way between them."""

ROUNDING = 1e-14
"""... and relative to the coordinates themselves."""

BLOCK_NUMBERS = 2**22
"""Coordinates evaluated at once: bounds memory (32 MiB an array) whatever the number of curves."""


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """What the judge found, an array (P,) each."""

    length: Array
    energy: Array
    residual: Array
    """max over t of ‖c'' − f(c, c')‖_M / length."""
    speed_variation: Array
    """max over t of |speed / length − 1|."""
    error: Array
    """Estimated relative error of the length; infinite where the curve is too long to be looked at
    closely enough."""
    minimising: Array
    """Whether the second variation is positive: no curve nearby is shorter than the geodesic."""
    flaw: Array
    """`Flaw` numbers: why it is not certified."""

    @property
    def certified(self) -> Array:
        """Whether no flaw was found."""
        return self.flaw == Flaw.NONE

    def take(self, index: Any) -> "Verdict":
        """Some of the verdicts."""
        return Verdict(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))

    @staticmethod
    def concatenate(verdicts: Sequence["Verdict"]) -> "Verdict":
        """Several verdicts behind one another."""
        columns = (
            [getattr(v, field.name) for v in verdicts] for field in dataclasses.fields(Verdict)
        )
        return Verdict(*map(np.concatenate, columns))


class Case(NamedTuple):
    """What the judge is asked: whether P curves are geodesics from `start` to `end`, (P, d)
    each."""

    metric: Metric
    curve: Curve
    start: Array
    end: Array
    rtol: float = RTOL

    def take(self, index: Any) -> "Case":
        """Some of the curves."""
        return Case(
            self.metric, self.curve.take(index), self.start[index], self.end[index], self.rtol
        )


@dataclasses.dataclass(eq=False)
class Judgement:
    """A verdict, or a case: to judge costs as much as to solve, so it is done when somebody
    asks."""

    about: Verdict | Case

    @property
    def verdict(self) -> Verdict:
        """The judge is asked once."""
        about = self.about  # another thread may be asking too
        if isinstance(about, Case):
            self.about = about = judge(*about)
        return about

    def take(self, index: Any) -> "Judgement":
        """On some of the curves."""
        return Judgement(self.about.take(index))


@np.errstate(all="ignore")  # a curve that runs to infinity gets NaN, a status and a warning of ours
def judge(metric: Metric, curve: Curve, start: Array, end: Array, rtol: float = RTOL) -> Verdict:
    """Judge P curves that should be geodesics from `start` to `end`, (P, d) each."""
    P, d = start.shape
    if not P:
        none = np.zeros(0)
        return Verdict(
            none, none, none, none, none, np.zeros(0, dtype=bool), np.zeros(0, dtype=int)
        )
    length, energy, change, gap = (np.full(P, np.nan) for _ in range(4))
    typical, worst, slowest, fastest, fine_enough = (
        np.zeros(P),
        np.zeros(P),
        np.full(P, np.inf),
        np.zeros(P),
        np.zeros(P, dtype=bool),
    )
    minimising, leaps = np.zeros(P, dtype=bool), np.zeros(P, dtype=bool)
    pending, panels = (
        np.arange(P),
        max(FEW_PANELS if metric.embedded else PANELS, power_of_two(curve.pieces) // 2),
    )
    quadrature_rtol = rtol * (ROUGH_QUADRATURE_RTOL if metric.embedded else QUADRATURE_RTOL)
    for level in itertools.count():
        numbers = pending.size * panels * (GAUSS_POINTS + 1) * d
        for some in np.array_split(pending, max(1, -(-numbers // BLOCK_NUMBERS))):
            closely = 0 < level <= CLOSE_LOOKS and not minimising[some].all()
            seen = _look(metric, curve.take(some), panels, closely)
            fine_enough[some] = seen.pace <= PANEL_REACH * metric.scale * panels
            change[some] = np.abs(seen.length - length[some])
            leaps[some] = np.isfinite(seen.length) & (seen.steps > LEAP * seen.length)
            length[some], energy[some] = seen.length, seen.energy
            worst[some], typical[some] = np.maximum(worst[some], seen.residual), seen.mean_square
            slowest[some] = np.minimum(slowest[some], seen.slowest)
            fastest[some] = np.maximum(fastest[some], seen.fastest)
            if closely:
                gap[some], minimising[some] = seen.gap, seen.minimising
        panels *= 2
        if level:  # a non-finite length will not improve; NaN compares as settled
            unsettled = (change > QUADRATURE_GAIN * quadrature_rtol * length) | (
                np.isfinite(length) & ~fine_enough
            )
            unsettled |= (np.isfinite(gap) & ~minimising & (level < CLOSE_LOOKS)) | leaps
            pending = pending[unsettled[pending]]
            if not pending.size or panels > MOST_PANELS:
                break
    still = (length == 0) & (worst == 0)
    length, energy = np.where(leaps, np.nan, length), np.where(leaps, np.nan, energy)
    scale = np.where(still, 1.0, length)
    residual = worst / scale
    variation = np.where(still, 0.0, np.maximum(fastest / scale - 1, 1 - slowest / scale))
    # length² = 2·energy: the relative error of the length is half that of the energy
    error = (
        change / QUADRATURE_GAIN / scale + CAUTION * gap / scale**2 + np.where(still, 0.0, ROUNDING)
    )
    error = np.where(fine_enough & (minimising | still), error, np.inf)
    uneven = np.where(still, 0.0, np.abs(np.sqrt(2 * energy) / scale - 1))
    flaw = np.select(
        [
            leaps,
            ~np.isfinite(length),
            ~_ends_meet(curve, start, end),
            ~(np.sqrt(typical) <= RESIDUAL_FACTOR * np.sqrt(rtol) * scale),
            ~((variation <= np.sqrt(rtol)) & (uneven <= rtol)),
            ~(minimising | still),
            ~(error <= rtol),
        ],
        [
            Flaw.UNMEASURED,
            Flaw.NON_FINITE,
            Flaw.ENDS,
            Flaw.RESIDUAL,
            Flaw.SPEED,
            Flaw.NOT_MINIMISING,
            Flaw.ERROR,
        ],
        Flaw.NONE,
    )
    return Verdict(length, energy, residual, variation, error, minimising | still, flaw)


class _Seen(NamedTuple):
    """What one look at some curves shows, (P,) each."""

    length: Array
    energy: Array
    residual: Array
    """The largest ‖c'' − f(c, c')‖_M."""
    mean_square: Array
    """The mean of its square over time."""
    slowest: Array
    fastest: Array
    steps: Array
    """The steps from each point to the next, measured where they begin, together."""
    pace: Array
    """The largest way in coordinates between two times, per time."""
    gap: Array
    """How far the energy lies above that of the geodesic nearby; only if looked at closely."""
    minimising: Array
    """Whether the second variation is positive; only if looked at closely."""


def _look(metric: Metric, curve: Curve, panels: int, closely: bool) -> _Seen:
    """Evaluate the curves at the Gauss points of their panels and at both ends."""
    P = len(curve)
    times, widths = gauss_times(curve, panels)
    # and the midpoints
    times = np.concatenate([times, times.mean(axis=-1, keepdims=True)], axis=-1)
    times, widths = times.reshape(*times.shape[:-2], -1), np.broadcast_to(widths, (P, panels))
    c, v, a = (x.reshape(P, panels, GAUSS_POINTS + 1, -1) for x in curve.derivatives(times))
    # the way a panel takes decides whether something could be missed between its points
    pace = np.linalg.norm(v, axis=-1).max(axis=(1, 2))
    ends = curve.derivatives(ENDS)
    stops = np.concatenate(
        [ends[0][:, :1], c[:, :, :-1].reshape(P, -1, c.shape[-1]), ends[0][:, 1:]], axis=1
    )
    first, inside = np.split(np.diff(stops, axis=1), [1], axis=1)
    inside = inside.reshape(P, panels, GAUSS_POINTS, -1)
    if closely:
        speed, residual, step_sizes, gap, smallest_pivot = batching.over_curves(
            _examine, metric, c, v, a, inside, widths, points=panels * GAUSS_POINTS
        )
        minimising = smallest_pivot > 0
    else:
        flat = [x.reshape(-1, c.shape[-1]) for x in (*(x[:, :, :-1] for x in (c, v, a)), inside)]
        speed, residual, step_sizes = (
            x.reshape(P, panels, -1) for x in batching.over_points(_measure, metric, *flat)
        )
        gap, minimising = np.full(P, np.nan), np.zeros(P, dtype=bool)
    flat = [x.reshape(-1, c.shape[-1]) for x in (*ends, np.concatenate([first, 0 * first], axis=1))]
    end_speed, end_residual, end_steps = (
        x.reshape(P, 2) for x in batching.over_points(_measure, metric, *flat)
    )
    weights = widths[..., None] * GAUSS_WEIGHTS
    all_speeds = np.concatenate([speed.reshape(P, -1), end_speed], axis=1)
    return _Seen(
        length=np.sum(weights * speed, axis=(1, 2)),
        energy=0.5 * np.sum(weights * speed**2, axis=(1, 2)),
        residual=np.maximum(residual.max(axis=(1, 2)), end_residual.max(axis=1)),
        mean_square=np.sum(weights * residual**2, axis=(1, 2)),
        slowest=all_speeds.min(axis=1),
        fastest=all_speeds.max(axis=1),
        steps=step_sizes.sum(axis=(1, 2)) + end_steps[:, 0],
        pace=pace,
        gap=gap,
        minimising=minimising,
    )


def _examine(
    metric: Metric, c: Any, v: Any, a: Any, steps: Any, widths: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Speeds, residuals, steps of one curve at its Gauss points; the energy it could still lose;
    the smallest pivot.

    c, v, a: (panels, 4 + 1, d), the midpoint last; steps: (panels, 4, d). Near a geodesic the curve
    could lose ½ ⟨r, H⁻¹ r⟩, with r the residual and H the second variation. That is a sum of two
    parts (docs/derivations/certificate.md): what hat functions on the panels can see, with the full
    H, and what happens inside each panel, where H is as good as flat.
    """
    middle = c[:, -1], v[:, -1]
    c, v, a = c[:, :-1], v[:, :-1], a[:, :-1]
    flat = lambda u: u.reshape(-1, u.shape[-1])
    f, lower = metric.motion_along(flat(c), flat(v))
    r = a - f.reshape(a.shape)
    norm = lambda u: jnp.sqrt(jnp.sum(flat(u) * lower(flat(u)), axis=1)).reshape(u.shape[:-1])
    weights = widths[:, None] * GAUSS_WEIGHTS
    force = weights[..., None] * lower(flat(r)).reshape(r.shape)
    load = jnp.stack([jnp.einsum("g,kgd->kd", hat, force) for hat in (1 - GAUSS, GAUSS)], axis=1)
    between, smallest_pivot = _gain(metric, *middle, widths, load)
    slip = widths[:, None, None] * jnp.einsum(
        "gj,kjd->kgd", elements.basis(GAUSS_POINTS).to_gauss, r
    )
    slip = slip - jnp.einsum("g,kgd->kd", GAUSS_WEIGHTS, slip)[:, None]
    within = 0.5 * jnp.sum(weights * norm(slip) ** 2)
    return norm(v), norm(r), norm(steps), between + within, smallest_pivot


def _gain(metric: Metric, c: Any, v: Any, widths: Any, load: Any) -> tuple[Any, Any]:
    """The energy that a load (K, 2, d) on the ends of K panels could gain, ½ ⟨load, H⁻¹ load⟩; the
    smallest pivot of H.

    The second variation H is that of variations linear on each panel, from the curve's middle
    points c, v (K, d).
    """
    if krylov.pays(metric, c.shape[-1]):
        space = krylov.around(metric, c[:, None], v[:, None], widths, load)
        shift, smallest_pivot = space.solve(0.0, 0.0)
        return -0.5 * space.slope(shift), smallest_pivot
    hessian = elements.second_variation(metric.variation_along(c, v), widths)
    _, shift, smallest_pivot = elimination.solve(hessian, load.reshape(len(load), -1), c.shape[-1])
    return 0.5 * elements.inner(load, shift), smallest_pivot


@np.errstate(all="ignore")
def initial_velocity(metric: Metric, curve: Curve) -> Array:
    """c'(0) of the geodesics that the P curves approximate: (P, d).

    A curve's own c'(0) is (b − a) − ∫ (1 − t) c'' dt. Of a geodesic, c'' = f(c, c'); putting f in
    its place takes the error of c'' at the end, where an interpolant is worst, out of the answer
    (benchmarks/closed_forms.py prints both).
    """
    times, widths = gauss_times(curve, max(2 * PANELS, power_of_two(curve.pieces)))
    t = times.reshape(*times.shape[:-2], -1)
    w = (widths[..., None] * GAUSS_WEIGHTS).reshape(t.shape)
    c, v = curve.derivatives(t, (0, 1))
    f = metric.accelerations(c.reshape(-1, c.shape[-1]), v.reshape(-1, c.shape[-1])).reshape(
        c.shape
    )
    return curve.end - curve.start - np.einsum("...t,...td->...d", w * (1 - t), f)


def _measure(metric: Metric, c: Any, v: Any, a: Any, step: Any) -> tuple[Any, Any, Any]:
    f, lower = metric.motion_along(c, v)
    norm = lambda u: jnp.sqrt(jnp.sum(u * lower(u), axis=1))
    return norm(v), norm(a - f), norm(step)


def gauss_times(curve: Curve, panels: int) -> tuple[Array, Array]:
    """The Gauss points of so many panels on the curves' own meshes, (..., panels, 4), and the
    panels' widths."""
    breaks = curve.mesh(panels)
    widths = np.diff(breaks)
    return breaks[..., :-1, None] + widths[..., None] * GAUSS, widths


def power_of_two(count: int) -> int:
    """The smallest power of two that is not below the count: meshes come in these sizes only."""
    return 1 << max(0, count - 1).bit_length()


def _ends_meet(curve: Curve, start: Array, end: Array) -> Array:
    ends = curve.evaluate(ENDS)
    size, way = np.maximum(np.abs(start), np.abs(end)).max(axis=1), np.abs(end - start).max(axis=1)
    miss = np.maximum(np.abs(ends[:, 0] - start), np.abs(ends[:, 1] - end)).max(axis=1)
    return miss <= ENDS_RTOL * way + ROUNDING * size
