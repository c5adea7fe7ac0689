"""The judge: right about curves that are geodesics, and not fooled by curves that only look like
one at the knots."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import orthodrome as od
from orthodrome import judging
from orthodrome.curves import GPCurve, PiecewiseCurve, uniform_process
from orthodrome.judging import judge
from orthodrome.status import Flaw
from problems import problem

HALF_PLANE = od.MetricTensor(lambda x: np.eye(2) / x[1] ** 2, 2)


def arc(t):
    """The half-plane geodesic (tanh s, 1/cosh s) for s from −1 to 1: length 2, with derivatives."""
    s = 2 * t - 1
    c, h = np.cosh(s), np.tanh(s)
    position = np.stack([h, 1 / c], axis=-1)
    velocity = 2 * np.stack([1 / c**2, -h / c], axis=-1)
    acceleration = 4 * np.stack([-2 * h / c**2, (2 * h**2 - 1) / c], axis=-1)
    return position, velocity, acceleration


def as_curve(function, pieces=40):
    t = np.linspace(0, 1, pieces + 1)
    return PiecewiseCurve(t[None], *(x[None] for x in function(t)))


def judged(curve, metric=HALF_PLANE, rtol=1e-4):
    return judge(
        metric, curve, curve.evaluate(np.zeros(1))[:, 0], curve.evaluate(np.ones(1))[:, 0], rtol
    )


def test_a_true_geodesic_is_certified():
    verdict = judged(as_curve(arc))
    np.testing.assert_allclose(verdict.length, 2, rtol=1e-9)
    np.testing.assert_allclose(verdict.energy, 2, rtol=1e-9)
    assert verdict.certified[0] and verdict.error[0] < 1e-8 and verdict.residual[0] < 1e-3


def test_the_right_curve_at_the_wrong_speed_is_not_certified():
    warp = lambda t: (
        t + 0.05 * np.sin(2 * np.pi * t),
        1 + 0.1 * np.pi * np.cos(2 * np.pi * t),
        -0.2 * np.pi**2 * np.sin(2 * np.pi * t),
    )

    def warped(t):
        s, ds, dds = warp(t)
        c, v, a = arc(s)
        return c, v * ds[:, None], a * ds[:, None] ** 2 + v * dds[:, None]

    verdict = judged(as_curve(warped))
    # the same set of points, so the same length
    np.testing.assert_allclose(verdict.length, 2, rtol=1e-8)
    np.testing.assert_allclose(verdict.speed_variation, 0.1 * np.pi, rtol=1e-3)
    assert not verdict.certified[0] and 2 * verdict.energy[0] > 4.1


def test_a_wiggle_that_vanishes_at_the_knots_is_seen():
    def wiggled(t):  # zero, with first and second derivative, at t = 0, 0.1, …, 1
        w = 10 * np.pi
        bump, slope, bend = np.sin(w * t) ** 4, 4 * w * np.sin(w * t) ** 3 * np.cos(w * t), 0
        bend = 4 * w**2 * (3 * np.sin(w * t) ** 2 * np.cos(w * t) ** 2 - np.sin(w * t) ** 4)
        return tuple(
            x + 1e-2 * b[:, None] * [0, 1] for x, b in zip(arc(t), (bump, slope, bend), strict=True)
        )

    knots = np.linspace(0, 1, 11)
    for plain, bent in zip(arc(knots), wiggled(knots), strict=True):
        np.testing.assert_allclose(plain, bent, atol=1e-10)
    verdict = judged(as_curve(wiggled, 400))
    assert verdict.residual[0] > 1 and not verdict.certified[0]
    assert verdict.length[0] > 2.001  # its own length, not that of the geodesic


def test_length_is_that_of_the_curve_whatever_it_is(semicircle, rng):
    data, _, metric = semicircle
    curve = GPCurve(
        uniform_process(10, od.SquaredExponential(), 1e-7),
        data[:2],
        data[2:4],
        20 * rng.standard_normal((2, 10, 2)),
    )
    verdict = judge(metric, curve, data[:2], data[2:4])
    for i in range(2):
        speed = lambda t, i=i: float(
            metric.norm(*(curve.take([i]).evaluate(np.array([t]), k)[0, 0] for k in (0, 1)))
        )
        truth, _ = quad(speed, 0, 1, points=np.linspace(0, 1, 21)[1:-1], limit=400, epsrel=1e-7)
        np.testing.assert_allclose(verdict.length[i], truth, rtol=1e-6)
    assert not verdict.certified.any()


def test_a_curve_that_misses_its_end_is_not_certified():
    curve = as_curve(arc)
    a, b = curve.start, curve.end
    assert judge(HALF_PLANE, curve, a, b).certified[0]
    assert not judge(HALF_PLANE, curve, a, b + 1e-6).certified[0]


def test_certified_implies_an_error_below_the_tolerance(semicircle):
    data, _, metric = semicircle
    curve = od.shortest_path(metric, data[0], data[1:], od.FixedPoint(mesh=40, tol=1e-4)).curve
    for rtol in (1e-3, 1e-5, 1e-7):
        verdict = judge(metric, curve, curve.start, curve.end, rtol)
        assert np.all(verdict.error[verdict.certified] <= rtol)
    assert (
        verdict.certified.sum() < judge(metric, curve, curve.start, curve.end, 1e-3).certified.sum()
    )


@pytest.mark.parametrize("mesh", [5, 8, 12])
def test_the_true_error_stays_below_the_estimate(mesh):
    for name in ("half-space", "sphere", "flat", "paraboloid"):
        p = problem(name, 2)
        path = od.shortest_path(p.metric, p.start, p.end, od.FixedPoint(mesh=mesh, tol=1e-8))
        assert np.all(np.abs(path.length / p.distance - 1) <= path.error + 1e-10)


def test_verdicts_do_not_depend_on_the_company(semicircle):
    data, _, metric = semicircle
    curve = od.shortest_path(metric, data[0], data[1:40]).curve
    together = judge(metric, curve, curve.start, curve.end)
    alone = judge(metric, curve.take([7]), curve.start[[7]], curve.end[[7]])
    np.testing.assert_allclose(together.length[7], alone.length[0], rtol=1e-12)
    # a residual is a difference of numbers of order one, rounded otherwise in other company
    np.testing.assert_allclose(together.residual[7], alone.residual[0], rtol=1e-9, atol=1e-13)


def test_at_the_papers_tolerance_converged_paths_are_not_certified(semicircle):
    """What users must see: the test at the knots hides what happens between them."""
    data, angle, metric = semicircle
    far = np.argsort(angle)[:60]
    path = od.shortest_path(metric, data[np.argmax(angle)], data[far], od.FixedPoint())
    assert path.converged.all() and not path.certified.any()
    assert np.all([["between its knots" in m] for m in path.message])


@pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")
@pytest.mark.parametrize("sigma", [3e-4, 1e-3, 1e-2])
def test_nothing_is_certified_that_the_judge_looked_past(sigma):
    """A metric that changes over σ, and a path a thousand times as long: a coarse quadrature sees
    only flat space."""
    data = od.datasets.semicircle(100, random_state=0)
    metric = od.LocalPCA(data, sigma, 0.1 * sigma**2)
    path = od.shortest_path(metric, data[0], data[1:30], od.FixedPoint(max_iter=20))
    assert not path.certified.any()
    middle = od.LocalPCA([[0.0], [5.0]], sigma, 0.1 * sigma**2)
    assert not od.shortest_path(middle, [-1.0], [1.0], od.FixedPoint(max_iter=20)).certified


def test_a_curve_that_runs_to_infinity_is_judged_without_a_warning_of_numpys(semicircle):
    data, _, metric = semicircle
    wild = GPCurve(
        uniform_process(10, od.SquaredExponential(), 1e-7),
        data[:1],
        data[1:2],
        np.full((1, 10, 2), 1e200),
    )
    verdict = judge(metric, wild, data[:1], data[1:2])
    assert not verdict.certified[0]


@pytest.mark.parametrize("angle", [2.5, 2.9, 3.05, 3.1, 3.13])
def test_up_to_the_conjugate_point_a_great_circle_is_certified_with_an_honest_error(angle):
    """Where the second variation is all but singular, a small residual is no small error."""
    sphere = problem("sphere", 2).metric
    a, b = (
        np.tan(-angle / 4) * np.array([1.0, 0]),
        np.tan(angle / 4) * np.array([np.cos(0.1), np.sin(0.1)]),
    )
    truth = od.distance(sphere, a, b, od.Auto(rtol=1e-11))
    for mesh in (6, 8, 12):
        path = od.shortest_path(sphere, a, b, od.FixedPoint(mesh=mesh, tol=1e-7, max_iter=5000))
        if path.certified:
            assert abs(path.length / truth - 1) <= path.error


def test_past_the_conjugate_point_a_great_circle_is_a_saddle():
    sphere = problem("sphere", 2).metric
    base = np.array([-0.5, 0.0])
    unit = np.array([1.0, 0.0]) / sphere.norm(base, [1.0, 0.0])
    short, long = od.geodesic(sphere, base, 3.0 * unit), od.geodesic(sphere, base, 3.3 * unit)
    assert short.certified and short.verdict.minimising[0]
    assert not long.certified and not long.verdict.minimising[0] and long.error == np.inf
    assert long.residual < 1e-3 and "curves nearby are shorter" in long.message


def test_the_estimate_is_useful_not_only_safe(semicircle):
    data, angle, metric = semicircle
    a, b = data[np.argmax(angle)], data[np.argsort(angle)[:150:5]]
    for solver in (
        od.Energy(16, degree=1),
        od.Energy(16, degree=2),
        od.FixedPoint(mesh=30, tol=1e-6),
    ):
        path = od.shortest_path(metric, a, b, solver)
        truth = od.shortest_path(
            metric, a, b, od.Auto(rtol=1e-10), init=path
        ).length  # of the same geodesic
        off = np.abs(path.length / truth - 1)
        seen = np.isfinite(path.error) & (off > 1e-11) & (off < 1e-2)
        assert seen.sum() > 20 and np.all(path.error[seen] >= off[seen])
        assert np.median(path.error[seen] / off[seen]) < 30


def test_a_curve_that_leaps_past_the_quadrature_has_no_length():
    """From a to far away and back to b, in between two looks: its speed is next to nothing wherever
    one looks."""
    sphere = od.MetricTensor(lambda x: 4 * jnp.eye(2) / (1 + x @ x) ** 2, 2)
    a, b = np.array([[-1.0, 0.3]]), np.array([[1.0, 0.3]])
    stops = np.stack([a, 1e19 * a, 1e19 * b, b], axis=1)
    nothing = np.zeros_like(stops)
    leap = PiecewiseCurve(np.array([[0, 1e-9, 1 - 1e-9, 1]]), stops, nothing, nothing)
    verdict = judge(sphere, leap, a, b)
    assert (
        np.isnan(verdict.length[0])
        and verdict.flaw[0] == Flaw.UNMEASURED
        and not verdict.certified[0]
    )


def test_kinks_of_a_network_do_not_keep_a_path_from_its_certificate():
    """Where the second derivative of the map leaps, c'' does: the residual is large nearby, the
    length is still sure."""
    surface = od.Pullback(lambda x: jnp.array([x[0], x[1], 3 * jax.nn.elu(x[0] + 0.3 * x[1])]))
    path = od.shortest_path(surface, [-1.0, -0.5], [1.1, 0.7])
    # a cylinder: unrolled, its geodesics are straight
    bent = lambda u: np.where(u > 0, 3 * u, 3 * np.expm1(u))
    across = np.array([1.0, 0.3]) / np.hypot(1.0, 0.3)
    u = np.linspace(-1.15, 1.31, 200_001)
    width = np.sum(np.hypot(np.diff(u) / np.hypot(1.0, 0.3), np.diff(bent(u))))
    exact = np.hypot(width, np.array([2.1, 1.2]) @ [-across[1], across[0]])
    assert path.certified and np.isclose(path.length, exact, rtol=1e-4)
    assert path.residual > judging.RESIDUAL_FACTOR * np.sqrt(judging.RTOL)


FLAT = od.MetricTensor(lambda x: jnp.eye(2), 2)


def line(bend=0.0, warp=0.0, hole=False):
    """Along the first axis, bent to the side, with a speed that varies, with a hole in it."""

    def curve(t):
        u, w = np.pi * t, 2 * np.pi * t
        across = bend * np.stack([np.sin(u), np.pi * np.cos(u), -(np.pi**2) * np.sin(u)])
        gone = np.where(hole & (t > 0.4) & (t < 0.6), np.nan, 0.0)
        along = [
            t + warp * np.sin(w) / (2 * np.pi) + gone,
            1 + warp * np.cos(w),
            -2 * np.pi * warp * np.sin(w),
        ]
        return [np.stack(pair, axis=-1) for pair in zip(along, across, strict=True)]

    return curve


def great_circle(t, half=1.8):
    """Through the origin of the stereographic plane: 2 · 1.8 long, and so behind its antipode."""
    angle = half * (2 * t - 1) / 2
    position, square = np.tan(angle), 1 / np.cos(angle) ** 2
    along = position, half * square, 2 * half**2 * square * position
    return [np.stack([x, 0 * x], axis=-1) for x in along]


def leaping():
    """Beyond the horizon of the stereographic plane in three steps: nearly no speed anywhere."""
    a, b = np.array([[0.0, -1.0]]), np.array([[0.0, 1.0]])
    far = np.array([[0.0, 1e9]])
    return PiecewiseCurve.through(np.stack([a, far, far, far, far, far, far, far, b], axis=1))


FINE = od.LocalPCA([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]], sigma=1e-4, rho=1.0)
"""Flat, but for places so small that no quadrature can look for them all along a path."""

FLAWED = {
    Flaw.UNMEASURED: lambda: (problem("sphere", 2).metric, leaping(), None),
    Flaw.NON_FINITE: lambda: (FLAT, as_curve(line(hole=True)), None),
    Flaw.ENDS: lambda: (FLAT, as_curve(line()), np.array([[0.0, 0.1]])),
    Flaw.RESIDUAL: lambda: (FLAT, as_curve(line(bend=0.3)), None),
    Flaw.SPEED: lambda: (FLAT, as_curve(line(warp=0.015)), None),
    Flaw.NOT_MINIMISING: lambda: (problem("sphere", 2).metric, as_curve(great_circle), None),
    Flaw.ERROR: lambda: (
        FINE,
        as_curve(lambda t: [10 + 9 * line()(t)[0], *(9 * x for x in line()(t)[1:])]),
        None,
    ),
}
"""For each flaw a metric, a curve that has it and, if that is another point, where it should begin."""


def test_there_is_a_flawed_curve_for_every_rule():
    assert set(FLAWED) == set(judging.RULES)


@pytest.mark.parametrize("flaw", FLAWED, ids=lambda flaw: flaw.name)
def test_a_curve_is_refused_for_its_first_flaw(flaw):
    metric, curve, start = FLAWED[flaw]()
    verdict = judge(metric, curve, curve.start if start is None else start, curve.end)
    assert Flaw(verdict.flaw[0]) is flaw and not verdict.certified[0]


def test_the_same_line_without_a_flaw_is_certified():
    assert judged(as_curve(line()), FLAT).certified[0]
