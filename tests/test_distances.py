"""Distances behave as distances do."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from problems import problem

TIGHT = od.FixedPoint(mesh=20, tol=1e-12, max_iter=400)


def test_a_distance_matrix_is_the_distances(semicircle):
    data, _, metric = semicircle
    D, info = od.distance_matrix(metric, data[:12], return_info=True)
    direct = od.distance(metric, data[:12, None], data[:12])
    assert np.all(direct * (1 + 1e-6) >= D) and np.isclose(D, direct, rtol=1e-6).mean() > 0.97
    # ways through a third point are no shorter
    assert np.all(D[:, None] <= (D[:, :, None] + D[None]) * (1 + 2e-4))
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diagonal(D), 0)
    assert (
        info.converged.all()
        and info.status.shape == info.error.shape == (12, 12)
        and np.diagonal(info.certified).all()
    )


def test_distances_to_others(semicircle):
    data, _, metric = semicircle
    D = od.distance_matrix(metric, data[:4], data[4:10])
    assert D.shape == (4, 6)
    np.testing.assert_allclose(D, od.distance(metric, data[:4, None], data[4:10]), rtol=1e-6)


def test_work_goes_in_blocks_without_changing_the_result(semicircle, monkeypatch):
    from orthodrome import distances, solving

    data, _, metric = semicircle
    whole = od.distance_matrix(metric, data[:9]), od.distance_matrix(metric, data[:3], data[3:8])
    monkeypatch.setattr(solving, "BLOCK", 5)
    monkeypatch.setattr(distances, "BLOCK", 7)
    blocks = od.distance_matrix(metric, data[:9]), od.distance_matrix(metric, data[:3], data[3:8])
    for a, b in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(od.distance(metric, data[0], data[1:9]), whole[0][0, 1:], rtol=1e-9)
    path = od.shortest_path(metric, data[0], data[1:9])
    np.testing.assert_allclose(path.length, whole[0][0, 1:], rtol=1e-9)
    again = od.shortest_path(metric, data[0], data[1:9], od.FixedPoint(), init=path)
    assert (
        again.iterations.max()
        < od.shortest_path(metric, data[0], data[1:9], od.FixedPoint()).iterations.max()
    )


@pytest.mark.parametrize("name", ["half-space", "sphere", "flat", "paraboloid"])
def test_symmetry_and_the_triangle_inequality(name):
    p = problem(name, 2)
    points = np.concatenate([p.start, p.end])[:9]
    D = od.distance(p.metric, points[:, None], points, TIGHT)
    np.testing.assert_allclose(D, D.T, rtol=1e-8, atol=1e-12)
    assert np.all(D[:, None, :] <= D[:, :, None] + D[None, :, :] + 1e-8)


def test_distance_does_not_change_with_the_coordinates():
    """The sphere seen through another chart: x ↦ y = x + 0.3 sin(roll x) pulls the same metric
    back."""
    import jax
    import jax.numpy as jnp

    p = problem("sphere", 2)
    bend = lambda y: y + 0.3 * jnp.sin(1.5 * jnp.roll(y, 1))

    def pulled_back(y):
        J = jax.jacfwd(bend)(y)
        return J.T @ p.metric.tensor_at(bend(y)) @ J

    with jax.enable_x64(True):
        y = [np.array(_inverse(bend, x)) for x in (p.start, p.end)]
    solver = od.FixedPoint(mesh=40, tol=1e-12, max_iter=600)
    np.testing.assert_allclose(
        od.distance(od.MetricTensor(pulled_back, 2), *y, solver), p.distance, rtol=1e-7
    )


def _inverse(bend, x):
    import jax

    y = x
    for _ in range(60):
        y = y - (jax.vmap(bend)(y) - x)
    return y


def test_a_matrix_that_is_not_all_solved_says_so_once(semicircle, recwarn):
    data, angle, metric = semicircle
    far = data[np.argsort(angle)[[0, 1, -2, -1]]]
    with pytest.warns(od.ConvergenceWarning) as caught:
        _, info = od.distance_matrix(
            metric, far, solver=od.FixedPoint(max_iter=2), return_info=True
        )
    assert len(caught) == 1 and "of 6 paths did not converge" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert (info.status == od.Status.MAX_ITERATIONS).any() and (info.status == info.status.T).all()


def test_progress_goes_to_standard_error(semicircle, capsys):
    data, _, metric = semicircle
    od.distance_matrix(metric, data[:4], progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "distances" in err


def test_pairs_without_a_way_are_nan_and_spoil_no_other():
    wall = od.MetricTensor(lambda x: jnp.eye(2) * jnp.where(jnp.abs(x[0]) < 0.5, jnp.nan, 1.0), 2)
    points = np.array([[-1.0, 0], [-2, 0], [-1, 2], [1, 0]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        D = od.distance_matrix(wall, points)
    assert {w.category for w in caught} == {od.ConvergenceWarning}
    assert np.isnan(D[3, :3]).all() and np.isnan(D[:3, 3]).all()
    np.testing.assert_allclose(
        D[:3, :3], np.linalg.norm(points[:3, None] - points[None, :3], axis=-1), atol=1e-9
    )


def test_several_processes_give_the_same_matrix(semicircle, monkeypatch):
    data, _, metric = semicircle
    monkeypatch.setattr("orthodrome.distances.BLOCK", 10)
    solver = od.FixedPoint()
    one, two = (
        od.distance_matrix(metric, data[:9], solver=solver, n_jobs=n, return_info=True)
        for n in (None, 2)
    )
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1].status, two[1].status)


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "two"])
def test_a_number_of_processes_that_is_none_is_refused(semicircle, n_jobs):
    data, _, metric = semicircle
    with pytest.raises(ValueError, match="n_jobs should be None, a number of processes"):
        od.distance_matrix(metric, data[:3], n_jobs=n_jobs)
