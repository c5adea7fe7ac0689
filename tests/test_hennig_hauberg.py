"""The solver of Hennig & Hauberg against its formulas written out densely, and what the paper says
of it."""

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from independent import squared_exponential
from problems import problem

T = np.linspace(0, 1, 41)
pytestmark = pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")


class Dense:
    """One problem, all observations in one list: the ends without noise, then accelerations with
    theirs."""

    def __init__(self, a, b, V, lengthscale, jitter, times):
        self.a, self.b, self.V, self.jitter = a, b, V, jitter
        # every time that will be asked for, so that each derivative of the kernel is compiled once
        self.place = {t: n for n, t in enumerate(times)}
        orders = [(i, j) for i in range(3) for j in range(3)]
        self.kernel = {ij: squared_exponential(times, times, *ij, lengthscale) for ij in orders}
        self.times, self.orders, self.values, self.noises = (
            [0.0, 1.0],
            [0, 0],
            [a, b],
            [0 * V, 0 * V],
        )

    def k(self, t, i, s, j):
        return self.kernel[i, j][self.place[t], self.place[s]] * self.V

    def posterior(self, t, orders):
        """Mean (r, d) and covariance (r d, r d) of these derivatives at t."""
        rows = range(len(self.times))
        G = np.block(
            [
                [self.k(self.times[m], self.orders[m], self.times[n], self.orders[n]) for n in rows]
                for m in rows
            ]
        )
        d = len(self.a)
        for n in rows:
            G[n * d : (n + 1) * d, n * d : (n + 1) * d] += self.noises[n]
        cross = np.block(
            [[self.k(t, i, self.times[n], self.orders[n]) for n in rows] for i in orders]
        )
        line = lambda t, order: [self.a + t * (self.b - self.a), self.b - self.a, 0 * self.a][order]
        seen = np.concatenate([self.values[n] - line(self.times[n], self.orders[n]) for n in rows])
        mean = np.stack([line(t, i) for i in orders]) + (cross @ np.linalg.solve(G, seen)).reshape(
            len(orders), d
        )
        prior = np.block([[self.k(t, i, t, j) for j in orders] for i in orders])
        return mean, prior - cross @ np.linalg.solve(G, cross.T)

    def observe(self, n, t, z, noise):
        """As the observation of knot n, in place of an earlier one."""
        row = n + 2
        for column, value in (
            (self.times, t),
            (self.orders, 2),
            (self.values, z),
            (self.noises, noise + self.jitter * self.V),
        ):
            column[row:row + 1] = [value]  # fmt: skip


def test_mean_and_covariance_are_those_of_the_algorithm_written_out(semicircle):
    data, angle, metric = semicircle
    a, b = data[np.argsort(angle)[[120, 60]]]
    N, U, U_dot = 6, np.array([[3.0, 0.5], [1.0, 2.0]]), np.array([[1.0, 0.2], [0.0, 4.0]])
    S = np.cov(data.T)
    V = ((a - b) @ S @ (a - b)) * S
    solver = od.HennigHauberg(mesh=N, noise=1e-5, bound=U, velocity_bound=U_dot, refinements=2)
    path = od.shortest_path(metric, a, b, solver)
    np.testing.assert_allclose(path.curve.V[0], V, rtol=1e-6)
    knots, between = np.linspace(0, 1, N), (0.13, 0.5, 0.9)
    dense = Dense(a, b, path.curve.V[0], np.sqrt(0.5 / (N - 1)), 1e-5, [*knots, *between])
    for _ in range(3):
        for n, t in enumerate(knots):
            (c, v), cov = dense.posterior(t, (0, 1))
            cc, cv, vv = cov[:2, :2], cov[:2, 2:], cov[2:, 2:]
            noise = (
                U.T @ cc @ U
                + abs(U_dot.T @ cv.T @ U)
                + abs(U.T @ cv @ U_dot)
                + U_dot.T @ vv @ U_dot
            )
            dense.observe(n, t, metric.acceleration(c, v), noise)
    for t in between:
        mean, cov = dense.posterior(t, (0, 1))
        np.testing.assert_allclose(path(t), mean[0], atol=1e-6)
        np.testing.assert_allclose(path.velocity(t), mean[1], atol=1e-5)
        np.testing.assert_allclose(path.covariance(t), cov[:2, :2], atol=1e-7 * np.trace(V))


