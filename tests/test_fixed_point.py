"""Algorithm 1: the same iterates as the paper's pseudo-code, and the right distances."""

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from independent import Posterior, algorithm_1
from orthodrome.curves import amplitude
from orthodrome.status import Status
from problems import problem

TIGHT = od.FixedPoint(mesh=30, tol=1e-14, max_iter=400)
T = np.linspace(0, 1, 257)


@pytest.mark.parametrize("mesh", [10, 14])
def test_iterates_are_those_of_the_papers_pseudo_code(semicircle, mesh):
    data, angle, metric = semicircle
    order = np.argsort(angle)
    base, ends = data[order[-1]], data[order[[0, 5, 40, 90, 150]]]
    solver = od.FixedPoint(mesh=mesh, noise=1e-5, max_iter=200)
    path = od.shortest_path(metric, base, ends, solver)
    posterior = Posterior(np.linspace(0, 1, mesh), 1e-5, np.eye(2))
    for i, end in enumerate(ends):
        z, iterations, status = algorithm_1(metric.acceleration, posterior, base, end, 0.1, 200)
        assert (path.iterations[i], path.status[i]) == (iterations, status)
        np.testing.assert_allclose(path.curve.z[i], z, rtol=1e-4, atol=1e-4)


def test_the_semicircle_of_the_paper_is_solved():
    solved, unsolved = 0, []
    for seed in range(10):
        data, angle = od.datasets.semicircle(200, random_state=seed, return_angle=True)
        others = np.delete(np.arange(200), np.argmax(angle))
        solver = od.FixedPoint(mesh=10)
        metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
        solution = solver.solve(
            metric, np.tile(data[np.argmax(angle)], (199, 1)), data[others], None
        )
        solved += np.sum(solution.status == Status.CONVERGED)
        unsolved += [(seed, int(i)) for i in others[solution.status != Status.CONVERGED]]
    assert solved >= 0.995 * 1990, unsolved


def test_the_error_falls_faster_than_any_power_for_se_and_algebraically_for_matern():
    p = problem("half-space", 2)
    N = np.array([5, 7, 10, 14])

    def errors(kernel):
        solvers = [od.FixedPoint(mesh=int(n), tol=1e-18, max_iter=60, kernel=kernel) for n in N]
        with pytest.warns(od.ConvergenceWarning):  # the tolerance is below rounding
            return [
                np.median(np.abs(od.distance(p.metric, p.start, p.end, s) / p.distance - 1))
                for s in solvers
            ]

    def slopes(kernel):
        return -np.diff(np.log(errors(kernel))) / np.diff(np.log(N - 1.0))

    fast, slow = slopes(od.SquaredExponential()), slopes(od.Matern())
    assert fast[-1] > fast[0] + 2 and fast[-1] > 10
    assert np.all((slow > 2) & (slow < 12))


def test_reversing_the_ends_gives_the_same_path(semicircle):
    data, _, metric = semicircle
    there, back = (
        od.shortest_path(metric, a, b, od.FixedPoint())
        for a, b in ((data[:20], data[20:40]), (data[20:40], data[:20]))
    )
    np.testing.assert_allclose(there(T), back(1 - T), atol=1e-8)
    np.testing.assert_allclose(there.length, back.length, rtol=1e-8)


def test_a_solution_is_a_fixed_point_of_its_own_start(semicircle):
    data, _, metric = semicircle
    ends = (data[:10], data[10:20])
    path = od.shortest_path(metric, *ends, od.FixedPoint())
    again = od.shortest_path(metric, *ends, od.FixedPoint(), init=path)
    assert np.all(again.iterations == 0)
    # the noise lets the mean miss z by about so much
    np.testing.assert_allclose(again(T), path(T), atol=1e-8)


def test_another_mesh_can_start_from_a_path(semicircle):
    data, angle, metric = semicircle
    far = np.argsort(angle)[[-1, 3]]
    coarse = od.shortest_path(metric, *data[far], od.FixedPoint(mesh=20))
    fine = od.shortest_path(metric, *data[far], od.FixedPoint(mesh=50), init=coarse)
    cold = od.shortest_path(metric, *data[far], od.FixedPoint(mesh=50))
    assert fine.converged and fine.iterations < cold.iterations


def test_max_iter_is_kept_and_told(semicircle):
    data, angle, metric = semicircle
    far = np.argsort(angle)[[-1, 0]]
    with pytest.warns(od.ConvergenceWarning, match="1 of 1 paths did not converge .*max_iter"):
        path = od.shortest_path(metric, *data[far], od.FixedPoint(max_iter=3))
    assert (path.status, path.iterations, path.converged) == (od.Status.MAX_ITERATIONS, 3, False)
    assert "max_iter" in path.message and np.isfinite(path.length)


