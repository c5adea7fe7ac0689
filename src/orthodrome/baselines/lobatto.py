"""Collocation of order five for one boundary value problem, by the four-point Lobatto IIIa formula
of MATLAB's bvp5c.

On each interval the curve is a polynomial of degree 4 that satisfies the equation at the four
Lobatto points, its ends among them. Newton's method, damped, finds all of them together; where the
equation is missed between those points, intervals are split. The Jacobians are finite differences,
as there.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.legendre import leggauss
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu

from orthodrome._types import Array
from orthodrome.status import Status

Field = Callable[[Array], Array]
"""y (m, n) ↦ dy/dt (m, n)."""

NODES = np.array([0.0, 0.5 - 0.5 / np.sqrt(5), 0.5 + 0.5 / np.sqrt(5), 1.0])
"""The four Lobatto points of [0, 1]."""

_LAGRANGE = [
    Polynomial.fromroots(np.delete(NODES, j)) / np.prod(NODES[j] - np.delete(NODES, j))
    for j in range(len(NODES))
]
_INTEGRALS = [basis.integ(lbnd=0) for basis in _LAGRANGE]
A = np.array([[integral(node) for integral in _INTEGRALS] for node in NODES])
"""∫₀^cᵢ ℓⱼ: the coefficients of the Runge–Kutta formula."""

_GAUSS, _WEIGHTS = leggauss(5)
LOOKS, LOOK_WEIGHTS = 0.5 + 0.5 * _GAUSS, 0.5 * _WEIGHTS
"""Where on an interval the residual is looked at, and the weights of its mean square."""

NEWTON_STEPS = 8
SHORTENINGS = 4
DECREASE = 0.2
"""A step of length α should make the next one shorter by a factor 1 − 2 · DECREASE · α, in its
square."""
NEWTON_SHARE = 0.05
"""Newton's method ends when what it misses is such a share of the tolerance."""
MUCH = 100.0
"""An interval that misses the tolerance by so many times is split in three rather than in two."""
DIFFERENCE = np.sqrt(np.finfo(float).eps)
"""Relative step of the finite differences."""


class Curve(NamedTuple):
    """Values at the nodes t (M + 1,) and at the two points inside each interval."""

    t: Array
    y: Array
    """(M + 1, n)"""
    inner: Array
    """(M, 2, n)"""

    @property
    def stages(self) -> Array:
        """At the four points of each interval: (M, 4, n)."""
        return np.concatenate([self.y[:-1, None], self.inner, self.y[1:, None]], axis=1)


def solve(
    field: Field, t: Array, y: Array, tol: float, max_nodes: int
) -> tuple[Curve, Status, int]:
    """Solve dy/dt = field(y) with y = (c, v), from a guess y (M + 1, n) at the times t whose ends c
    are already right.

    Returns the curve, how the search for it ended, and how many meshes were tried.
    """
    curve = Curve(t, y, _linear(y))
    iterations = 0
    while True:
        iterations += 1
        try:
            curve, unsettled = _newton(field, curve, tol)
        except np.linalg.LinAlgError:
            return curve, Status.SINGULAR_JACOBIAN, iterations
        slopes = _slopes(field, curve)
        try:
            missed = _residuals(field, curve, slopes)
        except (
            FloatingPointError
        ):  # between its points the curve goes where the field is not finite
            missed = np.full(len(slopes), np.inf)
        if missed.max() <= tol and not unsettled.any():
            return curve, Status.CONVERGED, iterations
        parts = np.where(missed > MUCH * tol, 3, np.where((missed > tol) | unsettled, 2, 1))
        if len(curve.t) + np.sum(parts - 1) > max_nodes:
            return curve, Status.MAX_NODES, iterations
        curve = _split(curve, slopes, parts)


def _linear(y: Array) -> Array:
    """Values inside the intervals, on straight lines: (M, 2, n)."""
    u = NODES[1:3, None]
    return (1 - u) * y[:-1, None] + u * y[1:, None]


