"""Gradients of distances: those of finite differences, under every transformation of JAX."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome.gradients import distance
from problems import problem

TIGHT = od.Auto(rtol=1e-10)


def difference(f, x, h=1e-5):
    """Central differences of a scalar function of an array."""
    x = np.asarray(x, dtype=float)
    out = np.empty_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        out[i] = (f(x + step) - f(x - step)) / (2 * h)
    return out


@pytest.mark.parametrize("name", ["half-space", "paraboloid"])
def test_by_the_ends_they_are_finite_differences(name):
    p = problem(name, 2)
    a, b = p.start[0], p.end[0]
    with jax.enable_x64(True):
        value, (by_a, by_b) = jax.value_and_grad(
            lambda a, b: distance(p.metric, a, b, TIGHT), (0, 1)
        )(jnp.asarray(a), jnp.asarray(b))
    np.testing.assert_allclose(value, p.distance[0], rtol=1e-9)
    np.testing.assert_allclose(
        by_a, difference(lambda x: od.distance(p.metric, x, b, TIGHT), a), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose(
        by_b, difference(lambda x: od.distance(p.metric, a, x, TIGHT), b), rtol=1e-6, atol=1e-7
    )


def test_by_data_sigma_and_rho_they_are_finite_differences():
    data = od.datasets.semicircle(40, random_state=0)
    a, b = data[0], data[1]
    with jax.enable_x64(True):
        slope = eqx.filter_grad(lambda m: distance(m, a, b, TIGHT))(od.LocalPCA(data, 0.3, 0.05))
    at = lambda data=data, sigma=0.3, rho=0.05: od.distance(
        od.LocalPCA(data, sigma, rho), a, b, TIGHT
    )
    np.testing.assert_allclose(slope.sigma, difference(lambda s: at(sigma=s), 0.3), rtol=1e-5)
    np.testing.assert_allclose(slope.rho, difference(lambda r: at(rho=r), 0.05), rtol=1e-5)
    most = np.argsort(-np.abs(slope.data).sum(axis=1))[:2]
    for i in most:
        moved = lambda x, i=i: at(data=np.concatenate([data[:i], x[None], data[i + 1 :]]))
        np.testing.assert_allclose(slope.data[i], difference(moved, data[i]), rtol=1e-4, atol=1e-6)


def test_by_the_weights_of_a_map_they_are_finite_differences():
    weights = np.random.default_rng(0).standard_normal((3, 2))
    # one function: compiled code then serves all weights
    bent = lambda w, x: jnp.concatenate([x, jnp.tanh(w @ x)])
    surface = lambda w: od.Pullback(jax.tree_util.Partial(bent, w))
    a, b = np.array([-1.0, 0.3]), np.array([1.0, 0.5])
    with jax.enable_x64(True):
        slope = jax.grad(lambda w: distance(surface(w), a, b, TIGHT))(jnp.asarray(weights))
    np.testing.assert_allclose(
        slope, difference(lambda w: od.distance(surface(w), a, b, TIGHT), weights), atol=1e-6
    )


def test_they_work_under_jit_and_vmap_and_for_arrays(semicircle):
    data, _, metric = semicircle
    with jax.enable_x64(True):
        a, b = jnp.asarray(data[:3]), jnp.asarray(data[3:6])
        plain = distance(metric, a, b)
        np.testing.assert_allclose(
            jax.jit(lambda a, b: distance(metric, a, b))(a, b), plain, rtol=1e-9
        )
        np.testing.assert_allclose(
            jax.vmap(lambda a, b: distance(metric, a, b))(a, b), plain, rtol=1e-9
        )
        total = jax.grad(lambda a: distance(metric, a, b).sum())
        np.testing.assert_allclose(jax.jit(total)(a), total(a), rtol=1e-9)
        each = jax.vmap(jax.grad(lambda a, b: distance(metric, a, b)))(a, b)
        np.testing.assert_allclose(each, total(a), rtol=1e-9)
    np.testing.assert_allclose(plain, od.distance(metric, data[:3], data[3:6]), rtol=1e-9)


def test_the_gradient_has_unit_length_in_the_metric(semicircle):
    """‖∂d/∂b‖ in the dual norm is 1: moving the end along the path changes the distance by just
    that much."""
    data, _, metric = semicircle
    with jax.enable_x64(True):
        slope = jax.grad(lambda b: distance(metric, data[0], b, TIGHT))(jnp.asarray(data[1]))
    slope = np.asarray(slope)
    np.testing.assert_allclose(slope @ np.linalg.solve(metric(data[1]), slope), 1, rtol=1e-5)


def test_between_equal_points_distance_and_gradient_are_zero(semicircle):
    data, _, metric = semicircle
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(lambda a: distance(metric, a, data[0]))(
            jnp.asarray(data[0])
        )
    assert float(value) == 0 and np.all(np.asarray(slope) == 0)


def test_float32_is_refused_with_what_to_do(semicircle):
    _, _, metric = semicircle
    with pytest.raises(TypeError, match="enable_x64"):
        distance(metric, jnp.zeros(2), jnp.ones(2))


def test_what_jax_cannot_see_is_refused_with_a_sentence():
    point = np.zeros(2)
    closed = lambda s: od.gradients.distance(
        od.MetricTensor(lambda x: s * jnp.eye(2), 2), point, point + 1
    )
    learned = lambda s: od.gradients.distance(od.LocalPCA(np.eye(2), s, 0.1), point, point + 1)
    metric = od.LocalPCA(np.eye(2), 1.0, 0.1)
    with jax.enable_x64(True):
        for function, words in ((closed, "Partial"), (learned, "make the metric first")):
            with pytest.raises(TypeError, match=words):
                jax.grad(function)(1.0)
        for bad, words in ((np.zeros(3), "3 coordinates"), (np.array([np.nan, 0]), "finite")):
            with pytest.raises(ValueError, match=words):
                od.gradients.distance(metric, point, bad)
        with pytest.raises(ValueError, match="should have shape"):
            jax.grad(lambda x: od.gradients.distance(metric, x, point))(np.zeros(3))