def test_a_non_finite_metric_stops_one_problem_and_spoils_no_other():
    hole = od.MetricTensor(
        lambda x: jnp.eye(2) * jnp.where(x @ x < 0.25, jnp.nan, 1 + x[0] ** 2), 2
    )
    start, end = (
        np.array([[-1.0, 0], [-1, 1], [-1, -1]]),
        np.array([[1.0, 0.1], [1, 1.5], [1, -1.2]]),
    )
    with pytest.warns(od.ConvergenceWarning, match="1 of 3 paths .*not finite"):
        path = od.shortest_path(hole, start, end, od.FixedPoint())
    assert list(path.status) == [Status.NON_FINITE, Status.CONVERGED, Status.CONVERGED]
    assert not path.certified[0] and not path.converged[0] and np.isnan(path.length[0])
    alone = od.shortest_path(hole, start[1:], end[1:], od.FixedPoint())
    np.testing.assert_allclose(path.length[1:], alone.length, rtol=1e-12)


def test_an_indefinite_metric_on_the_way_is_not_a_number_that_looks_right():
    turned = od.MetricTensor(lambda x: jnp.diag(jnp.array([1.0, x @ x - 0.25])), 2)
    with pytest.warns(od.ConvergenceWarning, match="not finite and positive"):
        path = od.shortest_path(turned, [-1.0, 0.01], [1.0, 0.02], od.FixedPoint())
    assert path.status == od.Status.NON_FINITE and not path.certified


@pytest.mark.parametrize("solver", [od.FixedPoint(), od.Auto(), od.Energy(), od.Graph()], ids=repr)
def test_from_a_point_to_itself(semicircle, solver):
    data, _, metric = semicircle
    elsewhere = od.shortest_path(metric, data[0], data[1])
    for init in (None,) if isinstance(solver, od.Graph) else (None, elsewhere):
        path = od.shortest_path(metric, data[3], data[3], solver, init=init)
        assert (path.length, path.energy, path.residual, path.error) == (0, 0, 0, 0)
        assert path.certified and path.converged
        np.testing.assert_array_equal(path(T), np.tile(data[3], (len(T), 1)))
    np.testing.assert_array_equal(od.log_map(metric, data[3], data[3]), [0, 0])
    np.testing.assert_array_equal(od.exp_map(metric, data[3], [0, 0]), data[3])


def test_scaling_data_sigma_and_rho_together_changes_no_distance(semicircle):
    data, _, metric = semicircle
    scaled = od.LocalPCA(3 * data, sigma=0.45, rho=0.09)
    # the tolerance is in coordinates, so it scales too
    one = od.distance(metric, data[:9], data[9:18], od.FixedPoint(mesh=20, tol=1e-4))
    other = od.distance(scaled, 3 * data[:9], 3 * data[9:18], od.FixedPoint(mesh=20, tol=9e-4))
    np.testing.assert_allclose(one, other, rtol=1e-8)


def test_scaling_the_metric_by_s_squared_scales_distance_by_s():
    p = problem("half-space", 2)
    scaled = od.MetricTensor(lambda x: 9.0 * p.metric.function(x), 2)
    np.testing.assert_allclose(
        od.distance(scaled, p.start, p.end, TIGHT), 3 * p.distance, rtol=1e-7
    )


def far_apart(semicircle):
    data, angle, metric = semicircle
    return metric, data[np.argmax(angle)], data[np.argsort(angle)[:150:10]]


def test_an_adaptive_mesh_certifies_what_ten_knots_do_not(semicircle):
    metric, a, b = far_apart(semicircle)
    rough = od.shortest_path(metric, a, b, od.FixedPoint(tol=1e-6, kernel=od.Matern(nu=4.5)))
    path = od.shortest_path(metric, a, b, od.FixedPoint(mesh="adaptive", tol=1e-6))
    assert path.certified.all() and rough.certified.mean() < 0.3
    knots = path.curve.process.knots
    assert knots.shape == path.curve.z.shape[:2] and np.all(np.diff(knots, axis=1) > 0)
    # of the same geodesics, some of which are not the shortest
    sure = od.shortest_path(metric, a, b, init=path)
    np.testing.assert_allclose(path.length, sure.length, rtol=1e-5)
    assert path.std(T).shape == (15, len(T), 2) and path.sample(T[:9], 3, random_state=0).shape == (
        3,
        15,
        9,
        2,
    )


