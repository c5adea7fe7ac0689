"""From two arrays of points to solutions, block by block, in bounded memory."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array, ArrayLike
from orthodrome.curves import Curve
from orthodrome.metrics import Metric
from orthodrome.records import Record
from orthodrome.solvers import Auto, Solution, Solver
from orthodrome.status import Status

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


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome(Record):
    """What became of P problems, without their curves: what a matrix keeps of each."""

    length: Array
    """Of the curve that was found, whatever its status."""
    status: Array
    """`Status` numbers."""
    error: Array
    """Estimated relative error of the length."""
    certified: Array
    """The library's independent judgement."""

    @staticmethod
    def of(solution: Solution) -> "Outcome":
        """That of a solution, which is judged now if it is not yet."""
        verdict = solution.verdict
        return Outcome(verdict.length, solution.status, verdict.error, verdict.certified)

    @property
    def columns(self) -> tuple[Array, ...]:
        """The arrays, in the order of the fields."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def info(self, shape: tuple[int, ...] | None = None) -> Info:
        """What a user is told, in the shape of the call; None for the shape there is."""
        converged = self.status == Status.CONVERGED
        columns = (converged, self.certified, self.status, self.error)
        return Info(*columns if shape is None else (x.reshape(shape)[()] for x in columns))


def require_metric(metric: object) -> Metric:
    """Refuse what is not a metric."""
    meant = "a metric such as LocalPCA(data), Pullback(g) or MetricTensor(M, dim)"
    return _boundary.require_instance(metric, Metric, "metric", meant)


def require_solver(solver: object) -> Solver:
    """The solver asked for; `None` means `Auto()`."""
    if solver is None:
        return Auto()
    meant = "None or a solver such as Auto() or FixedPoint()"
    return _boundary.require_instance(solver, Solver, "solver", meant)


def require_ends(
    metric: Metric, start: ArrayLike, end: ArrayLike, names: tuple[str, str]
) -> tuple[Array, Array, tuple[int, ...]]:
    """Both ends as (P, d) arrays and the shape they broadcast to; refused where the metric is not
    positive definite."""
    points = [
        metric.require_points(value, name) for value, name in zip((start, end), names, strict=True)
    ]
    if points[0].shape[-1] != points[1].shape[-1]:
        raise ValueError(
            f"{names[0]} has {points[0].shape[-1]} coordinates and {names[1]} has "
            f"{points[1].shape[-1]}: pass points of the same dimension."
        )
    for value, name in zip(points, names, strict=True):
        metric.require_positive(value.reshape(-1, value.shape[-1]), name)
    (a, b), shape = _boundary.broadcast(points, names)
    return a, b, shape


def solve(
    metric: Metric, start: Array, end: Array, solver: Solver, init: Curve | None = None
) -> Iterator[tuple[slice, Solution]]:
    """Solve P problems, (P, d) each; yields a block of them at a time."""
    size = max(1, min(BLOCK, BLOCK_NUMBERS // start.shape[1]))
    for first in range(0, max(len(start), 1), size):
        block = slice(first, first + size)
        begin = None if init is None else init.take(block)
        yield block, solver.solved(metric, start[block], end[block], begin)
