"""The judge: what can be said about any curve, whoever made it, from the metric alone.

Length and energy by quadrature on the curve itself, the geodesic equation's residual, the speed, an
estimate of the error of the length, and a certificate (docs/derivations/certificate.md).
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from orthodrome._types import Array
from orthodrome.curves import Curve
from orthodrome.discretisation import discretise
from orthodrome.measuring import ENDS, GAUSS_POINTS, measure, power_of_two
from orthodrome.metrics import Metric
from orthodrome.records import Record
from orthodrome.status import Flaw

RTOL = 1e-4
"""The relative error of length a certificate speaks for, unless the solver asks for another."""

CURVATURE_CHECKS = 3
"""How many meshes, each twice as fine, may be tried until the second variation is positive on one:
a coarse one can miss that it is. The first quadrature is too coarse for any."""

MOST_PANELS = 1024
"""No quadrature has more panels, except the second of a curve with more pieces."""

PANEL_REACH = 2.0
"""A panel, with its four points, may be as long as so many of the metric's `scale`; longer ones may
miss a feature between two points."""

QUADRATURE_GAIN = 16.0
"""The finer of two quadratures is taken to be so much closer than their difference: 256 times is
what a smooth curve gives, which one with kinks in its derivatives does not reach."""

LEAP = 10.0
"""The steps between the points of a quadrature, each measured where it begins, may together be so
many times as long as the curve. A curve that leaps to where the metric is another can have next to
no speed at all the points, and its length is then not a number to believe."""

CAUTION = 2.0
"""The estimate of the error is multiplied by this: it is right to first order, and the rest should
lie below it."""

RESIDUAL_FACTOR = 10.0
"""The residual's root mean square along the curve may be so many √rtol: `error` goes with its
square. Its maximum says less: where the metric has kinks, as that of a network with ELU has, no
smooth curve can make it small."""

ENDS_RTOL = 1e-9
"""How far a curve's end may lie from the point asked for, relative to the distance between them."""

ROUNDING = 1e-14
"""... and relative to the coordinates themselves: some fifty times the spacing of doubles."""

BLOCK_NUMBERS = 2**22
"""Coordinates evaluated at once: bounds memory (32 MiB an array) whatever the number of curves."""


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict(Record):
    """What the judge says of P curves, an array (P,) each."""

    length: Array
    energy: Array
    residual: Array
    """max over t of ‖c'' − f(c, c')‖_M / length."""
    speed_variation: Array
    """max over t of |speed / length − 1|."""
    error: Array
    """Estimated relative error of the length; infinite where the curve is too long to be measured
    closely enough."""
    minimising: Array
    """Whether the second variation is positive: no curve nearby is shorter than the geodesic."""
    flaw: Array
    """`Flaw` numbers: why it is not certified."""

    @property
    def certified(self) -> Array:
        """Whether no flaw was found."""
        return self.flaw == Flaw.NONE

    @staticmethod
    def none() -> "Verdict":
        """On no curves."""
        none, no = np.zeros(0), np.zeros(0, dtype=bool)
        return Verdict(none, none, none, none, none, no, np.zeros(0, dtype=int))


class Evidence(NamedTuple):
    """What the rules of the certificate are applied to, (P,) each but for the tolerance."""

    rtol: float
    length: Array
    error: Array
    leaps: Array
    """Whether the curve leaps, so that its quadratures cannot be believed."""
    ends_meet: Array
    """Whether it begins and ends where it should."""
    mean_square: Array
    """Of the residual, over time."""
    speed_variation: Array
    unevenness: Array
    """|√(2 · energy) / length − 1|: it sees differences of speed that no point shows."""
    minimising: Array


RULES: dict[Flaw, Callable[[Evidence], Array]] = {
    Flaw.UNMEASURED: lambda e: e.leaps,
    Flaw.NON_FINITE: lambda e: ~np.isfinite(e.length),
    Flaw.ENDS: lambda e: ~e.ends_meet,
    Flaw.RESIDUAL: lambda e: (
        ~(np.sqrt(e.mean_square) <= RESIDUAL_FACTOR * np.sqrt(e.rtol) * e.length)
    ),
    Flaw.SPEED: lambda e: ~((e.speed_variation <= np.sqrt(e.rtol)) & (e.unevenness <= e.rtol)),
    Flaw.NOT_MINIMISING: lambda e: ~e.minimising,
    Flaw.ERROR: lambda e: ~(e.error <= e.rtol),
}
"""What the certificate demands: for each flaw, which curves have it. A curve is said to have the
first one in this order. To add a rule, add its `Flaw` and its line here."""


