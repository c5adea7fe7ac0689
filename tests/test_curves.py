"""Kernels, the Gaussian process and piecewise curves against dense formulas and finite
differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gamma, kv

import orthodrome as od
from independent import Posterior, squared_exponential
from orthodrome.curves import GPCurve, PiecewiseCurve, uniform_process

KERNELS = [od.SquaredExponential(0.3), od.Matern(0.5), od.Matern(0.8, nu=4.5)]
T = np.linspace(0, 1, 23)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_each_kernel_derivative_is_the_derivative_of_the_one_before(kernel, order):
    r, h = np.linspace(-1, 1, 41) + 0.0031, 1e-5
    difference = (kernel.derivative(r + h, order - 1) - kernel.derivative(r - h, order - 1)) / (
        2 * h
    )
    found = kernel.derivative(r, order)
    np.testing.assert_allclose(found, difference, rtol=2e-4, atol=1e-6 * np.abs(found).max())


@pytest.mark.parametrize("nu", [3.5, 4.5])
def test_matern_is_the_bessel_formula(nu):
    r = np.array([0.1, 0.35, 0.9])
    x = np.sqrt(2 * nu) * r / 0.4
    bessel = 2 ** (1 - nu) / gamma(nu) * x**nu * kv(nu, x)
    np.testing.assert_allclose(od.Matern(0.4, nu=nu).derivative(r, 0), bessel, rtol=1e-12)
    assert od.Matern(0.4, nu=nu).derivative(np.zeros(1), 0) == 1


def test_squared_exponential_derivatives_agree_with_automatic_ones():
    process = uniform_process(7, od.SquaredExponential(), 1e-7)
    for i, j in [(0, 0), (0, 2), (1, 2), (2, 2)]:
        np.testing.assert_allclose(
            process.kernel.covariance(T, process.knots, i, j),
            squared_exponential(T, process.knots, i, j, np.sqrt(1 / 12)),
            atol=1e-9,
        )


@pytest.mark.parametrize("d", [1, 3])
def test_mean_and_covariance_are_the_papers_posterior_equation(d, rng):
    a, b, z = rng.standard_normal(d), rng.standard_normal(d), rng.standard_normal((6, d))
    root = rng.standard_normal((d, d))
    V = root @ root.T + np.eye(d)
    knots = np.linspace(0, 1, 6)
    dense = Posterior(knots, 1e-4, V)
    process = uniform_process(6, od.SquaredExponential(), 1e-4)
    curve = GPCurve(process, a[None], b[None], z[None])
    for order in range(3):
        np.testing.assert_allclose(
            curve.evaluate(T, order)[0], dense.mean(T, order, a, b, z), rtol=1e-7, atol=1e-7
        )
    ours = np.einsum("ij,ts->itjs", V, process.covariance(T, T))
    np.testing.assert_allclose(ours, dense.covariance(T), atol=1e-9)


@pytest.mark.parametrize(
    "kernel", [od.SquaredExponential(), od.Matern(), od.Matern(nu=4.5)], ids=repr
)
def test_reversing_time_gives_the_same_curve(kernel, rng):
    process = uniform_process(10, kernel, 1e-7)
    a, b, z = (
        rng.standard_normal((4, 2)),
        rng.standard_normal((4, 2)),
        rng.standard_normal((4, 10, 2)),
    )
    there, back = GPCurve(process, a, b, z), GPCurve(process, b, a, z[:, ::-1])
    for order, sign in [(0, 1), (1, -1), (2, 1)]:
        np.testing.assert_allclose(
            there.evaluate(T, order), sign * back.evaluate(1 - T, order), rtol=1e-6, atol=1e-6
        )
    np.testing.assert_allclose(
        process.covariance(T, T), process.covariance(1 - T, 1 - T), atol=1e-12
    )


@pytest.mark.parametrize("mesh", [2, 10, 50])
def test_ends_are_exact_and_accelerations_are_met(mesh, rng):
    process = uniform_process(mesh, od.SquaredExponential(), 1e-7)
    a, b = 50 + rng.standard_normal((2, 5, 3))
    z = np.cos(process.knots)[None, :, None] * rng.standard_normal((5, 1, 3))
    curve = GPCurve(process, a, b, z)
    ends = curve.evaluate(np.array([0.0, 1.0]))
    np.testing.assert_allclose(ends[:, 0], a, rtol=1e-15)
    np.testing.assert_allclose(ends[:, 1], b, rtol=1e-15)
    np.testing.assert_allclose(curve.evaluate(process.knots, 2), z, atol=1e-4)
    assert np.all(np.abs(np.diagonal(process.covariance(T, T))[[0, -1]]) < 1e-10)


def test_velocity_and_acceleration_are_derivatives_of_the_curve(rng):
    gp = GPCurve(
        uniform_process(10, od.SquaredExponential(), 1e-7),
        *rng.standard_normal((2, 3, 2)),
        rng.standard_normal((3, 10, 2)),
    )
    t, h = np.linspace(0.05, 0.95, 19), 1e-5
    breaks = np.array([[0, 0.3, 0.7, 1, 1], [0, 0.1, 0.2, 0.9, 1.0]])
    piecewise = PiecewiseCurve(breaks, *rng.standard_normal((3, 2, 5, 2)))
    for curve in (gp, piecewise):
        for order in (0, 1):
            difference = (curve.evaluate(t + h, order) - curve.evaluate(t - h, order)) / (2 * h)
            assert np.median(np.abs(curve.evaluate(t, order + 1) - difference)) < 1e-5


def test_a_piecewise_curve_meets_what_it_was_given_and_reproduces_quintics():
    with jax.enable_x64(True):
        quintic = lambda t: jnp.array([t**5 - t**2, 1 + t**3])
        breaks = jnp.array([[0, 0.25, 0.6, 1.0, 1.0], [0, 0.5, 0.7, 0.9, 1.0]])
        c, v, a = (
            np.array(jax.vmap(jax.vmap(g))(breaks))
            for g in (quintic, jax.jacfwd(quintic), jax.jacfwd(jax.jacfwd(quintic)))
        )
        truth = np.array(jax.vmap(quintic)(T))
    curve = PiecewiseCurve(np.array(breaks), c, v, a)
    np.testing.assert_allclose(curve.evaluate(T), np.stack([truth, truth]), atol=1e-13)
    np.testing.assert_allclose(curve.evaluate(np.array([0.25]), 2)[0, 0], a[0, 1], atol=1e-12)


def test_concatenated_curves_evaluate_as_before(rng):
    short = PiecewiseCurve(np.array([[0, 1.0]]), *rng.standard_normal((3, 1, 2, 2)))
    long = PiecewiseCurve(np.array([[0, 0.2, 0.5, 1.0]]), *rng.standard_normal((3, 1, 4, 2)))
    joined = type(short).join([short, long])
    np.testing.assert_allclose(
        joined.evaluate(T), np.concatenate([short.evaluate(T), long.evaluate(T)]), rtol=1e-12
    )


def test_an_unsafe_mesh_and_noise_is_refused_with_a_sentence():
    with pytest.raises(
        ValueError, match=r"a mesh of 120 knots with noise 1e-12 .* is not safe.*Take more noise"
    ):
        od.FixedPoint(mesh=120, noise=1e-12)
    od.FixedPoint(mesh=120, noise=1e-7)
    od.FixedPoint(mesh=200, noise=1e-9, kernel=od.Matern())
