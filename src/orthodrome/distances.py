"""Distances between points, and all of them between many."""

import hashlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from orthodrome import _boundary, batching, solving, workers
from orthodrome._types import Array, ArrayLike
from orthodrome.checkpoint import Checkpoint
from orthodrome.matrix import KINDS, TILE, Matrix
from orthodrome.metrics import Metric
from orthodrome.progress import Report, bars
from orthodrome.solvers import Auto, Solver
from orthodrome.solving import Outcome
from orthodrome.workers import Task, Work

if TYPE_CHECKING:
    from distributed import Client

BLOCK = 512
"""Pairs solved and kept together: enough to keep every core busy, few enough to be done again after
a kill."""

FINISHED = "finished"
"""The part that says that the results are there."""

PROBES = 8
"""Points at which the tensors and accelerations of two metrics are compared that are to be the
same."""

DIGITS = 9
"""To which they are: another processor may compute the last ones otherwise."""

SHORTCUT_ROUNDS = 3
"""How often a distance matrix is searched for pairs that are nearer by way of a third point."""


def distance(
    metric: Metric,
    a: ArrayLike,
    b: ArrayLike,
    solver: Solver | None = None,
    return_info: bool = False,
) -> Any:
    """The length of the shortest path from `a` to `b`: points (..., d) that broadcast → (...).

    Where the solver did not converge, it is the true length of the curve that it returned, an upper
    bound, and the call warns. With `return_info=True` also an `Info` with converged, certified,
    status and error of each problem.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    start, end, shape = solving.require_ends(metric, a, b, ("a", "b"))
    blocks = solving.solve(metric, start, end, solver)
    outcome = Outcome.join([Outcome.of(solution) for _, solution in blocks])
    _boundary.warn_unconverged(outcome.status, "paths")
    length = outcome.length.reshape(shape)[()]
    return (length, outcome.info(shape)) if return_info else length


def distance_matrix(
    metric: Metric,
    points: ArrayLike,
    others: ArrayLike | None = None,
    solver: Solver | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    return_info: bool = False,
    *,
    checkpoint: str | FilePath | None = None,
    client: "Client | None" = None,
) -> Any:
    """All distances between the rows of `points`, (n, d) → (n, n), or from them to the rows of
    `others`, (n, m).

    Without `others` each pair is solved once; with `Auto`, those that turn out nearer by way of a
    third point are solved again from there, in up to three rounds. Work goes in blocks, so memory
    is that of the result and a little more.

    One process keeps all cores busy. `n_jobs` spreads the blocks over so many processes (-1: one a
    core) by joblib, for metrics whose compiled code runs in one thread; None leaves it to
    `joblib.parallel_config`, if that says anything, which may also name a backend with machines of
    its own. `client`, a `dask.distributed.Client`, over the workers of a Dask cluster, and a worker
    that is lost changes nothing. Each process compiles for itself, unless there is a cache
    (`enable_compilation_cache`).

    `checkpoint` names a folder in which every block is kept when it is finished: after a kill the
    same call goes on from there, and ends as if nothing had happened. A folder with another job's
    results is refused. The results are then files in it, `length.npy`, `status.npy`, `error.npy`
    and `certified.npy`, mapped into memory rather than read, so that a matrix may be larger than
    memory.

    `progress=True` shows a bar, or lines in a file. `return_info=True` also returns an `Info`, of
    arrays of that shape.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    if isinstance(others, Solver):
        raise TypeError("others should be points; a solver arrived: pass it by name, solver=...")
    x = _require_rows(metric, points, "points")
    y = x if others is None else _require_rows(metric, others, "others")
    if y.shape[1] != x.shape[1]:
        raise ValueError(
            f"points has {x.shape[1]} coordinates and others has {y.shape[1]}: pass the same "
            "number."
        )
    work, symmetric = _require_workers(metric, solver, n_jobs, client), others is None
    pairs = len(x) * (len(x) - 1) // 2 if symmetric else len(x) * len(y)
    with _opened(checkpoint, metric, x, y, symmetric, solver) as kept, bars(progress) as begin:
        if kept is not None and kept.has(FINISHED) and Matrix.lies_in(kept.folder):
            matrix = Matrix.opened(kept.folder)
        else:
            matrix = Matrix.zeros((len(x), len(y)), None if kept is None else kept.folder)
            solved = _done(lambda: _tasks(x, y, symmetric), work, kept)
            for task, outcome in _shown(solved, pairs, begin("distances")):
                matrix.put(task.at, outcome)
            if symmetric:
                matrix.mirror()
                if isinstance(solver, Auto):
                    _take_shortcuts(x, matrix, work, kept, begin)
            if kept is not None and matrix.length.size:
                kept.require_mine()
                matrix.finished()
                kept.keep(FINISHED, {})
                matrix = Matrix.opened(kept.folder)
    _boundary.warn_unconverged(matrix.status[matrix.unsolved(symmetric)], "paths", pairs)
    return (matrix.length, matrix.info()) if return_info else matrix.length


