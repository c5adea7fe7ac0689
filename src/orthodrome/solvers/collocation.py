"""The yardstick everyone knows: SciPy's collocation solver for boundary value problems, one problem at a time."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from orthodrome import _boundary
from orthodrome.curves import Curve
from orthodrome.curves.piecewise import PiecewiseCurve, stack_ragged
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Array, Solution, Solver
from orthodrome.status import Status

_STATUS = {0: Status.CONVERGED, 1: Status.MAX_NODES, 2: Status.SINGULAR_JACOBIAN, 3: Status.MAX_ITERATIONS}
"""What `solve_bvp` calls its ends; 3 is boundary conditions unmet after its last iteration."""


@dataclasses.dataclass(frozen=True, repr=False)
class Collocation(Solver):
    """`scipy.integrate.solve_bvp`: order 4, mesh driven by the residual, Newton steps with finite differences.

    It stands in for MATLAB's bvp5c, which the paper compares with. Its own success flag is passed on as `converged`.
    """

    mesh: int = 10
    """Knots of the first mesh, evenly spaced; the first guess is the straight line, or `init`."""
    max_nodes: int = 1000
    """The largest mesh it may refine to."""
    tol: float = 1e-3
    """Its tolerance for the relative residual (bvp5c has the same default)."""

    def __post_init__(self) -> None:
        _boundary.as_count(self.mesh, "mesh", 2)
        _boundary.as_count(self.max_nodes, "max_nodes", self.mesh)
        _boundary.as_positive(self.tol, "tol")

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve one problem after the other."""
        t = np.linspace(0.0, 1.0, self.mesh)
        step = (end - start)[:, None, :]
        c = start[:, None, :] + t[:, None] * step
        v = np.broadcast_to(step, c.shape)
        if init is not None:
            moving = np.any(step != 0, axis=2, keepdims=True)  # from a point to itself, stay there
            c, v = np.where(moving, init.evaluate(t), c), np.where(moving, init.evaluate(t, 1), v)
        guesses = np.concatenate([c, v], axis=2).transpose(0, 2, 1)
        if not len(start):
            return Solution(PiecewiseCurve(np.zeros((0, self.mesh)), c, v, c), np.zeros(0, int), np.zeros(0, int))
        solved = [self._solve_one(metric, t, *problem) for problem in zip(start, end, guesses, strict=True)]
        pieces, status, iterations = zip(*solved, strict=True)
        return Solution(stack_ragged(pieces), np.array(status), np.array(iterations))

    def _solve_one(self, metric: Metric, t: Array, start: Array, end: Array, guess: Array) -> tuple[Any, Status, int]:
        from scipy.integrate import solve_bvp  # not for those who never call it: it takes a tenth of a second

        d = len(start)

        def accelerations(y: Array) -> Array:
            return metric.accelerations(y[:d].T, y[d:].T).T

        def field(t: Array, y: Array) -> Array:
            if not np.all(np.isfinite(y)):
                raise FloatingPointError
            out = accelerations(y)
            if not np.all(np.isfinite(out)):
                raise FloatingPointError
            return np.concatenate([y[d:], out])

        def ends(at_0: Array, at_1: Array) -> Array:
            return np.concatenate([at_0[:d] - start, at_1[:d] - end])

        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # what went wrong is in the status
                found = solve_bvp(field, ends, t, guess, tol=self.tol, max_nodes=self.max_nodes)
            breaks, y, status, iterations = found.x, found.y, _STATUS[found.status], found.niter
        except (FloatingPointError, np.linalg.LinAlgError):
            # there is no curve: NaN between the ends, and no guess in its place
            breaks, y, status, iterations = t, np.full_like(guess, np.nan), Status.NON_FINITE, 0
            y[:d, 0], y[:d, -1] = start, end
        acceleration = accelerations(y) if status != Status.NON_FINITE else np.full_like(y[:d], np.nan)
        pieces = PiecewiseCurve(*(array[None] for array in (breaks, y[:d].T, y[d:].T, acceleration.T)))
        return pieces, status, iterations
