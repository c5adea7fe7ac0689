"""Distances between points, and all of them between many."""

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from orthodrome import _boundary, batching, solving
from orthodrome.compilation import cache_folder, enable_compilation_cache
from orthodrome.curves import join_curves
from orthodrome.judging import Verdict, judge
from orthodrome.metrics import Metric
from orthodrome.solvers import Auto, Solver
from orthodrome.status import Status

Array = np.ndarray[Any, Any]

SHORTCUT_ROUNDS = 3
"""How often a distance matrix is searched for pairs that are nearer by way of a third point."""


def distance(metric: Metric, a: Any, b: Any, solver: Solver | None = None, return_info: bool = False) -> Any:
    """The length of the shortest path from `a` to `b`: points (..., d) that broadcast → (...).

    Where the solver did not converge, it is the true length of the curve that it returned, an upper bound, and the call
    warns.
    With `return_info=True` also an `Info` with converged, certified, status and error of each problem.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    start, end, shape = solving.require_ends(metric, a, b, ("a", "b"))
    length = np.empty(len(start))
    records = []
    for block, solution, judgement in solving.solve(metric, start, end, solver):
        length[block] = judgement.verdict.length
        records.append((solution.status, judgement))
    info = solving.Info.collect(records, shape)
    _boundary.warn_unconverged(np.asarray(info.status), "paths")
    out = length.reshape(shape)[()]
    return (out, info) if return_info else out


def distance_matrix(
    metric: Metric,
    points: Any,
    others: Any = None,
    solver: Solver | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    return_info: bool = False,
) -> Any:
    """All distances between the rows of `points`, (n, d) → (n, n), or from them to the rows of `others`, (n, m).

    Without `others` each pair is solved once; with `Auto`, those that turn out nearer by way of a third point are
    solved again from there, so that the triangle inequality holds within the errors. Work goes in blocks, so memory is
    that of the result and a little more.

    One process keeps all cores busy. `n_jobs` spreads the blocks over so many processes (-1: one a core) by joblib, for
    metrics whose compiled code runs in one thread, or over machines with a joblib backend; each compiles for itself,
    unless there is a cache (`enable_compilation_cache`).
    `progress=True` shows a bar on standard error. `return_info=True` also returns an `Info` of (n, n) or (n, m) arrays.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    if isinstance(others, Solver):
        raise TypeError("others should be points; a solver arrived: pass it by name, solver=...")
    x = _require_rows(metric, points, "points")
    y = x if others is None else _require_rows(metric, others, "others")
    if y.shape[1] != x.shape[1]:
        raise ValueError(f"points has {x.shape[1]} coordinates and others has {y.shape[1]}: pass the same number.")
    shape = (len(x), len(y))
    length, status, error = np.zeros(shape), np.zeros(shape, dtype=int), np.zeros(shape)
    certified = np.ones(shape, dtype=bool)
    pairs = len(x) * (len(x) - 1) // 2 if others is None else len(x) * len(y)
    blocks = -(-pairs // solving.BLOCK)
    found = _solved(metric, x, y, solver, _pairs(*shape, symmetric=others is None), _require_jobs(n_jobs))
    for at, solved, verdict in _with_progress(found, blocks, progress):
        length[at], status[at] = verdict.length, solved
        error[at], certified[at] = verdict.error, verdict.certified
    unsolved = status
    if others is None and isinstance(solver, Auto):
        _take_shortcuts(metric, x, solver, length, status, error, certified)
    if others is None:
        unsolved = status[np.triu_indices(len(x), 1)]
        for array in (length, status, error):  # the lower half is still zero
            array += array.T
        certified &= certified.T
    _boundary.warn_unconverged(unsolved, "paths")
    info = solving.Info(status == Status.CONVERGED, certified, status, error)
    return (length, info) if return_info else length


def _solved(
    metric: Metric, x: Array, y: Array, solver: Solver, pairs: Iterator[tuple[Array, Array]], n_jobs: int
) -> Iterator[tuple[tuple[Array, Array], Array, Verdict]]:
    """Blocks of pairs (i, j), with statuses and verdicts."""
    if n_jobs == 1:
        for i, j in pairs:
            yield (i, j), *_solve_block(metric, x[i], y[j], solver)
        return
    import joblib

    cache = cache_folder()
    todo, told = itertools.tee(pairs)
    work = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    tasks = (joblib.delayed(_solve_elsewhere)(metric, x[i], y[j], solver, n_jobs, cache) for i, j in todo)
    for pair, (status, verdict) in zip(told, work(tasks), strict=True):
        yield pair, status, verdict


def _solve_block(metric: Metric, a: Array, b: Array, solver: Solver) -> tuple[Array, Verdict]:
    blocks = [(solution.status, judged.verdict) for _, solution, judged in solving.solve(metric, a, b, solver)]
    return np.concatenate([status for status, _ in blocks]), Verdict.concatenate([verdict for _, verdict in blocks])


def _solve_elsewhere(
    metric: Metric, a: Array, b: Array, solver: Solver, processes: int, cache: str | None
) -> tuple[Array, Verdict]:
    """`_solve_block` in one of several processes, which share the cores and the compiled code."""
    if cache is not None:
        enable_compilation_cache(cache)
    with batching.sharing_cores(processes):
        return _solve_block(metric, a, b, solver)


def _require_jobs(n_jobs: Any) -> int:
    """How many processes."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs < -1 or n_jobs == 0:
        raise ValueError(f"n_jobs should be None, a number of processes, or -1 for one a core; {n_jobs!r} arrived.")
    return batching.cores() if n_jobs == -1 else int(n_jobs)


def _take_shortcuts(
    metric: Metric, x: Array, solver: Auto, length: Array, status: Array, error: Array, certified: Array
) -> None:
    """Where the way through a third point is shorter than the path that was found, begin from there; in place.

    Only the upper halves of the matrices are looked at and mended.
    """
    for _ in range(SHORTCUT_ROUNDS):
        upper = np.triu(np.ones(length.shape, dtype=bool), 1)
        D = np.where(upper, length, length.T)
        D = np.where(np.isfinite(D), D, np.inf)  # what was not found may be found through a third point
        known = certified & certified.T  # the half that is not looked at is True
        slack = np.where(known, np.where(upper, error, error.T), 0.0) * np.where(known, D, 0.0)
        i, j, k = _detours(D, slack)
        i, j, k = (index[i < k] for index in (i, j, k))
        for first in range(0, len(i), solving.BLOCK):
            some = slice(first, first + solving.BLOCK)
            a, via, b = x[i[some]], x[j[some]], x[k[some]]
            legs = [solver.solve(metric, *ends, None).curve for ends in ((a, via), (via, b))]
            init = join_curves(legs, [D[i[some], j[some]], D[j[some], k[some]]])
            solution = solver.solve(metric, a, b, init)
            verdict = solution.verdict or judge(metric, solution.curve, a, b, solver.rtol)
            shorter = np.isfinite(verdict.length) & ~(verdict.length >= length[i[some], k[some]])
            at = (i[some][shorter], k[some][shorter])
            length[at], status[at] = verdict.length[shorter], solution.status[shorter]
            error[at], certified[at] = verdict.error[shorter], verdict.certified[shorter]
        if not len(i):
            return


def _detours(D: Array, slack: Array) -> tuple[Array, Array, Array]:
    """The pairs (i, k), with the point j, for which D[i, j] + D[j, k] is less than D[i, k] by more than the errors."""
    rows, vias, columns = [], [], []
    for i in range(len(D)):
        through = D[i][:, None] + D + slack[i][:, None] + slack  # (j, k)
        through[i] = np.inf
        np.fill_diagonal(through, np.inf)
        j = np.argmin(through, axis=0)
        k = np.flatnonzero(through[j, np.arange(len(D))] < D[i] - slack[i])
        rows.append(np.full(len(k), i))
        vias.append(j[k])
        columns.append(k)
    nothing = [np.zeros(0, int)]
    return np.concatenate(rows or nothing), np.concatenate(vias or nothing), np.concatenate(columns or nothing)


def _require_rows(metric: Metric, value: Any, name: str) -> Array:
    rows = metric.require_points(value, name)
    if rows.ndim != 2:
        raise ValueError(f"{name} should have shape (n, d), a row a point; a shape of {rows.shape} arrived.")
    metric.require_positive(rows, name)
    return rows


def _pairs(n: int, m: int, symmetric: bool) -> Iterator[tuple[Array, Array]]:
    """The pairs (i, j) to solve, i < j if symmetric, a block at a time."""
    before = np.concatenate([[0], np.cumsum(np.arange(n - 1, -1, -1) if symmetric else np.full(n, m))])
    for first in range(0, before[-1], solving.BLOCK):
        k = np.arange(first, min(first + solving.BLOCK, before[-1]))
        i = np.searchsorted(before, k, side="right") - 1
        yield i, k - before[i] + (i + 1 if symmetric else 0)


def _with_progress(blocks: Iterator[Any], total: int, show: bool) -> Iterator[Any]:
    if not show:
        yield from blocks
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(blocks, "distances", total=total, console=Console(file=sys.stderr))
