"""What every solver is: a small frozen object whose fields are its settings."""

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from orthodrome.curves import Curve
from orthodrome.curves.kernels import brief_repr
from orthodrome.judging import RTOL
from orthodrome.metrics import Metric

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns for P problems. It is the solver's own word; the judge in `judging` is asked separately."""

    curve: Curve
    status: Array
    """(P,) `Status` numbers."""
    iterations: Array
    """(P,) steps taken."""


class Solver(abc.ABC):
    """A way to find geodesics between two points. To add one, write `solve`."""

    rtol: ClassVar[float] = RTOL
    """The relative error of length for which its paths are certified."""

    def __repr__(self) -> str:
        """The settings that are not the default, as one would write them."""
        return brief_repr(self)

    @abc.abstractmethod
    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve P problems from `start` to `end`, (P, d) each, beginning at the curves `init` if there are any."""
