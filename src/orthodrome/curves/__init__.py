"""Curves on [0, 1]: representations that can be evaluated, with their derivatives, at any time."""

from collections.abc import Sequence

import numpy as np

from orthodrome.curves.gp import GaussianProcess, GPCurve, straight_line, uniform_process
from orthodrome.curves.kernels import Kernel, Matern, SquaredExponential
from orthodrome.curves.piecewise import PiecewiseCurve, resample, stack_ragged

Curve = GPCurve | PiecewiseCurve

__all__ = [
    "Curve",
    "GPCurve",
    "GaussianProcess",
    "Kernel",
    "Matern",
    "PiecewiseCurve",
    "SquaredExponential",
    "concatenate_curves",
    "resample",
    "stack_ragged",
    "straight_line",
    "uniform_process",
]


def concatenate_curves(curves: Sequence[Curve]) -> Curve:
    """Curves of one kind, behind one another."""
    first = curves[0]
    if isinstance(first, PiecewiseCurve):
        return stack_ragged(curves)  # type: ignore[arg-type]
    columns = (np.concatenate([getattr(curve, name) for curve in curves]) for name in ("start", "end", "z"))
    return GPCurve(first.process, *columns)
