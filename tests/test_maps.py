"""Logarithm and exponential map are inverse to each other, and right by themselves."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import orthodrome as od
from orthodrome.status import Flaw
from problems import NAMES, problem

TIGHT = od.FixedPoint(mesh=30, tol=1e-14, max_iter=400)
T = np.linspace(0, 1, 33)


@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("name", NAMES)
def test_exp_inverts_log(name, d):
    p = problem(name, d)
    v = od.log_map(p.metric, p.start, p.end, TIGHT)
    np.testing.assert_allclose(p.metric.norm(p.start, v), p.distance, rtol=1e-6)
    np.testing.assert_allclose(od.exp_map(p.metric, p.start, v), p.end, atol=1e-6)


def test_log_inverts_exp(rng):
    p = problem("sphere", 2)
    v = 0.2 * rng.standard_normal(p.start.shape)
    np.testing.assert_allclose(
        od.log_map(p.metric, p.start, od.exp_map(p.metric, p.start, v), TIGHT), v, atol=1e-7
    )


def test_exp_on_the_half_plane_is_the_closed_form():
    s = np.array([0.5, 1.0, 3.0])
    end = od.exp_map(problem("half-space", 2).metric, [0.0, 1.0], np.stack([s, 0 * s], axis=1))
    np.testing.assert_allclose(end, np.stack([np.tanh(s), 1 / np.cosh(s)], axis=1), rtol=1e-8)


def test_a_geodesic_is_certified_and_passes_through_its_own_exponentials(semicircle):
    data, _, metric = semicircle
    v = od.log_map(metric, data[0], data[1:5], od.FixedPoint(mesh=20))
    path = od.geodesic(metric, data[0], v)
    assert path.converged.all() and path.residual.max() < 1e-2
    # a geodesic need not be the shortest path to where it leads
    assert (
        np.all(path.certified | (path.verdict.flaw == Flaw.NOT_MINIMISING))
        and path.certified.sum() >= 3
    )
    np.testing.assert_allclose(path.length, metric.norm(data[0], v), rtol=1e-7)
    np.testing.assert_allclose(path(0.37), od.exp_map(metric, data[0], 0.37 * v), atol=1e-6)
    np.testing.assert_allclose(path.velocity(0.0), v, rtol=1e-12)


def test_speed_is_kept_by_the_exponential_map(semicircle, rng):
    data, _, metric = semicircle
    end, info = od.exp_map(metric, data[:40], 0.3 * rng.standard_normal((40, 2)), return_info=True)
    assert (
        end.shape == (40, 2)
        and info.converged.all()
        and info.certified.all()
        and info.error.max() < 1e-8
    )


def test_running_into_a_singularity_is_told_and_spoils_no_other():
    edge = od.MetricTensor(lambda x: jnp.eye(2) * jnp.where(x[0] < 1, 1 + x[1] ** 2, jnp.nan), 2)
    base, v = np.zeros((2, 2)), np.array([[2.0, 0.0], [0.5, 0.0]])
    with pytest.warns(od.ConvergenceWarning, match="1 of 2 geodesics .*not finite"):
        end, info = od.exp_map(edge, base, v, return_info=True)
    assert (
        list(info.status) == [od.Status.NON_FINITE, od.Status.CONVERGED] and not info.certified[0]
    )
    assert np.all(np.isnan(end[0])) and np.isnan(info.error[0])
    np.testing.assert_allclose(end[1], [0.5, 0.0], atol=1e-8)
    with pytest.warns(od.ConvergenceWarning, match="1 of 2 geodesics"):
        path = od.geodesic(edge, base, v)
    assert list(path.converged) == [False, True] and not path.certified[0] and path.certified[1]
    # as far as it could be followed
    np.testing.assert_allclose(path[0](1.0), [1.0, 0.0], atol=1e-5)


def test_running_out_of_steps_is_told(monkeypatch):
    from orthodrome import maps

    monkeypatch.setattr(maps, "MAX_STEPS", 3)
    with pytest.warns(od.ConvergenceWarning, match="ran out of steps"):
        _, info = od.exp_map(
            od.MetricTensor(lambda x: jnp.eye(2) / x[1] ** 2, 2),
            [0.0, 1.0],
            [9.0, 0.0],
            return_info=True,
        )
    assert info.status == od.Status.MAX_STEPS and not info.converged


def test_a_geodesic_that_cannot_start_stays_where_it_is_and_none_is_none(semicircle):
    cone = od.MetricTensor(lambda x: jnp.eye(2) * (1 + jnp.sqrt(x @ x)), 2)
    with pytest.warns(od.ConvergenceWarning):
        path = od.geodesic(cone, [0.0, 0.0], [1.0, 0.0])
    assert not path.converged and not path.certified
    np.testing.assert_array_equal(path([0.0, 1.0]), np.zeros((2, 2)))
    data, _, metric = semicircle
    assert od.geodesic(metric, data[:0], data[:0]).shape == (0,) and od.exp_map(
        metric, data[:0], data[0]
    ).shape == (
        0,
        2,
    )


def test_shapes_broadcast(semicircle):
    data, _, metric = semicircle
    assert od.exp_map(metric, data[:3, None], np.zeros((4, 2))).shape == (3, 4, 2)
    assert od.log_map(metric, data[0], data[1]).shape == (2,)
    v, info = od.log_map(metric, data[:2, None], data[2:5], return_info=True)
    assert v.shape == (2, 3, 2) and info.converged.shape == info.error.shape == (2, 3)


def test_no_step_passes_over_the_data(rng):
    """From far away, where the metric is flat, through the data and out: against an integrator held
    to tiny steps."""
    data = 0.3 * rng.standard_normal((100, 2))
    metric = od.LocalPCA(data, 0.15, 0.01)
    end, info = od.exp_map(metric, [-20.0, 0.0], [40.0, 0.0], return_info=True)
    field = lambda t, y: np.concatenate([y[2:], metric.acceleration(y[:2], y[2:])])
    truth = solve_ivp(
        field, (0, 1), [-20.0, 0, 40, 0], "DOP853", rtol=1e-10, atol=1e-10, max_step=0.005
    ).y[:2, -1]
    np.testing.assert_allclose(end, truth, atol=1e-5)
    assert info.certified and abs(truth[1]) > 1  # it was bent


def test_an_exponential_that_lost_its_digits_is_not_certified():
    metric = problem("half-space", 2).metric
    length = np.array([1.0, 10.0, 25.0, 35.0])
    end, info = od.exp_map(
        metric, [0.0, 1.0], np.stack([0 * length, -length], axis=1), return_info=True
    )
    assert list(info.certified) == [True, True, False, False]
    true_error = np.abs(np.log(end[:3, 1]) + length[:3]) / length[:3]
    assert np.all(true_error <= np.maximum(30 * info.error[:3], 1e-9))


def test_where_the_solver_failed_the_logarithm_is_the_curves_own(semicircle):
    data, angle, metric = semicircle
    far, solver = data[np.argsort(angle)[[-1, 0]]], od.FixedPoint(max_iter=2)
    with pytest.warns(od.ConvergenceWarning):
        v, path = od.log_map(metric, *far, solver), od.shortest_path(metric, *far, solver)
    np.testing.assert_array_equal(v, path.velocity(0.0))