def _opened(
    folder: str | FilePath | None,
    metric: Metric,
    x: Array,
    y: Array,
    symmetric: bool,
    solver: Solver,
) -> AbstractContextManager[Checkpoint | None]:
    """What is kept of this matrix in the folder, if there is one."""
    return (
        nullcontext()
        if folder is None
        else Checkpoint(folder, _job(metric, x, y, symmetric, solver))
    )


def _tasks(x: Array, y: Array, symmetric: bool) -> Iterator[Task]:
    """The pairs to solve, each once, a block at a time."""
    for k, (i, j) in enumerate(_pairs(len(x), len(y), symmetric)):
        yield Task(f"block-{k:06d}", (i, j), x[i], y[j])


def _done(
    tasks: Callable[[], Iterator[Task]], work: Work, kept: Checkpoint | None
) -> Iterator[tuple[Task, Outcome]]:
    """Answers to the tasks, of which there may be more than memory holds: those that are kept
    first, the others as they come, to be kept."""
    if kept is None:
        yield from work(tasks())
        return
    there = set()
    for task in tasks():
        if kept.has(task.name):
            there.add(task.name)
            yield task, Outcome(**kept.read(task.name))
    for task, outcome in work(task for task in tasks() if task.name not in there):
        kept.keep(task.name, dict(zip(KINDS, outcome.columns, strict=True)))
        yield task, outcome


def _job(metric: Metric, x: Array, y: Array, symmetric: bool, solver: Solver) -> dict[str, Any]:
    """What a distance matrix depends on, so that no other one's blocks are taken for its own.

    A metric is known by its numbers and, since it may be made of any function, by its values at all
    points and halfway from each to the next.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(metric) if _is_number(leaf)]
    # the solver's repr only has the shapes of those
    arrays = [value for value in vars(solver).values() if isinstance(value, np.ndarray)]
    some = x[np.linspace(0, len(x) - 1, min(PROBES, len(x))).astype(int)]
    both = lambda points: np.concatenate([points, 0.5 * (points[1:] + points[:-1])])
    some, every = both(some), both(x)
    with np.errstate(all="ignore"):
        values = [metric.tensor(some), metric.accelerations(some, np.ones_like(some))]
        values.append(metric.norm(every, np.ones_like(every)))
    return {
        "job": "distance matrix",
        "version": importlib.metadata.version("orthodrome"),
        "points": f"{len(x)} × {x.shape[1]}, {_letters(x)}",
        "others": None if symmetric else f"{len(y)} × {y.shape[1]}, {_letters(y)}",
        "metric": f"{type(metric).__name__}, {_letters(*leaves)}",
        "values of the metric": _letters(*map(_rounded, values)),
        "solver": f"{solver!r}, {_letters(*arrays)}" if arrays else repr(solver),
        "pairs a block": BLOCK,
    }


def _is_number(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array | np.generic | int | float)


def _rounded(values: Array) -> Array:
    """To some digits of the largest of them; and the power of ten below that."""
    size = np.max(np.abs(values), initial=0.0, where=np.isfinite(values))
    power = 10.0 ** np.floor(np.log10(size or 1.0))
    return np.append(np.round(values / power, DIGITS) + 0.0, power)  # no minus zeros


def _letters(*arrays: Array) -> str:
    """A few letters that change with any number in the arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(
            f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes()
        )
    return digest.hexdigest()[:16]


def _require_workers(
    metric: Metric, solver: Solver, n_jobs: int | None, client: "Client | None"
) -> Work:
    """Where the work is to be done."""
    if client is not None:
        if n_jobs is not None:
            raise ValueError("n_jobs and client both say where to work: give one of them.")
        if not (hasattr(client, "submit") and hasattr(client, "replicate")):
            raise TypeError(
                f"client should be a dask.distributed.Client; {type(client).__name__} arrived."
            )
        return workers.on_cluster(metric, solver, client)
    count = _require_jobs(n_jobs)
    return (
        workers.here(metric, solver) if count == 1 else workers.in_processes(metric, solver, count)
    )


