"""Fixed shapes: nothing compiles twice, problems do not wait for or disturb one another, memory is
bounded."""

import gc
import os
import subprocess
import sys
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome import batching, programs

FLAT = od.MetricTensor(lambda x: jnp.eye(3), 3)


def square(metric, x):
    return {"square": x**2, "sum": x.sum(axis=1)}


def square_of_one(metric, x):
    return {"square": x**2, "sum": x.sum()}


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 256, 300, 4096, 4097, 9000])
def test_every_number_of_points_gives_each_point_its_own_value(rows):
    x = np.arange(3.0 * rows).reshape(rows, 3)
    several = batching.over_points(square, FLAT, x)
    for out in (
        several,
        *(batching.over_curves(square_of_one, FLAT, x, points=points) for points in (10, 1000)),
    ):
        np.testing.assert_array_equal(out["square"], x**2)
        np.testing.assert_array_equal(out["sum"], x.sum(axis=1))


def test_points_that_were_put_in_order_come_back_in_theirs(rng):
    metric = od.LocalPCA(rng.standard_normal((2000, 3)))
    x = rng.standard_normal((500, 3))
    assert not np.array_equal(metric.order(x), np.arange(500))
    np.testing.assert_array_equal(batching.over_points(square, metric, x)["square"], x**2)


def test_equal_shapes_do_not_recompile_nor_do_other_numbers_of_problems_nor_another_sigma(
    semicircle, count_compilations
):
    data, _, metric = semicircle
    solver = od.FixedPoint()

    def use(metric, solver, n):
        path = od.shortest_path(metric, data[0], data[1 : n + 1], solver)
        od.exp_map(metric, data[0], path.velocity(0.0))
        metric.log_volume(data[:n])

    use(metric, solver, 199)
    with count_compilations() as compiled:
        for n in (30, 18, 65, 199):
            use(metric, solver, n)
        use(od.LocalPCA(data, sigma=0.2, rho=0.03), solver, 30)
        use(metric, od.FixedPoint(tol=0.05, max_iter=500, noise=1e-6), 30)
    assert compiled == []
    with count_compilations() as compiled:
        use(metric, od.FixedPoint(mesh=11), 30)
    assert compiled  # the counter counts


def test_the_default_solver_does_not_recompile_either(semicircle, count_compilations):
    data, _, _ = semicircle

    def use(sigma, rtol):
        for n in (1, 2, 30, 199):
            od.distance(
                od.LocalPCA(data, sigma, 0.01), data[0], data[1 : n + 1], od.Auto(rtol=rtol)
            )

    use(0.15, 1e-4)
    with count_compilations() as compiled:
        use(0.15001, 1.001e-4)
    assert compiled == []


@pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")
def test_results_are_the_same_to_the_last_bit_whatever_the_number_of_threads(
    semicircle, rng, monkeypatch
):
    """As the tests compile; benchmarks/survival.py has it as users do."""
    data, _, metric = semicircle
    monkeypatch.setattr(batching, "cores", lambda: 2)
    x, v = rng.standard_normal((2, 240, 2))
    results = []
    for processes in (1, 2):
        with batching.sharing_cores(processes):
            found = [metric.accelerations(x, v), metric.squared_norms(x, v)]
            for solver in (od.FixedPoint(), od.Auto()):
                path = od.shortest_path(metric, data[:40], data[40:80], solver)
                found += [path.length, path.error, path.residual, path.iterations]
        results.append(found)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")
def test_a_problem_gets_the_same_answer_whatever_its_neighbours(semicircle, rng):
    data, _, metric = semicircle
    start, end = data[rng.integers(0, 200, 500)], data[rng.integers(0, 200, 500)]
    path = od.shortest_path(metric, start, end, od.FixedPoint(max_iter=100))
    order = rng.permutation(500)
    shuffled = od.shortest_path(metric, start[order], end[order], od.FixedPoint(max_iter=100))
    np.testing.assert_array_equal(path.status[order], shuffled.status)
    np.testing.assert_allclose(path.length[order], shuffled.length, rtol=1e-9)


