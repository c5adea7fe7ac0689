"""Long work survives: kills, lost workers, other people's folders."""

import os
import signal
import subprocess
import sys
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome import checkpoint, distances
from orthodrome.matrix import Matrix

SOLVER = od.FixedPoint(mesh=8, max_iter=30)
pytestmark = pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 10)


def same(one, two):
    for a, b in zip((one[0], *vars(one[1]).values()), (two[0], *vars(two[1]).values()), strict=True):
        np.testing.assert_array_equal(a, b)


# --- a folder ---


def test_a_part_is_read_back_as_it_was_kept(tmp_path):
    kept = checkpoint.Checkpoint(tmp_path / "a" / "b", {"job": 1})
    assert not kept.has("part")
    kept.keep("part", {"x": np.arange(3), "y": 0.1})
    again = checkpoint.Checkpoint(tmp_path / "a" / "b", {"job": 1})
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


def test_drafts_of_the_dead_are_swept_away_and_those_of_the_living_are_not(tmp_path):
    checkpoint.Checkpoint(tmp_path, {})
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for process in (dead.pid, os.getpid()):
        (tmp_path / f"{checkpoint.DRAFT}{process}-part.npz").write_text("half")
    checkpoint.Checkpoint(tmp_path, {})
    assert [p.name for p in tmp_path.glob(f"{checkpoint.DRAFT}*")] == [f"{checkpoint.DRAFT}{os.getpid()}-part.npz"]


def test_folders_of_others_are_refused_and_kept(tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"holds other files and no settings.json: choose an empty or a new folder"):
        checkpoint.Checkpoint(tmp_path, {})
    with pytest.raises(ValueError, match="should be a folder; it is a file"):
        checkpoint.Checkpoint(tmp_path / "letters.txt", {})
    assert [p.name for p in tmp_path.iterdir()] == ["letters.txt"]


# --- distance matrices ---


def test_a_kept_matrix_is_the_matrix_and_is_not_computed_again(semicircle, small_blocks, tmp_path, monkeypatch):
    data, _, metric = semicircle
    plain = od.distance_matrix(metric, data[:9], solver=SOLVER, return_info=True)
    call = lambda: od.distance_matrix(metric, data[:9], solver=SOLVER, return_info=True, checkpoint=tmp_path / "run")
    same(plain, call())
    monkeypatch.setattr("orthodrome.workers.solve", pytest.fail)
    again = call()
    same(plain, again)
    assert isinstance(again[0], np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "length.npy"), plain[0])


