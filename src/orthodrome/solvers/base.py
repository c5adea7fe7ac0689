"""What every solver is: a small frozen object whose fields are its settings."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from orthodrome.curves import Curve, PiecewiseCurve, concatenate_curves
from orthodrome.curves.kernels import brief_repr
from orthodrome.judging import RTOL, Verdict, initial_velocity
from orthodrome.metrics import Metric

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Others:
    """Q more curves for some of P problems."""

    curve: Curve
    verdict: Verdict
    problem: Array
    """(Q,): to which problem each belongs."""

    def take(self, problems: Array) -> "Others":
        """Those of some problems, which are then numbered anew."""
        problem, row = np.nonzero(problems[:, None] == self.problem)
        return Others(self.curve.take(row), self.verdict.take(row), problem)

    @staticmethod
    def concatenate(blocks: "Sequence[Others]", before: Sequence[int]) -> "Others":
        """Those of several blocks of problems, with so many problems before each."""
        return Others(
            concatenate_curves([block.curve for block in blocks]),
            Verdict.concatenate([block.verdict for block in blocks]),
            np.concatenate(
                [block.problem + count for block, count in zip(blocks, before, strict=True)]
            ),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns for P problems. It is the solver's own word; the judge in `judging` is
    asked separately."""

    curve: Curve
    status: Array
    """(P,) `Status` numbers."""
    iterations: Array
    """(P,) steps taken."""
    verdict: Verdict | None = None
    """What the judge said, if the solver has asked it already."""
    starts: Array | None = None
    """(P,) from how many starts it was sought; None means one."""
    others: Others | None = None
    """Further geodesics between the same ends, if the solver was asked for them."""


class Solver(abc.ABC):
    """A way to find geodesics between two points. To add one, write `solve`."""

    rtol: float = RTOL
    """The relative error of length for which its paths are certified."""

    def __repr__(self) -> str:
        """The settings that are not the default, as one would write them."""
        return brief_repr(self)

    @abc.abstractmethod
    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve P problems from `start` to `end`, (P, d) each, beginning at the curves `init` if
        there are any."""

    def follow(
        self, metric: Metric, start: Array, end: Array, ways: Array
    ) -> tuple[Array, Array, Array]:
        """Paths whose ends have moved a little since they ran along `ways` (P, N, d), evenly timed.

        Returns the ways they have now, their initial velocities (P, d), and `Status` numbers (P,).
        """
        times = np.linspace(0.0, 1.0, ways.shape[1])
        solution = self.solve(
            metric, start, end, PiecewiseCurve.through(moved(ways, times, start, end))
        )
        return (
            solution.curve.evaluate(times),
            initial_velocity(metric, solution.curve),
            solution.status,
        )


def moved(ways: Array, times: Array, start: Array, end: Array) -> Array:
    """Curves, given at these times, with their ends moved and everything between moved along."""
    t = times[:, None]
    return ways + (1 - t) * (start - ways[:, 0])[:, None] + t * (end - ways[:, -1])[:, None]
