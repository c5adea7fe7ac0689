"""At the door: bad input is refused with a sentence before any computation, and jax's settings are
left alone."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import orthodrome as od

DATA = od.datasets.semicircle(50, random_state=0)
METRIC = od.LocalPCA(DATA, sigma=0.2, rho=0.02)
FLAT = od.MetricTensor(lambda x: jnp.eye(2), 2)
POINT = DATA[0]

BAD = {
    "start of another dimension": (lambda: od.shortest_path(METRIC, [1.0, 2, 3], POINT), ValueError, "start has 3 coordinates, the metric is on 2: pass points of shape"),
    "end of another dimension": (lambda: od.distance(METRIC, POINT, [[1.0], [2.0]]), ValueError, "b has 1 coordinates, the metric is on 2"),
    "a number for a point": (lambda: od.distance(METRIC, 1.0, POINT), ValueError, r"a should have shape \(\.\.\., d\)"),
    "shapes that do not broadcast": (lambda: od.shortest_path(METRIC, DATA[:3], DATA[:4]), ValueError, r"start \(3, 2\) and end \(4, 2\) do not broadcast"),
    "ragged lists": (lambda: od.distance(METRIC, [[1.0, 2], [3.0]], POINT), ValueError, "a should be an array of numbers; rows of different lengths"),
    "NaN": (lambda: od.shortest_path(METRIC, [[0.0, 1], [np.nan, 0]], POINT), ValueError, r"start should be finite; 1 of 4 numbers are NaN or infinite, the first at \[1, 0\]"),
    "infinity": (lambda: od.log_map(METRIC, POINT, [np.inf, 0]), ValueError, "point should be finite"),
    "text": (lambda: od.distance(METRIC, ["a", "b"], POINT), TypeError, "a should be an array of real numbers; its type is"),
    "complex numbers": (lambda: od.distance(METRIC, [1j, 0], POINT), TypeError, "a should be an array of real numbers"),
    "None": (lambda: od.distance(METRIC, None, POINT), TypeError, "a should be an array of real numbers"),
    "zero sigma": (lambda: od.LocalPCA(DATA, sigma=0.0), ValueError, "sigma should be positive and finite; 0.0 arrived"),
    "negative rho": (lambda: od.LocalPCA(DATA, rho=-1), ValueError, "rho should be positive and finite; -1.0 arrived"),
    "NaN sigma": (lambda: od.LocalPCA(DATA, sigma=np.nan), ValueError, "sigma should be positive and finite; nan arrived"),
    "text sigma": (lambda: od.LocalPCA(DATA, sigma="big"), TypeError, "sigma should be a positive number; 'big' arrived"),
    "sigma as text": (lambda: od.LocalPCA(DATA, sigma="0.15"), TypeError, "sigma should be a positive number; '0.15' arrived"),
    "rho as a truth": (lambda: od.LocalPCA(DATA, rho=True), TypeError, "rho should be a positive number; True arrived"),
    "a tolerance as text": (lambda: od.FixedPoint(tol="0.1"), TypeError, "tol should be a positive number"),
    "a posterior's kernel by name": (lambda: od.shortest_path(METRIC, POINT, DATA[1]).posterior(kernel="rbf"), TypeError, "kernel should be SquaredExponential"),
    "empty data": (lambda: od.LocalPCA(np.zeros((0, 2))), ValueError, "at least 2 points; 0 arrived"),
    "single-point data": (lambda: od.LocalPCA([[1.0, 2.0]]), ValueError, "at least 2 points; 1 arrived"),
    "equal points": (lambda: od.LocalPCA(np.ones((9, 2))), ValueError, "at least 2 different points; all 9 rows are the same"),
    "flat data": (lambda: od.LocalPCA([1.0, 2.0, 3.0]), ValueError, r"data should have shape \(n, D\)"),
    "NaN data": (lambda: od.LocalPCA([[1.0, np.nan], [0, 1]]), ValueError, "data should be finite"),
    "a flat map": (lambda: od.distance(od.Pullback(lambda x: jnp.array([x[0], x[0]])), POINT, POINT), ValueError, "smallest eigenvalue .*pass a ridge"),
    "an indefinite metric": (lambda: od.distance(od.MetricTensor(lambda x: jnp.diag(jnp.array([1.0, -1.0])), 2), POINT, POINT), ValueError, "positive definite; at a = .* smallest eigenvalue -1"),
    "an asymmetric metric": (lambda: od.exp_map(od.MetricTensor(lambda x: jnp.array([[1.0, 0.5], [0, 1]]), 2), POINT, POINT), ValueError, "not finite or not symmetric"),
    "a metric that is NaN at the start": (lambda: od.distance(od.MetricTensor(lambda x: jnp.eye(2) * jnp.log(x[0]), 2), [-1.0, 0], POINT), ValueError, "not finite or not symmetric"),
    "a flat decoder": (lambda: od.distance(od.Pullback(lambda x: jnp.stack([x[0], x[0]])), POINT, DATA[1]), ValueError, "positive definite"),
    "a decoder with too few outputs": (lambda: od.distance(od.Pullback(lambda x: x[:1]), POINT, POINT), ValueError, "a has 2 coordinates and the metric's map has only 1 outputs"),
    "a decoder of another dimension": (lambda: od.distance(od.Pullback(lambda x: jnp.ones((4, 3)) @ x), POINT, POINT), ValueError, r"JAX function of one point of shape \(2,\); calling it raised"),
    "a tensor of the wrong shape": (lambda: od.MetricTensor(lambda x: x, 2), ValueError, r"should return shape \(2, 2\)"),
    "a std of another size": (lambda: od.distance(od.Pullback(lambda x: jnp.tile(x, 2), lambda x: x), POINT, POINT), ValueError, r"same size; \(4,\) and \(2,\) arrived"),
    "masked values": (lambda: od.LocalPCA(np.ma.masked_greater(DATA, 1.0)), ValueError, "data is a masked array with masked values"),
    "a solver for others": (lambda: od.distance_matrix(METRIC, DATA, od.FixedPoint()), TypeError, r"pass it by name, solver="),
    "a norm of text": (lambda: METRIC.norm(POINT, "ab"), TypeError, "v should be an array"),
    "no function": (lambda: od.Pullback(3), TypeError, "mean should be a JAX function of one point; int arrived"),
    "half a dimension": (lambda: od.MetricTensor(lambda x: x, 1.5), TypeError, "dim should be a whole number"),
    "no metric": (lambda: od.shortest_path(DATA, POINT, POINT), TypeError, "metric should be a metric such as LocalPCA"),
    "a metric class": (lambda: od.distance(od.LocalPCA, POINT, POINT), TypeError, "the class LocalPCA arrived"),
    "an unknown solver": (lambda: od.shortest_path(METRIC, POINT, POINT, solver="newton"), TypeError, r"solver should be None or a solver such as Auto\(\).*'newton' arrived"),
    "a solver class": (lambda: od.distance(METRIC, POINT, POINT, solver=od.FixedPoint), TypeError, "the class FixedPoint arrived"),
    "a mesh below 2": (lambda: od.FixedPoint(mesh=1), ValueError, "mesh should be at least 2; 1 arrived"),
    "a mesh of floats": (lambda: od.Collocation(mesh=10.0), TypeError, "mesh should be a whole number"),
    "no tolerance": (lambda: od.FixedPoint(tol=0), ValueError, "tol should be positive and finite; 0.0 arrived"),
    "a NaN tolerance": (lambda: od.Collocation(tol=np.nan), ValueError, "tol should be positive"),
    "negative noise": (lambda: od.FixedPoint(noise=-1e-7), ValueError, "noise should be positive"),
    "negative iterations": (lambda: od.FixedPoint(max_iter=-1), ValueError, "max_iter should be at least 0"),
    "fewer nodes than the mesh": (lambda: od.Collocation(max_nodes=5), ValueError, "max_nodes should be at least 10"),
    "a kernel by name": (lambda: od.FixedPoint(kernel="rbf"), TypeError, "kernel should be SquaredExponential"),
    "a rough kernel": (lambda: od.Matern(nu=1.5), ValueError, "nu should be 3.5 or 4.5; 1.5 arrived"),
    "a negative lengthscale": (lambda: od.SquaredExponential(-1.0), ValueError, "lengthscale should be positive"),
    "an init of another kind": (lambda: od.shortest_path(METRIC, POINT, POINT, init=DATA), TypeError, "init should be a Path to begin from"),
    "an init of another shape": (lambda: od.shortest_path(METRIC, POINT, DATA[:3], init=od.shortest_path(METRIC, POINT, DATA[:2])), ValueError, r"init has shape \(2,\)"),
    "a time outside the path": (lambda: od.shortest_path(METRIC, POINT, DATA[1])(1.5), ValueError, r"t should lie in \[0, 1\]"),
    "a table of times": (lambda: od.shortest_path(METRIC, POINT, DATA[1])([[0.1]]), ValueError, r"t should be a number or have shape \(T,\)"),
    "a velocity of another dimension": (lambda: od.exp_map(METRIC, POINT, [1.0, 2, 3]), ValueError, "velocity has 3 coordinates"),
    "points that are no rows": (lambda: od.distance_matrix(METRIC, POINT), ValueError, r"points should have shape \(n, d\)"),
    "others of another dimension": (lambda: od.distance_matrix(FLAT, DATA, DATA[:, :1]), ValueError, "others has 1 coordinates"),
    "a number of samples": (lambda: od.shortest_path(METRIC, POINT, DATA[1]).sample(0.5, 0), ValueError, "n should be at least 1"),
    "too small a data set": (lambda: od.datasets.sphere(1), ValueError, "n should be at least 2"),
    "negative noise in a data set": (lambda: od.datasets.curly(noise=-0.1), ValueError, "noise should be a standard deviation"),
    "an unknown name": (lambda: od.shortest_paths, AttributeError, "module 'orthodrome' has no attribute 'shortest_paths'"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_gets_a_sentence(what):
    call, kind, sentence = BAD[what]
    with pytest.raises(kind, match=sentence):
        call()


def test_a_traced_array_is_refused_with_advice():
    with pytest.raises(TypeError, match="b is being traced by jax.jit"):
        jax.jit(lambda y: od.distance(METRIC, POINT, y))(POINT)


def test_bad_input_compiles_and_computes_nothing(count_compilations):
    with count_compilations() as compiled:
        for what in (
            "NaN",
            "start of another dimension",
            "an unknown solver",
            "zero sigma",
            "a mesh below 2",
        ):
            call, kind, _ = BAD[what]
            with pytest.raises(kind):
                call()
    assert compiled == []


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        lambda x: x.tolist(),
        jnp.asarray,
        lambda x: torch.tensor(x, requires_grad=True),
        lambda x: x.astype(object),
    ],
    ids=["numpy", "list", "jax", "torch", "object"],
)
def test_any_kind_of_array_goes_in_and_numpy_float64_comes_out(convert):
    metric = od.LocalPCA(convert(DATA), sigma=0.2, rho=0.02)
    found = od.distance(metric, convert(DATA[:3]), convert(DATA[3]))
    assert type(found) is np.ndarray and found.dtype == np.float64
    exact = od.distance(METRIC, DATA[:3], DATA[3])
    # jax arrays outside the scope are float32 themselves
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_integers_are_points_too():
    assert od.distance(FLAT, [0, 0], [3, 4]) == pytest.approx(5, abs=1e-9)


def test_a_parameter_of_float32_is_computed_with_in_float64():
    scale = jnp.ones(2)  # float32: a decoder's weights
    metric = od.Pullback(lambda x: jnp.concatenate([scale * x, (x @ x)[None]]))
    # ∫₀¹ √(1 + 4r²) dr
    assert abs(od.distance(metric, [0.0, 0], [1.0, 0]) - 1.478942857544597433828) < 1e-9


def settings():
    return jax.config.jax_enable_x64, jnp.ones(1).dtype, jax.config.jax_default_matmul_precision


def test_jax_is_left_as_it_was_also_from_two_threads_at_once():
    before, seen, results = settings(), [], {}
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            seen.append(settings())

    def work(i):
        results[i] = od.distance_matrix(METRIC, DATA[10 * i : 10 * i + 10])
        seen.append(settings())

    watcher, *workers = [
        threading.Thread(target=watch),
        *(threading.Thread(target=work, args=(i,)) for i in range(2)),
    ]
    for thread in (watcher, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    watcher.join()
    path = od.shortest_path(METRIC, POINT, DATA[1])
    od.exp_map(METRIC, POINT, path.velocity(0.0))
    od.geodesic(METRIC, POINT, path.velocity(0.0))
    assert set(seen) == {before} and settings() == before
    for i in range(2):
        np.testing.assert_array_equal(
            results[i], od.distance_matrix(METRIC, DATA[10 * i : 10 * i + 10])
        )


def test_a_caller_in_float64_is_left_in_float64():
    with jax.enable_x64(True):
        od.distance(METRIC, POINT, DATA[1])
        assert jnp.ones(1).dtype == jnp.float64
