"""Variants of Algorithm 1 that the paper mentions in words, for the ablation: short loops in NumPy,
not for use."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from orthodrome._types import Array
from orthodrome.curves import GaussianProcess, GPCurve, Kernel, SquaredExponential
from orthodrome.metrics import Metric

INTEGRALS = 3
"""Of Brownian motion: paths with three derivatives."""

_GAUSS, _WEIGHTS = leggauss(4)


@dataclasses.dataclass(frozen=True, repr=False)
class IntegratedWiener(Kernel):
    """Brownian motion, integrated three times, from an uncertain beginning: not stationary, so time
    has a direction."""

    def default_lengthscale(self, mesh: int) -> float:
        """It has none; a process without a scale is scaled by its amplitude alone, which
        cancels."""
        return 1.0

    def covariance(self, t: Array, s: Array, t_order: int, s_order: int) -> Array:
        """∂ᵗ∂ˢ of Σₘ tᵐsᵐ/m!² + ∫₀^min(t, s) (t − u)³(s − u)³/3!² du, the integral exactly by
        Gauss' formula."""
        t, s = t[..., :, None], s[..., None, :]
        out = np.zeros(np.broadcast_shapes(t.shape, s.shape))
        for m in range(max(t_order, s_order), INTEGRALS + 1):
            out = out + t ** (m - t_order) * s ** (m - s_order) / math.factorial(
                m - t_order
            ) / math.factorial(m - s_order)
        least = np.minimum(t, s)
        p, q = INTEGRALS - t_order, INTEGRALS - s_order
        for node, weight in zip(_GAUSS, _WEIGHTS, strict=True):
            u = 0.5 * least * (1 + node)
            out = out + 0.5 * least * weight * (t - u) ** p * (s - u) ** q / (
                math.factorial(p) * math.factorial(q)
            )
        return out


class Iterated(NamedTuple):
    """Where P problems ended."""

    curves: list[tuple[Array, GPCurve]]
    """Which of the problems, and their curves, for each process under which some of them ended."""
    converged: Array
    iterations: Array
    evaluations: Array
    """Of f at a knot."""


def iterate(
    metric: Metric,
    start: Array,
    end: Array,
    processes: Callable[[int], GaussianProcess],
    one_by_one: bool = False,
    tol: float = 0.1,
    max_iter: int = 1000,
) -> Iterated:
    """Algorithm 1 for P problems, with the process of iteration i, and knots updated together or
    one after another.

    Either way there is a target z* and the step towards it is shortened as in the paper: 3⁻ʲ, j =
    0, …, 3.
    """
    P, d = start.shape
    N = len(processes(0).knots)
    z, rows = np.zeros((P, N, d)), np.arange(P)
    iterations, evaluations, converged = np.zeros(P, int), np.zeros(P, int), np.zeros(P, bool)
    curves = []
    for i in range(max_iter + 1):
        look = _Look.at(metric, start[rows], end[rows], processes(i))
        f, e = look(z[rows])
        evaluations[rows] += N
        converged[rows] = np.all(e <= tol, axis=1)
        stop = converged[rows] | ~np.isfinite(e.sum(axis=1)) | (i == max_iter)
        if stop.any():
            ended = rows[stop]
            curves.append((ended, GPCurve(look.process, start[ended], end[ended], z[ended])))
        rows, look, f, e = rows[~stop], look.take(~stop), f[~stop], e[~stop].sum(axis=1)
        if not len(rows):
            break
        target = look.sweep(z[rows]) if one_by_one else f
        evaluations[rows] += N if one_by_one else 0
        waiting = np.arange(len(rows))
        for j in range(4):
            trial = 3.0**-j * target[waiting] + (1 - 3.0**-j) * z[rows[waiting]]
            error = look.take(waiting)(trial)[1].sum(axis=1)
            evaluations[rows[waiting]] += N
            accept = (error <= e[waiting]) | (j == 3)
            # those that wait still need the old z: only the accepted are written
            z[rows[waiting[accept]]] = trial[accept]
            waiting = waiting[~accept]
            if not len(waiting):
                break
        iterations[rows] += 1
    return Iterated(curves, converged, iterations, evaluations)


