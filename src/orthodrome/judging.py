"""The judge: what can be said about any curve, whoever made it, from the metric alone.

Length and energy by quadrature on the curve itself, the geodesic equation's residual between the knots as well as at
them, the speed, an estimate of the error of the length, and a certificate (docs/derivations/certificate.md).
"""

import dataclasses
import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from orthodrome import batching
from orthodrome.curves import Curve
from orthodrome.metrics import Metric

Array = np.ndarray[Any, Any]

RTOL = 1e-4
"""The relative error of length a certificate speaks for, unless the solver asks for another."""

GAUSS_POINTS = 4
"""Gauss–Legendre points a panel: exact for degree 7, and not one of them on a knot of a uniform mesh."""

PANELS = 8
"""Panels of the first quadrature at least; it has half as many as the curve has pieces, the next one twice that."""

MOST_PANELS = 512
"""No quadrature has more panels (2048 points), except the second of a curve with more pieces."""

PANEL_REACH = 2.0
"""A panel, with its four points, may be as long as so many of the metric's `scale`; longer ones may miss something."""

QUADRATURE_RTOL = 1e-7
"""Two successive quadratures this close are believed; the finer one is then right to about 1e-9 on a smooth curve."""

RESIDUAL_FACTOR = 10.0
"""The residual's maximum may be so many √rtol. Its mean square enters `error`; an interpolant's maximum is a spike near
an end, several times larger."""

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
    """Estimated relative error of the length; infinite where the curve is too long to be looked at closely enough."""
    certified: Array

    def take(self, index: Any) -> "Verdict":
        """Some of the verdicts."""
        return Verdict(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))

    @staticmethod
    def concatenate(verdicts: Sequence["Verdict"]) -> "Verdict":
        """Several verdicts behind one another."""
        columns = ([getattr(v, field.name) for v in verdicts] for field in dataclasses.fields(Verdict))
        return Verdict(*map(np.concatenate, columns))


@np.errstate(all="ignore")  # a curve that runs to infinity gets NaN, a status and a warning of ours
def judge(metric: Metric, curve: Curve, start: Array, end: Array, rtol: float = RTOL) -> Verdict:
    """Judge P curves that should be geodesics from `start` to `end`, (P, d) each."""
    P, d = start.shape
    length, energy, square, change = (np.full(P, np.nan) for _ in range(4))
    worst, slowest, fastest, fine_enough = np.zeros(P), np.full(P, np.inf), np.zeros(P), np.zeros(P, dtype=bool)
    pending, panels = np.arange(P), max(PANELS, -(-curve.pieces // 2))
    for level in itertools.count():
        t, w = quadrature(panels * 2**level)
        for some in np.array_split(pending, max(1, -(-pending.size * len(t) * d // BLOCK_NUMBERS))):
            speed, residual, pace = measure(metric, curve.take(some), t)
            fine_enough[some] = pace.max(axis=1) <= PANEL_REACH * metric.scale * panels * 2**level
            new = speed @ w
            change[some] = np.abs(new - length[some])
            length[some], energy[some], square[some] = new, 0.5 * speed**2 @ w, residual**2 @ w
            worst[some] = np.maximum(worst[some], residual.max(axis=1))
            slowest[some] = np.minimum(slowest[some], speed.min(axis=1))
            fastest[some] = np.maximum(fastest[some], speed.max(axis=1))
        if level:  # a non-finite length will not improve; NaN compares as settled
            unsettled = (change > QUADRATURE_RTOL * length) | (np.isfinite(length) & ~fine_enough)
            pending = pending[unsettled[pending]]
            if not pending.size or panels * 2 ** (level + 1) > MOST_PANELS:
                break
    still = (length == 0) & (worst == 0)
    scale = np.where(still, 1.0, length)
    residual = worst / scale
    variation = np.where(still, 0.0, np.maximum(fastest / scale - 1, 1 - slowest / scale))
    # The energy of a curve exceeds that of the geodesic near it by about ½ ‖residual‖² / λ, with λ the smallest
    # eigenvalue of the second variation: π² in flat space. λ ≥ 1 is taken for granted here.
    error = np.where(fine_enough, change / scale + 0.5 * square / scale**2, np.inf)
    uneven = np.where(still, 0.0, np.abs(np.sqrt(2 * energy) / scale - 1))
    certified = (
        np.isfinite(length)
        & _ends_meet(curve, start, end)
        & (variation <= np.sqrt(rtol))
        & (residual <= RESIDUAL_FACTOR * np.sqrt(rtol))
        & (uneven <= rtol)
        & (error <= rtol)
    )
    return Verdict(length, energy, residual, variation, error, certified)


def measure(metric: Metric, curve: Curve, t: Array) -> tuple[Array, Array, Array]:
    """Speed ‖c'‖_M, residual ‖c'' − f(c, c')‖_M and pace ‖c'‖ in coordinates of P curves at times (T,): (P, T) each."""
    c, v, a = (curve.evaluate(t, order) for order in range(3))
    d = c.shape[-1]
    speed, residual = batching.over_points(_measure, metric, c.reshape(-1, d), v.reshape(-1, d), a.reshape(-1, d))
    return speed.reshape(c.shape[:-1]), residual.reshape(c.shape[:-1]), np.linalg.norm(v, axis=-1)


@np.errstate(all="ignore")
def initial_velocity(metric: Metric, curve: Curve) -> Array:
    """c'(0) of the geodesics that the P curves approximate: (P, d).

    A curve's own c'(0) is (b − a) − ∫ (1 − t) c'' dt. Of a geodesic, c'' = f(c, c'); putting f in its place takes the
    error of c'' at the end, where an interpolant is worst, out of the answer (benchmarks/closed_forms.py prints both).
    """
    t, w = quadrature(max(2 * PANELS, curve.pieces))
    c, v = curve.evaluate(t), curve.evaluate(t, 1)
    f = metric.accelerations(c.reshape(-1, c.shape[-1]), v.reshape(-1, c.shape[-1])).reshape(c.shape)
    return curve.end - curve.start - np.einsum("t,ptd->pd", w * (1 - t), f)


def _measure(metric: Metric, c: Any, v: Any, a: Any) -> tuple[Any, Any]:
    r = a - metric.acceleration_at(c, v)
    return metric.inner_at(c, v, v) ** 0.5, metric.inner_at(c, r, r) ** 0.5


@lru_cache(maxsize=64)
def quadrature(panels: int) -> tuple[Array, Array]:
    """Times and weights of the composite Gauss rule on [0, 1], with both ends added at weight 0 to be looked at too."""
    x, w = np.polynomial.legendre.leggauss(GAUSS_POINTS)
    t = (np.arange(panels)[:, None] + 0.5 * (x + 1)) / panels
    weights = np.tile(0.5 * w / panels, panels)
    return np.concatenate([[0.0], t.ravel(), [1.0]]), np.concatenate([[0.0], weights, [0.0]])


def _ends_meet(curve: Curve, start: Array, end: Array) -> Array:
    ends = curve.evaluate(np.array([0.0, 1.0]))
    size, way = np.maximum(np.abs(start), np.abs(end)).max(axis=1), np.abs(end - start).max(axis=1)
    miss = np.maximum(np.abs(ends[:, 0] - start), np.abs(ends[:, 1] - end)).max(axis=1)
    return miss <= ENDS_RTOL * way + ROUNDING * size