def knot_errors(metric, path, N):
    t = np.linspace(0, 1, N)
    return np.max(
        np.sum((path.acceleration(t) - metric.acceleration(path(t), path.velocity(t))) ** 2, -1), -1
    )


def test_its_residual_reaches_a_plateau_and_that_of_the_fixed_point_does_not(semicircle):
    data, angle, metric = semicircle
    a, b = data[np.argsort(angle)[[150, 90]]]
    rounds = (5, 20, 60)
    theirs = [
        knot_errors(metric, od.shortest_path(metric, a, b, od.HennigHauberg(refinements=n)), 10)
        for n in rounds
    ]
    ours = knot_errors(metric, od.shortest_path(metric, a, b, od.FixedPoint(tol=1e-10)), 10)
    assert theirs[1] == pytest.approx(theirs[2], rel=1e-2) and theirs[2] > 1e-3 and ours < 1e-6


def test_without_noise_its_refinements_end_in_the_fixed_point():
    p = problem("sphere", 2)
    exact = od.shortest_path(p.metric, p.start, p.end, od.FixedPoint(mesh=8, tol=1e-14, noise=1e-9))
    solver = od.HennigHauberg(mesh=8, bound=0, velocity_bound=0, refinements=40, noise=1e-9)
    path = od.shortest_path(p.metric, p.start, p.end, solver)
    assert path.converged.all()
    np.testing.assert_allclose(path(T), exact(T), atol=1e-5)


def test_many_problems_are_as_each_alone_and_a_point_to_itself_stays(semicircle):
    data, _, metric = semicircle
    ends = np.concatenate([data[:1], data[5:9]])
    path = od.shortest_path(metric, data[0], ends, od.HennigHauberg())
    assert path.length[0] == 0 and path.certified[0] and path.converged[0]
    for i in (1, 4):
        np.testing.assert_allclose(
            path[i](T), od.shortest_path(metric, data[0], ends[i], od.HennigHauberg())(T), atol=1e-9
        )


def test_what_does_not_meet_the_equation_at_the_knots_is_not_converged(semicircle):
    data, angle, metric = semicircle
    with pytest.warns(
        od.ConvergenceWarning, match="does not satisfy the geodesic equation at the knots"
    ):
        path = od.shortest_path(metric, *data[np.argsort(angle)[[0, -1]]], od.HennigHauberg())
    assert path.status == od.Status.NOT_SATISFIED and knot_errors(metric, path, 10) > 0.1


def test_the_spread_is_what_samples_show_and_files_keep_it(semicircle, tmp_path):
    data, _, metric = semicircle
    path = od.shortest_path(metric, data[:2], data[5:7], od.HennigHauberg())
    np.testing.assert_allclose(path.std([0.0, 1.0]), 0, atol=1e-7)
    draws = path.sample([0.3, 0.6], 20_000, random_state=0)
    for i in range(2):
        np.testing.assert_allclose(
            np.cov(draws[:, i, 0].T), path[i].covariance(0.3), rtol=0.05, atol=4e-4
        )
    plain = od.shortest_path(metric, data[:2], data[5:7], od.FixedPoint())
    assert np.all(path.std(0.3) > plain.std(0.3))  # it knows its accelerations less well
    path.save(tmp_path / "p.npz")
    again = od.Path.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(again(T), path(T))
    np.testing.assert_array_equal(again.covariance(T), path.covariance(T))
    np.testing.assert_array_equal(path[1].covariance(T), path.covariance(T)[1])