def _slopes(field: Field, curve: Curve) -> Array:
    """The field at the four points of each interval: (M, 4, n). What two intervals share is
    evaluated once."""
    M, n = len(curve.inner), curve.y.shape[1]
    values = field(np.concatenate([curve.y, curve.inner.reshape(-1, n)]))
    return _four(values, M)


def _four(values: Array, M: int) -> Array:
    """Values at M + 1 nodes and then at 2M inner points, (3M + 1, ...), as those at each interval's
    four points."""
    nodes, inner = values[: M + 1], values[M + 1 :].reshape(M, 2, *values.shape[1:])
    return np.concatenate([nodes[:-1, None], inner, nodes[1:, None]], axis=1)


def _jacobians(field: Field, curve: Curve, slopes: Array) -> Array:
    """Of the field at the four points of each interval, by differences: (M, 4, n, n), derivatives
    last."""
    M, n = len(curve.inner), curve.y.shape[1]
    points = np.concatenate([curve.y, curve.inner.reshape(-1, n)])
    values = np.concatenate([slopes[:, 0], slopes[-1:, 3], slopes[:, 1:3].reshape(-1, n)])
    step = DIFFERENCE * (1 + np.abs(points))  # (m, n)
    moved = points[None] + np.einsum("mn,kn->kmn", step, np.eye(n))
    change = field(moved.reshape(-1, n)).reshape(n, len(points), n) - values
    return _four(np.einsum("kmi,mk->mik", change, 1 / step), M)


def _defects(curve: Curve, slopes: Array) -> Array:
    """Yᵢ − y₀ − h Σⱼ aᵢⱼ Fⱼ for i = 2, 3, 4: (M, 3, n)."""
    h = np.diff(curve.t)[:, None, None]
    return curve.stages[:, 1:] - curve.y[:-1, None] - h * np.einsum("ij,mjn->min", A[1:], slopes)


def _newton(field: Field, curve: Curve, tol: float) -> tuple[Curve, Array]:
    """Damped Newton steps until the defects are small, or no more of them help; and where they are
    not small: (M,).

    A step that leads to where the field is not finite is shortened as one that does not help.
    """
    h = np.diff(curve.t)[:, None, None]
    slopes = _slopes(field, curve)
    defects = _defects(curve, slopes)
    system = None
    for _ in range(NEWTON_STEPS):
        if system is None:
            system = _System(curve, _jacobians(field, curve, slopes))
            step = system.solve(defects)
        cost, accepted = _size(step), None
        for j in range(SHORTENINGS + 1):
            alpha = 0.5**j
            tried = Curve(curve.t, curve.y - alpha * step[0], curve.inner - alpha * step[1])
            try:
                slopes_there = _slopes(field, tried)
            except FloatingPointError:
                continue
            defects_there = _defects(tried, slopes_there)
            accepted = tried, slopes_there, defects_there, system.solve(defects_there)
            if _size(accepted[-1]) < (1 - 2 * alpha * DECREASE) * cost:
                break
        if accepted is None:
            break
        curve, slopes, defects, step = accepted
        if not _unsettled(defects, slopes, h, tol).any():
            break
        if alpha < 1:
            system = None  # a full step keeps the Jacobian
    return curve, _unsettled(defects, slopes, h, tol)


def _unsettled(defects: Array, slopes: Array, h: Array, tol: float) -> Array:
    """The intervals on which Newton's method has not arrived: (M,)."""
    return np.any(
        np.abs(defects) > NEWTON_SHARE * tol * h * (1 + np.abs(slopes[:, 1:])), axis=(1, 2)
    )


def _size(step: tuple[Array, Array]) -> float:
    return float(sum(np.sum(part**2) for part in step))


