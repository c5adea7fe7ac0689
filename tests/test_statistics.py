"""Means, clusters and densities against closed forms, against scikit-learn in flat space, and by
their own relations."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.mixture import GaussianMixture

import orthodrome as od
from orthodrome.statistics import mixture, rays, tangents
from orthodrome.statistics.medoids import medoids
from problems import problem


def _flat(x):
    return jnp.diag(jnp.array([4.0, 1.0]))


FLAT = od.MetricTensor(_flat, 2)
"""A module-level function, so that it can be pickled."""

SCALE = np.array([2.0, 1.0])
"""In these units it is Euclidean."""


@pytest.fixture(scope="module")
def blobs():
    x, labels = make_blobs(
        90, centers=[[0, 0], [4, 1], [1, 6]], cluster_std=[0.6, 0.9, 0.7], random_state=0
    )
    return x / SCALE, labels


def distances(name, x, c):
    """Closed forms."""
    if name == "half-space":
        return np.arccosh(1 + np.sum((c - x) ** 2, axis=1) / (2 * c[-1] * x[:, -1]))
    lift = lambda y: (
        np.concatenate([2 * y, 1 - np.sum(y**2, -1, keepdims=True)], -1)
        / (1 + np.sum(y**2, -1, keepdims=True))
    )
    return 2 * np.arcsin(np.linalg.norm(lift(c) - lift(x), axis=1) / 2)


# --- means ---


@pytest.mark.parametrize("name", ["half-space", "sphere"])
def test_means_and_medians_are_those_of_the_closed_form(name):
    p = problem(name, 2)
    x = np.concatenate([p.start, p.end])
    weights = np.linspace(0.5, 1.5, len(x))
    for median, w in ((False, None), (False, weights), (True, weights)):
        mean, info = od.frechet_mean(p.metric, x, w, median=median, return_info=True)
        w = np.ones(len(x)) if w is None else w
        cost = lambda c, w=w, median=median: (
            np.sum(w * distances(name, x, c) ** (1 if median else 2)) / w.sum()
        )
        best = minimize(
            cost,
            mean,
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000},
        )
        np.testing.assert_allclose(mean, best.x, atol=1e-6)
        assert info.converged and info.status == od.Status.CONVERGED and info.missing == 0
        assert info.spread == pytest.approx(best.fun, rel=1e-5) and info.slope < 1e-6


def test_a_mean_does_not_depend_on_where_it_began_and_one_point_is_its_own():
    p = problem("half-space", 2)
    x = np.concatenate([p.start, p.end])
    np.testing.assert_allclose(
        od.frechet_mean(p.metric, x, init=[2.0, 3.0]), od.frechet_mean(p.metric, x), atol=1e-6
    )
    np.testing.assert_array_equal(od.frechet_mean(p.metric, x[:1]), x[0])
    np.testing.assert_array_equal(od.frechet_mean(p.metric, np.repeat(x[:1], 3, axis=0)), x[0])


def test_the_median_may_be_one_of_the_points():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.1], [0.1, -1.0]])
    np.testing.assert_allclose(
        od.frechet_mean(FLAT, x / SCALE, [3, 1, 1, 1, 1], median=True), [0, 0], atol=1e-9
    )


def test_a_mean_that_is_not_found_says_so():
    p = problem("half-space", 2)
    x = np.concatenate([p.start, p.end])
    with pytest.warns(
        od.ConvergenceWarning, match="the mean was not found to tol=1e-07: its relative slope is"
    ):
        _, info = od.frechet_mean(p.metric, x, init=[3.0, 9.0], max_iter=1, return_info=True)
    assert not info.converged and info.slope > 1e-6


def test_logarithms_that_are_not_found_are_left_out_of_a_mean_by_name(monkeypatch):
    """Two of six points cannot be reached: the mean is that of the other four."""
    x = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [9, 9], [9, 8]])
    solve = od.Auto.solve

    def failing(self, metric, a, b, init):
        found = solve(self, metric, a, b, init)
        found.status[np.maximum(a, b).max(axis=1) > 7] = od.Status.UNRESOLVED
        return found

    monkeypatch.setattr(od.Auto, "solve", failing)
    with pytest.warns(od.ConvergenceWarning, match="2 of 6 logarithms at the mean"):
        mean, info = od.frechet_mean(FLAT, x, init=[0.2, 0.2], return_info=True)
    np.testing.assert_allclose(mean, [0.5, 0.5], atol=1e-6)
    assert info.missing == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"points": np.zeros(2)}, "points should have shape \\(n, d\\)"),
        ({"points": np.zeros((3, 3))}, "points has 3 coordinates, the metric is on 2"),
        ({"points": np.eye(2), "weights": [1.0]}, "weights should have shape \\(2,\\)"),
        ({"points": np.eye(2), "weights": [1.0, -1.0]}, "weights should not be negative"),
        ({"points": np.eye(2), "init": np.eye(2)}, "init should be one point"),
        ({"points": np.eye(2), "tol": 0}, "tol should be positive"),
    ],
)
def test_bad_input_of_a_mean_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        od.frechet_mean(FLAT, **arguments)


# --- what they stand on ---


def test_a_frame_is_orthonormal_and_read_and_write_are_inverse(rng):
    p = problem("half-space", 2)
    frames = tangents.Frames.at(p.metric, p.start)
    v = rng.standard_normal((len(p.start), 5, 2))
    u = frames.read(v)
    np.testing.assert_allclose(np.linalg.norm(u, axis=2), p.metric.norm(p.start[:, None], v))
    np.testing.assert_allclose(frames.write(u), v)


def test_paths_that_are_followed_are_those_that_are_found_anew():
    p = problem("half-space", 2)
    logs = tangents.Logarithms(p.metric, p.end, 1, od.Auto())
    logs.at(p.start[:1])
    base = p.start[:1] + 0.1
    followed, fresh = logs.at(base), logs.at(base, fresh=True)
    np.testing.assert_allclose(followed.u, fresh.u, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        fresh.distance[0], distances("half-space", p.end, base[0]), rtol=1e-6
    )
    some = logs.at(base, np.arange(len(p.end))[None] < 3)
    assert some.known.sum() == 3 and np.isnan(some.u[0, 3:]).all()


def test_the_stiffness_is_the_derivative_of_the_momentum_by_the_base():
    p = problem("half-space", 2)
    logs, h = tangents.Logarithms(p.metric, p.end, 1, od.Auto()), 1e-4
    base = np.array([[0.3, 1.2]])
    logs.at(base)
    stiffness = logs.stiffness(np.ones((1, len(p.end)), dtype=bool))[0]
    for axis in range(2):
        ends = [base[0] + sign * h * np.eye(2)[axis] for sign in (1, -1)]
        momenta = [
            np.einsum("ij,nj->ni", p.metric.tensor(end), od.log_map(p.metric, end, p.end))
            for end in ends
        ]
        by_differences = -(momenta[0] - momenta[1]) / (2 * h)
        np.testing.assert_allclose(stiffness[:, :, axis], by_differences, rtol=0.02, atol=0.02)


# --- normalisers ---


def _cast(metric, base, sigma, count=64, exact=True):
    base, A = np.array([base]), np.linalg.cholesky(sigma)[None]
    lower = np.linalg.cholesky(metric.tensor(base))
    return rays.cast(metric, base, lower, A, rays.directions(count, len(base[0]), 0), exact)


def test_in_flat_space_the_normaliser_is_that_of_a_gaussian():
    sigma = np.array([[2.0, 0.5], [0.5, 0.7]])
    for exact in (True, False):
        found = _cast(FLAT, [0.3, -1.0], sigma, exact=exact)
        assert found.log_integral()[0] == pytest.approx(
            np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(sigma)[1], abs=1e-5
        )
        mean, square = found.moments()
        np.testing.assert_allclose(mean[0], 0, atol=1e-10)
        np.testing.assert_allclose(square[0], np.eye(2), atol=1e-4)


def test_in_flat_space_few_rays_tell_every_covariance_exactly(rng):
    """In five dimensions 16 rays see less than half of what Σ has: what they miss must not be made
    up."""
    flat = od.MetricTensor(lambda x: jnp.eye(5), 5)
    found = _cast(flat, np.zeros(5), np.eye(5), count=16)
    B = np.linalg.cholesky(np.cov(rng.standard_normal((5, 40))))
    wanted = np.linalg.inv(B.T @ B)
    np.testing.assert_allclose(found.moments(B[None])[1][0], wanted, atol=1e-6)
    assert found.log_integral(B[None])[0] == pytest.approx(
        2.5 * np.log(2 * np.pi) - np.linalg.slogdet(B)[1], abs=1e-6
    )
    near = 0.8 * np.eye(5) + 0.1
    fitted, _ = mixture.fitted(
        found, np.zeros((1, 5)), tangents.Frames(np.eye(5)[None]), near[None]
    )
    np.testing.assert_allclose(fitted.A[0] @ fitted.A[0].T, near, atol=1e-3)


def test_a_component_without_points_is_warned_about(blobs):
    with pytest.warns(
        od.ConvergenceWarning, match="1 of 2 components have no points: ask for fewer"
    ):
        found = od.LAND(2, FLAT, means_init=[[0.0, 0.0], [400.0, 0.0]], random_state=0).fit(
            blobs[0]
        )
    assert found.weights_.tolist() == [1.0, 0.0]


def test_in_hyperbolic_space_the_normaliser_is_the_known_integral():
    """∫ 2π sinh(r) exp(−r²/2s²) dr, and the moments of other Σ from the same rays."""
    metric, r = problem("half-space", 2).metric, np.linspace(0, 12, 20001)
    integral = lambda s: np.trapezoid(2 * np.pi * np.sinh(r) * np.exp(-0.5 * (r / s) ** 2), r)
    found = _cast(metric, [0.5, 1.5], 0.8**2 * np.eye(2))
    assert np.exp(found.log_integral()[0]) == pytest.approx(integral(0.8), rel=1e-4)
    assert np.exp(found.log_integral(np.eye(2)[None] * 0.8 / 0.6)[0]) == pytest.approx(
        integral(0.6), rel=1e-4
    )


def test_on_the_sphere_rays_end_at_the_conjugate_point():
    """∫ 2π sin(r) exp(−r²/2s²) dr up to π, where all rays meet again."""
    metric, r = problem("sphere", 2).metric, np.linspace(0, np.pi, 20001)
    known = np.trapezoid(2 * np.pi * np.sin(r) * np.exp(-0.5 * (r / 1.2) ** 2), r)
    assert np.exp(_cast(metric, [0.3, 0.2], 1.44 * np.eye(2)).log_integral()[0]) == pytest.approx(
        known, rel=5e-3
    )


def test_directions_cover_all_sides_evenly():
    for dim in (1, 2, 3, 5):
        omega = rays.directions(256, dim, 0)
        np.testing.assert_allclose(np.linalg.norm(omega, axis=1), 1)
        # at random, 0.06
        np.testing.assert_allclose(omega.T @ omega / len(omega), np.eye(dim) / dim, atol=0.02)
        assert np.abs(omega.mean(axis=0)).max() < 1e-10


# --- medoids ---


def test_medoids_are_points_of_the_sample_one_in_each_blob(blobs, rng):
    x, labels = blobs
    sets = medoids(FLAT, x, 3, rng)
    assert all(
        len(np.unique(chosen, axis=0)) == 3 and (chosen[:, None] == x).all(2).any(1).all()
        for chosen in sets
    )
    owner = labels[np.argmax((sets[0][:, None] == x).all(2), axis=1)]
    assert sorted(owner) == [0, 1, 2]
    spread = lambda chosen: np.sum(
        np.min(np.sum(((x[:, None] - chosen) * SCALE) ** 2, axis=2), axis=1)
    )
    assert spread(sets[0]) < 1.1 * KMeans(3, n_init=3, random_state=0).fit(x * SCALE).inertia_
    # more than there are different points
    assert len(medoids(FLAT, np.repeat(x[:2], 5, axis=0), 3, rng)[0]) == 3


# --- k-means ---


def test_in_flat_space_k_means_gives_scikit_learns_labels_and_centers(blobs):
    x, _ = blobs
    start = x[[0, 1, 2]]
    ours = od.GeodesicKMeans(3, FLAT, init=start).fit(x)
    theirs = KMeans(3, init=start * SCALE, n_init=1).fit(x * SCALE)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.cluster_centers_ * SCALE, theirs.cluster_centers_, atol=1e-3)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-5) and ours.converged_
    np.testing.assert_array_equal(ours.predict(x), ours.labels_)
    np.testing.assert_allclose(ours.transform(x), theirs.transform(x * SCALE), atol=2e-3)
    assert ours.score(x) == pytest.approx(-ours.inertia_, rel=1e-4)


def test_k_means_finds_the_blobs_from_its_own_seeds_and_repeats_itself(blobs):
    x, labels = blobs
    found = od.GeodesicKMeans(3, FLAT, n_init=2, random_state=0).fit(x)
    assert all(len(np.unique(labels[found.labels_ == k])) == 1 for k in range(3))
    again = clone(found).fit(x)
    np.testing.assert_array_equal(again.labels_, found.labels_)
    loaded = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(loaded.predict(x[:5]), found.labels_[:5])


def test_progress_goes_to_standard_error(blobs, capsys):
    od.GeodesicKMeans(2, FLAT, init="random", random_state=0, verbose=True, max_iter=30).fit(
        blobs[0]
    )
    out, err = capsys.readouterr()
    assert not out and "k-means 1: inertia" in err


# --- LAND ---


@pytest.fixture(scope="module")
def land(blobs):
    return od.LAND(3, FLAT, random_state=0, tol=1e-5).fit(blobs[0])


def test_in_flat_space_land_is_scikit_learns_gaussian_mixture(land, blobs):
    x, _ = blobs
    theirs = GaussianMixture(3, tol=1e-7, max_iter=500, random_state=0).fit(x)
    assert land.converged_
    ours, order = np.lexsort(land.means_.T), np.lexsort(theirs.means_.T)
    np.testing.assert_allclose(land.means_[ours], theirs.means_[order], atol=1e-2)
    np.testing.assert_allclose(land.covariances_[ours], theirs.covariances_[order], atol=1e-2)
    np.testing.assert_allclose(land.weights_[ours], theirs.weights_[order], atol=1e-2)
    np.testing.assert_allclose(land.score_samples(x), theirs.score_samples(x), atol=0.05)
    assert land.lower_bound_ == pytest.approx(theirs.score(x), abs=2e-3)
    assert land.bic(x) == pytest.approx(theirs.bic(x), abs=1) and land.aic(x) == pytest.approx(
        theirs.aic(x), abs=1
    )
    np.testing.assert_allclose(land.predict_proba(x).sum(axis=1), 1)
    np.testing.assert_array_equal(land.predict(x), land.labels_)


def test_the_likelihood_never_falls_and_its_history_is_kept(land):
    history = land.history_
    assert np.all(np.diff(history["lower_bound"]) >= -1e-9) and np.all(
        np.diff(history["seconds"]) > 0
    )
    assert len(history["seconds"]) == land.n_iter_ + 1


def test_samples_are_from_the_density(land):
    x, labels = land.sample(1000, random_state=0)
    for k in range(3):
        mine = x[labels == k]
        np.testing.assert_allclose(mine.mean(axis=0), land.means_[k], atol=0.12)
        np.testing.assert_allclose(np.cov(mine.T), land.covariances_[k], atol=0.15)
    np.testing.assert_allclose(np.bincount(labels) / 1000, land.weights_, atol=0.05)
    assert not land.failed_.any()


def test_a_sample_that_another_way_reaches_sooner_is_drawn_again(land, monkeypatch):
    edge = land.means_[:, 0].max()
    monkeypatch.setattr(
        rays, "is_shortest", lambda metric, bases, x, lengths, solver: x[:, 0] < edge
    )
    x, labels = land.sample(30, random_state=0)
    assert x.shape == (30, 2) and labels.shape == (30,) and np.all(x[:, 0] < edge)


def test_in_one_dimension_land_is_the_normal_distribution(rng):
    x = rng.standard_normal((60, 1)) * 0.7 + 2.0
    found = od.LAND(
        1, od.MetricTensor(lambda y: jnp.array([[9.0]]), 1), random_state=0, tol=1e-6
    ).fit(x)
    assert found.means_[0, 0] == pytest.approx(x.mean(), abs=1e-3)
    assert found.covariances_[0, 0, 0] == pytest.approx(x.var(), rel=1e-3)
    assert found.lower_bound_ == pytest.approx(-0.5 * np.log(2 * np.pi * np.e * x.var()), abs=1e-3)


def test_on_a_curved_metric_a_grid_sums_the_density_to_one(rng):
    metric = problem("half-space", 2).metric
    x = np.array([0.1, 1.5]) + 0.3 * rng.standard_normal((40, 2))
    found = od.LAND(1, metric, random_state=0).fit(x)
    width, low, high = 0.1, [-1.9, 0.05], [2.1, 4.0]
    grid = np.stack(
        np.meshgrid(*(np.arange(a, b, width) for a, b in zip(low, high, strict=True))), -1
    ).reshape(-1, 2)
    assert np.exp(found.score_samples(grid)).sum() * width**2 == pytest.approx(1, abs=0.01)


def test_the_fit_is_stationary_on_a_curved_metric(rng):
    """No mean nearby, with the best Σ for it, is likelier."""
    metric = problem("half-space", 2).metric
    x = np.array([0.1, 1.5]) + 0.3 * rng.standard_normal((40, 2))
    found = od.LAND(1, metric, random_state=0, tol=1e-7).fit(x)
    omega = rays.directions(128, 2, 0)

    def cost(mean):
        seen = tangents.Logarithms(metric, x, 1, od.Auto()).at(mean[None])
        scatter, frames = (
            mixture.scatter_of(seen, np.ones((1, len(x))), 1e-6),
            tangents.Frames.at(metric, mean[None]),
        )
        found = rays.cast(metric, mean[None], frames.lower, np.linalg.cholesky(scatter), omega)
        return mixture.fitted(found, mean[None], frames, scatter)[1][0]

    here = cost(found.means_[0])
    step = 0.3 * np.sqrt(np.linalg.eigvalsh(found.covariances_[0])[0])
    assert all(cost(found.means_[0] + step * e) > here for e in (*np.eye(2), *-np.eye(2)))


def test_a_point_that_cannot_be_reached_has_no_density_and_is_warned_about_or_is_an_error(
    blobs, monkeypatch
):
    x, solve = np.concatenate([blobs[0], [[40.0, 40.0]]]), od.Auto.solve

    def failing(self, metric, a, b, init):
        found = solve(self, metric, a, b, init)
        found.status[np.maximum(a, b).max(axis=1) > 30] = od.Status.UNRESOLVED
        return found

    monkeypatch.setattr(od.Auto, "solve", failing)
    with pytest.warns(
        od.ConvergenceWarning, match=r"2 of 182 logarithms at the means \(1 points have no density"
    ):
        found = od.LAND(2, FLAT, random_state=0).fit(x)
    assert (
        found.failed_[-1].all() and not found.failed_[:-1].any() and np.isfinite(found.lower_bound_)
    )
    assert found.labels_[-1] == -1 and (found.labels_[:-1] >= 0).all()
    with pytest.warns(od.ConvergenceWarning, match="2 of 4 logarithms"):
        assert found.predict(x[-2:])[1] == -1
    with pytest.warns(od.ConvergenceWarning, match="2 of 4 logarithms"):
        assert np.isnan(found.predict_proba(x[-2:])[1]).all()
    with pytest.raises(ValueError, match="2 of 182 logarithms were not found"):
        od.LAND(2, FLAT, random_state=0, failed="raise").fit(x)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components should be at least 1"),
        ({"n_components": 99}, "n_samples=90 should be at least n_components=99"),
        ({"normalizer": "2015"}, "normalizer should be one of riemannian, 2016"),
        ({"failed": "hide"}, "failed should be one of omit, raise"),
        ({"tol": -1.0}, "tol should be positive"),
        (
            {"means_init": np.zeros((1, 2)), "n_components": 2},
            "means_init should have shape \\(2, 2\\)",
        ),
    ],
)
def test_bad_settings_are_refused(settings, message, blobs):
    with pytest.raises(ValueError, match=message):
        od.LAND(metric=FLAT, **settings).fit(blobs[0])


# --- principal geodesics, interpolation, neighbours ---


def test_in_flat_space_tangent_pca_is_pca_and_its_maps_are_inverse(blobs):
    x, _ = blobs
    found = od.TangentPCA(metric=FLAT).fit(x)
    np.testing.assert_allclose(found.mean_, x.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(
        found.explained_variance_, np.linalg.eigvalsh(np.cov((x * SCALE).T, bias=True))[::-1]
    )
    np.testing.assert_allclose(
        found.components_ @ np.diag([4.0, 1.0]) @ found.components_.T, np.eye(2), atol=1e-9
    )
    np.testing.assert_allclose(found.inverse_transform(found.transform(x[:9])), x[:9], atol=1e-6)
    assert found.explained_variance_ratio_.sum() == pytest.approx(1)
    one = od.TangentPCA(1, metric=FLAT).fit(x)
    np.testing.assert_allclose(one.transform(x)[:, 0], found.transform(x)[:, 0], atol=1e-6)


def test_interpolation_is_even_and_meets_its_points():
    p = problem("half-space", 2)
    stops = p.start[:3]
    x = od.interpolate(p.metric, stops, np.linspace(0, 1, 31))
    steps = od.distance(p.metric, x[:-1], x[1:])
    whole = (
        distances("half-space", stops[1:2], stops[0])[0]
        + distances("half-space", stops[2:], stops[1])[0]
    )
    np.testing.assert_allclose(x[[0, -1]], stops[[0, -1]], atol=1e-9)
    assert np.median(steps) == pytest.approx(whole / 30, rel=1e-3)
    np.testing.assert_allclose(
        od.interpolate(p.metric, stops, [0, 0.25, 1], times=[0, 0.25, 1]), stops, atol=1e-9
    )
    with pytest.raises(ValueError, match="times should be 3 numbers that grow"):
        od.interpolate(p.metric, stops, 0.5, times=[0, 1, 1])


def test_neighbours_are_the_nearest_by_geodesic_distance(blobs):
    x = blobs[0]
    distance, index = od.neighbors(FLAT, x, 3)
    D = np.linalg.norm((x[:, None] - x) * SCALE, axis=2)
    np.fill_diagonal(D, np.inf)
    np.testing.assert_allclose(distance, np.sort(D, axis=1)[:, :3], rtol=1e-6)
    np.testing.assert_allclose(D[np.arange(len(x))[:, None], index], distance, rtol=1e-6)
    with pytest.raises(ValueError, match="k should be below the number of points, 90; 90"):
        od.neighbors(FLAT, x, 90)