def test_shortcuts_are_kept_too(semicircle, tmp_path, monkeypatch):
    """The paths of a poor search, mended by way of third points: rerun, nothing is solved again."""
    data, angle, metric = semicircle
    points = data[np.argsort(angle)[::40]]
    poor = od.Auto(effort=1)
    found = od.distance_matrix(metric, points, solver=poor, return_info=True, checkpoint=tmp_path)
    monkeypatch.setattr("orthodrome.workers.solve", pytest.fail)
    same(found, od.distance_matrix(metric, points, solver=poor, return_info=True, checkpoint=tmp_path))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"points": slice(1, 8)}, "points was '7×2"),
        ({"others": True}, "others was None and is '3×2"),
        ({"sigma": 0.2}, "metric was 'LocalPCA"),
        (
            {"solver": od.FixedPoint(mesh=9)},
            r"solver was 'FixedPoint\(mesh=8, max_iter=30\)' and is 'FixedPoint\(mesh=9\)'",
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
    with pytest.raises(ValueError, match=f"holds results made with other settings .*{told}.*choose another folder"):
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
import sys, warnings
import numpy as np
import orthodrome as od
from orthodrome import distances

warnings.simplefilter("ignore")
distances.BLOCK = 20
data = od.datasets.semicircle(200, random_state=0)
metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
D, info = od.distance_matrix(metric, data[:25], solver=od.FixedPoint(mesh=8, max_iter=30), checkpoint=sys.argv[1], return_info=True)
np.savez(sys.argv[2], length=D, **vars(info))
"""


def test_a_matrix_whose_process_is_killed_again_and_again_ends_bit_by_bit_as_one_that_is_not(tmp_path, rng):
    command = lambda folder, out: [sys.executable, "-c", JOB, str(tmp_path / folder), str(tmp_path / out)]
    subprocess.run(command("quiet", "quiet.npz"), check=True)
    whole = len(list((tmp_path / "quiet").glob("block-*.npz")))
    assert whole == 15
    kills = 0
    for target in (1, 6, 11):  # die at a random moment after so many blocks
        process = subprocess.Popen(command("killed", "killed.npz"), start_new_session=True)
        deadline = time.monotonic() + 120
        while len(list((tmp_path / "killed").glob("block-*.npz"))) < target:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.003))
        kills += process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert kills and not (tmp_path / "killed.npz").exists()
    subprocess.run(command("killed", "killed.npz"), check=True)
    one, two = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("quiet", "killed"))
    assert one.keys() == two.keys() and all(np.array_equal(one[key], two[key], equal_nan=True) for key in one)
    assert not list((tmp_path / "killed").glob(f"{checkpoint.DRAFT}*"))


def test_failures_are_listed_with_their_pairs(semicircle):
    data, angle, metric = semicircle
    far = data[np.argsort(angle)[[0, 1, -2, -1]]]
    _, info = od.distance_matrix(metric, far, solver=od.FixedPoint(max_iter=2), return_info=True)
    listed = info.failures()
    assert {pair for pair, _ in listed} == {tuple(at) for at in np.argwhere(~info.converged).tolist()}
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
            ways = {j: D[i, j] + slack[i, j] + D[j, k] + slack[j, k] for j in range(n) if j not in (i, k)}
            if min(ways.values()) < D[i, k] - slack[i, k]:
                expected.add((i, min(ways, key=ways.get), k))
    for tile, sums in ((512, 2**19), (5, 2 * n)):
        monkeypatch.setattr("orthodrome.matrix.TILE", tile)
        monkeypatch.setattr("orthodrome.matrix.SUMS", sums)
        found = {tuple(map(int, triple)) for part in matrix.detours() for triple in zip(*part, strict=True)}
        assert found == expected and len(expected) > 50


# --- a Dask cluster ---


@pytest.fixture(scope="module")
def cluster():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as two,
        Client(two) as client,
    ):
        yield client


def test_a_cluster_gives_the_matrix_of_one_process_also_when_a_worker_dies(semicircle, small_blocks, tmp_path, cluster):
    data, _, metric = semicircle
    alone = od.distance_matrix(metric, data[:16], solver=SOLVER, return_info=True)
    same(alone, od.distance_matrix(metric, data[:16], solver=SOLVER, return_info=True, client=cluster))
    workers = [worker["pid"] for worker in cluster.run(lambda: {"pid": os.getpid()}).values()]
    assert len(set(workers)) == 2 and os.getpid() not in workers
    before, folder = set(workers), tmp_path / "run"

    def kill():
        while len(list(folder.glob("block-*.npz"))) < 3:
            time.sleep(0.001)
        os.kill(workers[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = od.distance_matrix(metric, data[:16], solver=SOLVER, return_info=True, client=cluster, checkpoint=folder)
    killer.join()
    same(alone, found)
    after = {worker["pid"] for worker in cluster.run(lambda: {"pid": os.getpid()}).values()}
    assert before - after == {workers[0]}


def test_joblib_on_dask_gives_the_same(semicircle, small_blocks, cluster):
    import joblib

    data, _, metric = semicircle
    alone = od.distance_matrix(metric, data[:9], solver=SOLVER)
    with joblib.parallel_config("dask"):
        np.testing.assert_array_equal(alone, od.distance_matrix(metric, data[:9], solver=SOLVER, n_jobs=2))


def test_what_is_no_client_is_refused(semicircle):
    data, _, metric = semicircle
    with pytest.raises(TypeError, match="client should be a dask.distributed.Client; str arrived"):
        od.distance_matrix(metric, data[:3], client="localhost")
    with pytest.raises(ValueError, match="n_jobs and client both say where to work"):
        od.distance_matrix(metric, data[:3], client="localhost", n_jobs=2)
