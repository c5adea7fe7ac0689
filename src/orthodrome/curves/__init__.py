"""Curves on [0, 1]: representations that can be evaluated, with their derivatives, at any time."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from orthodrome.curves.gp import (
    GaussianProcess,
    GPCurve,
    amplitude,
    far_knots,
    straight_line,
    uniform_process,
)
from orthodrome.curves.kernels import Kernel, Matern, SquaredExponential
from orthodrome.curves.noisy import NoisyGPCurve
from orthodrome.curves.piecewise import PiecewiseCurve, join_curves, resample, stack_ragged

Curve = GPCurve | NoisyGPCurve | PiecewiseCurve

__all__ = [
    "Curve",
    "GPCurve",
    "GaussianProcess",
    "Kernel",
    "Matern",
    "NoisyGPCurve",
    "PiecewiseCurve",
    "SquaredExponential",
    "amplitude",
    "concatenate_curves",
    "far_knots",
    "join_curves",
    "resample",
    "stack_ragged",
    "straight_line",
    "uniform_process",
]


def concatenate_curves(curves: Sequence[Any]) -> Curve:
    """Curves of one kind, behind one another."""
    first: Any = curves[0]
    if isinstance(first, PiecewiseCurve):
        return stack_ragged(curves)
    if isinstance(first, NoisyGPCurve):
        return NoisyGPCurve.stack(curves)
    if first.process.knots.ndim == 2:  # a mesh for each curve
        most = max(curve.z.shape[1] for curve in curves)
        knots = np.concatenate([far_knots(curve.process.knots, most) for curve in curves])
        z = [np.pad(curve.z, ((0, 0), (0, most - curve.z.shape[1]), (0, 0))) for curve in curves]
        process = dataclasses.replace(first.process, knots=knots)
    else:
        process, z = first.process, [curve.z for curve in curves]
    start, end = (
        np.concatenate([getattr(curve, name) for curve in curves]) for name in ("start", "end")
    )
    return GPCurve(process, start, end, np.concatenate(z), first.calibrated)
