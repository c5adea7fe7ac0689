"""The default solver: every path certified, the shortest of the reference set found, and the same
in both directions."""

import importlib.util
import pathlib
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import orthodrome as od
from orthodrome.solvers import search
from orthodrome.status import Flaw
from problems import problem

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"
T = np.linspace(0, 1, 101)


def test_a_tighter_tolerance_is_met():
    p = problem("half-space", 2)
    path = od.shortest_path(p.metric, p.start, p.end, od.Auto(rtol=1e-10))
    assert path.certified.all()
    np.testing.assert_allclose(path.length, p.distance, rtol=1e-11)


@pytest.fixture(scope="module")
def reference():
    """Every sixth family of the reference set with its lengths: (name, metric, start, end,
    length)."""
    spec = importlib.util.spec_from_file_location(
        "families", BENCHMARKS / "reference" / "families.py"
    )
    module = sys.modules["families"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with np.load(BENCHMARKS / "reference" / "lengths.npz") as stored:
        family, length = stored["family"], stored["length"]
    chosen = [
        (k, f) for k, f in enumerate(module.families()) if k % 6 == 0 and f.start.shape[1] <= 5
    ]
    return [
        (f.name, f.metric, f.start[:10], f.end[:10], length[family == k][:10]) for k, f in chosen
    ]


def test_on_the_reference_set_paths_are_certified_shortest_and_never_too_short(reference):
    longer, certified = [], []
    for _, metric, start, end, length in reference:
        path = od.shortest_path(metric, start, end)
        assert np.all(path.length >= length * (1 - np.maximum(path.error, 1e-6)))
        longer.append(path.length / length - 1)
        certified.append(path.certified)
    assert (
        np.mean(np.concatenate(certified)) >= 0.995
        and np.mean(np.concatenate(longer) <= 1e-3) >= 0.98
    )


def test_a_coarse_curve_that_slips_through_a_ridge_does_not_outshine_the_others():
    """What the Gauss points missed is seen between them: one that lies is out, a little mistake is
    not held against it."""
    flat = od.MetricTensor(lambda x: jnp.eye(2), 2)
    t = np.linspace(0, np.pi, 97)[:, None]
    heights = (2.0, 1.0, 0.5)
    nodes = np.stack([np.concatenate([t, height * np.sin(t)], axis=1) for height in heights])[None]
    exact = np.array(
        [quad(lambda x, h=h: np.hypot(1, h * np.cos(x)), 0, np.pi)[0] for h in heights]
    )
    found = search.Search(flat, nodes[:, 0, 0], nodes[:, 0, -1], None, 0)
    found.nodes, found.length = nodes, np.array([[1.0, 3.0, exact[2]]])
    sure = search._own_lengths(flat, nodes, found.length, np.ones((1, 3), dtype=bool))
    np.testing.assert_allclose(sure[0], exact, rtol=1e-3)
    different, promising = found.different()
    assert different.all() and promising.tolist() == [[False, True, True]]


def test_a_curve_that_leaps_through_infinity_does_not_win():
    """All of infinity is one point of the sphere: coarse curves may leap there and have no length
    at all between."""
    sphere = od.MetricTensor(lambda x: 4 * jnp.eye(2) / (1 + x @ x) ** 2, 2)
    ends = np.array([[-1.08185343, -0.57973127], [1.383253, -0.08931835]])
    lift = [np.append(2 * x, 1 - x @ x) / (1 + x @ x) for x in ends]
    path = od.shortest_path(sphere, *ends)
    assert path.certified
    np.testing.assert_allclose(path.length, np.arccos(lift[0] @ lift[1]), rtol=1e-9)


@pytest.mark.parametrize("apart", [1e-15, 1e-13, 1e-10, 1e-7])
def test_points_next_to_each_other_have_the_distance_of_their_difference(semicircle, apart):
    data, _, metric = semicircle
    near = data[:3] + apart
    d, info = od.distance(metric, data[:3], near, return_info=True)
    assert info.certified.all()
    np.testing.assert_allclose(d, metric.norm(data[:3], near - data[:3]), rtol=1e-5)


def test_nodes_of_another_dimension_are_refused_by_name(semicircle):
    data, _, metric = semicircle
    with pytest.raises(ValueError, match="nodes has 3 coordinates"):
        od.shortest_path(metric, data[0], data[100], od.Auto(nodes=np.eye(3)))


def test_both_directions_are_the_same_curve(semicircle):
    data, _, metric = semicircle
    there = od.shortest_path(metric, data[:12], data[12:24], od.Auto(rtol=1e-8))
    back = od.shortest_path(metric, data[12:24], data[:12], od.Auto(rtol=1e-8))
    assert there.certified.all()
    np.testing.assert_allclose(there.length, back.length, rtol=1e-12)
    np.testing.assert_allclose(there(T), back(1 - T), atol=1e-9)
    np.testing.assert_allclose(there.velocity(T), -back.velocity(1 - T), atol=1e-8)


def test_a_problem_alone_gets_the_answer_it_gets_in_company(semicircle):
    data, _, metric = semicircle
    together = od.distance(metric, data[:20], data[20:40])
    alone = [od.distance(metric, data[i], data[20 + i]) for i in range(0, 20, 5)]
    np.testing.assert_allclose(together[::5], alone, rtol=1e-9)


def test_the_triangle_inequality_holds_within_the_errors(semicircle):
    data, _, metric = semicircle
    d, info = od.distance_matrix(metric, data[:14], return_info=True)
    assert info.certified.all()
    assert np.all(d[:, None] <= (d[:, :, None] + d[None]) * (1 + 2e-4))


def test_distances_do_not_depend_on_units_nor_on_coordinates(semicircle):
    data, _, metric = semicircle
    small = od.LocalPCA(1e-3 * data, 0.15e-3, 0.01e-6)
    d = od.distance(metric, data[:8], data[8:16])
    np.testing.assert_allclose(od.distance(small, 1e-3 * data[:8], 1e-3 * data[8:16]), d, rtol=1e-6)
    turn = lambda x: jnp.array([x[0] + 0.3 * jnp.sin(x[1]), x[1]])
    paraboloid = lambda x: jnp.concatenate([x, (x @ x)[None]])
    p = problem("paraboloid", 2)
    # where turn takes the same points
    back = lambda y: np.stack([y[:, 0] - 0.3 * np.sin(y[:, 1]), y[:, 1]], axis=1)
    bent = od.Pullback(lambda x: paraboloid(turn(x)))
    np.testing.assert_allclose(od.distance(bent, back(p.start), back(p.end)), p.distance, rtol=1e-6)


@pytest.fixture(scope="module")
def hill():
    """A round hill between two points: two ways around it, just as long."""
    surface = lambda x: jnp.array([x[0], x[1], 3 * jnp.exp(-2 * (x @ x))])
    return od.shortest_path(
        od.Pullback(surface), [-2.0, 0.1], [2.0, 0.1], od.Auto(alternatives=True)
    )


def test_alternatives_are_the_other_local_minimisers(hill):
    ways = hill.alternatives
    assert ways.shape[0] >= 2 and ways.certified.all() and np.all(np.diff(ways.length) >= 0)
    assert ways[0].length == hill.length
    assert ways(0.5)[0, 1] * ways(0.5)[1, 1] < 0  # one on either side
    assert ways.length[1] > ways.length[0] * (1 + 1e-6)
    halves = [way(T) for way in ways]
    apart = [np.abs(a - b).max() for i, a in enumerate(halves) for b in halves[:i]]
    assert min(apart) > 0.05  # no geodesic twice
    assert hill.iterations >= hill.solution.tried[0]
    assert "shortest" in ways.message[0] and not any(
        "shortest" in told for told in ways.message[1:]
    )
    assert (
        f"the shortest of {hill.solution.tried[0]} starts" in hill.message
        and hill.solution.tried[0] > 1
    )


def test_alternatives_of_many_paths_and_of_some_of_them(semicircle):
    data, _, metric = semicircle
    many = od.shortest_path(
        metric, data[:6].reshape(2, 3, 2), data[6:12].reshape(2, 3, 2), od.Auto(alternatives=True)
    )
    assert many.alternatives.shape == (2, 3)
    for i in np.ndindex(2, 3):
        np.testing.assert_array_equal(many.alternatives[i].length, many[i].alternatives.length)
        assert many.alternatives[i].length[0] == many.length[i]


def test_alternatives_that_were_not_kept_are_not_made_up(semicircle):
    data, _, metric = semicircle
    with pytest.raises(ValueError, match=r"Auto\(alternatives=True\)"):
        _ = od.shortest_path(metric, data[0], data[1]).alternatives


def test_the_same_random_state_gives_the_same_paths(semicircle):
    data, _, metric = semicircle
    a, b = (
        od.shortest_path(metric, data[:9], data[9:18], od.Auto(random_state=3)) for _ in range(2)
    )
    np.testing.assert_array_equal(a(T), b(T))


def test_from_an_init_it_stays_in_that_basin(hill):
    far = hill.alternatives[1]
    again = od.shortest_path(far.metric, far(0.0), far(1.0), init=far)
    np.testing.assert_allclose(again.length, far.length, rtol=1e-8)
    back = od.shortest_path(
        far.metric, far(1.0), far(0.0), init=od.shortest_path(far.metric, far(1.0), far(0.0))
    )
    np.testing.assert_allclose(back.length, hill.length, rtol=1e-8)


def test_a_metric_that_is_nowhere_finite_on_the_way_is_told():
    wall = od.MetricTensor(lambda x: jnp.eye(2) * jnp.where(jnp.abs(x[0]) < 0.5, jnp.nan, 1.0), 2)
    with pytest.warns(od.ConvergenceWarning, match="non-finite"):
        path = od.shortest_path(wall, [[-1.0, 0], [-2, 0]], [[1.0, 0], [-1, 1]])
    assert list(path.status) == [od.Status.NON_FINITE, od.Status.CONVERGED]
    assert np.isnan(path.length[0]) and not path.certified[0] and path.certified[1]


def test_what_cannot_be_resolved_is_told(semicircle):
    data, angle, metric = semicircle
    far = data[np.argsort(angle)[[0, -1]]]
    with pytest.warns(od.ConvergenceWarning, match="does not resolve its length to rtol"):
        path = od.shortest_path(metric, *far, od.Auto(rtol=1e-13, max_elements=32))
    assert path.status == od.Status.UNRESOLVED and not path.converged and not path.certified
    assert path.verdict.flaw[0] in (Flaw.RESIDUAL, Flaw.SPEED, Flaw.ERROR)


def test_it_is_the_default_everywhere(semicircle):
    data, _, metric = semicircle
    assert od.shortest_path(metric, data[0], data[1]).solver == "Auto()"
    v, info = od.log_map(metric, data[0], data[1:5], return_info=True)
    assert info.certified.all()
    np.testing.assert_allclose(
        metric.norm(data[0], v), od.distance(metric, data[0], data[1:5]), rtol=1e-5
    )
    np.testing.assert_allclose(od.exp_map(metric, data[0], v), data[1:5], atol=1e-3)


def test_bad_settings_get_a_sentence():
    for settings, words in (
        ({"rtol": 0}, "positive"),
        ({"effort": 0}, "at least 1"),
        ({"max_elements": 2}, "at least"),
    ):
        with pytest.raises(ValueError, match=words):
            od.Auto(**settings)
