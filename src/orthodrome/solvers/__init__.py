"""Solvers: from a metric and two ends to a curve and how the search for it ended."""

from orthodrome.solvers.base import Solution, Solver
from orthodrome.solvers.collocation import Collocation
from orthodrome.solvers.fixed_point import FixedPoint

__all__ = ["Collocation", "FixedPoint", "Solution", "Solver"]