def test_an_adaptive_mesh_is_each_problems_own_whatever_its_neighbours(semicircle, tmp_path):
    metric, a, b = far_apart(semicircle)
    solver = od.FixedPoint(mesh="adaptive", tol=1e-6)
    near = a + 0.05  # ten knots are enough for this one
    both = od.shortest_path(metric, a, np.stack([b[0], near]), solver)
    alone = od.shortest_path(metric, a, near, solver)
    assert (
        alone.curve.z.shape[1] < both.curve.z.shape[1] == np.sum(both.curve.process.knots[0] <= 1)
    )
    np.testing.assert_allclose(both[1](T), alone(T), atol=1e-10)
    np.testing.assert_allclose(both[1].std(T[1:-1]), alone.std(T[1:-1]), rtol=1e-5)
    both.save(tmp_path / "both.npz")
    np.testing.assert_allclose(od.Path.load(tmp_path / "both.npz")(T), both(T), atol=1e-12)


def test_andersons_steps_arrive_sooner_at_the_same_path(semicircle):
    metric, a, b = far_apart(semicircle)
    plain = od.shortest_path(metric, a, b, od.FixedPoint(mesh=20, tol=1e-4))
    mixed = od.shortest_path(metric, a, b, od.FixedPoint(mesh=20, tol=1e-4, step="anderson"))
    assert mixed.converged.all() and mixed.iterations.sum() < 0.7 * plain.iterations.sum()
    np.testing.assert_allclose(mixed.length, plain.length, rtol=1e-4)


@pytest.mark.parametrize("step", ["mann", "ishikawa"])
def test_classical_iterations_find_easy_paths_and_tell_where_they_fail(semicircle, step):
    p = problem("half-space", 2)
    path = od.shortest_path(p.metric, p.start, p.end, od.FixedPoint(mesh=20, tol=1e-2, step=step))
    assert path.converged.all()
    np.testing.assert_allclose(path.length, p.distance, rtol=1e-2)
    metric, a, b = far_apart(semicircle)
    with pytest.warns(od.ConvergenceWarning):
        hard = od.shortest_path(metric, a, b, od.FixedPoint(step=step, max_iter=30))
    assert np.all(hard.converged | np.isin(hard.status, [Status.MAX_ITERATIONS, Status.NON_FINITE]))


def test_manns_iterates_are_averages():
    """α = 1/(i + 1) makes z the running mean of all the z* so far."""
    p = problem("half-space", 2)
    solver = lambda n: od.FixedPoint(mesh=12, tol=1e-30, step="mann", max_iter=n)
    with pytest.warns(od.ConvergenceWarning):
        z = [od.shortest_path(p.metric, p.start, p.end, solver(n)).curve for n in (3, 4, 5)]
    f = lambda c: p.metric.acceleration(c.evaluate(c.process.knots), c.evaluate(c.process.knots, 1))
    np.testing.assert_allclose(z[1].z, z[0].z + (f(z[0]) - z[0].z) / 4, atol=1e-9)
    np.testing.assert_allclose(z[2].z, z[1].z + (f(z[1]) - z[1].z) / 5, atol=1e-9)


def test_calibration_makes_the_accelerations_likeliest(semicircle):
    metric, a, b = far_apart(semicircle)
    plain = od.shortest_path(metric, a, b, od.FixedPoint(mesh=20))
    path = od.shortest_path(metric, a, b, od.FixedPoint(mesh=20, calibrate=True))
    np.testing.assert_array_equal(path(T), plain(T))  # V cancels from the mean
    factor = (path.covariance(0.3)[:, 0, 0] / plain.covariance(0.3)[:, 0, 0])[:3]
    process, V = plain.curve.process, amplitude(a, b, np.cov(metric.data.T))[:3]
    gram = process.prior(process.knots, process.knots, 2, 2) + process.noise * np.eye(20)

    def log_likelihood(i, scale):
        K = np.kron(scale * V[i], gram)
        z = plain.curve.z[i].T.ravel()
        return -0.5 * z @ np.linalg.solve(K, z) - 0.5 * np.linalg.slogdet(K)[1]

    for i in range(3):
        best = log_likelihood(i, factor[i])
        assert best > log_likelihood(i, 0.9 * factor[i]) and best > log_likelihood(
            i, 1.1 * factor[i]
        )


def test_unknown_settings_get_a_sentence():
    with pytest.raises(ValueError, match='mesh should be a number of knots or "adaptive"'):
        od.FixedPoint(mesh="fine")
    with pytest.raises(
        ValueError, match="step should be one of backtracking, mann, ishikawa, anderson"
    ):
        od.FixedPoint(step="newton")
