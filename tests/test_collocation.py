"""The yardsticks: both orders give the known answers, and what they say of themselves is passed
on."""

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome.baselines import lobatto

T = np.linspace(0, 1, 101)


ORDERS = pytest.mark.parametrize("order", [4, 5])


@ORDERS
def test_it_agrees_with_the_fixed_point_on_a_learned_manifold(semicircle, order):
    data, angle, metric = semicircle
    near = data[np.argsort(angle)[[100, 110, 130]]]
    ours = od.shortest_path(metric, near[0], near[1:], od.FixedPoint(mesh=30, tol=1e-8))
    theirs = od.shortest_path(metric, near[0], near[1:], od.Collocation(order=order))
    assert theirs.certified.all()
    np.testing.assert_allclose(ours(T), theirs(T), atol=1e-4)


@ORDERS
def test_a_full_mesh_is_told(semicircle, order):
    data, angle, metric = semicircle
    far = np.argsort(angle)[[-1, 0]]
    with pytest.warns(od.ConvergenceWarning, match="max_nodes"):
        path = od.shortest_path(metric, *data[far], od.Collocation(max_nodes=100, order=order))
    assert path.status == od.Status.MAX_NODES and not path.certified


@ORDERS
def test_a_start_saves_it_work(semicircle, order):
    data, angle, metric = semicircle
    ends = data[np.argsort(angle)[[-1, 60]]]
    init = od.shortest_path(metric, *ends, od.FixedPoint(mesh=50, tol=1e-6))
    path = od.shortest_path(metric, *ends, od.Collocation(mesh=50, order=order), init=init)
    assert path.converged
    np.testing.assert_allclose(path.length, init.length, rtol=1e-4)
    stay = od.shortest_path(metric, ends[0], ends[0], od.Collocation(order=order), init=init)
    assert stay.length == 0 and stay.certified


@ORDERS
def test_a_non_finite_metric_stops_one_problem_and_spoils_no_other(order):
    hole = od.MetricTensor(
        lambda x: jnp.eye(2) * jnp.where(x @ x < 0.25, jnp.nan, 1 + x[0] ** 2), 2
    )
    with pytest.warns(od.ConvergenceWarning, match="1 of 2 paths"):
        path = od.shortest_path(
            hole, [[-1.0, 0], [-1, 1]], [[1.0, 0], [1, 1]], od.Collocation(order=order)
        )
    assert list(path.status) == [od.Status.NON_FINITE, od.Status.CONVERGED]
    assert np.isnan(path.length[0]) and path.certified[1]
    assert np.all(np.isnan(path[0](0.5)))  # no straight line in its place


def test_the_four_point_formula_is_of_order_six_at_the_nodes_and_five_between_them():
    exact = lambda t: np.stack([np.sinh(5 * t), 5 * np.cosh(5 * t)], axis=1)  # c'' = 25c
    field = lambda y: np.stack([y[:, 1], 25 * y[:, 0]], axis=1)
    between, errors = np.linspace(0, 1, 301), []
    for intervals in (4, 8, 16):
        t = np.linspace(0, 1, intervals + 1)
        guess = np.stack([t * np.sinh(5), np.full_like(t, np.sinh(5))], axis=1)
        curve, status, _ = lobatto.solve(field, t, guess, 1.0, 100)
        assert len(curve.t) == len(t) and status == od.Status.CONVERGED
        slopes = lobatto._slopes(field, curve)
        interval = np.minimum((between * intervals).astype(int), intervals - 1)
        inside = lobatto._values(curve, slopes, interval, between * intervals - interval)
        errors.append([np.abs(curve.y - exact(t)).max(), np.abs(inside - exact(between)).max()])
    orders = np.log2(np.array(errors)[:-1] / np.array(errors)[1:])
    # nearer to 6 and 5 than to 5 and 4
    assert np.all(orders[:, 0] > 5.5) and np.all(orders[:, 1] > 4.5)


def test_a_mesh_grows_where_the_equation_is_hard():
    # layers of width 1/20 at both ends
    steep = lambda y: np.stack([y[:, 1], 400 * y[:, 0]], axis=1)
    t = np.linspace(0, 1, 6)
    found, status, _ = lobatto.solve(
        steep, t, np.stack([np.ones_like(t), np.zeros_like(t)], axis=1), 1e-6, 500
    )
    exact = np.cosh(20 * (found.t - 0.5)) / np.cosh(10)
    assert status == od.Status.CONVERGED and np.abs(found.y[:, 0] - exact).max() < 1e-6
    assert np.diff(found.t).max() > 3 * np.diff(found.t).min()


def test_an_order_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="order should be one of 4, 5; 3 arrived"):
        od.Collocation(order=3)


def test_a_curve_that_newton_has_not_reached_is_not_converged(monkeypatch):
    field = lambda y: np.stack([y[:, 1], 25 * y[:, 0]], axis=1)
    t = np.linspace(0, 1, 5)
    guess = np.stack([t * np.sinh(5), np.full_like(t, np.sinh(5))], axis=1)
    monkeypatch.setattr(lobatto, "NEWTON_STEPS", 0)
    monkeypatch.setattr(lobatto, "_residuals", lambda field, curve, slopes: np.zeros(len(slopes)))
    _, status, _ = lobatto.solve(field, t, guess, 1e-3, 20)
    assert status == od.Status.MAX_NODES


def test_a_step_to_where_the_equation_is_not_finite_is_shortened():
    refused = []

    def field(y):  # c'' = c'² / (2c) for c > 0, solved by c = (1 + t)²
        if np.any(y[:, 0] <= 0):
            refused.append(y)
            raise FloatingPointError
        return np.stack([y[:, 1], y[:, 1] ** 2 / (2 * y[:, 0])], axis=1)

    t = np.linspace(0, 1, 6)
    found, status, _ = lobatto.solve(
        field, t, np.stack([1 + 3 * t, np.full(6, 18.0)], axis=1), 1e-8, 500
    )
    assert refused and status == od.Status.CONVERGED
    np.testing.assert_allclose(found.y[:, 0], (1 + found.t) ** 2, rtol=1e-7)


def test_a_singular_matrix_is_told():
    flat = lambda y: np.zeros_like(y)  # y' = 0 cannot go from 0 to 1
    t = np.linspace(0, 1, 3)
    _, status, _ = lobatto.solve(flat, t, np.stack([t, 0 * t], axis=1), 1e-3, 50)
    assert status == od.Status.SINGULAR_JACOBIAN
