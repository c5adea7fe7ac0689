"""The descent: it goes down, it arrives in a minimiser, it leaves saddles, and it tells when it did
not."""

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome.solvers.descent import CurvatureCheck, descend


@pytest.mark.parametrize("make", [od.datasets.sphere, od.datasets.spiral])
def test_from_a_straight_line_it_always_arrives(make):
    data = make(200, random_state=0)
    metric = od.LocalPCA(data, 0.15, 0.01)
    path = od.shortest_path(metric, data[:60], data[60:120], od.Energy())
    assert path.converged.all() and path.verdict.minimising.mean() > 0.9
    t = np.linspace(0, 1, 2001)[:, None, None]
    line = metric.norm(data[:60] + t * (data[60:120] - data[:60]), data[60:120] - data[:60])
    assert np.all(path.length <= line.mean(axis=0) * (1 + 1e-9))


def test_energy_falls_with_every_accepted_step(semicircle):
    data, angle, metric = semicircle
    a, b = data[np.argsort(angle)[[0]]], data[np.argsort(angle)[[-1]]]
    t = np.linspace(0, 1, 33)
    line = a[:, None] + t[:, None] * (b - a)[:, None]
    energies = [descend(metric, line, t[None], 1e-9, k).energy[0] for k in range(1, 15)]
    assert np.all(np.diff(energies) <= 0) and energies[-1] < 0.8 * energies[0]


def test_a_valley_much_narrower_than_the_bend_of_a_step_is_found():
    width = 1e-3
    # least at y = ± width
    trench = lambda x: jnp.eye(2) * (1 + 30 * width**2 * ((x[1] / width) ** 2 - 1) ** 2)
    path = od.shortest_path(
        od.MetricTensor(trench, dim=2), [-1.0, 0.0], [1.0, 0.0], od.Energy(elements=16)
    )
    assert path.converged and path.certified and path.iterations < 30
    np.testing.assert_allclose(abs(path(0.5)[1]), width, rtol=1e-2)


def test_a_saddle_is_left():
    """Two ways around a hill, and a start exactly over its top: a geodesic, by symmetry, and not a
    shortest one."""
    hill = od.Pullback(lambda x: jnp.array([x[0], x[1], 3 * jnp.exp(-2 * (x @ x))]))
    a, b = [-2.0, 0.0], [2.0, 0.0]
    over = od.geodesic(hill, a, [1.0, 0.0])
    assert over(1.0)[1] == 0  # the way over the top stays in the plane of symmetry
    path = od.shortest_path(hill, a, b, od.Energy())
    assert path.certified and np.abs(path(0.5)[1]) > 0.5
    t = np.linspace(0, 1, 400)
    straight = np.stack([4 * t - 2, 0 * t], axis=1)
    lifted = np.column_stack([straight, 3 * np.exp(-2 * np.sum(straight**2, axis=1))])
    assert path.length < 0.9 * np.linalg.norm(np.diff(lifted, axis=0), axis=1).sum()


def test_a_start_where_the_metric_is_not_a_number_is_told():
    hole = od.MetricTensor(
        lambda x: jnp.eye(2) * jnp.where(x @ x < 0.25, jnp.nan, 1 + x[0] ** 2), 2
    )
    with pytest.warns(od.ConvergenceWarning, match="1 of 2 paths .*non-finite"):
        path = od.shortest_path(hole, [[-1.0, 0], [-1, 1]], [[1.0, 0.1], [1, 1.5]], od.Energy())
    assert list(path.status) == [od.Status.NON_FINITE, od.Status.CONVERGED]


def test_the_budget_is_kept_and_told(semicircle):
    data, angle, metric = semicircle
    far = np.argsort(angle)[[0, -1]]
    with pytest.warns(od.ConvergenceWarning, match="out of budget"):
        path = od.shortest_path(metric, *data[far], od.Energy(max_iter=2))
    assert path.status == od.Status.MAX_ITERATIONS and path.iterations == 2 and not path.certified


def test_what_single_precision_cannot_do_is_repeated_within_the_same_budget():
    """Outputs that single precision cannot hold: the first evaluation is wasted, and counts."""
    huge = od.Pullback(lambda x: jnp.exp(92.0 + 0 * x[0]) * jnp.array([x[0], x[1], x @ x]))
    with pytest.warns(od.ConvergenceWarning, match="out of budget"):
        path = od.shortest_path(huge, [-1.0, 0.3], [0.8, 0.6], od.Energy(tol=1e-12, max_iter=3))
    assert path.iterations == 3 and not path.converged
    enough = od.shortest_path(huge, [-1.0, 0.3], [0.8, 0.6], od.Energy(tol=1e-12))
    assert enough.certified and enough.iterations > 3


def test_only_a_descent_that_looks_sees_that_there_was_more_than_one_way():
    """Over the top of a hill, by symmetry, Gauss–Newton's steps stay; from the side all descents
    end in the same valley."""
    hill = od.Pullback(lambda x: jnp.array([x[0], x[1], 3 * jnp.exp(-2 * (x @ x))]))
    t = np.linspace(0, 1, 17)[:, None]
    over, beside = (
        [-2.0, 0.0] + t * [4.0, 0.0] + height * np.sin(np.pi * t) * [0.0, 1.0]
        for height in (0.0, 1.0)
    )
    breaks = np.broadcast_to(np.linspace(0, 1, 9), (2, 9))
    found = {
        check: descend(hill, np.stack([over, beside]), breaks, 1e-4, 100, check=check)
        for check in CurvatureCheck
    }
    assert all((descent.status == od.Status.CONVERGED).all() for descent in found.values())
    assert not found[CurvatureCheck.NEVER].bent.any() and found[CurvatureCheck.ALWAYS].bent[0]
    assert np.all(found[CurvatureCheck.NEVER].nodes[0, :, 1] == 0)
    hasty, careful, wary = (found[check].length for check in CurvatureCheck)
    assert hasty[0] > 1.1 * careful[0]
    np.testing.assert_allclose(hasty[1], wary[1], rtol=1e-3)
    np.testing.assert_allclose(careful, wary, rtol=1e-3)


def test_bad_settings_get_a_sentence():
    for settings, words in (
        ({"elements": 12}, "power of two"),
        ({"degree": 5}, "1 to 4"),
        ({"tol": 0}, "positive"),
    ):
        with pytest.raises(ValueError, match=words):
            od.Energy(**settings)
