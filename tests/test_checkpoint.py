"""Long work survives: kills, lost workers, other people's folders."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import numpy as np
import psutil
import pytest

import orthodrome as od
from orthodrome import checkpoint, distances, workers
from orthodrome.matrix import Matrix

SOLVER = od.FixedPoint(mesh=8, max_iter=30)
pytestmark = pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 10)


def same(one, two):
    for a, b in zip(
        (one[0], *vars(one[1]).values()), (two[0], *vars(two[1]).values()), strict=True
    ):
        np.testing.assert_array_equal(a, b)


# --- a folder ---


def test_a_part_is_read_back_as_it_was_kept(tmp_path):
    with checkpoint.Checkpoint(tmp_path / "a" / "b", {"job": 1}) as kept:
        assert not kept.has("part")
        kept.keep("part", {"x": np.arange(3), "y": 0.1})
    with checkpoint.Checkpoint(tmp_path / "a" / "b", {"job": 1}) as again:
        assert again.has("part") and again.read("part")["y"] == 0.1
        np.testing.assert_array_equal(again.read("part")["x"], [0, 1, 2])


def test_what_fails_while_it_is_written_leaves_what_was_there(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("old")

    def half(draft):
        draft.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(file, half)
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_only_one_at_a_time_works_in_a_folder_and_drafts_of_the_dead_are_swept_away(tmp_path):
    with checkpoint.Checkpoint(tmp_path, {}):
        (tmp_path / f"{checkpoint.DRAFT}part.npz").write_text("half")
        with pytest.raises(
            ValueError, match="another process works in .*: wait for it, or choose another folder"
        ):
            checkpoint.Checkpoint(tmp_path, {})
        assert list(tmp_path.glob(f"{checkpoint.DRAFT}*"))
    with checkpoint.Checkpoint(tmp_path, {}):
        assert not list(tmp_path.glob(f"{checkpoint.DRAFT}*"))


def test_a_damaged_part_is_named(tmp_path):
    with checkpoint.Checkpoint(tmp_path, {}) as kept:
        (tmp_path / "part.npz").write_bytes(b"PK not really")
        with pytest.raises(
            ValueError, match=r"part.npz is damaged .*: remove it, and it is made anew"
        ):
            kept.read("part")


def test_a_part_of_something_else_is_not_taken(tmp_path):
    with checkpoint.Checkpoint(tmp_path / "one", {"sigma": 1}) as kept:
        kept.keep("a", {"x": 1})
        kept.keep("b", {"x": 2})
    with checkpoint.Checkpoint(tmp_path / "two", {"sigma": 2}) as other:
        (tmp_path / "one" / "a.npz").rename(tmp_path / "two" / "a.npz")
        with pytest.raises(ValueError, match="it is a part of something else"):
            other.read("a")
    with checkpoint.Checkpoint(tmp_path / "one", {"sigma": 1}) as kept:
        (tmp_path / "one" / "b.npz").rename(tmp_path / "one" / "a.npz")
        with pytest.raises(ValueError, match="it is a part of something else"):
            kept.read("a")


def test_who_lost_the_folder_to_another_job_writes_nothing_there(tmp_path):
    with checkpoint.Checkpoint(tmp_path / "run", {"sigma": 1}) as first:
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(
            ValueError, match="was removed while this was working in it: begin again"
        ):
            first.keep("a", {"x": 1})
        with checkpoint.Checkpoint(tmp_path / "run", {"sigma": 2}) as second:
            with pytest.raises(ValueError, match="was removed while this was working in it"):
                first.keep("a", {"x": 1})
            assert not second.has("a")


def test_damaged_settings_are_named(tmp_path):
    for damaged in ("", "[1, 2]"):
        (tmp_path / checkpoint.JOB).write_text(damaged)
        with pytest.raises(ValueError, match=r"settings.json is damaged .*: choose another folder"):
            checkpoint.Checkpoint(tmp_path, {})


def test_folders_of_others_are_refused_and_kept(tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(
        ValueError, match=r"holds other files and no settings.json: choose an empty or a new folder"
    ):
        checkpoint.Checkpoint(tmp_path, {})
    with pytest.raises(ValueError, match="should be a folder; it is a file"):
        checkpoint.Checkpoint(tmp_path / "letters.txt", {})
    assert [p.name for p in tmp_path.iterdir()] == ["letters.txt"]


# --- distance matrices ---


def test_a_kept_matrix_is_the_matrix_and_is_not_computed_again(
    semicircle, small_blocks, tmp_path, monkeypatch
):
    data, _, metric = semicircle
    plain = od.distance_matrix(metric, data[:9], solver=SOLVER, return_info=True)
    call = lambda: od.distance_matrix(
        metric, data[:9], solver=SOLVER, return_info=True, checkpoint=tmp_path / "run"
    )
    same(plain, call())
    monkeypatch.setattr("orthodrome.workers.solve", pytest.fail)
    first = call()
    again = call()
    same(plain, again)
    same(plain, first)  # also while the same files are made anew
    assert isinstance(again[0], np.memmap)
    again[0][0, 1] = -1  # a copy of one's own
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "length.npy"), plain[0])


def test_a_path_that_is_too_long_is_mended_by_way_of_a_third_point_and_that_is_kept_too(
    semicircle, tmp_path, monkeypatch
):
    data, angle, metric = semicircle
    points = data[np.argsort(angle)[[0, 60, 30, 90]]]  # the first two have the third between them
    right, solve = od.distance_matrix(metric, points), workers.solve

    def poor(metric, solver, task):
        outcome = solve(metric, solver, task)
        longer = dataclasses.replace(outcome, length=outcome.length * [3, 1, 1, 1, 1, 1])
        return outcome if task.detour else longer

    monkeypatch.setattr(workers, "solve", poor)
    found = od.distance_matrix(metric, points, return_info=True, checkpoint=tmp_path)
    np.testing.assert_allclose(found[0], right, rtol=1e-4)
    assert len(list(tmp_path.glob("detour-*"))) == 1
    monkeypatch.setattr(workers, "solve", pytest.fail)
    (tmp_path / "finished.npz").unlink()  # as if it had been killed before
    (tmp_path / "length.npy").unlink()
    monkeypatch.setattr(Matrix, "detours", pytest.fail)  # the search is kept as well
    same(found, od.distance_matrix(metric, points, return_info=True, checkpoint=tmp_path))
    # nothing is done any more
    same(found, od.distance_matrix(metric, points, return_info=True, checkpoint=tmp_path))


def test_a_metric_that_differs_at_one_point_only_is_another_job(rng, tmp_path):
    def hill(height):
        return od.MetricTensor(
            lambda x: jnp.eye(2) * (1 + height * (jnp.sum(jnp.abs(x - points[17])) < 1e-6)), 2
        )

    points = rng.standard_normal((40, 2))
    solver = od.Energy(elements=2, degree=1)
    od.distance_matrix(hill(0.0), points, points[:1], solver=solver, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="values of the metric was"):
        od.distance_matrix(hill(1.0), points, points[:1], solver=solver, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"points": slice(1, 8)}, "points was '7 × 2, .*and is '7 × 2"),
        ({"others": True}, "others was None and is '3 × 2"),
        ({"sigma": 0.2}, "metric was 'LocalPCA"),
        (
            {"solver": od.FixedPoint(mesh=9)},
            r"solver was 'FixedPoint\(mesh=8, max_iter=30\).* and is 'FixedPoint\(mesh=9\)",
        ),
    ],
)
def test_another_job_is_refused_and_the_first_one_kept(semicircle, tmp_path, change, told):
    data, _, _ = semicircle

    def call(points=slice(0, 7), others=False, sigma=0.15, solver=SOLVER):
        other = od.LocalPCA(data, sigma=sigma, rho=0.01)
        rest = data[10:13] if others else None
        return od.distance_matrix(other, data[points], rest, solver=solver, checkpoint=tmp_path)

    first = np.array(call())
    with pytest.raises(
        ValueError, match=f"holds results made with other settings .*{told}.*choose another folder"
    ):
        call(**change)
    np.testing.assert_array_equal(first, call())


def test_metrics_of_the_same_code_with_other_values_are_other_jobs(tmp_path):
    def stretched(by):
        return od.MetricTensor(lambda x: jnp.eye(2) * by, 2)

    points = np.array([[0.0, 0], [1, 0], [0, 2]])
    od.distance_matrix(stretched(1.0), points, solver=SOLVER, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="values of the metric was"):
        od.distance_matrix(stretched(4.0), points, solver=SOLVER, checkpoint=tmp_path)


JOB = """
import os, pathlib, signal, sys, warnings
import numpy as np
import orthodrome as od
from orthodrome import distances

