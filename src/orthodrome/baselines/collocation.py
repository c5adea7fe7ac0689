"""The yardsticks everyone knows: collocation solvers for boundary value problems, one problem at a
time."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array
from orthodrome.baselines import lobatto
from orthodrome.curves import Curve, PiecewiseCurve
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Solution, Solver
from orthodrome.status import Status

_STATUS = {
    0: Status.CONVERGED,
    1: Status.MAX_NODES,
    2: Status.SINGULAR_JACOBIAN,
    3: Status.MAX_ITERATIONS,
}
"""What `solve_bvp` calls its ends; 3 is boundary conditions unmet after its last iteration."""


@dataclasses.dataclass(frozen=True, repr=False)
class Collocation(Solver):
    """Polynomials between nodes that satisfy the equation at some points: by Newton's method with
    finite differences, on a mesh that is refined where the residual is large. Its own success flag
    is passed on as `converged`.

    Of order 4 it is `scipy.integrate.solve_bvp`; of order 5 it has the formula of MATLAB's bvp5c,
    which the paper compares with and which cannot be had in Python. How its steps are damped and
    its mesh refined is as in SciPy. Between the nodes the path is the curve through their
    positions, velocities and accelerations f.
    """

    mesh: int = 10
    """Knots of the first mesh, evenly spaced; the first guess is the straight line, or `init`."""
    max_nodes: int = 1000
    """The largest mesh it may refine to."""
    tol: float = 1e-3
    """Its tolerance for the relative residual (bvp5c has the same default)."""
    order: int = 4
    """4: SciPy's, with three Lobatto points on each interval; 5: four of them, as bvp5c has."""

    def __post_init__(self) -> None:
        _boundary.as_count(self.mesh, "mesh", 2)
        _boundary.as_count(self.max_nodes, "max_nodes", self.mesh)
        _boundary.as_positive(self.tol, "tol")
        _boundary.one_of(self.order, "order", (4, 5))

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve one problem after the other."""
        t = np.linspace(0.0, 1.0, self.mesh)
        step = (end - start)[:, None, :]
        c = start[:, None, :] + t[:, None] * step
        v = np.broadcast_to(step, c.shape)
        if init is not None:
            moving = np.any(step != 0, axis=2, keepdims=True)  # from a point to itself, stay there
            c, v = np.where(moving, init.evaluate(t), c), np.where(moving, init.evaluate(t, 1), v)
        guesses = np.concatenate([c, v], axis=2)
        if not len(start):
            return Solution(
                PiecewiseCurve(np.zeros((0, self.mesh)), c, v, c),
                np.zeros(0, int),
                np.zeros(0, int),
            )
        solved = [
            self._solve_one(metric, t, *problem)
            for problem in zip(start, end, guesses, strict=True)
        ]
        pieces, status, iterations = zip(*solved, strict=True)
        return Solution(PiecewiseCurve.join(pieces), np.array(status), np.array(iterations))

    def _solve_one(
        self, metric: Metric, t: Array, start: Array, end: Array, guess: Array
    ) -> tuple[Any, Status, int]:
        d = len(start)

        def field(y: Array) -> Array:
            """dy/dt of y = (c, v), (m, 2d)."""
            out = (
                metric.accelerations(y[:, :d], y[:, d:])
                if np.all(np.isfinite(y))
                else y[:, :d] * np.nan
            )
            if not np.all(np.isfinite(out)):
                raise FloatingPointError
            return np.concatenate([y[:, d:], out], axis=1)

        guess = guess.copy()
        guess[0, :d], guess[-1, :d] = start, end
        method = _by_scipy if self.order == 4 else _by_lobatto
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # what went wrong is in the status
                t, y, status, iterations = method(field, t, guess, self.tol, self.max_nodes)
            acceleration = metric.accelerations(y[:, :d], y[:, d:])
        except (FloatingPointError, np.linalg.LinAlgError):
            # there is no curve: NaN between the ends, and no guess in its place
            y, status, iterations = np.full_like(guess, np.nan), Status.NON_FINITE, 0
            y[0, :d], y[-1, :d] = start, end
            acceleration = np.full_like(y[:, :d], np.nan)
        pieces = PiecewiseCurve(*(x[None] for x in (t, y[:, :d], y[:, d:], acceleration)))
        return pieces, status, iterations


Solved = tuple[Array, Array, Status, int]
"""Nodes (m,), values y = (c, v) there (m, 2d), how it ended, how many meshes were tried."""


def _by_scipy(field: lobatto.Field, t: Array, y: Array, tol: float, max_nodes: int) -> Solved:
    """`solve_bvp`, from a guess y (m, 2d) whose ends c are the ones to reach."""
    # not for those who never call it: it takes a tenth of a second
    from scipy.integrate import (
        solve_bvp,
    )

    d = y.shape[1] // 2
    ends = lambda at_0, at_1: np.concatenate([at_0[:d] - y[0, :d], at_1[:d] - y[-1, :d]])
    solution = solve_bvp(lambda _, y: field(y.T).T, ends, t, y.T, tol=tol, max_nodes=max_nodes)
    return solution.x, solution.y.T, _STATUS[solution.status], solution.niter


def _by_lobatto(field: lobatto.Field, t: Array, y: Array, tol: float, max_nodes: int) -> Solved:
    """The four-point formula, from the same guess."""
    curve, status, iterations = lobatto.solve(field, t, y, tol, max_nodes)
    return curve.t, curve.y, status, iterations