def test_the_search_keeps_the_likeliest_lengthscale(semicircle):
    data, _, metric = semicircle
    a, b = data[0], data[5:11]
    factors = (0.5, 0.75, 1.0)
    found = od.shortest_path(metric, a, b, od.HennigHauberg(search=factors))
    default = np.sqrt(0.5 / 9)
    alone = {f: od.shortest_path(metric, a, b, od.HennigHauberg(search=[f])) for f in factors}

    def log_density(curve, i):
        G = np.kron(
            squared_exponential(curve.knots, curve.knots, 2, 2, curve.lengthscale[i]), curve.V[i]
        )
        cross = np.kron(
            squared_exponential(curve.knots, [0, 1], 2, 0, curve.lengthscale[i]), curve.V[i]
        )
        ends = np.kron(squared_exponential([0, 1], [0, 1], 0, 0, curve.lengthscale[i]), curve.V[i])
        G = G - cross @ np.linalg.solve(ends, cross.T) + 1e-7 * np.kron(np.eye(10), curve.V[i])
        for n in range(10):
            G[2 * n : 2 * n + 2, 2 * n : 2 * n + 2] += curve.z_noise[i, n]
        z = curve.z[i].ravel()
        return -0.5 * z @ np.linalg.solve(G, z) - 0.5 * np.linalg.slogdet(G)[1]

    for i in range(len(b)):
        best = max(factors, key=lambda f: log_density(alone[f].curve, i))
        assert found.curve.lengthscale[i] == pytest.approx(best * default)
        np.testing.assert_allclose(found[i](T), alone[best][i](T), atol=1e-9)


def test_a_start_is_where_it_looks_first(semicircle):
    data, angle, metric = semicircle
    ends = data[np.argsort(angle)[[-1, 100]]]
    init = od.shortest_path(metric, *ends)
    path = od.shortest_path(metric, *ends, od.HennigHauberg(mesh=12, refinements=0), init=init)
    t = np.linspace(0, 1, 12)
    np.testing.assert_allclose(
        path.curve.z[0], metric.acceleration(init(t), init.velocity(t)), rtol=1e-9, atol=1e-9
    )


def test_a_hole_in_the_metric_is_told():
    hole = od.MetricTensor(
        lambda x: jnp.eye(2) * jnp.where(x @ x < 0.25, jnp.nan, 1 + x[0] ** 2), 2
    )
    with pytest.warns(od.ConvergenceWarning, match="1: non-finite numbers on the way"):
        path = od.shortest_path(hole, [[-1.0, 0], [-1, 1]], [[1.0, 0], [1, 1]], od.HennigHauberg())
    assert path.status[0] == od.Status.NON_FINITE and np.isnan(path.length[0])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mesh": 1}, "mesh should be at least 2; 1 arrived"),
        ({"refinements": -1}, "refinements should be at least 0; -1 arrived"),
        ({"bound": -1.0}, "bound should be a number or a matrix"),
        ({"velocity_bound": [1.0, 2.0]}, "velocity_bound should be a number or a matrix"),
        ({"search": [1.0, -2.0]}, "a factor in search should be positive"),
        ({"search": [1.0, 4.0], "noise": 1e-16}, "is not safe"),
    ],
)
def test_bad_settings_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        od.HennigHauberg(**settings)


def test_bounds_of_another_dimension_are_refused(semicircle):
    data, _, metric = semicircle
    with pytest.raises(
        ValueError, match=r"bound has shape \(3, 3\), the problems have 2 coordinates"
    ):
        od.shortest_path(metric, data[0], data[1], od.HennigHauberg(bound=np.eye(3)))


def test_its_noise_is_a_covariance_also_where_absolute_values_would_leave_none(rng):
    from orthodrome.baselines.hennig_hauberg import _propagated

    roots = rng.standard_normal((300, 8, 8))
    covariance = (roots @ roots.swapaxes(1, 2)).reshape(300, 2, 4, 2, 4)
    U, U_dot = np.eye(4), np.eye(4)
    spread = _propagated(covariance, U, U_dot)
    plain = covariance[:, 0, :, 0] + covariance[:, 1, :, 1] + np.abs(covariance[:, 1, :, 0])
    plain = plain + np.abs(covariance[:, 0, :, 1])
    bad = np.linalg.eigvalsh(plain).min(axis=1) < -1e-9
    assert bad.any() and np.linalg.eigvalsh(spread).min() > -1e-9
    np.testing.assert_allclose(spread[~bad], 0.5 * (plain + plain.swapaxes(1, 2))[~bad], atol=1e-9)
