"""Curves by pieces of degree five, between breaks where position, velocity and acceleration are known."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Quintic Hermite basis on [0, 1], a row for each of (c₀, c₁, c₀', c₁', c₀'', c₁''), coefficients of 1, u, …, u⁵.
HERMITE = np.array(
    [
        [1, 0, 0, -10, 15, -6],
        [0, 0, 0, 10, -15, 6],
        [0, 1, 0, -6, 8, -3],
        [0, 0, 0, -4, 7, -3],
        [0, 0, 0.5, -1.5, 1.5, -0.5],
        [0, 0, 0, 0.5, -1, 0.5],
    ]
)


@dataclasses.dataclass(frozen=True, eq=False)
class PiecewiseCurve:
    """P curves, each with its own breaks; twice continuously differentiable.

    Curves with fewer breaks than others repeat their last one, which makes pieces of no width that are never used.
    """

    breaks: Array
    """(P, K): increasing from 0 to 1."""
    position: Array
    """(P, K, d)"""
    velocity: Array
    """(P, K, d)"""
    acceleration: Array
    """(P, K, d)"""

    @property
    def start(self) -> Array:
        """(P, d)"""
        return self.position[:, 0]

    @property
    def end(self) -> Array:
        """(P, d)"""
        return self.position[:, -1]

    @property
    def pieces(self) -> int:
        """Pieces of the curve that has most."""
        return self.breaks.shape[1] - 1

    def evaluate(self, t: Array, order: int = 0) -> Array:
        """The curves' derivative of this order at the times (T,): (P, T, d)."""
        P, K = self.breaks.shape
        # one sorted list for all curves: those of curve i moved to [2i, 2i + 1]
        offset = 2.0 * np.arange(P)[:, None]
        place = np.searchsorted((self.breaks + offset).ravel(), (t + offset).ravel(), side="right").reshape(P, len(t))
        last = np.argmax(self.breaks >= 1.0, axis=1)[:, None] - 1  # the last piece of positive width
        left = np.clip(place - 1 - K * np.arange(P)[:, None], 0, last)
        row = np.arange(P)[:, None]
        h = (self.breaks[row, left + 1] - self.breaks[row, left])[..., None]
        u = (t - self.breaks[row, left])[..., None] / h
        _, rise, *basis = (np.polynomial.Polynomial(c).deriv(order)(u) for c in HERMITE)
        # c₀ + (c₁ − c₀) H₁ rather than c₀ H₀ + c₁ H₁: short pieces far from the origin keep their digits
        out = rise * (self.position[row, left + 1] - self.position[row, left])
        for k, (values, scale) in enumerate([(self.velocity, h), (self.acceleration, h**2)]):
            out += scale * (basis[2 * k] * values[row, left] + basis[2 * k + 1] * values[row, left + 1])
        return out / h**order + (self.position[row, left] if order == 0 else 0.0)

    def take(self, index: Any) -> "PiecewiseCurve":
        """Some of the curves."""
        return PiecewiseCurve(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))

    def __len__(self) -> int:
        return len(self.breaks)


def stack_ragged(pieces: Sequence[tuple[Array, ...]]) -> PiecewiseCurve:
    """One `PiecewiseCurve` from several (breaks, position, velocity, acceleration), with breaks (P, K) of any K."""
    K = max(breaks.shape[1] for breaks, *_ in pieces)

    def padded(a: Array) -> Array:
        return np.concatenate([a, np.repeat(a[:, -1:], K - a.shape[1], axis=1)], axis=1)

    return PiecewiseCurve(*(np.concatenate([padded(a) for a in column]) for column in zip(*pieces, strict=True)))
