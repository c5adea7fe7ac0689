"""Curves by pieces of degree five, between breaks where position, velocity and acceleration are
known."""

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np

from orthodrome._types import Array
from orthodrome.curves.base import Curve

# Quintic Hermite basis on [0, 1], a row for each of (c₀, c₁, c₀', c₁', c₀'', c₁''), coefficients of
# 1, u, …, u⁵.
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
class PiecewiseCurve(Curve):
    """P curves, each with its own breaks; twice continuously differentiable.

    Curves with fewer breaks than others repeat their last one, which makes pieces of no width that
    are never used.
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

    def mesh(self, panels: int) -> Array:
        """Times (P, panels + 1) that follow each curve's own breaks, several or a fraction of a
        piece to a panel."""
        return spread_as(self.breaks, panels)

    def evaluate(self, t: Array, order: int = 0) -> Array:
        """The curves' derivative of this order at the times (T,), or at times of their own (P, T):
        (P, T, d)."""
        return self.derivatives(t, [order])[0]

    def derivatives(self, t: Array, orders: Sequence[int] = (0, 1, 2)) -> list[Array]:
        """Several derivatives at the same times: `evaluate` for each of the orders."""
        P, K = self.breaks.shape
        t = np.broadcast_to(t, (P, t.shape[-1]))
        # one sorted list for all curves: those of curve i moved to [2i, 2i + 1]
        row = np.arange(P)[:, None]
        place = np.searchsorted(
            (self.breaks + 2.0 * row).ravel(), (t + 2.0 * row).ravel(), side="right"
        )
        # the last piece of positive width
        last = np.argmax(self.breaks >= 1.0, axis=1)[:, None] - 1
        piece = np.clip(place.reshape(t.shape) - 1 - K * row, 0, last)
        start = self.breaks[row, piece]
        h = self.breaks[row, piece + 1] - start
        u = (t - start) / h
        powers = np.cumprod(np.stack([np.ones_like(u), *[u] * 5], axis=-1), axis=-1)
        coefficients, values = self._coefficients()[row, piece], []
        for order in orders:
            k = np.arange(max(order, 1), 6)  # of uᵏ, the derivative is k (k − 1) … uᵏ⁻ᵒʳᵈᵉʳ
            basis = (
                powers[..., k - order]
                * np.prod([k - i for i in range(order)], axis=0)
                / h[..., None] ** order
            )
            value = np.einsum("ptk,ptkd->ptd", basis, coefficients[..., k[0] - 1 :, :])
            values.append(value + self.position[row, piece] if order == 0 else value)
        return values

    def _coefficients(self) -> Array:
        """Of u, …, u⁵ on each piece, (P, K − 1, 5, d), after its first point: so short pieces far
        from the origin keep their digits."""
        h = np.diff(self.breaks)[..., None]
        ends = [np.diff(self.position, axis=1)]
        for values, scale in ((self.velocity, h), (self.acceleration, h**2)):
            ends += [scale * values[:, :-1], scale * values[:, 1:]]
        return np.einsum("ek,epjd->pjkd", HERMITE[1:, 1:], np.stack(ends), optimize=True)

    @staticmethod
    def through(points: Array) -> "PiecewiseCurve":
        """Curves through evenly timed points (P, K + 1, d); velocities and accelerations are their
        differences."""
        P, count = points.shape[:2]
        h = 1.0 / (count - 1)
        acceleration = np.zeros_like(points)
        acceleration[:, 1:-1] = np.diff(points, 2, axis=1) / h**2
        breaks = np.broadcast_to(np.linspace(0.0, 1.0, count), (P, count))
        return PiecewiseCurve(breaks, points, np.gradient(points, h, axis=1), acceleration)

    def reversed(self, which: Array) -> Self:
        """The same curves, those in the mask (P,) run backwards."""
        K = self.breaks.shape[1]
        last = np.argmax(self.breaks >= 1.0, axis=1)[:, None]
        # the breaks from the last one back to the first, which is then repeated as the last one was
        index = np.where(which[:, None], np.maximum(last - np.arange(K), 0), np.arange(K))
        row, sign = np.arange(len(self))[:, None], np.where(which, -1.0, 1.0)[:, None]
        breaks = self.breaks[row, index]
        return type(self)(
            np.where(which[:, None], 1.0 - breaks, breaks),
            self.position[row, index],
            sign[..., None] * self.velocity[row, index],
            self.acceleration[row, index],
        )

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Several curves behind one another, with any numbers of breaks."""
        K = max(part.breaks.shape[1] for part in parts)

        def padded(rows: Array) -> Array:
            return np.concatenate(
                [rows, np.repeat(rows[:, -1:], K - rows.shape[1], axis=1)], axis=1
            )

        names = [field.name for field in dataclasses.fields(cls)]
        columns = ([padded(getattr(part, name)) for part in parts] for name in names)
        return cls(*map(np.concatenate, columns))

    def __len__(self) -> int:
        return len(self.breaks)


def spread_as(breaks: Array, panels: int) -> Array:
    """Times (P, panels + 1) spread as the breaks (P, K) are, whatever their number."""
    own = np.argmax(breaks >= 1.0, axis=1)[:, None]  # pieces of positive width
    place = own * np.linspace(0.0, 1.0, panels + 1)
    left = np.minimum(place.astype(int), own - 1)
    row = np.arange(len(breaks))[:, None]
    return breaks[row, left] + (place - left) * (breaks[row, left + 1] - breaks[row, left])


def resample(values: Array, at: Array, count: int) -> Array:
    """Polylines (P, S, d), known at increasing numbers (P, S), at `count` evenly spaced ones from
    first to last."""
    P, S = at.shape
    span = at[:, -1:] - at[:, :1]
    at = (at - at[:, :1]) / np.where(span > 0, span, 1.0)
    offset = 2.0 * np.arange(P)[:, None]  # one sorted list for all of them
    wanted = np.linspace(0.0, 1.0, count)
    place = np.searchsorted((at + offset).ravel(), (wanted + offset).ravel()).reshape(P, count)
    row, right = np.arange(P)[:, None], np.clip(place - S * np.arange(P)[:, None], 1, S - 1)
    width = at[row, right] - at[row, right - 1]
    u = np.clip((wanted - at[row, right - 1]) / np.where(width > 0, width, 1.0), 0.0, 1.0)[
        ..., None
    ]
    return (1 - u) * values[row, right - 1] + u * values[row, right]


def end_to_end(
    legs: Sequence[Curve], lengths: Sequence[Array], points: int = 129
) -> PiecewiseCurve:
    """Curves that run through the first legs and then through the second, at the pace that their
    lengths (P,) set."""
    t = np.linspace(0.0, 1.0, points)
    first, second = (length[:, None] * t for length in lengths)
    values = np.concatenate([leg.evaluate(t) for leg in legs], axis=1)
    return PiecewiseCurve.through(
        resample(values, np.concatenate([first, first[:, -1:] + second], axis=1), points)
    )
