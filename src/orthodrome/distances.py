"""Distances between points, and all of them between many."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from orthodrome import _boundary, solving
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.status import Status

Array = np.ndarray[Any, Any]


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
    for block, solution, verdict in solving.solve(metric, start, end, solver):
        length[block] = verdict.length
        records.append((solution.status, verdict))
    info = solving.Info.collect(records, shape)
    _boundary.warn_unconverged(np.asarray(info.status), "paths")
    out = length.reshape(shape)[()]
    return (out, info) if return_info else out


def distance_matrix(
    metric: Metric,
    points: Any,
    others: Any = None,
    solver: Solver | None = None,
    progress: bool = False,
    return_info: bool = False,
) -> Any:
    """All distances between the rows of `points`, (n, d) → (n, n), or from them to the rows of `others`, (n, m).

    Without `others` each pair is solved once. Work goes in blocks, so memory is that of the result and a little more.
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
    for i, j in _with_progress(_pairs(*shape, symmetric=others is None), blocks, progress):
        for block, solution, verdict in solving.solve(metric, x[i], y[j], solver):
            at = (i[block], j[block])
            length[at], status[at] = verdict.length, solution.status
            error[at], certified[at] = verdict.error, verdict.certified
    unsolved = status
    if others is None:
        unsolved = status[np.triu_indices(len(x), 1)]
        for array in (length, status, error):  # the lower half is still zero
            array += array.T
        certified &= certified.T
    _boundary.warn_unconverged(unsolved, "paths")
    info = solving.Info(status == Status.CONVERGED, certified, status, error)
    return (length, info) if return_info else length


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
