"""Curves on [0, 1]: representations that can be evaluated, with their derivatives, at any time."""

from orthodrome.curves.base import Curve
from orthodrome.curves.gp import (
    GaussianProcess,
    GPCurve,
    amplitude,
    far_knots,
    straight_line,
    uniform_process,
)
from orthodrome.curves.kernels import Kernel, Matern, SquaredExponential
from orthodrome.curves.piecewise import PiecewiseCurve, end_to_end, resample

__all__ = [
    "Curve",
    "GPCurve",
    "GaussianProcess",
    "Kernel",
    "Matern",
    "PiecewiseCurve",
    "SquaredExponential",
    "amplitude",
    "end_to_end",
    "far_knots",
    "resample",
    "straight_line",
    "uniform_process",
]