TEN_THOUSAND = """
import warnings
import numpy as np
import orthodrome as od
data = od.datasets.semicircle(200, random_state=0)
pairs = np.random.default_rng(0).integers(0, 200, (2, 10_000))
warnings.simplefilter("ignore", od.ConvergenceWarning)
path = od.shortest_path(od.LocalPCA(data, 0.15, 0.01), *data[pairs], od.FixedPoint(max_iter=50))
assert path.shape == (10_000,) and path.converged.mean() > 0.9
# not getrusage: its peak is that of the process which started this one, if that was larger
print(next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_ten_thousand_problems_in_one_call_stay_under_two_gibibytes():
    well_compiled = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", TEN_THOUSAND],
        capture_output=True,
        text=True,
        check=True,
        env=well_compiled,
    )
    assert int(done.stdout) < 2 * 2**30


HIGH_DIMENSION = """
import threading
import jax.numpy as jnp, numpy as np
import orthodrome as od
metric = od.MetricTensor(lambda x: jnp.eye(20) / x[-1] ** 2, 20)
x = np.exp(0.1 * np.random.default_rng(0).standard_normal((12_288, 20)))
metric.acceleration(x, x)
threads = [threading.Thread(target=lambda: metric.acceleration(x[:4096], x[:4096])) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
path = od.shortest_path(metric, x[:300], x[300:600], od.FixedPoint())
print(path.converged.all())
"""


def test_many_problems_in_twenty_dimensions_do_not_stop_one_another():
    """Two batched LAPACK calls at once deadlock in XLA; the library must never make them, nor let
    two threads."""
    done = subprocess.run(
        [sys.executable, "-c", HIGH_DIMENSION],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "True\n"


def test_only_the_last_functions_of_users_are_kept_alive(monkeypatch):
    monkeypatch.setattr(programs, "MOST_STRANGERS", 2)

    def measured():
        size = np.full((1,), 2.0)
        metric = od.MetricTensor(lambda x: jnp.eye(2) * jnp.asarray(size)[0], 2)
        np.testing.assert_array_equal(metric.tensor([0.0, 0.0]), 2 * np.eye(2))
        return weakref.ref(metric.function)

    functions = [measured() for _ in range(4)]
    gc.collect()
    assert sum(function() is not None for function in functions) <= 2


def test_programs_that_were_not_used_for_longest_go_first(monkeypatch):
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 3)
    kept = programs.Programs()
    for name, strangers in (("a", ()), ("b", ("f",)), ("c", ())):
        kept.put(name, name.upper, strangers)
    assert kept.get("a")() == "A"  # so that b is the oldest one, whosever functions it has
    kept.put("d", "d".upper, ("f",))
    assert kept.get("b") is None and all(map(kept.get, "acd"))


def test_the_functions_that_were_not_used_for_longest_go_with_all_their_programs(monkeypatch):
    monkeypatch.setattr(programs, "MOST_STRANGERS", 2)
    kept = programs.Programs()
    for name, strangers in (("a1", ("f",)), ("a2", ("f",)), ("b", ("g",)), ("ours", ())):
        kept.put(name, name.upper, strangers)
    kept.get("a1")
    kept.put("c", "c".upper, ("h",))
    assert kept.get("b") is None and all(map(kept.get, ("a1", "a2", "ours", "c")))


def test_a_class_of_a_users_own_counts_once_however_many_programs_it_has(monkeypatch):
    class Mine(od.Metric):
        @property
        def dim(self):
            return 2

        def tensor_at(self, x):
            return jnp.eye(2)

    kept = programs.Programs()
    monkeypatch.setattr(programs, "_PROGRAMS", kept)
    metric = Mine()
    metric.tensor([0.0, 0.0])
    metric.norm([0.0, 0.0], [1.0, 0.0])
    od.shortest_path(metric, [0.0, 0.0], [1.0, 1.0], od.FixedPoint())
    assert len(kept._held) > 2
    assert len({strangers for strangers, _ in kept._held.values()}) == 1