folder, out, moment = sys.argv[1], sys.argv[2], float(sys.argv[3])
written, replace = [], pathlib.Path.replace

def replace_or_die(draft, file):  # before or after a file gets its name, when so many have got theirs
    written.append(file)
    if len(written) == moment + 0.5:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(draft, file)
    if len(written) == moment:
        os.kill(os.getpid(), signal.SIGKILL)

pathlib.Path.replace = replace_or_die
warnings.simplefilter("ignore")
distances.BLOCK = 20
data = od.datasets.semicircle(200, random_state=0)
metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
solver = od.FixedPoint(mesh=8, max_iter=30)
D, info = od.distance_matrix(metric, data[:25], solver=solver, checkpoint=folder, return_info=True)
np.savez(out, length=D, **vars(info))
"""


def test_a_matrix_whose_process_is_killed_again_and_again_ends_bit_by_bit_as_one_that_is_not(
    tmp_path,
):
    def run(folder, moment):
        words = [
            sys.executable,
            "-c",
            JOB,
            str(tmp_path / folder),
            str(tmp_path / f"{folder}.npz"),
            str(moment),
        ]
        return subprocess.run(words).returncode

    assert run("quiet", 0) == 0
    assert len(list((tmp_path / "quiet").glob("block-*.npz"))) == 15
    for moment in (
        0.5,
        3,
        5.5,
        8.5,
    ):  # while its settings are written; between two blocks; within one; before a result
        assert (
            run("killed", moment) == -signal.SIGKILL
            and not (tmp_path / "killed" / "length.npy").exists()
        )
    assert len(list((tmp_path / "killed").glob("block-*.npz"))) == 2 + 5 + 8
    assert run("killed", 0) == 0
    one, two = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("quiet", "killed"))
    assert one.keys() == two.keys() and all(
        np.array_equal(one[key], two[key], equal_nan=True) for key in one
    )
    assert not list((tmp_path / "killed").glob(f"{checkpoint.DRAFT}*"))


def test_failures_are_listed_with_their_pairs(semicircle):
    data, angle, metric = semicircle
    far = data[np.argsort(angle)[[0, 1, -2, -1]]]
    _, info = od.distance_matrix(metric, far, solver=od.FixedPoint(max_iter=2), return_info=True)
    listed = info.failures()
    assert {pair for pair, _ in listed} == {
        tuple(at) for at in np.argwhere(~info.converged).tolist()
    }
    assert all("out of budget" in reason for _, reason in listed)


# --- the triangle inequality, in tiles ---


def test_detours_are_those_of_a_plain_search_whatever_the_tiles(rng, monkeypatch):
    n = 23
    matrix = Matrix.zeros((n, n), None)
    matrix.length[:] = np.triu(rng.uniform(1, 9, (n, n)), 1)
    matrix.error[:], matrix.certified[:] = 1e-3, rng.uniform(size=(n, n)) < 0.5
    matrix.length[2, 9] = matrix.length[3, 4] = np.nan
    matrix.mirror()
    np.testing.assert_array_equal(matrix.length, matrix.length.T)
    D = np.where(np.isfinite(matrix.length), matrix.length, np.inf)
    slack = np.where(matrix.certified & np.isfinite(D), 1e-3 * D, 0)
    expected = set()
    for i in range(n):
        for k in range(i + 1, n):
            ways = {
                j: D[i, j] + slack[i, j] + D[j, k] + slack[j, k]
                for j in range(n)
                if j not in (i, k)
            }
            if min(ways.values()) < D[i, k] - slack[i, k]:
                expected.add((i, min(ways, key=ways.get), k))
    for tile, sums in ((512, 2**19), (5, 2 * n)):
        monkeypatch.setattr("orthodrome.matrix.TILE", tile)
        monkeypatch.setattr("orthodrome.matrix.SUMS", sums)
        parts = [matrix.detours(first) for first in range(0, n, tile)]
        found = {tuple(map(int, triple)) for part in parts for triple in zip(*part, strict=True)}
        assert found == expected and len(expected) > 50


# --- a Dask cluster ---


@pytest.fixture(scope="module")
def cluster():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",
        ) as two,
        Client(two) as client,
    ):
        yield client


def test_a_cluster_gives_the_matrix_of_one_process_also_when_a_worker_dies(
    semicircle, small_blocks, tmp_path, cluster
):
    data, _, metric = semicircle
    alone = od.distance_matrix(metric, data[:16], solver=SOLVER, return_info=True)
    same(
        alone,
        od.distance_matrix(metric, data[:16], solver=SOLVER, return_info=True, client=cluster),
    )
    processes = list(cluster.run(os.getpid).values())
    assert len(set(processes)) == 2 and os.getpid() not in processes
    folder, deadline = tmp_path / "run", time.monotonic() + 120

    def kill():
        while len(list(folder.glob("block-*.npz"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(processes[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    found = od.distance_matrix(
        metric, data[:16], solver=SOLVER, return_info=True, client=cluster, checkpoint=folder
    )
    killer.join()
    same(alone, found)
    assert len(list(folder.glob("block-*.npz"))) == 12
    while (
        psutil.pid_exists(processes[0])
        and psutil.Process(processes[0]).status() != psutil.STATUS_ZOMBIE
    ):
        assert time.monotonic() < deadline  # it is really dead
        time.sleep(0.01)


def test_joblib_on_dask_gives_the_same(semicircle, small_blocks, cluster, monkeypatch):
    import joblib

    data, _, metric = semicircle
    alone = od.distance_matrix(metric, data[:9], solver=SOLVER)
    with joblib.parallel_config("dask"):
        np.testing.assert_array_equal(
            alone, od.distance_matrix(metric, data[:9], solver=SOLVER, n_jobs=2)
        )
        monkeypatch.setattr(workers, "here", pytest.fail)
        np.testing.assert_array_equal(alone, od.distance_matrix(metric, data[:9], solver=SOLVER))


def test_without_a_backend_of_joblib_the_work_is_done_here():
    import joblib

    assert distances._require_jobs(None) == 1
    with joblib.parallel_config("loky", n_jobs=2):
        assert distances._require_jobs(None) == 2 and distances._require_jobs(1) == 1
    with joblib.parallel_config("threading", n_jobs=2):
        assert distances._require_jobs(None) == 1


def test_a_worker_that_is_lost_while_the_metric_is_handed_round_changes_nothing(
    semicircle, cluster, monkeypatch
):
    def lost(*_, **__):
        raise ValueError("Sample larger than population or is negative")

    data, _, metric = semicircle
    monkeypatch.setattr(type(cluster), "replicate", lost)
    found = od.distance_matrix(metric, data[:5], solver=SOLVER, client=cluster)
    np.testing.assert_array_equal(found, od.distance_matrix(metric, data[:5], solver=SOLVER))


def test_a_cluster_without_workers_is_told_in_time(semicircle, monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    data, _, metric = semicircle
    settings = {"n_workers": 0, "host": "127.0.0.1", "dashboard_address": ":0"}
    with (
        LocalCluster(**settings) as nobody,
        Client(nobody) as client,
        pytest.raises(
            ValueError, match="the Dask cluster had no worker for 0.2 seconds: start one"
        ),
    ):
        od.distance_matrix(metric, data[:3], solver=SOLVER, client=client)


def test_a_matrix_that_is_all_kept_waits_for_no_worker(semicircle, tmp_path):
    class Nobody:
        submit = replicate = pytest.fail

    data, _, metric = semicircle
    call = lambda client: od.distance_matrix(
        metric, data[:5], solver=SOLVER, checkpoint=tmp_path, client=client
    )
    np.testing.assert_array_equal(call(None), call(Nobody()))


def test_what_is_no_client_is_refused(semicircle):
    data, _, metric = semicircle
    with pytest.raises(TypeError, match="client should be a dask.distributed.Client; str arrived"):
        od.distance_matrix(metric, data[:3], client="localhost")
    with pytest.raises(ValueError, match="n_jobs and client both say where to work"):
        od.distance_matrix(metric, data[:3], client="localhost", n_jobs=2)
