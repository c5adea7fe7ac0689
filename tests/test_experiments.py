"""The experiments: every one runs small, draws from what it saved, goes on after a kill; and what
they are made of."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal

import orthodrome as od
from orthodrome import experiments
from orthodrome.curves import GaussianProcess, GPCurve
from orthodrome.experiments import (
    base,
    condition,
    contest,
    digits,
    failures,
    half_sphere,
    land,
    latent,
    scaling,
    variants,
)
from orthodrome.experiments.contest import BVP4, BVP5, OURS
from problems import problem

pytestmark = pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")

# as few different sizes as possible: each compiles
TINY = {
    "condition": {"grid": 6},
    "tangent": {"points": 20},
    "steps": {"shown": 1},
    "plateau": {"problems": 2, "counts": [0, 2, 8]},
    "semicircle": {"every": 66},
    "failures": {"points": 200, "picks": 3, "for_bvp": 1, "max_nodes": 60},
    "dimensions": {"points": 200, "targets": 3, "dims": [2], "for_bvp": {"2": 2}},
    "land": {"points": 100, "fresh": 10, "seconds": 0.1, "mixtures": [land.LINEAR, OURS]},
    "half-sphere": {"points": 100, "epochs": 3, "picks": 3, "for_bvp": 2},
    "split-sphere": {"points": 100, "epochs": 3, "targets": 3, "solvers": [OURS, BVP5]},
    "challenging": {"seeds": 1},
    "scaling": {"points": 200, "targets": 3, "dims": [2], "meshes": [5, 10]},
    "constant-speed": {"tol": 0.1, "strict_tol": 1e-2},
    "robustness": {"meshes": [10]},
    "digits": {"train": 60, "epochs": 2, "many": 8, "few": 4, "repeats": 1, "max_iter": 1},
    "ablation": {"every": 60, "meshes": [10]},
}


def small(name):
    return dataclasses.replace(experiments.EXPERIMENTS[name], quick=TINY[name])


@pytest.fixture
def cheap(monkeypatch, name):
    """Nearly flat latent spaces and settings that compile little: the experiments are tested here,
    not the solvers."""
    monkeypatch.setattr(latent, "MODEL", {"hidden": (4,), "variance": None})
    monkeypatch.setattr(
        digits, "MODEL", {"hidden": (4,), "activation": "softplus", "variance": None}
    )
    monkeypatch.setattr(
        digits, "SOLVERS", {who: od.FixedPoint(max_iter=5) for who in digits.SOLVERS}
    )
    monkeypatch.setattr(land, "SOLVERS", {OURS: od.FixedPoint(max_iter=50)})
    monkeypatch.setattr(failures, "DATA", {"two moons": od.datasets.two_moons})
    if name in ("half-sphere", "split-sphere"):
        few = {
            OURS: od.FixedPoint(max_iter=20),
            BVP4: od.Collocation(max_nodes=20),
            BVP5: od.Collocation(max_nodes=20, order=5),
        }
        monkeypatch.setattr(contest, "solvers", lambda *settings: few)


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_every_experiment_computes_saves_draws_and_says_what_it_measured(name, tmp_path, cheap):
    said = []
    first = base.perform(small(name), tmp_path / name, "quick", 0, base.Tell(said.append))
    assert said and first.seconds > 0 and first.codes == [base.code()]
    assert not {"nan", "inf"} & set(re.findall(r"[a-z]+", first.measured.lower()))
    assert json.loads((tmp_path / name / "summary.json").read_text())["measured"] == first.measured
    assert all(len(row) == len(first.table[0]) for row in first.table)
    figure = tmp_path / name / "figure.png"
    assert figure.stat().st_size > 5_000
    figure.unlink()
    # nothing is computed again
    again = base.perform(small(name), tmp_path / name, "quick", 0, base.Tell(pytest.fail))
    assert again == first and figure.exists()


def test_settings_of_both_scales_have_the_same_names():
    for experiment in experiments.EXPERIMENTS.values():
        assert set(experiment.quick) == set(experiment.full) == set(TINY[experiment.name])


# --- what is kept ---


def toy(make):
    compute = lambda run: {"parts": [run.part(f"part-{k}", make, k) for k in range(3)]}
    figure = lambda results: plt.figure()
    total = lambda results: f"{sum(float(part['x']) for part in results['parts']):g}"
    return base.Experiment("toy", "Toy", "3", {"n": 1}, {"n": 2}, compute, figure, total)


def test_what_is_stopped_goes_on_where_it_was(tmp_path):
    made = []

    def make(k):
        if k == 2 and len(made) == 2:
            made.append("stopped")
            raise KeyboardInterrupt
        made.append(k)
        return {"x": k}

    with pytest.raises(KeyboardInterrupt):
        base.perform(toy(make), tmp_path, "quick", 0, base.Tell())
    assert base.perform(toy(make), tmp_path, "quick", 0, base.Tell()).measured == "3"
    assert made == [0, 1, "stopped", 2]
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize(
    ("scale", "seed", "told"),
    [("quick", 1, "seed was 0 and is 1"), ("full", 0, "n was 1 and is 2")],
)
def test_a_folder_with_other_settings_is_refused_and_keeps_its_results(tmp_path, scale, seed, told):
    base.perform(toy(lambda k: {"x": k}), tmp_path, "quick", 0, base.Tell())
    with pytest.raises(ValueError, match=f"{told}.*choose another folder"):
        base.perform(toy(lambda k: {"x": -k}), tmp_path, scale, seed, base.Tell())
    assert base.perform(toy(pytest.fail), tmp_path, "quick", 0, base.Tell()).measured == "3"


def test_a_run_that_is_killed_goes_on_and_ends_as_if_it_had_not_been(tmp_path):
    command = [
        sys.executable,
        "-m",
        "orthodrome",
        "reproduce",
        "condition",
        "plateau",
        "--out",
        str(tmp_path),
    ]
    waited_for = tmp_path / "quick" / "plateau" / "hennig-hauberg.npz"
    killed = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while not waited_for.exists():
        assert killed.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    before = waited_for.stat().st_mtime_ns
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert waited_for.stat().st_mtime_ns == before
    assert done.stdout.count("paper:") == done.stdout.count("measured:") == 2
    report = (tmp_path / "quick" / "report.md").read_text()
    assert "Fig. 1" in report and "Hennig & Hauberg cannot converge" in report
    parts = {
        part: dict(np.load(tmp_path / "quick" / "plateau" / f"{part}.npz"))
        for part in ("hennig-hauberg", "algorithm-1")
    }
    theirs, ours = (np.median(part["residual"], axis=1) for part in parts.values())
    assert (
        theirs[-1] == pytest.approx(theirs[-2], rel=0.05) and theirs[-1] > 1e-3 and ours[-1] < 1e-10
    )


def test_the_report_has_experiments_of_earlier_runs_too(tmp_path, monkeypatch):
    monkeypatch.setattr(
        experiments, "EXPERIMENTS", {name: small(name) for name in ("condition", "steps")}
    )
    for names in (["steps"], ["condition"]):
        list(experiments.reproduce(names, "quick", 0, tmp_path, base.Tell()))
    report = (tmp_path / "quick" / "report.md").read_text()
    assert report.index("| Fig. 1") < report.index("| Fig. 3") and "![Fig. 3" in report


def test_bad_names_and_missing_modules_are_refused_before_anything_runs(tmp_path, monkeypatch):
    with pytest.raises(
        ValueError, match="there is no experiment figure9: choose among condition, tangent"
    ):
        list(experiments.reproduce(["condition", "figure9"], "quick", 0, tmp_path, base.Tell()))
    with pytest.raises(ValueError, match="seed should be at least 0; -1 arrived"):
        list(experiments.reproduce([], "quick", -1, tmp_path, base.Tell()))
    needy = dataclasses.replace(small("digits"), needs=("no_such_module",))
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"digits": needy})
    with pytest.raises(ValueError, match="digits needs no_such_module: pip install"):
        list(experiments.reproduce([], "quick", 0, tmp_path, base.Tell()))
    assert not list(tmp_path.iterdir())


# --- what they measure ---


def test_the_papers_test_sees_a_straight_line_and_not_a_geodesic():
    metric, a, b = (
        problem("half-space", 2).metric,
        np.array([[-1.0, 0.5]] * 2),
        np.array([[1.0, 0.5], [1.0, 2.0]]),
    )
    good = contest.judged(metric, a, b, od.Auto(rtol=1e-8), 10, alone=True)
    assert (
        not contest.failed_between(good).any()
        and good["certified"].all()
        and np.all(good["seconds"] > 0)
    )
    np.testing.assert_allclose(
        good["length"], np.arccosh(1 + np.sum((a - b) ** 2, 1) / (2 * a[:, 1] * b[:, 1])), rtol=1e-6
    )
    bad = contest.judged(metric, a, b, od.FixedPoint(tol=1e6), 10, alone=False)
    # its own word, and what its curve is
    assert bad["converged"].all() and contest.failed(bad).all()


def test_a_curve_may_pass_at_the_knots_and_fail_between_them():
    waves = od.MetricTensor(lambda x: jnp.eye(2) * (1.2 + jnp.sin(9 * jnp.pi * x[0] * 2) * x[1]), 2)
    row = contest.judged(
        waves, np.array([[0.0, 0.3]]), np.array([[1.0, 0.3]]), od.FixedPoint(), 10, alone=False
    )
    assert row["between"][0] > 10 * row["at_knots"][0]


def test_shares_are_of_the_right_curves():
    row = lambda length, converged, certified, knots: {
        "length": np.array(length),
        "converged": np.array(converged),
        "certified": np.array(certified),
        "at_knots": np.array(knots),
        "between": np.array(knots),
        "seconds": np.ones(len(length)),
    }
    rows = {
        "a": row([1.0, 2.0, 3.0], [True, True, False], [False, True, False], [0.0, 0.0, 0.0]),
        "b": row([0.9, 2.5], [True, True], [False, True], [0.2, 0.05]),
    }
    np.testing.assert_array_equal(contest.shortest(rows), [0.9, 2.0, 3.0])
    np.testing.assert_array_equal(contest.failed(rows["b"]), [True, False])
    np.testing.assert_array_equal(contest.too_long(rows)["a"], [True, False, False])
    np.testing.assert_array_equal(contest.too_long(rows)["b"], [False, True])
    assert contest.failures(rows) == "a 33% (0%), b 0% (50%) of 2"
    assert contest.table(rows)[2][:4] == ["b", "2", "0%", "50%"]
    nothing = {key: value[:0] for key, value in rows["a"].items()}
    assert contest.percent(contest.failed(nothing)) == contest.milliseconds(nothing) == "–"


def test_a_condition_number_is_that_of_differences(semicircle):
    _, _, metric = semicircle
    x, h = np.array([[0.3, 0.8], [-0.9, 0.4]]), 1e-6
    for point, value in zip(x, condition.log_condition(metric, x), strict=True):
        ahead, back = (
            metric.acceleration(point + s * h * np.eye(2), np.tile(condition.VELOCITY, (2, 1)))
            for s in (1, -1)
        )
        assert value == pytest.approx(
            np.log10(np.linalg.cond((ahead - back).T / (2 * h))), abs=1e-3
        )


def test_the_pair_that_is_drawn_is_the_one_that_differs_most():
    row = lambda length, converged: {"length": np.array(length), "converged": np.array(converged)}
    rows = {
        OURS: row([1.0, 1.0, 1.0, 9.0], [True, True, False, True]),
        BVP4: row([1.1, 5.0, 90.0], [True, False, True]),
        BVP5: row([1.0, 1.5, 80.0], [True, True, True]),
    }
    assert half_sphere.differing(rows) == 1
    rows[BVP4]["length"][0] = 0.5  # also where Algorithm 1's is the longer one
    assert half_sphere.differing(rows) == 0
    assert half_sphere.differing({who: row([np.nan], [False]) for who in rows}) == 0


def test_growth_finds_the_power():
    rows = {3: {mesh: {"seconds": np.full(4, mesh**0.5)} for mesh in (5, 10, 50)}}
    assert scaling.growth({"rows": rows}) == pytest.approx(0.5)


def test_errors_and_accuracies_are_of_the_best_matching():
    assert land.clustering_error(np.array([1, 1, 0, -1]), np.array([0, 0, 1, 1])) == 0.25
    assert digits.accuracy(np.array([2, 2, 0, 1, -1]), np.array([0, 0, 1, 2, 2])) == 0.8


def test_the_generating_density_of_the_moons_integrates_to_one():
    grid = np.stack(np.meshgrid(np.arange(-2, 3, 0.1), np.arange(-2, 2.5, 0.1)), -1).reshape(-1, 2)
    assert np.exp(land.log_generating(grid, angles=300)).sum() * 0.1**2 == pytest.approx(
        1, abs=1e-3
    )


# --- variants of Algorithm 1 ---


@pytest.fixture(scope="module")
def some(semicircle):
    data, angle, metric = semicircle
    order = np.argsort(angle)
    return metric, data[order[[40, 40, 60]]], data[order[[90, 150, 65]]]


def test_the_loop_of_the_ablation_is_algorithm_1(some):
    metric, a, b = some
    mine, theirs = (
        variants.iterate(metric, a, b, variants.constant(10, 1e-7)),
        od.shortest_path(metric, a, b, od.FixedPoint()),
    )
    np.testing.assert_array_equal(mine.iterations, theirs.iterations)
    for rows, curve in mine.curves:
        np.testing.assert_allclose(curve.z, theirs.curve.z[rows], rtol=1e-5, atol=1e-6)
    assert sorted(np.concatenate([rows for rows, _ in mine.curves])) == [0, 1, 2]
    assert mine.converged.all() and np.all(mine.evaluations >= 10 * (1 + mine.iterations))


def test_updates_one_after_another_end_in_a_fixed_point_too(some):
    metric, a, b = some
    found = variants.iterate(
        metric, a[2:], b[2:], variants.constant(10, 1e-7), one_by_one=True, tol=1e-10
    )
    exact = od.shortest_path(metric, a[2], b[2], od.FixedPoint(tol=1e-10))
    assert found.converged.all()
    np.testing.assert_allclose(found.curves[0][1].z[0], exact.curve.z[0], atol=1e-3)


def test_annealed_noise_falls_until_it_is_not_safe():
    process = variants.annealed(10, 1e-7)
    assert [process(i).noise for i in (0, 1, 2, 7)] == pytest.approx([1e-7, 1e-7, 5e-8, 1e-7 / 7])
    least = variants.annealed(50, 1e-8)(1000).noise
    assert 1e-11 < least < 1e-8


@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, 0), (2, 1), (2, 2)])
def test_a_wiener_kernel_is_the_covariance_of_an_integrated_motion(i, j):
    t, s = np.array([0.3, 0.9]), np.array([0.5])
    rest = lambda m, n, x, y: (
        x**m * y**n / np.prod(np.arange(1, m + 1)) / np.prod(np.arange(1, n + 1))
    )
    for row, x in enumerate(t):
        known = sum(rest(m - i, m - j, x, s[0]) for m in range(max(i, j), 4))
        moved, _ = quad(lambda u, x=x: rest(3 - i, 3 - j, x - u, s[0] - u), 0, min(x, s[0]))
        assert variants.IntegratedWiener().covariance(t, s, i, j)[row, 0] == pytest.approx(
            known + moved, rel=1e-12
        )


def test_only_a_kernel_that_is_not_stationary_knows_the_direction_of_time(some):
    metric, a, b = some
    t = np.linspace(0, 1, 31)
    apart = {}
    for kernel in (od.SquaredExponential(), variants.IntegratedWiener()):
        there, back = (
            od.shortest_path(metric, x, y, od.FixedPoint(kernel=kernel, tol=1e-8))
            for x, y in ((a[1], b[1]), (b[1], a[1]))
        )
        apart[type(kernel)] = np.abs(there(t) - back(t[::-1])).max()
    stationary, wiener = apart.values()
    assert stationary < 1e-4 and wiener > 10 * stationary


def test_the_likeliest_lengthscale_is_the_one_with_the_greatest_density(rng):
    knots, d = np.linspace(0, 1, 8), 2
    truth = GaussianProcess(knots, od.SquaredExponential(0.2), 1e-5)
    G = lambda process: process.prior(knots, knots, 2, 2) + process.noise * np.eye(8)
    z = np.linalg.cholesky(G(truth)) @ rng.standard_normal((5, 8, d))
    curve = GPCurve(
        GaussianProcess(knots, od.SquaredExponential(0.4), 1e-5),
        np.zeros((5, d)),
        np.ones((5, d)),
        z,
    )
    factors, S = np.array([0.25, 0.5, 1.0]), np.array([[2.0, 0.3], [0.3, 0.5]])
    for rows, factor, changed in variants.likeliest(curve, S, factors):
        assert changed.process.kernel.lengthscale == pytest.approx(0.4 * factor)
        for p in rows:

            def density(f, p=p):
                gram = np.kron(G(GaussianProcess(knots, od.SquaredExponential(0.4 * f), 1e-5)), S)
                flat = z[p].ravel()
                amplitude = flat @ np.linalg.solve(gram, flat) / len(flat)
                return multivariate_normal(cov=amplitude * gram, allow_singular=True).logpdf(flat)

            assert max(factors, key=density) == factor


# --- the command line ---


def test_the_command_line_lists_and_refuses(capsys, monkeypatch):
    from orthodrome import cli

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["orthodrome", "reproduce", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capsys.readouterr()

    code, printed = call("--list")
    assert code == 0 and all(name in printed.out for name in experiments.EXPERIMENTS)
    code, printed = call("nothing")
    assert code == 2 and "error: there is no experiment nothing" in printed.err

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "reproduce", stop)
    code, printed = call("condition")
    assert code == 130 and "the same command goes on from there" in printed.err