class _Look(NamedTuple):
    """f at the knots of curves that are given by z."""

    metric: Metric
    start: Array
    end: Array
    process: GaussianProcess
    A: Array
    B: Array

    @staticmethod
    def at(metric: Metric, start: Array, end: Array, process: GaussianProcess) -> "_Look":
        return _Look(metric, start, end, process, *_weights(process))

    def take(self, rows: Array) -> "_Look":
        return self._replace(start=self.start[rows], end=self.end[rows])

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """f (P, N, d), and the squared errors (P, N)."""
        t, step = self.process.knots[:, None], (self.end - self.start)[:, None]
        c, v = self.start[:, None] + t * step + self.A @ z, step + self.B @ z
        flat = lambda x: x.reshape(-1, x.shape[-1])
        with np.errstate(all="ignore"):
            f = self.metric.accelerations(flat(c), flat(v)).reshape(c.shape)
            return f, np.sum((z - f) ** 2, axis=2)

    def sweep(self, z: Array) -> Array:
        """z with each knot's acceleration replaced by f in turn, on the curve that those before
        have made."""
        z, step = z.copy(), self.end - self.start
        for n, t in enumerate(self.process.knots):
            c, v = self.start + t * step + self.A[n] @ z, step + self.B[n] @ z
            with np.errstate(all="ignore"):
                z[:, n] = self.metric.accelerations(c, v)
        return z


@functools.lru_cache(maxsize=4)
def _weights(process: GaussianProcess) -> tuple[Array, Array]:
    """Of the mean and of its velocity at the knots: made once for each process."""
    return process.weights(process.knots, 0), process.weights(process.knots, 1)


def annealed(mesh: int, noise: float) -> Callable[[int], GaussianProcess]:
    """Σ/i: the process of iteration i. Where its Gram matrix is no longer safe, the last one that
    was."""
    made: list[GaussianProcess] = []

    def process(i: int) -> GaussianProcess:
        while len(made) < max(1, i):
            try:
                made.append(_process(mesh, noise / (1 + len(made))))
            except ValueError:
                made.append(made[-1])
        return made[max(0, i - 1)]

    return process


def constant(mesh: int, noise: float) -> Callable[[int], GaussianProcess]:
    """The same process in every iteration."""
    process = _process(mesh, noise)
    return lambda i: process


def _process(mesh: int, noise: float) -> GaussianProcess:
    return GaussianProcess(np.linspace(0, 1, mesh), SquaredExponential().resolved(mesh), noise)


def likeliest(curve: GPCurve, S: Array, factors: Array) -> list[tuple[Array, float, GPCurve]]:
    """Type-II maximum likelihood after the end: the same accelerations under their likeliest
    lengthscale.

    The amplitude is a multiple of S (d, d), the likeliest one. For each factor on the lengthscale:
    which of the P curves it is for, and their means.
    """
    _, N, d = curve.z.shape
    kernel, safe = curve.process.kernel, []
    assert kernel.lengthscale is not None
    for factor in factors:
        try:
            changed = dataclasses.replace(kernel, lengthscale=float(factor * kernel.lengthscale))
            safe.append(
                (float(factor), GaussianProcess(curve.process.knots, changed, curve.process.noise))
            )
        except ValueError:  # a Gram matrix that rounding decides is no candidate
            continue
    evidence = []
    for _, process in safe:
        G = process.prior(process.knots, process.knots, 2, 2) + process.noise * np.eye(N)
        scale = np.einsum(
            "pni,ij,pnj->p", curve.z, np.linalg.inv(S), np.linalg.solve(G, curve.z)
        ) / (N * d)
        with np.errstate(divide="ignore"):  # a straight line is as likely under any of them
            evidence.append(-0.5 * N * d * np.log(scale) - 0.5 * d * np.linalg.slogdet(G)[1])
    best = np.argmax(evidence, axis=0)
    curves = []
    for k, (factor, process) in enumerate(safe):
        rows = np.flatnonzero(best == k)
        if len(rows):
            curves.append(
                (rows, factor, GPCurve(process, curve.start[rows], curve.end[rows], curve.z[rows]))
            )
    return curves
