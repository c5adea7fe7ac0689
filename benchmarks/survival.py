"""A distance matrix of some 2,000 paths whose process is killed at random moments, and one whose
Dask worker is.

    python benchmarks/survival.py [--points 64] [--kills 10]

Both should end bit by bit as the undisturbed one does. Also says how much faster two Dask workers
are than one.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import orthodrome as od

BLOCK = 100
"""Pairs a block: small, so that there are many moments between two of them."""

ONE_CORE = {"NPROC": "1"}
"""What XLA is told: otherwise one worker keeps more than its own core busy."""


def job(points: int, folder: str | None, client: object = None) -> tuple:
    from orthodrome import distances

    od.enable_compilation_cache()
    distances.BLOCK = BLOCK
    data = od.datasets.semicircle(200, random_state=0)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    return od.distance_matrix(
        metric, data[:points], return_info=True, checkpoint=folder, client=client
    )


def same(one: tuple, two: tuple) -> bool:
    pairs = zip((one[0], *vars(one[1]).values()), (two[0], *vars(two[1]).values()), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def killed(points: int, kills: int, alone: tuple, seconds: float) -> int:
    """Kill the process at random moments after its first new block, going on each time; returns how
    many kills hit it.

    `seconds`: what all blocks take.
    """
    rng, hit = np.random.default_rng(0), 0
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "run"
        command = [sys.executable, __file__, "--points", str(points), "--child", str(folder)]
        there = lambda: len(list(folder.glob("block-*")))
        for _ in range(kills):
            before, process = there(), subprocess.Popen(command, start_new_session=True)
            while there() == before and process.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, seconds / kills))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                hit += 1
            process.wait()
            print(f"  {there()} blocks are there", flush=True)
        assert same(alone, job(points, str(folder))), "not the same"
        return hit


def on_dask(points: int, workers: int, lose_one: bool) -> tuple[float, tuple]:
    from distributed import Client, LocalCluster

    with (
        tempfile.TemporaryDirectory() as home,
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            env=ONE_CORE,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(od.enable_compilation_cache)
        client.run(job, 25, None)  # every worker compiles
        folder, victim = Path(home) / "run", next(iter(client.run(os.getpid).values()))

        def kill() -> None:
            deadline = time.monotonic() + 600
            while len(list(folder.glob("block-*"))) < 5 and time.monotonic() < deadline:
                time.sleep(0.001)
            os.kill(victim, signal.SIGKILL)

        if lose_one:
            threading.Thread(target=kill, daemon=True).start()
        began = time.perf_counter()
        found = job(points, str(folder), client)
        return time.perf_counter() - began, (np.array(found[0]), found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=64)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        job(options.points, options.child)
        return
    pairs = options.points * (options.points - 1) // 2
    job(options.points, None)  # compile
    began = time.perf_counter()
    alone = job(options.points, None)
    seconds = time.perf_counter() - began
    print(f"{pairs} paths, undisturbed: {seconds:.1f} s")
    hit = killed(options.points, options.kills, alone, seconds)
    print(
        f"kill -9 at {options.kills} random moments ({hit} of them while it ran): bit by bit the "
        "same"
    )
    many = 3 * options.points
    alone = job(many, None)
    one, found = on_dask(many, 1, lose_one=False)
    assert same(alone, found), "not the same"
    two, found = on_dask(many, 2, lose_one=False)
    assert same(alone, found), "not the same"
    pairs = many * (many - 1) // 2
    print(
        f"Dask, {pairs} paths: one worker {one:.1f} s, two {two:.1f} s, {one / two:.2f} times as "
        "fast; the same result"
    )
    lost, found = on_dask(many, 2, lose_one=True)
    assert same(alone, found), "not the same"
    print(f"Dask, one of two workers killed on the way: {lost:.1f} s; the same result")


if __name__ == "__main__":
    main()