class _System:
    """The linear equations of a Newton step: inner points are eliminated interval by interval,
    nodes all at once."""

    def __init__(self, curve: Curve, J: Array) -> None:
        M, n = len(curve.inner), curve.y.shape[1]
        h = np.diff(curve.t)[:, None, None, None, None]
        # by the value at stage j, the defect of stage i changes by δᵢⱼ − h aᵢⱼ Jⱼ: (M, 3, 4, n, n)
        change = -h * A[1:, :, None, None] * J[:, None]
        change[:, [0, 1, 2], [1, 2, 3]] += np.eye(n)
        change[:, :, 0] -= np.eye(n)
        block = lambda rows, columns: (
            change[:, rows][:, :, columns]
            .swapaxes(2, 3)
            .reshape(M, len(rows) * n, len(columns) * n)
        )
        self.inner = np.linalg.inv(block([0, 1], [1, 2]))
        self.from_nodes = self.inner @ block([0, 1], [0, 3])
        self.last_by_inner = block([2], [1, 2])
        self.nodes = block([2], [0, 3]) - self.last_by_inner @ self.from_nodes  # (M, n, 2n)
        self.shape = M, n
        self.solve_nodes = self._factor()

    def _factor(self) -> Callable[[Array], Array]:
        """Of the equations of the nodes, whose positions are known at both ends."""
        M, n = self.shape
        row = np.arange(M * n).reshape(M, n, 1)
        column = np.arange(M)[:, None, None] * n + np.arange(2 * n)
        rows, columns = (np.broadcast_to(index, (M, n, 2 * n)).ravel() for index in (row, column))
        d, total = n // 2, (M + 1) * n
        free = np.delete(np.arange(total), [*range(d), *range(M * n, M * n + d)])
        matrix = csc_array((self.nodes.ravel(), (rows, columns)), shape=(M * n, total))[:, free]
        try:
            factor = splu(matrix)
        except RuntimeError as error:  # SciPy's word for a matrix that is exactly singular
            raise np.linalg.LinAlgError(str(error)) from None

        def solved(right: Array) -> Array:
            out = np.zeros(total)
            out[free] = factor.solve(right.ravel())
            return out.reshape(M + 1, n)

        return solved

    def solve(self, defects: Array) -> tuple[Array, Array]:
        """The changes at the nodes and inside that would make these defects."""
        M, n = self.shape
        inner = np.einsum("mij,mj->mi", self.inner, defects[:, :2].reshape(M, -1))
        nodes = self.solve_nodes(defects[:, 2] - np.einsum("mij,mj->mi", self.last_by_inner, inner))
        ends = np.concatenate([nodes[:-1], nodes[1:]], axis=1)
        return nodes, (inner - np.einsum("mij,mj->mi", self.from_nodes, ends)).reshape(M, 2, n)


def _values(curve: Curve, slopes: Array, interval: Array, u: Array) -> Array:
    """The polynomials of some intervals (m,) at the places u (m,) of [0, 1] on them: (m, n)."""
    integrals = np.stack([integral(u) for integral in _INTEGRALS], axis=1)
    h = np.diff(curve.t)[interval]
    return curve.y[interval] + h[:, None] * np.einsum("mj,mjn->mn", integrals, slopes[interval])


def _residuals(field: Field, curve: Curve, slopes: Array) -> Array:
    """The root mean square of S' − f(S), relative to 1 + |f|, on each interval: (M,)."""
    M = len(slopes)
    interval, u = np.repeat(np.arange(M), len(LOOKS)), np.tile(LOOKS, M)
    f = field(_values(curve, slopes, interval, u))
    derivative = np.einsum(
        "qj,mjn->mqn", np.stack([basis(LOOKS) for basis in _LAGRANGE], axis=1), slopes
    )
    relative = (derivative.reshape(f.shape) - f) / (1 + np.abs(f))
    return np.sqrt(np.sum(relative**2, axis=1).reshape(M, -1) @ LOOK_WEIGHTS)


def _split(curve: Curve, slopes: Array, parts: Array) -> Curve:
    """The same curve on a finer mesh: interval k in `parts[k]` equal pieces."""
    old = np.repeat(np.arange(len(parts)), parts)
    piece = np.arange(len(old)) - np.repeat(np.cumsum(parts) - parts, parts)
    width = 1.0 / parts[old]
    u = piece * width
    t = np.append(curve.t[old] + u * np.diff(curve.t)[old], curve.t[-1])
    y = np.concatenate([_values(curve, slopes, old, u), curve.y[-1:]])
    inner = [_values(curve, slopes, old, u + node * width) for node in NODES[1:3]]
    return Curve(t, y, np.stack(inner, axis=1))
