"""From two arrays of points to curves, block by block, in bounded memory."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from orthodrome import _boundary
from orthodrome.curves import Curve
from orthodrome.judging import Case, Judgement, Verdict
from orthodrome.metrics import Metric
from orthodrome.solvers import Auto, Solution, Solver
from orthodrome.status import Status

Array = np.ndarray[Any, Any]

BLOCK = 2048
"""Problems solved together: enough to keep every core busy, few enough to stop between them."""


BLOCK_NUMBERS = 2**16
"""Coordinates of the ends solved together, so that memory does not grow with the dimension
either."""


@dataclasses.dataclass(frozen=True, eq=False)
class Info:
    """How each problem of a call ended: arrays of the call's shape. Returned with
    `return_info=True`."""

    converged: Array
    """The solver's own test."""
    certified: Array
    """The library's independent judgement."""
    status: Array
    """`Status` numbers."""
    error: Array
    """Estimated relative error of the length."""

    def failures(self) -> list[tuple[tuple[int, ...], str]]:
        """The problems whose solver did not converge: where they are in the call's arrays, and
        why."""
        status = np.asarray(self.status)
        return [
            (tuple(map(int, at)), Status(status[tuple(at)]).sentence)
            for at in np.argwhere(status != Status.CONVERGED)
        ]

    @staticmethod
    def collect(blocks: Sequence[tuple[Array, Judgement]], shape: tuple[int, ...]) -> "Info":
        """The statuses and judgements of some blocks, in the shape of the call."""
        status = np.concatenate([status for status, _ in blocks])
        verdict = Verdict.concatenate([judgement.verdict for _, judgement in blocks])
        columns = (status == Status.CONVERGED, verdict.certified, status, verdict.error)
        return Info(*(column.reshape(shape)[()] for column in columns))


def require_metric(metric: Any) -> Metric:
    """Refuse what is not a metric."""
    _boundary.require_instance(
        metric,
        Metric,
        "metric",
        "a metric such as LocalPCA(data), Pullback(g) or MetricTensor(M, dim)",
    )
    return metric


def require_solver(solver: Any) -> Solver:
    """The solver asked for; `None` means `Auto()`."""
    if solver is None:
        return Auto()
    _boundary.require_instance(
        solver, Solver, "solver", "None or a solver such as Auto() or FixedPoint()"
    )
    return solver


def require_ends(
    metric: Metric, start: Any, end: Any, names: tuple[str, str]
) -> tuple[Array, Array, tuple[int, ...]]:
    """Both ends as (P, d) arrays and the shape they broadcast to; refused where the metric is not
    positive definite."""
    points = [
        metric.require_points(value, name) for value, name in zip((start, end), names, strict=True)
    ]
    if points[0].shape[-1] != points[1].shape[-1]:
        raise ValueError(
            f"{names[0]} has {points[0].shape[-1]} coordinates and {names[1]} has "
            f"{points[1].shape[-1]}: "
            "pass points of the same dimension."
        )
    for value, name in zip(points, names, strict=True):
        metric.require_positive(value.reshape(-1, value.shape[-1]), name)
    (a, b), shape = _boundary.broadcast(points, names)
    return a, b, shape


def solve(
    metric: Metric, start: Array, end: Array, solver: Solver, init: Curve | None = None
) -> Iterator[tuple[slice, Solution, Judgement]]:
    """Solve P problems, (P, d) each; yields a block of them at a time, to be judged by whoever
    wants to know."""
    size = max(1, min(BLOCK, BLOCK_NUMBERS // start.shape[1]))
    for first in range(0, max(len(start), 1), size):
        block = slice(first, first + size)
        a, b = start[block], end[block]
        begin = None if init is None else init.take(block)
        solution = solver.solve(metric, a, b, begin)
        yield (
            block,
            solution,
            Judgement(solution.verdict or Case(metric, solution.curve, a, b, solver.rtol)),
        )
