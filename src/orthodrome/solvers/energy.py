"""The solver that descends on the energy of a curve, from one start."""

import dataclasses

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array
from orthodrome.curves import Curve, straight_line
from orthodrome.elements import node_times
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Solution, Solver
from orthodrome.solvers.descent import descend, smooth


@dataclasses.dataclass(frozen=True, repr=False)
class Energy(Solver):
    """Minimise the energy over piecewise polynomials, by Newton's method.

    The curve has `elements` pieces of `degree` s with s Gauss points each: degree 1 is a polyline
    with the midpoint rule, which finds its way from afar; degree 3 is the Gauss collocation
    solution of order 6 (docs/derivations/energy.md). On the pullback of a map it begins with
    Gauss–Newton steps in single precision, which are cheap. Where the second variation is not
    positive it is damped by the metric's Laplacian until it is; steps that do not descend are
    shortened; and they are bent a little, so that a saddle is left. So it ends in a local
    minimiser.
    """

    elements: int = 32
    """Pieces: a power of two."""
    degree: int = 3
    """Of the polynomials: 1 to 4."""
    tol: float = 1e-8
    """It ends when another Newton step promises to lower the energy by less than this fraction."""
    max_iter: int = 200
    """Evaluations of the energy after which a problem is given up."""

    def __post_init__(self) -> None:
        count = _boundary.as_count(self.elements, "elements", 1)
        if count & (count - 1):
            raise ValueError(f"elements should be a power of two; {count} arrived.")
        if _boundary.as_count(self.degree, "degree", 1) > 4:
            raise ValueError(f"degree should be 1 to 4; {self.degree} arrived.")
        object.__setattr__(self, "tol", _boundary.as_positive(self.tol, "tol"))
        _boundary.as_count(self.max_iter, "max_iter", 1)

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Descend from `init`, or from the straight line."""
        breaks = np.broadcast_to(
            np.linspace(0.0, 1.0, self.elements + 1), (len(start), self.elements + 1)
        )
        times = node_times(np.linspace(0.0, 1.0, self.elements + 1), self.degree)
        nodes = straight_line(start, end, times, 0)
        if init is not None:
            moving = np.any(start != end, axis=1)  # from a point to itself, stay there
            nodes = np.where(moving[:, None, None], init.evaluate(times), nodes)
        descent = descend(metric, nodes, breaks, self.tol, self.max_iter)
        curve = smooth(metric, descent.nodes, breaks)
        return Solution(curve, descent.status, descent.iterations)
