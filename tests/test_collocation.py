"""The yardstick: SciPy's solver gives SciPy's answer, and its success flag is passed on."""

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from problems import problem

T = np.linspace(0, 1, 101)


@pytest.mark.parametrize(("name", "d"), [("half-space", 2), ("sphere", 5), ("flat", 2), ("paraboloid", 2)])
def test_distances_agree_with_closed_forms(name, d):
    p = problem(name, d)
    path = od.shortest_path(p.metric, p.start[:3], p.end[:3], od.Collocation(tol=1e-6))
    np.testing.assert_allclose(path.length, p.distance[:3], rtol=1e-6)
    assert path.converged.all() and path.certified.all()


def test_it_agrees_with_the_fixed_point_on_a_learned_manifold(semicircle):
    data, angle, metric = semicircle
    near = data[np.argsort(angle)[[100, 110, 130]]]
    ours = od.shortest_path(metric, near[0], near[1:], od.FixedPoint(mesh=30, tol=1e-8))
    theirs = od.shortest_path(metric, near[0], near[1:], od.Collocation())
    assert theirs.certified.all()
    np.testing.assert_allclose(ours(T), theirs(T), atol=1e-4)


def test_a_full_mesh_is_told(semicircle):
    data, angle, metric = semicircle
    far = np.argsort(angle)[[-1, 0]]
    with pytest.warns(od.ConvergenceWarning, match="max_nodes"):
        path = od.shortest_path(metric, *data[far], od.Collocation(max_nodes=100))
    assert path.status == od.Status.MAX_NODES and not path.certified


def test_a_start_saves_it_work(semicircle):
    data, angle, metric = semicircle
    ends = data[np.argsort(angle)[[-1, 60]]]
    init = od.shortest_path(metric, *ends, od.FixedPoint(mesh=50, tol=1e-6))
    path = od.shortest_path(metric, *ends, od.Collocation(mesh=50), init=init)
    assert path.converged
    np.testing.assert_allclose(path.length, init.length, rtol=1e-4)
    stay = od.shortest_path(metric, ends[0], ends[0], od.Collocation(), init=init)
    assert stay.length == 0 and stay.certified


def test_a_non_finite_metric_stops_one_problem_and_spoils_no_other():
    hole = od.MetricTensor(lambda x: jnp.eye(2) * jnp.where(x @ x < 0.25, jnp.nan, 1 + x[0] ** 2), 2)
    with pytest.warns(od.ConvergenceWarning, match="1 of 2 paths"):
        path = od.shortest_path(hole, [[-1.0, 0], [-1, 1]], [[1.0, 0], [1, 1]], od.Collocation())
    assert list(path.status) == [od.Status.NON_FINITE, od.Status.CONVERGED]
    assert np.isnan(path.length[0]) and path.certified[1]
    assert np.all(np.isnan(path[0](0.5)))  # no straight line in its place
