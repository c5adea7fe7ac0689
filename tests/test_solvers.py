"""Every solver on every problem of the bank: what each promises, and what holds for all of them."""

from typing import NamedTuple

import numpy as np
import pytest

import orthodrome as od
from problems import NAMES, problem

T = np.linspace(0, 1, 301)


class Promise(NamedTuple):
    """How exact a solver's paths are, where the bank's answers are known."""

    solver: od.Solver
    length: float
    """The largest relative error of the length."""
    off: float
    """The largest distance from the true curve, between the knots too."""
    off_by_differences: float = 1e-3
    """The same on the paraboloid, where it is told by finite differences of the curve."""
    covers: float = 1e-9
    """By how much a true error may lie above the one that is claimed."""
    certified: bool = True
    """Whether all its paths are certified; otherwise only that they converge is promised."""
    more: tuple[tuple[str, int], ...] = ()
    """Problems in more dimensions than two."""


ANY_DIMENSION = tuple((name, d) for d in (5, 20) for name in NAMES)

TIGHT = od.FixedPoint(mesh=30, tol=1e-14, max_iter=400)

PROMISES = {
    "Auto": Promise(od.Auto(), 1e-7, 1e-6, covers=1e-12, more=(("sphere", 5), ("paraboloid", 20))),
    "Auto to ten digits": Promise(od.Auto(rtol=1e-10), 1e-11, 1e-6, covers=1e-12),
    "Energy": Promise(od.Energy(), 1e-9, 1e-6, covers=1e-12, more=(("half-space", 5),)),
    "Energy of parabolas": Promise(od.Energy(32, 2), 1e-6, 1e-3),
    "Energy of polylines": Promise(od.Energy(64, 1), 1e-3, 2e-2, certified=False),
    "FixedPoint": Promise(TIGHT, 1e-6, 1e-4, 1e-4, more=ANY_DIMENSION),
    "FixedPoint as in the paper": Promise(od.FixedPoint(), 5e-2, 0.2, certified=False),
    "FixedPoint, adaptive": Promise(od.FixedPoint(mesh="adaptive", tol=1e-10), 1e-5, 1e-3),
    "FixedPoint, Matern": Promise(
        od.FixedPoint(mesh=30, tol=1e-10, kernel=od.Matern()), 1e-5, 1e-3
    ),
    "FixedPoint, Anderson": Promise(od.FixedPoint(mesh=30, tol=1e-10, step="anderson"), 1e-6, 1e-4),
    "FixedPoint, Mann": Promise(
        od.FixedPoint(mesh=20, tol=1e-2, step="mann"), 5e-2, 0.2, certified=False
    ),
    "FixedPoint, Ishikawa": Promise(
        od.FixedPoint(mesh=20, tol=1e-2, step="ishikawa"), 5e-2, 0.2, certified=False
    ),
    "Collocation": Promise(od.Collocation(tol=1e-6), 1e-6, 1e-3, more=(("sphere", 5),)),
    "Collocation of order 5": Promise(
        od.Collocation(tol=1e-6, order=5), 1e-6, 1e-3, more=(("sphere", 5),)
    ),
    "HennigHauberg without noise": Promise(
        od.HennigHauberg(bound=0, velocity_bound=0, refinements=20), 5e-2, 0.2, certified=False
    ),
}

CASES = [
    (who, name, d)
    for who, promise in PROMISES.items()
    for name, d in (*((name, 2) for name in NAMES), *promise.more)
]


@pytest.mark.parametrize(("who", "name", "d"), CASES)
def test_distances_agree_with_closed_forms(who, name, d):
    p, promise = problem(name, d), PROMISES[who]
    start, end, distance = p.start, p.end, p.distance
    path = od.shortest_path(p.metric, start, end, promise.solver)
    assert path.converged.all()
    np.testing.assert_allclose(path.length, distance, rtol=promise.length)
    off = promise.off_by_differences if name == "paraboloid" else promise.off
    assert p.on_geodesic(path(T)).max() < max(off, promise.off)
    # what holds for every solver
    np.testing.assert_allclose(path(0.0), start, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(path(1.0), end, rtol=1e-14, atol=1e-14)
    assert np.all(path.length >= distance * (1 - 1e-9)), "a curve's own length is an upper bound"
    sure, wrong = path.certified, np.abs(path.length / distance - 1)
    assert np.all(wrong[sure] <= path.error[sure] + promise.covers), (
        "claimed errors cover true ones"
    )
    assert sure.all() or not promise.certified
    assert np.all(path.error[sure] <= promise.solver.rtol)


def test_every_public_solver_promises_something():
    solvers = {od.Auto, od.Energy, od.FixedPoint, od.Collocation, od.HennigHauberg}
    assert {type(promise.solver) for promise in PROMISES.values()} == solvers
    assert solvers | {od.Graph, od.Solver} == {
        value
        for value in vars(od).values()
        if isinstance(value, type) and issubclass(value, od.Solver)
    }


@pytest.mark.parametrize("who", PROMISES)
def test_from_a_point_to_itself_every_solver_stays(who):
    p = problem("sphere", 2)
    path = od.shortest_path(p.metric, p.start[:2], p.start[:2], PROMISES[who].solver)
    assert path.certified.all()
    np.testing.assert_array_equal(path.length, 0.0)
    np.testing.assert_array_equal(path(T), np.repeat(p.start[:2, None], len(T), axis=1))


@pytest.mark.parametrize("name", NAMES)
def test_a_route_along_a_graph_is_longer_than_the_shortest_path_and_a_start_for_it(name, rng):
    p = problem(name, 2)
    nodes = np.concatenate([p.start, p.end, 0.5 * (p.start + p.end)])
    route = od.shortest_path(p.metric, p.start, p.end, od.Graph(nodes=nodes, neighbours=4))
    assert route.converged.all() and np.all(route.length >= p.distance * (1 - 1e-9))
    path = od.shortest_path(p.metric, p.start, p.end, od.Energy(), init=route)
    np.testing.assert_allclose(path.length, p.distance, rtol=1e-9)
