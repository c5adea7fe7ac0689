"""Solvers: from a metric and two ends to a curve and how the search for it ended."""

from orthodrome.solvers.auto import Auto
from orthodrome.solvers.base import Geodesics, Problem, Solution, Solver
from orthodrome.solvers.energy import Energy
from orthodrome.solvers.fixed_point import FixedPoint
from orthodrome.solvers.graph import Graph

__all__ = ["Auto", "Energy", "FixedPoint", "Geodesics", "Graph", "Problem", "Solution", "Solver"]
