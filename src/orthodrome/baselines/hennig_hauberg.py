"""The probabilistic solver of Hennig & Hauberg (2014), which the paper sets out from: a baseline,
as it was."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array
from orthodrome.baselines.noisy import BLOCK_NUMBERS, NoisyGPCurve, gram, kronecker
from orthodrome.curves import (
    Curve,
    GaussianProcess,
    Kernel,
    SquaredExponential,
    amplitude,
    straight_line,
)
from orthodrome.curves.gp import square_root
from orthodrome.metrics import Metric
from orthodrome.solvers.base import Solution, Solver
from orthodrome.status import Status


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class HennigHauberg(Solver):
    """Evaluations of f as noisy observations of the acceleration, one knot after another, refined a
    few times.

    At the knot tₙ the posterior given the observations so far says where the curve is and how fast:
    (c, ċ), with a covariance Σ. There zₙ = f(c, ċ) is observed, with the covariance that the doubt
    about (c, ċ) gives it if the Jacobians of f are bounded by U and U̇,

        Λₙ = UᵀΣ_cc U + |U̇ᵀΣ_ċc U| + |UᵀΣ_cċ U̇| + U̇ᵀΣ_ċċ U̇.

    When all knots have been added, each is visited again and its observation replaced,
    `refinements` times.

    Because Λₙ > 0, the mean does not pass through the accelerations that are observed, and c'' =
    f(c, c') is not what the iteration ends in: the residual reaches a plateau
    (docs/derivations/hennig_hauberg.md). It is here to be compared with.
    """

    mesh: int = 10
    """Knots on [0, 1], both ends included, added from the first to the last."""
    kernel: Kernel = SquaredExponential()
    """The covariance function; without a lengthscale it takes its own default, for the paper's
    kernel λ² = ½ Δt."""
    noise: float = 1e-7
    """Σ: added to the kernel's Gram matrix, for stability."""
    bound: Any = 10.0
    """U, on the Jacobian of f by the position: a number for that multiple of the identity, or a
    matrix (d, d)."""
    velocity_bound: Any = 10.0
    """U̇, on the Jacobian of f by the velocity, in the same way."""
    refinements: int = 1
    """How often every observation is made anew."""
    search: Sequence[float] = ()
    """Factors on the lengthscale: everything is repeated with each of them, and each problem keeps
    the one under which its observations are likeliest. Empty for no search; a factor that makes the
    Gram matrix singular is refused."""
    tol: float = 0.1
    """The largest ‖c'' − f(c, c')‖² at a knot with which a path counts as converged: the paper's
    test. The method has none of its own."""

    def __post_init__(self) -> None:
        _boundary.as_count(self.mesh, "mesh", 2)
        _boundary.as_count(self.refinements, "refinements", 0)
        _boundary.require_instance(
            self.kernel, Kernel, "kernel", "SquaredExponential() or Matern()"
        )
        for name in ("noise", "tol"):
            object.__setattr__(self, name, _boundary.as_positive(getattr(self, name), name))
        for name in ("bound", "velocity_bound"):
            value = _boundary.as_floats(getattr(self, name), name)
            if value.ndim not in (0, 2) or not np.all(np.isfinite(value) & (value >= 0)):
                raise ValueError(
                    f"{name} should be a number or a matrix (d, d), none of it negative; {value} "
                    "arrived."
                )
        factors = tuple(
            _boundary.as_positive(factor, "a factor in search") for factor in self.search
        )
        object.__setattr__(self, "search", factors)
        self._processes()  # refuses what cannot be factored, before any work

    def solve(self, metric: Metric, start: Array, end: Array, init: Curve | None) -> Solution:
        """Solve all problems, as many at once as memory allows."""
        P, d = start.shape
        bounds = [self._matrix(name, d) for name in ("bound", "velocity_bound")]
        size = max(1, BLOCK_NUMBERS // (self.mesh * d) ** 2)
        blocks = [
            self._solve_block(
                metric,
                start[i : i + size],
                end[i : i + size],
                None if init is None else init.take(slice(i, i + size)),
                bounds,
            )
            for i in range(0, max(P, 1), size)
        ]
        curves, status = zip(*blocks, strict=True)
        return Solution(
            NoisyGPCurve.join(curves), np.concatenate(status), np.full(P, 1 + self.refinements)
        )

    def _solve_block(
        self, metric: Metric, start: Array, end: Array, init: Curve | None, bounds: list[Array]
    ) -> tuple[NoisyGPCurve, Array]:
        """The curves, each with its likeliest lengthscale."""
        tried = [
            self._observe(metric, start, end, init, bounds, process)
            for process in self._processes()
        ]
        best = np.argmax([evidence for _, evidence in tried], axis=0)
        P = len(start)
        curve = NoisyGPCurve.join([curve for curve, _ in tried]).take(best * P + np.arange(P))
        return curve, self._status(metric, curve)

    def _observe(
        self,
        metric: Metric,
        start: Array,
        end: Array,
        init: Curve | None,
        bounds: list[Array],
        process: GaussianProcess,
    ) -> tuple[NoisyGPCurve, Array]:
        """The curves of one process, and the log density of their observations (P,)."""
        (P, d), t = start.shape, process.knots
        V, moving = self._amplitude(metric, start, end), np.any(start != end, axis=1)
        z, z_noise = np.zeros((P, len(t), d)), np.zeros((P, len(t), d, d))
        prior, between = _at_knots(process)
        # (P, N, 2, d)
        line = np.stack([straight_line(start, end, t, order) for order in (0, 1)], axis=2)
        guess = line if init is None else np.stack(init.derivatives(t, (0, 1)), axis=2)
        for sweep in range(1 + self.refinements):
            for n in range(len(t)):
                seen = slice(n if sweep == 0 else len(t))
                mean, covariance = _posterior(
                    process, prior[n], between[n][:, seen], V, z[:, seen], z_noise[:, seen], t[seen]
                )
                at = guess[:, n] if init is not None and sweep == 0 else line[:, n] + mean
                with np.errstate(all="ignore"):
                    z[:, n] = np.where(
                        moving[:, None], metric.accelerations(at[:, 0], at[:, 1]), 0.0
                    )
                    z_noise[:, n] = _propagated(covariance, *bounds)
        G = gram(process, t, V, z_noise)
        solved, evidence = _evidence(G, z)
        curve = NoisyGPCurve(
            t,
            self.kernel,
            self.noise,
            np.full(P, process.kernel.lengthscale, dtype=float),
            start,
            end,
            V,
            z,
            z_noise,
            np.where(moving[:, None, None], np.einsum("pij,pnj->pni", V, solved), 0.0),
        )
        return curve, evidence

    def _status(self, metric: Metric, curve: NoisyGPCurve) -> Array:
        """The paper's test, at the knots."""
        P, d = curve.start.shape
        with np.errstate(all="ignore"):
            c, v, a = (x.reshape(-1, d) for x in curve.derivatives(curve.knots))
            miss = np.sum((a - metric.accelerations(c, v)) ** 2, axis=1).reshape(P, -1).max(axis=1)
        still = np.all(curve.start == curve.end, axis=1)
        return np.where(
            still | (miss <= self.tol),
            Status.CONVERGED,
            np.where(np.isfinite(miss), Status.NOT_SATISFIED, Status.NON_FINITE),
        )

    def _amplitude(self, metric: Metric, start: Array, end: Array) -> Array:
        """V; the identity where both ends are one point, so that there is something to divide
        by."""
        d = start.shape[1]
        V = amplitude(start, end, metric.prior_covariance(d))
        size = np.trace(V, axis1=1, axis2=2)
        # data in a plane have no variance across it, and no inverse of it either
        return np.where(
            (size > 0)[:, None, None], V + (FLOOR * size / d)[:, None, None] * np.eye(d), np.eye(d)
        )

    def _processes(self) -> list[GaussianProcess]:
        kernel, knots = self.kernel.resolved(self.mesh), np.linspace(0.0, 1.0, self.mesh)
        assert kernel.lengthscale is not None
        scales = [factor * kernel.lengthscale for factor in self.search or (1.0,)]
        return [
            GaussianProcess(knots, dataclasses.replace(kernel, lengthscale=scale), self.noise)
            for scale in scales
        ]

    def _matrix(self, name: str, d: int) -> Array:
        value = _boundary.as_floats(getattr(self, name), name)
        if value.ndim == 2 and value.shape != (d, d):
            raise ValueError(
                f"{name} has shape {value.shape}, the problems have {d} coordinates: pass a ({d}, "
                f"{d})."
            )
        return value if value.ndim else value * np.eye(d)


FLOOR = 1e-10
"""The least variance in any direction, relative to the mean of all."""


def _at_knots(process: GaussianProcess) -> tuple[Array, Array]:
    """Of (c, ċ) at each knot: the prior covariance (N, 2, 2), and that with all knots'
    accelerations (N, 2, N)."""
    t = process.knots
    prior = [[np.diag(process.prior(t, t, i, j)) for j in (0, 1)] for i in (0, 1)]
    between = [process.prior(t, t, i, 2) for i in (0, 1)]
    return np.array(prior).transpose(2, 0, 1), np.array(between).transpose(1, 0, 2)


def _posterior(
    process: GaussianProcess,
    prior: Array,
    between: Array,
    V: Array,
    z: Array,
    z_noise: Array,
    knots: Array,
) -> tuple[Array, Array]:
    """(c, ċ) − the straight line at one time, given observations: mean (P, 2, d), covariance (P, 2,
    d, 2, d)."""
    P, d = V.shape[:2]
    cross = kronecker(between, V)
    right = np.concatenate([cross.swapaxes(1, 2), z.reshape(P, -1, 1)], axis=2)
    solved = _solve(gram(process, knots, V, z_noise), right)
    known = cross @ solved
    covariance = kronecker(prior, V) - known[..., :-1]
    return known[..., -1].reshape(P, 2, d), covariance.reshape(P, 2, d, 2, d)


def _propagated(covariance: Array, U: Array, U_dot: Array) -> Array:
    """Λ: what doubt about (c, ċ), (P, 2, d, 2, d), makes of the doubt about f(c, ċ): (P, d, d)."""
    through = lambda A, i, j, B: A.T @ covariance[:, i, :, j] @ B
    mixed = np.abs(through(U_dot, 1, 0, U))
    spread = through(U, 0, 0, U) + mixed + mixed.swapaxes(1, 2) + through(U_dot, 1, 1, U_dot)
    finite = np.isfinite(spread).all(axis=(1, 2))
    # the absolute values of its entries may leave a matrix that is no covariance: the nearest one
    # that is
    root = square_root(0.5 * (spread + spread.swapaxes(1, 2))[finite])
    spread[finite] = root @ root.swapaxes(1, 2)
    return spread


def _evidence(G: Array, z: Array) -> tuple[Array, Array]:
    """G⁻¹ z (P, N, d), and log N(z; 0, G) but for a constant; −∞ where it is not a number."""
    solved = _solve(G, z.reshape(len(z), -1, 1)).reshape(z.shape)
    with np.errstate(all="ignore"):
        sign, log_det = np.linalg.slogdet(G)
        evidence = -0.5 * np.sum(z * solved, axis=(1, 2)) - 0.5 * log_det
    return solved, np.where((sign > 0) & np.isfinite(evidence), evidence, -np.inf)


def _solve(G: Array, right: Array) -> Array:
    """G⁻¹ right; NaN for the problems that have run to infinity, whatever LAPACK makes of them."""
    finite = np.isfinite(G).all(axis=(1, 2)) & np.isfinite(right).all(axis=(1, 2))
    out = np.full(right.shape, np.nan)
    out[finite] = np.linalg.solve(G[finite], right[finite])
    return out