@np.errstate(all="ignore")  # a curve that runs to infinity gets NaN, a status and a warning of ours
def judge(metric: Metric, curve: Curve, start: Array, end: Array, rtol: float = RTOL) -> Verdict:
    """Judge P curves that should be geodesics from `start` to `end`, (P, d) each."""
    if not len(start):
        return Verdict.none()
    q = _quadratures(metric, curve, rtol)
    still = (q.length == 0) & (q.residual == 0)
    length, energy = np.where(q.leaps, np.nan, q.length), np.where(q.leaps, np.nan, q.energy)
    scale = np.where(still, 1.0, length)
    variation = np.where(still, 0.0, np.maximum(q.fastest / scale - 1, 1 - q.slowest / scale))
    # length² = 2·energy: the relative error of the length is half that of the energy
    error = (
        q.change / QUADRATURE_GAIN / scale
        + CAUTION * q.gap / scale**2
        + np.where(still, 0.0, ROUNDING)
    )
    minimising = q.minimising | still
    error = np.where(q.fine_enough & minimising, error, np.inf)
    evidence = Evidence(
        rtol=rtol,
        length=length,
        error=error,
        leaps=q.leaps,
        ends_meet=_ends_meet(curve, start, end),
        mean_square=q.mean_square,
        speed_variation=variation,
        unevenness=np.where(still, 0.0, np.abs(np.sqrt(2 * energy) / scale - 1)),
        minimising=minimising,
    )
    violated = [rule(evidence) for rule in RULES.values()]
    flaw = np.select(violated, list(RULES), Flaw.NONE)
    return Verdict(length, energy, q.residual / scale, variation, error, minimising, flaw)


@dataclasses.dataclass
class _Quadratures:
    """What finer and finer quadratures have shown of P curves, (P,) each."""

    length: Array
    energy: Array
    change: Array
    """By how much the last quadrature changed the length."""
    gap: Array
    """How far the energy lies above that of the geodesic nearby."""
    residual: Array
    mean_square: Array
    slowest: Array
    fastest: Array
    fine_enough: Array
    """Whether no panel of the last one is too long for the metric's `scale`."""
    minimising: Array
    leaps: Array


def _quadratures(metric: Metric, curve: Curve, rtol: float) -> _Quadratures:
    """Measure each curve on twice as many panels, again and again, until its length is settled."""
    P, d = curve.start.shape
    q = _Quadratures(
        length=np.full(P, np.nan),
        energy=np.full(P, np.nan),
        change=np.full(P, np.nan),
        gap=np.full(P, np.nan),
        residual=np.zeros(P),
        mean_square=np.zeros(P),
        slowest=np.full(P, np.inf),
        fastest=np.zeros(P),
        fine_enough=np.zeros(P, dtype=bool),
        minimising=np.zeros(P, dtype=bool),
        leaps=np.zeros(P, dtype=bool),
    )
    discretisation = discretise(metric, d)
    settled = QUADRATURE_GAIN * rtol * discretisation.quadrature_share
    pending = np.arange(P)
    panels = max(discretisation.panels, power_of_two(curve.pieces) // 2)
    level = -1
    while True:
        level += 1
        numbers = pending.size * panels * (GAUSS_POINTS + 1) * d
        for some in np.array_split(pending, max(1, -(-numbers // BLOCK_NUMBERS))):
            check = 0 < level <= CURVATURE_CHECKS and not q.minimising[some].all()
            m = measure(metric, curve.take(some), panels, check)
            q.fine_enough[some] = m.pace <= PANEL_REACH * metric.scale * panels
            q.change[some] = np.abs(m.length - q.length[some])
            q.leaps[some] = np.isfinite(m.length) & (m.travelled > LEAP * m.length)
            q.length[some], q.energy[some] = m.length, m.energy
            q.residual[some] = np.maximum(q.residual[some], m.residual)
            q.mean_square[some] = m.mean_square
            q.slowest[some] = np.minimum(q.slowest[some], m.slowest)
            q.fastest[some] = np.maximum(q.fastest[some], m.fastest)
            if check:
                q.gap[some], q.minimising[some] = m.gap, m.minimising
        panels *= 2
        if not level:  # one quadrature alone says nothing about its own error
            continue
        # a non-finite length will not improve; NaN compares as settled
        unsettled = (q.change > settled * q.length) | (np.isfinite(q.length) & ~q.fine_enough)
        unsettled |= np.isfinite(q.gap) & ~q.minimising & (level < CURVATURE_CHECKS)
        unsettled |= q.leaps
        pending = pending[unsettled[pending]]
        if not pending.size or panels > MOST_PANELS:
            return q


def _ends_meet(curve: Curve, start: Array, end: Array) -> Array:
    ends = curve.evaluate(ENDS)
    size = np.maximum(np.abs(start), np.abs(end)).max(axis=1)
    apart = np.abs(end - start).max(axis=1)
    miss = np.maximum(np.abs(ends[:, 0] - start), np.abs(ends[:, 1] - end)).max(axis=1)
    return miss <= ENDS_RTOL * apart + ROUNDING * size
