"""Paths: shapes, indexing, posterior, files, and what they say of themselves."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

import orthodrome as od
from orthodrome import judging, solving
from orthodrome.solvers import base
from problems import problem

T = np.linspace(0, 1, 11)


@pytest.fixture(scope="module")
def grid(semicircle):
    data, _, metric = semicircle
    return od.shortest_path(metric, data[:3, None], data[3:7], od.FixedPoint())


def test_shapes_follow_the_problems(grid):
    assert grid.shape == grid.length.shape == grid.converged.shape == grid.certified.shape == (3, 4)
    assert (
        grid.status.shape
        == grid.error.shape
        == grid.residual.shape
        == grid.energy.shape
        == grid.message.shape
        == (3, 4)
    )
    assert grid(T).shape == grid.velocity(T).shape == grid.acceleration(T).shape == (3, 4, 11, 2)
    assert grid(0.5).shape == (3, 4, 2) and grid.speed(T).shape == (3, 4, 11)
    assert grid.covariance(T).shape == (3, 4, 11, 2, 2) and grid.std(T).shape == (3, 4, 11, 2)
    assert grid.sample(T, 5, random_state=0).shape == (5, 3, 4, 11, 2)


def test_everything_is_numpy_float64(grid):
    for value in (
        grid.length,
        grid.energy,
        grid.error,
        grid.residual,
        grid(T),
        grid.speed(T),
        grid.covariance(T),
    ):
        assert type(value) is np.ndarray and value.dtype == np.float64
    assert type(grid[0, 0].length) is np.float64


def test_one_path_gives_scalars(semicircle):
    data, _, metric = semicircle
    path = od.shortest_path(metric, data[0], data[1])
    assert path.shape == () and np.ndim(path.length) == 0 and path(T).shape == (11, 2)
    assert path.status is od.Status.CONVERGED and isinstance(path.message, str)
    with pytest.raises(IndexError, match="single path"):
        path[0]
    with pytest.raises(TypeError, match="no len"):
        len(path)


def test_indexing_takes_the_same_paths(grid):
    assert (
        len(grid) == 3
        and grid[1].shape == (4,)
        and grid[1, 2].shape == ()
        and grid[:, [0, 3]].shape == (3, 2)
    )
    np.testing.assert_array_equal(grid[1, 2](T), grid(T)[1, 2])
    np.testing.assert_array_equal(grid[grid.length > 1].length, grid.length[grid.length > 1])
    with pytest.raises(IndexError):
        grid[3]


def test_problems_do_not_depend_on_the_company(semicircle, grid):
    data, _, metric = semicircle
    alone = od.shortest_path(metric, data[1], data[5], od.FixedPoint())
    np.testing.assert_allclose(alone(T), grid(T)[1, 2], atol=1e-9)
    np.testing.assert_allclose(alone.length, grid.length[1, 2], rtol=1e-9)


@pytest.mark.parametrize(
    "solver", [od.Auto(), od.Energy(), od.Graph(), od.FixedPoint(), od.Collocation()], ids=repr
)
def test_no_problems_give_no_paths(semicircle, solver):
    data, _, metric = semicircle
    path = od.shortest_path(metric, data[:0], data[0], solver)
    assert path.shape == (0,) and path(T).shape == (0, 11, 2) and "0 Paths" in repr(path)


def test_no_times_give_no_points(grid):
    assert grid([]).shape == (3, 4, 0, 2) and grid.std([]).shape == (3, 4, 0, 2)


def test_paths_are_iterated_over_and_a_single_one_is_not(grid):
    assert [row.shape for row in grid] == [(4,)] * 3 and bool(grid[0, 0])
    with pytest.raises(TypeError, match="single path"):
        list(grid[0, 0])


def test_length_squared_is_twice_the_energy_at_constant_speed():
    p = problem("sphere", 2)
    path = od.shortest_path(p.metric, p.start, p.end, od.FixedPoint(mesh=30, tol=1e-12))
    np.testing.assert_allclose(path.length**2, 2 * path.energy, rtol=1e-8)
    np.testing.assert_allclose(path.speed(T), np.tile(path.length[:, None], 11), rtol=1e-4)


def test_posterior_spread_is_zero_at_the_ends_scales_with_v_and_is_what_samples_show(semicircle):
    data, _, metric = semicircle
    path = od.shortest_path(metric, data[0], data[1], od.FixedPoint(mesh=5))
    S = np.cov(data, rowvar=False)
    step = data[1] - data[0]
    assert np.all(path.std([0.0, 1.0]) < 1e-6) and np.all(path.std(0.1) > 0)
    middle = path.covariance(0.1)
    np.testing.assert_allclose(middle / middle[0, 0], S / S[0, 0], rtol=1e-9)
    unit = path.curve.process.covariance(np.array([0.1]), np.array([0.1]))[0, 0]
    np.testing.assert_allclose(middle, unit * (step @ S @ step) * S, rtol=1e-9)
    draws = path.sample([0.1, 0.4], 20_000, random_state=0)
    np.testing.assert_allclose(np.cov(draws[:, 0].T), middle, rtol=0.05, atol=0.03 * middle[0, 0])
    np.testing.assert_allclose(
        draws.mean(axis=0), path([0.1, 0.4]), atol=5 * path.std(0.4).max() / np.sqrt(20_000) * 2
    )
    np.testing.assert_array_equal(
        path.sample(T, 2, random_state=3), path.sample(T, 2, random_state=3)
    )


def test_a_solver_without_a_posterior_gets_one(semicircle):
    data, angle, metric = semicircle
    near = data[np.argsort(angle)[[100, 120]]]
    path = od.shortest_path(metric, *near, od.Collocation())
    with pytest.raises(TypeError, match=r"path.posterior\(\) makes one"):
        path.std(0.5)
    posterior = path.posterior(mesh=30)
    np.testing.assert_allclose(posterior(T), path(T), atol=1e-4)
    assert posterior.std(0.5).shape == (2,) and "the posterior of Collocation()" in repr(posterior)
    np.testing.assert_allclose(posterior.length, path.length, rtol=1e-4)


@pytest.mark.parametrize(
    "solver", [od.FixedPoint(kernel=od.Matern()), od.Collocation()], ids=["gp", "piecewise"]
)
def test_saved_paths_come_back_the_same(semicircle, tmp_path, solver):
    data, angle, metric = semicircle
    path = od.shortest_path(
        metric, data[np.argsort(angle)[100]], data[np.argsort(angle)[[110, 120]]], solver
    )
    path.save(tmp_path / "path.npz")
    back = od.Path.load(tmp_path / "path.npz")
    assert repr(back) == repr(path) and back.shape == path.shape
    np.testing.assert_array_equal(back(T), path(T))
    np.testing.assert_array_equal(back.speed(T), path.speed(T))
    for name in [field.name for field in dataclasses.fields(path.verdict)]:
        np.testing.assert_array_equal(getattr(back.verdict, name), getattr(path.verdict, name))


def test_a_metric_that_is_a_function_is_asked_for_after_loading(tmp_path):
    p = problem("half-space", 2)
    path = od.shortest_path(p.metric, p.start, p.end)
    path.save(tmp_path / "path.npz")
    back = od.Path.load(tmp_path / "path.npz")
    np.testing.assert_array_equal(back.length, path.length)
    with pytest.raises(ValueError, match=r"Path.load\(file, metric="):
        back.speed(T)
    np.testing.assert_array_equal(
        od.Path.load(tmp_path / "path.npz", p.metric).speed(T), path.speed(T)
    )


def test_a_file_that_is_no_path_is_refused(tmp_path):
    (tmp_path / "other.npz").write_bytes(b"not a zip")
    with pytest.raises(ValueError, match="should be a file written by Path.save"):
        od.Path.load(tmp_path / "other.npz")
    np.save(tmp_path / "array.npy", np.eye(2))
    with pytest.raises(ValueError, match="should be a file written by Path.save"):
        od.Path.load(tmp_path / "array.npy")
    with pytest.raises(FileNotFoundError):
        od.Path.load(tmp_path / "none.npz")


def test_a_path_says_in_three_lines_what_was_found(grid):
    one, many = repr(grid[0, 0]).splitlines(), repr(grid).splitlines()
    assert len(one) == len(many) == 3
    assert "length" in one[1] and "not certified" in one[2] and "converged" in one[2]
    assert "12 Paths" in many[0] and "12 converged, " in many[2]


def test_a_path_is_judged_once_and_only_when_somebody_asks(monkeypatch):
    asked = []
    judge = judging.judge
    monkeypatch.setattr(base, "judge", lambda *case: asked.append(len(case[1])) or judge(*case))
    path = od.shortest_path(
        od.Pullback(lambda x: x), np.zeros((3, 2)), np.eye(3, 2) + 1, od.Energy(elements=4)
    )
    assert path(0.5).shape == (3, 2) and path.converged.all() and not asked
    assert np.isclose(path[0].length, np.sqrt(5)) and asked == [1]
    assert path.certified.all() and path.error.max() < 1e-10 and asked == [1, 3]
    assert path[:2].certified.all() and asked == [1, 3]


def test_a_solver_may_judge_only_some_of_its_blocks(monkeypatch):
    p = problem("half-space", 2)

    class Moody(od.Energy):
        def solve(self, metric, start, end, init):
            solution = super().solve(metric, start, end, init)
            verdict = (
                judging.judge(metric, solution.curve, start, end)
                if (start == p.start[0]).all()
                else None
            )
            return dataclasses.replace(solution, judged=verdict)

    monkeypatch.setattr(solving, "BLOCK", 1)
    path = od.shortest_path(p.metric, p.start[:3], p.end[:3], Moody())
    np.testing.assert_allclose(path.length, p.distance[:3], rtol=1e-8)
    assert path.certified.tolist() == [True] * 3


@pytest.mark.parametrize(
    "solver", [od.Auto(), od.Energy(), od.FixedPoint(), od.Collocation()], ids=repr
)
def test_a_path_with_other_ends_is_moved_to_these(semicircle, solver):
    data, angle, metric = semicircle
    a, b = data[np.argsort(angle)[[100, 130]]]
    near = od.shortest_path(metric, a, b - [0.02, 0.01])
    path = od.shortest_path(metric, a, b, solver, init=near)
    np.testing.assert_allclose(path([0.0, 1.0]), [a, b], atol=1e-12)
    np.testing.assert_allclose(path.length, od.distance(metric, a, b), rtol=1e-3)
    assert path.converged


def test_files_of_the_layout_before_are_still_read(semicircle, tmp_path):
    """Layout 2 named neither the kind of the curves nor the metric's class, and had no prefixes."""
    data, _, metric = semicircle
    for solver in (od.FixedPoint(), od.HennigHauberg(), od.Energy(8, 1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", od.ConvergenceWarning)
            path = od.shortest_path(metric, data[0], data[1:4], solver)
        path.save(tmp_path / "new.npz")
        arrays = dict(np.load(tmp_path / "new.npz"))
        header = json.loads(arrays.pop("header").tobytes())
        curve, _ = header.pop("curve"), header.pop("metric")
        if "kernel" in curve:
            kernel = curve["kernel"] | {"name": curve["kernel"]["name"].rpartition(".")[2]}
            noisy = isinstance(solver, od.HennigHauberg)
            header |= {"noisy kernel" if noisy else "kernel": kernel}
            header |= {"calibrated": curve["calibrated"]} if "calibrated" in curve else {}
        header["format"] = 2
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        plain = {name.removeprefix("curve_"): array for name, array in arrays.items()}
        del plain["metric_truncation"]
        np.savez(tmp_path / "old.npz", header=text, **plain)
        old = od.Path.load(tmp_path / "old.npz")
        np.testing.assert_array_equal(old(0.3), path(0.3))
        np.testing.assert_array_equal(old.length, path.length)
        np.testing.assert_array_equal(old.speed(0.3), path.speed(0.3))
