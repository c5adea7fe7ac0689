"""Solvers: from a metric and two ends to a curve and how the search for it ended."""

from orthodrome.solvers.auto import Auto
from orthodrome.solvers.base import Others, Solution, Solver
from orthodrome.solvers.collocation import Collocation
from orthodrome.solvers.energy import Energy
from orthodrome.solvers.fixed_point import FixedPoint
from orthodrome.solvers.graph import Graph
from orthodrome.solvers.hennig_hauberg import HennigHauberg

__all__ = [
    "Auto",
    "Collocation",
    "Energy",
    "FixedPoint",
    "Graph",
    "HennigHauberg",
    "Others",
    "Solution",
    "Solver",
]
