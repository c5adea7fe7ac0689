"""Roads through the data: connected, measured in the metric, and followed by Dijkstra's shortest
routes."""

import gc
import weakref

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, dijkstra

import orthodrome as od
from orthodrome import roadmap as rooms
from orthodrome.roadmap import Roadmap, edge_lengths, roadmap


@pytest.fixture(scope="module")
def moons():
    data = od.datasets.two_moons(150, random_state=0)
    return data, od.LocalPCA(data, 0.15, 0.01)


def test_roads_are_symmetric_connected_and_measured(moons):
    data, metric = moons
    roads = Roadmap.of(metric, data, 5).roads
    assert abs(roads - roads.T).max() == 0 and connected_components(roads)[0] == 1
    i, j = roads.nonzero()
    np.testing.assert_allclose(roads[i, j], edge_lengths(metric, data[i], data[j]), rtol=1e-12)
    path = od.shortest_path(metric, data[i[0]], data[j[0]])
    np.testing.assert_allclose(roads[i[0], j[0]], path.length, rtol=0.2)


def test_clusters_far_apart_are_joined(rng):
    data = np.concatenate([rng.standard_normal((30, 2)) + 100 * k for k in range(3)])
    assert connected_components(Roadmap.of(od.LocalPCA(data), data, 3).roads)[0] == 1


def test_a_route_between_crossings_is_dijkstras(moons):
    data, metric = moons
    roads = Roadmap.of(metric, data, 8)
    routes, lengths = roads.routes(metric, data[:20], data[20:40], 33)
    expected = dijkstra(roads.roads, indices=np.arange(20))[np.arange(20), np.arange(20, 40)]
    np.testing.assert_allclose(lengths[:, 0], expected, rtol=1e-9)
    np.testing.assert_array_equal(routes[:, 0, 0], data[:20])
    np.testing.assert_array_equal(routes[:, 0, -1], data[20:40])


def test_detours_pass_elsewhere_and_are_not_much_longer(moons):
    data, metric = moons
    routes, lengths = Roadmap.of(metric, data, 8).routes(
        metric, data[:30], data[30:60], 33, detours=2
    )
    assert routes.shape == (30, 3, 33, 2) and np.all(
        lengths[:, 1:] <= rooms.DETOUR * lengths[:, :1] * (1 + 1e-12)
    )
    apart = np.linalg.norm(routes[:, 1] - routes[:, 0], axis=-1).max(axis=1)
    assert np.median(apart) > 0.1


def test_a_roadmap_lives_as_long_as_its_metric(moons):
    data, _ = moons
    metric = od.LocalPCA(data, 0.15, 0.01)
    kept = weakref.ref(roadmap(metric, metric.data, 10))
    gc.collect()
    assert roadmap(metric, metric.data, 10) is kept()
    del metric
    gc.collect()
    assert kept() is None


def test_solvers_with_equal_nodes_share_their_roads_and_only_a_few_are_kept(moons):
    data, _ = moons
    metric = od.LocalPCA(data, 0.15, 0.01)
    first, same = (od.Auto(nodes=data[::2]).nodes for _ in range(2))
    assert first is not same
    kept = weakref.ref(roadmap(metric, first, 10))
    assert roadmap(metric, same, 10) is kept()
    assert roadmap(metric, same, 5) is not kept()
    moved = first.copy()
    moved[0] += 1e-9
    assert roadmap(metric, moved, 10) is not kept()
    for shift in range(rooms.MOST_ROADMAPS):
        roadmap(metric, first + shift, 10)
    gc.collect()
    assert kept() is None


def test_large_data_sets_are_thinned(monkeypatch, moons):
    data, metric = moons
    monkeypatch.setattr(rooms, "MOST_NODES", 40)
    assert len(Roadmap.of(metric, data, 5).nodes) <= 40


def test_the_graph_is_a_solver_to_begin_with(moons):
    data, metric = moons
    route = od.shortest_path(metric, data[:5], data[5:10], od.Graph())
    assert route.converged.all() and not route.certified.any()
    path = od.shortest_path(metric, data[:5], data[5:10], od.Energy(), init=route)
    assert path.certified.all() and np.all(path.length <= route.length)


def test_without_data_the_graph_asks_for_points():
    plane = od.MetricTensor(lambda x: np.eye(2), 2)
    with pytest.raises(ValueError, match="Graph needs points to walk along"):
        od.shortest_path(plane, [0.0, 0], [1.0, 1], od.Graph())
    nodes = np.random.default_rng(0).uniform(-1, 2, (200, 2))
    route = od.shortest_path(plane, [0.0, 0], [1.0, 1], od.Graph(nodes))
    assert route.length < 1.2 * np.sqrt(2)
    with pytest.raises(ValueError, match="leave init out"):
        od.shortest_path(plane, [0.0, 0], [1.0, 1], od.Graph(nodes), init=route)