def _require_jobs(n_jobs: int | None) -> int:
    """How many processes; who is not asked, asks joblib, if somebody has told it anything."""
    if n_jobs is None:
        joblib = sys.modules.get("joblib")
        threads = joblib is not None and getattr(
            joblib.parallel.get_active_backend()[0], "supports_sharedmem", False
        )
        # its threads would not help
        return 1 if joblib is None or threads else joblib.effective_n_jobs(None)
    if (
        isinstance(n_jobs, bool)
        or not isinstance(n_jobs, int | np.integer)
        or n_jobs < -1
        or n_jobs == 0
    ):
        raise ValueError(
            f"n_jobs should be None, a number of processes, or -1 for one a core; {n_jobs!r} "
            "arrived."
        )
    return batching.cores() if n_jobs == -1 else int(n_jobs)


def _take_shortcuts(
    x: Array, matrix: Matrix, work: Work, kept: Checkpoint | None, begin: Callable[[str], Report]
) -> None:
    """Where the way through a third point is shorter than the path that was found, begin from
    there; in place."""
    tried = np.zeros((0, 3), dtype=int)
    for attempt in range(SHORTCUT_ROUNDS):
        ways = np.concatenate(list(_searched(matrix, attempt, kept, begin)) or [tried[:0]])
        new = ways[~np.isin(_keys(ways, len(x)), _keys(tried, len(x)))]
        if not len(new):
            return
        tried = np.concatenate([tried, new])
        i, j, k = new.T
        solved = list(_done(partial(_detours, x, matrix, i, j, k, attempt), work, kept))
        for task, outcome in solved:  # only now: the tasks were made from the matrix as it was
            row, column = task.at
            shorter = np.isfinite(outcome.length) & ~(outcome.length >= matrix.length[row, column])
            row, column, some = row[shorter], column[shorter], outcome.take(shorter)
            matrix.put((row, column), some)
            matrix.put((column, row), some)


def _keys(triples: Array, n: int) -> Array:
    """A number for each triple (Q, 3) of numbers below n."""
    keys: Array = (triples[:, 0] * n + triples[:, 1]) * n + triples[:, 2]
    return keys


def _searched(
    matrix: Matrix, attempt: int, kept: Checkpoint | None, begin: Callable[[str], Report]
) -> Iterator[Array]:
    """The detours (Q, 3) in every tile of rows, as i, j and k: each tile's search is kept."""
    n = len(matrix.length)
    report = begin(f"shorter ways, round {attempt + 1}")
    for first in range(0, n, TILE):
        name = f"ways-{attempt}-{first:06d}"
        if kept is not None and kept.has(name):
            yield kept.read(name)["ways"]
        else:
            ways = np.stack(matrix.detours(first), axis=1)
            if kept is not None:
                kept.keep(name, {"ways": ways})
            yield ways
        report(min(first + TILE, n), n, "")


def _detours(
    x: Array, matrix: Matrix, i: Array, j: Array, k: Array, attempt: int
) -> Iterator[Task]:
    """From i to k, beginning by way of j: (Q,) each."""
    for first in range(0, len(i), BLOCK):
        a, via, b = (index[first : first + BLOCK] for index in (i, j, k))
        lengths = np.stack([matrix.length[a, via], matrix.length[via, b]], axis=1)
        yield Task(f"detour-{attempt}-{_letters(a, via, b)}", (a, b), x[a], x[b], (x[via], lengths))


def _require_rows(metric: Metric, value: ArrayLike, name: str) -> Array:
    rows = metric.require_points(value, name)
    if rows.ndim != 2:
        raise ValueError(
            f"{name} should have shape (n, d), a row a point; a shape of {rows.shape} arrived."
        )
    metric.require_positive(rows, name)
    return rows


def _pairs(n: int, m: int, symmetric: bool) -> Iterator[tuple[Array, Array]]:
    """The pairs (i, j) to solve, i < j if symmetric, a block at a time."""
    before = np.concatenate(
        [[0], np.cumsum(np.arange(n - 1, -1, -1) if symmetric else np.full(n, m))]
    )
    for first in range(0, before[-1], BLOCK):
        k = np.arange(first, min(first + BLOCK, before[-1]))
        i = np.searchsorted(before, k, side="right") - 1
        yield i, k - before[i] + (i + 1 if symmetric else 0)


def _shown(
    solved: Iterator[tuple[Task, Outcome]], pairs: int, report: Report
) -> Iterator[tuple[Task, Outcome]]:
    """The same, with a bar that moves as they come."""
    done = 0
    for task, outcome in solved:
        yield task, outcome
        done += len(outcome.length)
        report(done, pairs, f"{done} of {pairs} paths")
