"""Where blocks of problems are solved: in this process, in several, or on the machines of a Dask
cluster."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from orthodrome import batching, solving
from orthodrome._types import Array
from orthodrome.compilation import cache_folder, enable_compilation_cache
from orthodrome.curves import end_to_end
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.solving import Outcome

if TYPE_CHECKING:
    from distributed import Client

AHEAD = 2
"""Blocks handed out for every worker: one to work on, one to go on with."""


PATIENCE = 60
"""Seconds for the first worker of a cluster to appear."""


class Task(NamedTuple):
    """A block of problems, and what it is called."""

    name: str
    at: tuple[Array, Array]
    """(P,) each: the rows and columns of the results."""
    start: Array
    end: Array
    """(P, d)"""
    detour: tuple[Array, Array] | None = None
    """Points (P, d) to begin by way of, and the lengths (P, 2) of the two ways."""


Work = Callable[[Iterator[Task]], Iterator[tuple[Task, Outcome]]]
"""Does tasks and yields each with its outcome, in any order."""


def solve(metric: Metric, solver: Solver, task: Task) -> Outcome:
    """Solve a block."""
    init = None
    if task.detour is not None:
        via, lengths = task.detour
        legs = [
            solver.solve(metric, *ends, None).curve for ends in ((task.start, via), (via, task.end))
        ]
        init = end_to_end(legs, list(lengths.T))
    blocks = solving.solve(metric, task.start, task.end, solver, init)
    outcome = Outcome.join([Outcome.of(solution) for _, solution in blocks])
    return dataclasses.replace(outcome, status=outcome.status.astype(np.int8))


def here(metric: Metric, solver: Solver) -> Work:
    """In this process, one block after the other."""
    return lambda tasks: ((task, solve(metric, solver, task)) for task in tasks)


def in_processes(metric: Metric, solver: Solver, count: int) -> Work:
    """In so many processes of joblib's, or wherever the backend that was chosen has its own."""
    import joblib

    cache = cache_folder()

    def work(tasks: Iterator[Task]) -> Iterator[tuple[Task, Outcome]]:
        parallel = joblib.Parallel(n_jobs=count, return_as="generator_unordered")
        return parallel(
            joblib.delayed(_elsewhere)(metric, solver, count, cache, task) for task in tasks
        )

    return work


def _elsewhere(
    metric: Metric, solver: Solver, processes: int, cache: str | None, task: Task
) -> tuple[Task, Outcome]:
    """In one of several processes, which share the cores and the compiled code."""
    _share_cache(cache)
    with batching.sharing_cores(processes):
        return task, solve(metric, solver, task)


def _share_cache(cache: str | None) -> None:
    """Compile into the folder that the caller uses, if it does and if this machine has room for
    one."""
    with contextlib.suppress(OSError):
        if cache is not None:
            enable_compilation_cache(cache)


def on_cluster(metric: Metric, solver: Solver, client: "Client") -> Work:
    """By the workers of a Dask client. A block whose worker is lost goes to another one.

    The metric is a task's result and not scattered: what is scattered is gone with the last worker
    that has it. Every worker there is gets it at once: tasks go where their data are.
    """
    cache = cache_folder()

    def work(tasks: Iterator[Task]) -> Iterator[tuple[Task, Outcome]]:
        from distributed import as_completed

        first = next(tasks, None)
        if first is None:  # everything was done before: no need to wait for a worker
            return
        tasks = itertools.chain([first], tasks)
        _require_a_worker(client)
        everywhere = client.submit(_same, metric, pure=False)
        with contextlib.suppress(
            Exception
        ):  # of a worker that is lost just now; who lacks the metric fetches it
            client.replicate([everywhere])
        submit = lambda task: client.submit(_on_worker, everywhere, solver, cache, task, pure=False)
        waiting = as_completed(loop=client.loop)
        begun: dict[Hashable, Task] = {}

        def hand_out() -> None:
            for task in tasks:
                future = submit(task)
                begun[future.key] = task
                waiting.add(future)
                if len(begun) >= AHEAD * max(1, sum(client.nthreads().values())):
                    return

        hand_out()
        for future in waiting:
            yield begun.pop(future.key), future.result()
            hand_out()

    return work


def _require_a_worker(client: "Client") -> None:
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ValueError(
            f"the Dask cluster had no worker for {PATIENCE} seconds: start one, and call again."
        ) from None


def _same(metric: Metric) -> Metric:
    return metric


def _on_worker(metric: Metric, solver: Solver, cache: str | None, task: Task) -> Outcome:
    """On a worker, with one core for each of its threads."""
    _share_cache(cache)
    with batching.sharing_cores(batching.cores()):
        return solve(metric, solver, task)
