"""Measuring curves: speed, residual and second variation on panels of Gauss points, and at the
ends.

What is measured here is the curve itself, between its knots as well as at them. What it means is
for `judging` to say.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from orthodrome import batching, elements
from orthodrome._types import Array, Float, JaxArray, Scalar
from orthodrome.curves import Curve
from orthodrome.discretisation import Discretisation, discretise
from orthodrome.metrics import Metric

GAUSS_POINTS = 4
"""Gauss–Legendre points a panel: exact for degree 7, and not one of them on a knot of a uniform
mesh, where collocation has no residual by construction."""

GAUSS, GAUSS_WEIGHTS = elements.basis(GAUSS_POINTS).gauss, elements.basis(GAUSS_POINTS).weights
"""The rule on [0, 1]."""

ENDS = np.array([0.0, 1.0])

LEAST_PANELS = 2 * Discretisation.panels
"""Panels of the integral that an initial velocity is computed from: twice the usual number, because
nothing checks this quadrature."""


class Measurement(NamedTuple):
    """What one quadrature shows of P curves, (P,) each."""

    length: Array
    energy: Array
    residual: Array
    """The largest ‖c'' − f(c, c')‖_M."""
    mean_square: Array
    """The mean of its square over time."""
    slowest: Array
    fastest: Array
    travelled: Array
    """The steps from each point to the next, measured where they begin, together."""
    pace: Array
    """The largest distance in coordinates between two times, per time."""
    gap: Array
    """How far the energy lies above that of the geodesic nearby; NaN without a curvature check."""
    minimising: Array
    """Whether the second variation is positive; False without a curvature check."""


def measure(metric: Metric, curve: Curve, panels: int, check_curvature: bool) -> Measurement:
    """Evaluate the curves at the Gauss points of their panels and at both ends.

    `check_curvature`: whether to look at the second variation too, which needs further derivatives.
    """
    P, d = curve.start.shape
    times, widths = gauss_times(curve, panels)
    with_midpoints = np.concatenate([times, times.mean(axis=-1, keepdims=True)], axis=-1)
    times = with_midpoints.reshape(*times.shape[:-2], -1)
    widths = np.broadcast_to(widths, (P, panels))
    c, v, a = (x.reshape(P, panels, GAUSS_POINTS + 1, d) for x in curve.derivatives(times))
    ends = curve.derivatives(ENDS)
    stops = [ends[0][:, :1], c[:, :, :-1].reshape(P, -1, d), ends[0][:, 1:]]
    first, inside = np.split(np.diff(np.concatenate(stops, axis=1), axis=1), [1], axis=1)
    inside = inside.reshape(P, panels, GAUSS_POINTS, d)
    if check_curvature:
        speed, residual, steps, gap, smallest_pivot = batching.over_curves(
            _with_curvature, metric, c, v, a, inside, widths, points=panels * GAUSS_POINTS
        )
        minimising = smallest_pivot > 0
    else:
        rows = [x.reshape(-1, d) for x in (*(x[:, :, :-1] for x in (c, v, a)), inside)]
        speed, residual, steps = (
            x.reshape(P, panels, -1) for x in batching.over_points(_measure, metric, *rows)
        )
        gap, minimising = np.full(P, np.nan), np.zeros(P, dtype=bool)
    rows = [x.reshape(-1, d) for x in (*ends, np.concatenate([first, 0 * first], axis=1))]
    end_speed, end_residual, end_steps = (
        x.reshape(P, 2) for x in batching.over_points(_measure, metric, *rows)
    )
    weights = widths[..., None] * GAUSS_WEIGHTS
    all_speeds = np.concatenate([speed.reshape(P, -1), end_speed], axis=1)
    return Measurement(
        length=np.sum(weights * speed, axis=(1, 2)),
        energy=0.5 * np.sum(weights * speed**2, axis=(1, 2)),
        residual=np.maximum(residual.max(axis=(1, 2)), end_residual.max(axis=1)),
        mean_square=np.sum(weights * residual**2, axis=(1, 2)),
        slowest=all_speeds.min(axis=1),
        fastest=all_speeds.max(axis=1),
        travelled=steps.sum(axis=(1, 2)) + end_steps[:, 0],
        pace=np.linalg.norm(v, axis=-1).max(axis=(1, 2)),
        gap=gap,
        minimising=minimising,
    )


def _measure(
    metric: Metric,
    c: Float[JaxArray, "m d"],
    v: Float[JaxArray, "m d"],
    a: Float[JaxArray, "m d"],
    step: Float[JaxArray, "m d"],
) -> tuple[JaxArray, JaxArray, JaxArray]:
    """Speeds, residuals and steps at m points."""
    f, lower = metric.motion_along(c, v)
    norm = lambda u: jnp.sqrt(jnp.sum(u * lower(u), axis=1))
    return norm(v), norm(a - f), norm(step)


def _with_curvature(
    metric: Metric,
    c: Float[JaxArray, "panels points d"],
    v: Float[JaxArray, "panels points d"],
    a: Float[JaxArray, "panels points d"],
    steps: Float[JaxArray, "panels gauss d"],
    widths: Float[JaxArray, " panels"],
) -> tuple[JaxArray, JaxArray, JaxArray, Scalar, Scalar]:
    """Speeds, residuals and steps of one curve at its Gauss points; the energy it could still lose;
    the smallest pivot.

    The last of each panel's points is its midpoint. Near a geodesic the curve could lose ½ ⟨r, H⁻¹
    r⟩, with r the residual and H the second variation. That is a sum of two parts
    (docs/derivations/certificate.md): what hat functions on the panels can see, with the full H,
    and what happens inside each panel, where H is as good as flat.
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
    discretisation = discretise(metric, c.shape[-1])
    between, smallest_pivot = discretisation.gain(metric, *middle, widths, load)
    to_gauss = elements.basis(GAUSS_POINTS).to_gauss
    slip = widths[:, None, None] * jnp.einsum("gj,kjd->kgd", to_gauss, r)
    slip = slip - jnp.einsum("g,kgd->kd", GAUSS_WEIGHTS, slip)[:, None]
    within = 0.5 * jnp.sum(weights * norm(slip) ** 2)
    return norm(v), norm(r), norm(steps), between + within, smallest_pivot


@np.errstate(all="ignore")
def initial_velocity(metric: Metric, curve: Curve) -> Array:
    """c'(0) of the geodesics that the P curves approximate: (P, d).

    A curve's own c'(0) is (b − a) − ∫ (1 − t) c'' dt. Of a geodesic, c'' = f(c, c'); putting f in
    its place takes the error of c'' at the end, where an interpolant is worst, out of the answer
    (benchmarks/closed_forms.py prints both).
    """
    times, widths = gauss_times(curve, max(LEAST_PANELS, power_of_two(curve.pieces)))
    t = times.reshape(*times.shape[:-2], -1)
    w = (widths[..., None] * GAUSS_WEIGHTS).reshape(t.shape)
    c, v = curve.derivatives(t, (0, 1))
    f = metric.accelerations(c.reshape(-1, c.shape[-1]), v.reshape(-1, c.shape[-1]))
    f = f.reshape(c.shape)
    return curve.end - curve.start - np.einsum("...t,...td->...d", w * (1 - t), f)


def gauss_times(curve: Curve, panels: int) -> tuple[Array, Array]:
    """The Gauss points of so many panels on the curves' own meshes, (..., panels, 4), and the
    panels' widths."""
    breaks = curve.mesh(panels)
    widths = np.diff(breaks)
    return breaks[..., :-1, None] + widths[..., None] * GAUSS, widths


def power_of_two(count: int) -> int:
    """The smallest power of two that is not below the count: meshes come in these sizes only."""
    return 1 << max(0, count - 1).bit_length()
