"""Metrics: every form of a quantity agrees with every other, and with the paper's printed
formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orthodrome as od
from independent import kronecker_acceleration
from problems import NAMES, problem


def decoder(x):
    return jnp.tanh(jnp.outer(jnp.arange(1.0, 9.0), x)).sum(axis=1).reshape(2, 4) + x.sum() ** 2


def spread(x):
    return jax.nn.softplus(jnp.cumsum(x))


def learned(d):
    data = np.random.default_rng(d).standard_normal((60, d)) + 5.0
    return od.LocalPCA(data, sigma=0.6 * np.sqrt(d), rho=0.05), data[:7] + 0.1


METRICS = {
    "LocalPCA": learned,
    "Pullback": lambda d: (
        od.Pullback(lambda x: jnp.concatenate([x, jnp.sin(2 * x), x[:1] * x])),
        0.3 * np.ones((7, d)),
    ),
    "Pullback(mean, std)": lambda d: (
        od.Pullback(lambda x: x + 0.2 * jnp.sin(jnp.roll(x, 1)), spread),
        0.2 * np.ones((7, d)),
    ),
    "MetricTensor": lambda d: (
        od.MetricTensor(lambda x: (2 + jnp.sin(x @ x)) * jnp.eye(d) + jnp.outer(x, x), d),
        0.3 * np.ones((7, d)),
    ),
}


@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("kind", METRICS)
def test_acceleration_agrees_with_the_papers_kronecker_formula(kind, d, rng):
    metric, points = METRICS[kind](d)
    points = points + 0.3 * rng.standard_normal(points.shape)
    v = rng.standard_normal(points.shape)
    with jax.enable_x64(True):
        printed = jax.jit(jax.vmap(lambda x, v: kronecker_acceleration(metric.tensor_at, x, v)))(
            points, v
        )
        generic = jax.jit(jax.vmap(lambda x, v: od.Metric.acceleration_at(metric, x, v)))(points, v)
    np.testing.assert_allclose(metric.acceleration(points, v), printed, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(generic, printed, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("kind", METRICS)
def test_inner_norm_and_volume_follow_from_the_tensor(kind, d, rng):
    metric, points = METRICS[kind](d)
    u, v = rng.standard_normal((2, *points.shape))
    M = metric.tensor(points)
    np.testing.assert_array_equal(metric(points), M)
    np.testing.assert_allclose(
        metric.inner(points, u, v), np.einsum("pi,pij,pj->p", u, M, v), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        metric.norm(points, u), np.sqrt(np.einsum("pi,pij,pj->p", u, M, u)), rtol=1e-10
    )
    np.testing.assert_allclose(
        metric.log_volume(points), 0.5 * np.linalg.slogdet(M)[1], rtol=1e-9, atol=1e-9
    )


def test_local_pca_is_the_printed_sum(rng):
    # far from the origin: centring matters
    data, x = (
        rng.standard_normal((50, 3)) + 100.0,
        rng.standard_normal(3) + 100.0,
    )
    metric = od.LocalPCA(data, sigma=0.7, rho=0.02)
    w = np.exp(-np.sum((data - x) ** 2, axis=1) / (2 * 0.7**2))
    np.testing.assert_allclose(metric(x), np.diag(1 / (w @ (data - x) ** 2 + 0.02)), rtol=1e-10)


def test_pullback_is_the_jacobian_product_with_std_added(rng):
    x, wide = rng.standard_normal(3), lambda y: jnp.tile(spread(y), 3)[:8]
    with jax.enable_x64(True):
        J, K = (np.asarray(jax.jacfwd(lambda y, g=g: jnp.ravel(g(y)))(x)) for g in (decoder, wide))
    np.testing.assert_allclose(od.Pullback(decoder)(x), J.T @ J, rtol=1e-10)
    np.testing.assert_allclose(od.Pullback(decoder, wide)(x), J.T @ J + K.T @ K, rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_acceleration_is_quadratic_in_velocity(name, rng):
    p = problem(name, 5)
    v = rng.standard_normal(p.start.shape)
    np.testing.assert_allclose(
        p.metric.acceleration(p.start, -3 * v),
        9 * p.metric.acceleration(p.start, v),
        rtol=1e-9,
        atol=1e-9,
    )


def test_any_leading_shape_gives_the_same_numbers(semicircle):
    data, _, metric = semicircle
    grid = data[:24].reshape(2, 3, 4, 2)
    np.testing.assert_allclose(
        metric.tensor(grid).reshape(24, 2, 2), metric.tensor(data[:24]), rtol=1e-12
    )
    assert metric.acceleration(grid, data[0]).shape == grid.shape
    assert metric.log_volume(data[0]).shape == ()


@settings(deadline=None, max_examples=20)
@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-10, 10))
def test_the_rule_for_sigma_and_rho_has_no_scale(scale, shift):
    data = od.datasets.semicircle(80, random_state=1)
    one, other = od.LocalPCA(data), od.LocalPCA(scale * (data + shift))
    np.testing.assert_allclose(other.sigma, scale * one.sigma, rtol=1e-6)
    np.testing.assert_allclose(other.rho, scale**2 * one.rho, rtol=1e-6)


def test_the_rule_survives_repeated_points():
    data = np.repeat(od.datasets.semicircle(20, random_state=1), 30, axis=0)
    metric = od.LocalPCA(data)
    assert metric.sigma > 0 and metric.rho > 0 and np.all(np.isfinite(metric(data[:3])))


def test_float32_is_refused_where_it_would_be_wrong(semicircle):
    data, _, metric = semicircle
    with pytest.raises(TypeError, match="LocalPCA needs float64; x is float32"):
        metric.tensor_at(jnp.asarray(data[0], dtype=jnp.float32))


def test_the_core_can_be_jitted_vmapped_and_differentiated(semicircle):
    data, _, metric = semicircle
    with jax.enable_x64(True):
        slope = jax.jit(jax.vmap(jax.grad(metric.log_volume_at)))(jnp.asarray(data[:4]))
        step = 1e-6 * np.eye(2)[0]
        difference = (
            metric.log_volume(data[:4] + step) - metric.log_volume(data[:4] - step)
        ) / 2e-6
    np.testing.assert_allclose(slope[:, 0], difference, rtol=1e-6)


def test_whole_numbers_and_short_floats_are_computed_with_in_float64():
    whole = od.MetricTensor(lambda x: [[1, 0], [0, 4]], 2)
    assert abs(od.distance(whole, [0, 0], [3, 2]) - 5) < 1e-9
    weights = jnp.array([[1.0, 0.5], [0.25, 2.0], [1.0, 1.0]], dtype=jnp.bfloat16)
    short = od.Pullback(lambda x: weights @ x)
    exact = np.linalg.norm(np.asarray(weights, dtype=float) @ [1.0, -1.0])
    assert abs(od.distance(short, [0.0, 0], [1.0, -1.0]) / exact - 1) < 1e-9


def test_metrics_do_not_see_later_changes_of_the_callers_array(rng):
    data = rng.standard_normal((30, 2))
    metric = od.LocalPCA(data, sigma=1.0, rho=0.1)
    before = metric(np.zeros(2))
    data[:] = 7.0
    np.testing.assert_array_equal(metric(np.zeros(2)), before)


@pytest.mark.parametrize("far", [1e6, 1e9])
def test_one_far_outlier_costs_no_digits(semicircle, far):
    data, _, metric = semicircle
    with_outlier = od.LocalPCA(np.concatenate([data, [[far, 0.0]]]), sigma=0.15, rho=0.01)
    np.testing.assert_allclose(with_outlier(data[:20]), metric(data[:20]), rtol=1e-9)


def test_rounding_never_makes_the_metric_negative(rng):
    data = 1e4 * rng.standard_normal((50, 3))
    metric = od.LocalPCA(data, sigma=0.1, rho=1e-10)
    near = data + 0.05 * rng.standard_normal(data.shape)
    assert np.all(np.linalg.eigvalsh(metric(near)) > 0)


def test_a_constant_column_does_not_change_the_scale_of_rho(semicircle):
    data, _, _ = semicircle
    flat = np.concatenate([data, np.full((200, 1), 3.0)], axis=1)
    np.testing.assert_allclose(od.LocalPCA(flat).rho, 2 / 3 * od.LocalPCA(data).rho, rtol=1e-9)


@pytest.mark.parametrize("sigma", [1e-8, 1e-3, 0.1])
def test_the_rule_for_rho_is_positive_also_where_points_have_no_neighbours(sigma):
    metric = od.LocalPCA(od.datasets.semicircle(200, random_state=0), sigma=sigma)
    assert metric.rho >= 1e-7 * sigma**2


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_data_whose_squares_are_no_numbers_are_refused(semicircle, scale):
    data, _, _ = semicircle
    with pytest.raises(ValueError, match="rescale"):
        od.LocalPCA(scale * data)
