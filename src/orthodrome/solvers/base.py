"""What every solver is, a small frozen object whose fields are its settings, and what it
returns."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from orthodrome._types import Array, Index
from orthodrome.curves import Curve, PiecewiseCurve
from orthodrome.judging import RTOL, Verdict, judge
from orthodrome.measuring import initial_velocity
from orthodrome.metrics import Metric
from orthodrome.records import Record, brief_repr
from orthodrome.status import Status


@dataclasses.dataclass(frozen=True, eq=False)
class Problem(Record):
    """What was asked for: shortest paths from `start` to `end`, (P, d) each."""

    metric: Metric
    start: Array
    end: Array
    rtol: float = RTOL


@dataclasses.dataclass(frozen=True, eq=False)
class Geodesics(Record):
    """Q curves, each for one of P problems: several, one or none for each of them."""

    problem: Array
    """(Q,): the number of the problem that each belongs to."""
    curve: PiecewiseCurve
    verdict: Verdict
    status: Array
    """(Q,) `Status` numbers."""

    def of(self, problems: Array) -> "Geodesics":
        """Those for some of the problems, which are then numbered anew."""
        number, row = np.nonzero(problems[:, None] == self.problem)
        return dataclasses.replace(self.take(row), problem=number)

    def numbered(self, problems: Array) -> "Geodesics":
        """The same, where the i-th problem is called `problems[i]`."""
        return dataclasses.replace(self, problem=problems[self.problem])


@dataclasses.dataclass(frozen=True, eq=False)
class Solution(Record):
    """What a solver returns for P problems: curves, and how the search for each ended.

    `status` is the solver's own word. The judge is asked separately, when somebody wants to know:
    to judge a curve costs about as much as to find it.
    """

    curve: Curve
    status: Array
    """(P,) `Status` numbers."""
    iterations: Array
    """(P,) steps taken."""
    start_count: Array | None = None
    """(P,) from how many starts each path was sought; None means one."""
    judged: Verdict | None = None
    """What the judge has said, if anybody has asked."""
    asked: Problem | None = None
    """What the judge is told otherwise. `Solver.solved` fills it in."""
    alternatives: Geodesics | None = None
    """Further geodesics between the same ends, if the solver was asked for them."""

    @property
    def verdict(self) -> Verdict:
        """What the judge says. It is asked once."""
        if self.judged is None:
            if self.asked is None:
                raise ValueError("only a solution that knows its problem can be judged")
            asked = self.asked
            verdict = judge(asked.metric, self.curve, asked.start, asked.end, asked.rtol)
            object.__setattr__(self, "judged", verdict)  # frozen, but for what is only remembered
            return verdict
        return self.judged

    @property
    def converged(self) -> Array:
        """(P,): the solver's own test."""
        return self.status == Status.CONVERGED

    @property
    def tried(self) -> Array:
        """(P,): from how many starts each path was sought."""
        one = np.ones(len(self.status), int)
        return one if self.start_count is None else self.start_count

    def forgetful(self) -> Self:
        """The same with its verdict, and without the problem and its metric."""
        return dataclasses.replace(self, judged=self.verdict, asked=None)

    def rows(self) -> dict[str, Any]:
        """As in `Record`, but for the alternatives, which have rows of their own."""
        return {name: value for name, value in super().rows().items() if name != "alternatives"}

    def take(self, index: Index) -> Self:
        """Some of the solutions, with their alternatives."""
        some = super().take(index)
        if self.alternatives is None:
            return some
        problems = np.arange(len(self.status))[index]
        return dataclasses.replace(some, alternatives=self.alternatives.of(problems))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Several solutions behind one another."""
        if any(part.judged is not None for part in parts):
            parts = [part.forgetful() for part in parts]  # the judge has to say something of all
        whole = super().join(parts)
        first = np.cumsum([0, *(len(part.status) for part in parts[:-1])])
        alternatives = [
            part.alternatives.numbered(before + np.arange(len(part.status)))
            for part, before in zip(parts, first, strict=True)
            if part.alternatives is not None
        ]
        return dataclasses.replace(
            whole, alternatives=Geodesics.join(alternatives) if alternatives else None
        )


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

    def solved(
        self, metric: Metric, start: Array, end: Array, init: Curve | None = None
    ) -> Solution:
        """`solve`, with a solution that can be judged."""
        solution = self.solve(metric, start, end, init)
        if solution.judged is not None:
            return solution
        return dataclasses.replace(solution, asked=Problem(metric, start, end, self.rtol))

    def track(
        self, metric: Metric, start: Array, end: Array, lines: Array
    ) -> tuple[Array, Array, Array]:
        """Paths whose ends have moved a little since they ran along `lines` (P, N, d), evenly
        timed.

        Returns the lines along which they run now, their initial velocities (P, d), and `Status`
        numbers (P,).
        """
        times = np.linspace(0.0, 1.0, lines.shape[1])
        begin = PiecewiseCurve.through(moved(lines, times, start, end))
        solution = self.solve(metric, start, end, begin)
        velocity = initial_velocity(metric, solution.curve)
        return solution.curve.evaluate(times), velocity, solution.status


def moved(lines: Array, times: Array, start: Array, end: Array) -> Array:
    """Curves (P, N, d), given at these times, with their ends moved and everything between moved
    along."""
    t = times[:, None]
    return lines + (1 - t) * (start - lines[:, 0])[:, None] + t * (end - lines[:, -1])[:, None]
