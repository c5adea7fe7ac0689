"""Integrals over tangent spaces: geodesics leave a base in many directions, and each is looked at
all along its way.

C(μ, Σ) = ∫ √det M(Exp_μ(Eu)) |det ∂Exp_μ(Eu)/∂u| exp(−½ uᵀΣ⁻¹u) du, in polar coordinates of z =
A⁻¹u with Σ = AAᵀ: one geodesic gives the integrand at every radius, so that only the directions are
left to quasi-Monte Carlo, and the same geodesics serve every Σ that is not too far from the one
they were made for (docs/derivations/land.md).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import norm, qmc

from orthodrome import batching, solving
from orthodrome._types import Array, Float, JaxArray, Scalar
from orthodrome.metrics import Metric
from orthodrome.solvers import Solver
from orthodrome.status import Status

RADII = 0.5 + 0.5 * np.polynomial.legendre.leggauss(56)[0]
WEIGHTS = 0.5 * np.polynomial.legendre.leggauss(56)[1]
"""Where on its way a ray is looked at, from 0 to 1, and the weights of the integral along it
(Gauss)."""

TAIL = 4.0
"""A ray goes √d and so many standard deviations far."""

STEPS = (1, 4, 16)
"""Steps of Runge and Kutta's method between two looks: more of them where these were not enough."""

TOGETHER = 32
"""Rays that are followed together: padding costs at most so many."""

SLIP = 1e-2
"""The speed of a geodesic is constant. Where it has changed by more than this share, a ray was not
followed."""

BODY = 2.5
"""A ray that was followed √d and so many standard deviations far need not be followed again with
more steps."""


CHANGED = 1e-3
"""A path that is shorter by this share is another path."""

TESTED = 4
"""Of so many neighbouring rays, one is asked where it stops being the shortest path. The other ones
end where the nearest of these does: each question costs several shortest paths."""

LOOKS = 7
"""Places on a ray that are tried at once when looking for that."""

NO_MASS = 1e-2
"""The end of a ray that holds no more than this share of a ray's usual mass need not be looked
at."""


State = tuple[JaxArray, JaxArray, JaxArray, JaxArray]
"""Of m rays: the way from the base, its velocity, the Jacobi fields and their velocities."""


class Rays(NamedTuple):
    """K tangent spaces, looked at in the points z of R rays with T radii each; u = A z in the frame
    of each base."""

    A: Array
    """(K, d, d): they reach as far as a Σ = A Aᵀ asks for, and serve those that are not too far
    from it."""
    z: Array
    """(K, R, T, d): the same for all K."""
    log_weight: Array
    """(K, R, T): of the integrals; −∞ where a ray has met a conjugate point or could not be
    followed."""
    points: Array
    """(K, R, T, d): where on the manifold; NaN where a ray could not be followed."""

    def log_shares(self, B: Array | None = None) -> Array:
        """log of what each point adds to C, (K, R, T), for Σ = A B⁻¹ B⁻ᵀ Aᵀ with B (K, d, d); None
        means 1."""
        z = self.z if B is None else np.einsum("kij,krtj->krti", B, self.z)
        return self.log_weight - 0.5 * np.sum(z**2, axis=-1)

    def log_integral(self, B: Array | None = None) -> Array:
        """log C (K,): what it is in flat space, and by how much the rays say that it is another
        here."""
        B = np.broadcast_to(np.eye(self.z.shape[-1]), self.A.shape) if B is None else B
        flat = (
            0.5 * len(B[0]) * np.log(2 * np.pi)
            + np.linalg.slogdet(self.A)[1]
            - np.linalg.slogdet(B)[1]
        )
        return (
            flat
            + logsumexp(self.log_shares(B), axis=(1, 2))
            - logsumexp(self._if_flat().log_shares(B), axis=(1, 2))
        )

    def moments(self, B: Array | None = None) -> tuple[Array, Array]:
        """The means of z (K, d) and of z zᵀ (K, d, d) under the densities, in the same way."""
        B = np.broadcast_to(np.eye(self.z.shape[-1]), self.A.shape) if B is None else B
        (mean, square), (flat_mean, flat_square) = self._averages(B), self._if_flat()._averages(B)
        return mean - flat_mean, square - flat_square + np.linalg.inv(B.swapaxes(1, 2) @ B)

    def _averages(self, B: Array) -> tuple[Array, Array]:
        shares = self.log_shares(B)
        p = np.exp(shares - logsumexp(shares, axis=(1, 2), keepdims=True))
        return np.einsum("krt,krti->ki", p, self.z), np.einsum(
            "krti,krtj->kij", p[..., None] * self.z, self.z
        )

    def _if_flat(self) -> "Rays":
        """The same looks with the weights that they have in flat space."""
        _, R, _, d = self.z.shape
        along = _radial(d) - np.log(R) + np.linalg.slogdet(self.A)[1][:, None]
        return self._replace(log_weight=np.broadcast_to(along[:, None], self.log_weight.shape))

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """u (count, d) in the first of the tangent spaces, drawn from the density there."""
        mass = np.exp(self.log_shares() - self.log_integral()[:, None, None])[0]  # (R, T)
        ray = rng.choice(len(mass), count, p=mass.sum(axis=1) / mass.sum())
        reached = np.cumsum(mass[ray], axis=1)
        place = rng.uniform(size=count) * reached[:, -1]
        radii = np.linalg.norm(self.z[0, 0], axis=-1)
        edges = np.concatenate([[0.0], 0.5 * (radii[1:] + radii[:-1]), [radii[-1]]])
        radius = [
            np.interp(x, np.concatenate([[0.0], steps]), edges)
            for x, steps in zip(place, reached, strict=True)
        ]
        return np.array(radius)[:, None] * (self.z[0, ray, -1] / radii[-1]) @ self.A[0].T

    @property
    def status(self) -> Array:
        """(K, R): `Status` numbers: whether the rays were followed as far as their mass goes."""
        lost = np.isnan(self.points[:, :, _body(self.points.shape[-1]), 0])
        return np.where(lost, Status.NON_FINITE, Status.CONVERGED)

    def one(self, k: int) -> "Rays":
        """Those of the k-th base alone."""
        return Rays(*(array[k : k + 1] for array in self))

    def where(self, which: Array, other: "Rays") -> "Rays":
        """These for the bases in the mask (K,), else the other's."""
        return Rays(
            *(
                np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b)
                for a, b in zip(self, other, strict=True)
            )
        )

    def put(self, which: Array, some: "Rays") -> "Rays":
        """Those of `some` for the bases in the mask (K,), of which it has only these."""
        out = Rays(*(array.copy() for array in self))
        for all_, new in zip(out, some, strict=True):
            all_[which] = new
        return out


def directions(count: int, dim: int, seed: int) -> Array:
    """(R, d) unit vectors that cover all directions evenly; about `count` of them."""
    if dim == 1:
        return np.array([[1.0], [-1.0]])
    turn = np.random.default_rng(seed).uniform()
    if dim == 2:
        angle = 2 * np.pi * (np.arange(count) + turn) / count
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    half = 1 << max(0, count // 2 - 1).bit_length()
    normal = norm.ppf(
        qmc.Sobol(dim, rng=np.random.default_rng(seed)).random(half).clip(1e-12, 1 - 1e-12)
    )
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return np.concatenate([normal, -normal])


def cast(
    metric: Metric, bases: Array, frames: Array, A: Array, omega: Array, exact: bool = True
) -> Rays:
    """Rays in directions omega (R, d) from K bases, whose frames (K, d, d) are L with M = LLᵀ; A
    (K, d, d).

    `exact=False` leaves the Jacobian of the exponential map out, as the paper of 2016 does.
    """
    K, (R, d) = len(bases), omega.shape
    reach = np.sqrt(d) + TAIL
    # z ↦ the velocity that goes `reach` times as far
    out = reach * np.linalg.solve(frames.swapaxes(1, 2), A)
    turned = _turned(omega)
    # (…, c, i): the ray, and across it
    start = np.einsum("kij,rjc->krci", out, turned).reshape(K * R, d, d)
    x, log_volume = _integrated(metric, np.repeat(bases, R, axis=0), start)
    x, log_volume = x.reshape(K, R, -1, d), log_volume.reshape(K, R, -1)
    if not exact:
        here = metric.log_volume(bases)[:, None, None]
        seen = np.isfinite(x).all(axis=-1)
        volume = np.zeros(seen.shape)
        volume[seen] = metric.log_volume(x[seen])
        spread = np.linalg.slogdet(A)[1][:, None, None]
        log_weight = np.where(seen, volume - here + spread + _radial(d) - np.log(R), -np.inf)
    else:
        log_weight = (
            log_volume - np.log(reach) - (d - 1) * np.log(reach * RADII) + _radial(d) - np.log(R)
        )
    z = reach * RADII[:, None] * omega[:, None]
    return Rays(A, np.broadcast_to(z, (K, *z.shape)), log_weight, x)


def within_cut(metric: Metric, bases: Array, rays: Rays, solver: Solver) -> Rays:
    """The rays from bases (K, d), each ended where it is no longer the shortest way.

    Behind the cut locus points are counted that another ray has reached by a shorter way. The paths
    to the ends of some rays' masses tell which of these got there, and halving tells where; the
    others end where the nearest of these do.
    """
    K, R, T, _ = rays.points.shape
    share = np.exp(rays.log_shares() - rays.log_integral()[:, None, None]) * R
    rest = np.cumsum(share[..., ::-1], axis=2)[..., ::-1]
    last = np.sum(rest > NO_MASS, axis=2) - 1  # (K, R); −1 for rays without mass
    radius = np.linalg.norm(np.einsum("kij,krtj->krti", rays.A, rays.z), axis=3)

    def shortest(k: Array, r: Array, t: Array) -> Array:
        return is_shortest(metric, bases[k], rays.points[k, r, t], radius[k, r, t], solver)

    tested = np.arange(R) % (TESTED if R > TESTED else 1) == 0
    k, r = np.nonzero((last >= 0) & tested)
    end = np.full((K, R), T - 1)
    passed = ~shortest(k, r, last[k, r])
    k, r = k[passed], r[passed]
    # the last look that is known to be inside, the first outside
    inside = np.full(len(k), -1)
    outside = last[k, r]
    while len(k):
        looks = inside[:, None] + np.arange(1, LOOKS + 1) * (outside - inside)[:, None] // (
            LOOKS + 1
        )
        looks = np.maximum(looks, 0)
        good = shortest(np.repeat(k, LOOKS), np.repeat(r, LOOKS), looks.ravel()).reshape(
            looks.shape
        )
        good = np.logical_and.accumulate(good, axis=1)
        inside = np.maximum(inside, np.max(np.where(good, looks, -1), axis=1))
        outside = np.minimum(outside, np.min(np.where(good, T, looks), axis=1))
        end[k, r] = inside
        going = outside - inside > 1
        k, r, inside, outside = k[going], r[going], inside[going], outside[going]
    omega = rays.z[0, :, -1]
    nearest = np.argmax(omega @ omega[tested].T, axis=1)
    end = end[:, tested][:, nearest]
    return rays._replace(
        log_weight=np.where(np.arange(T) <= end[..., None], rays.log_weight, -np.inf)
    )


def is_shortest(metric: Metric, bases: Array, ends: Array, lengths: Array, solver: Solver) -> Array:
    """(P,): whether geodesics of these lengths are the shortest ways from bases to ends, (P, d)
    each, that we know."""
    shortest = np.empty(len(bases))
    for block, solution in solving.solve(metric, bases, ends, solver):
        shortest[block] = solution.verdict.length
    return ~(shortest < (1 - CHANGED) * lengths)


def _radial(d: int) -> Array:
    """(T,): log of the weights of an integral over all of flat space, for looks at the radii of one
    ray."""
    reach = np.sqrt(d) + TAIL
    area = np.log(2) + d / 2 * np.log(np.pi) - gammaln(d / 2)
    return area + (d - 1) * np.log(reach * RADII) + np.log(reach * WEIGHTS)


def _body(d: int) -> int:
    """The look up to which a ray should be followed."""
    return int(np.searchsorted(RADII, (np.sqrt(d) + BODY) / (np.sqrt(d) + TAIL)))


def _turned(omega: Array) -> Array:
    """Rotations (R, d, d), up to sign, whose first columns are the directions (R, d): Householder's
    reflections."""
    d = omega.shape[1]
    sign = np.where(omega[:, :1] >= 0, 1.0, -1.0)
    v = omega.copy()
    v[:, :1] += sign
    H = np.eye(d) - 2 * v[:, :, None] * v[:, None, :] / np.sum(v**2, axis=1)[:, None, None]
    return -sign[..., None] * H


def _integrated(metric: Metric, a: Array, start: Array) -> tuple[Array, Array]:
    """P rays from points (P, d) with velocities start[:, 0], and what becomes of changes start[:,
    1:] of these.

    Returns the points (P, T, d), NaN where a ray could not be followed, and log(√det M |det(c',
    J)|) there, J the Jacobi fields; −∞ from the first conjugate point on, where that determinant
    changes its sign.
    """
    P, d = a.shape
    x, volume = np.full((P, len(RADII), d), np.nan), np.full((P, len(RADII)), -np.inf)
    todo, speed = np.arange(P), metric.norm(a, start[:, 0])
    for steps in STEPS:
        count = np.full(len(todo), steps)
        points, w, J = batching.over_points(
            _march, metric, a[todo], start[todo], count, few=0, tile=TOGETHER
        )
        there = (
            np.isfinite(points).all(axis=2)
            & np.isfinite(w).all(axis=2)
            & np.isfinite(J).all(axis=(2, 3))
        )
        slip = np.full(there.shape, np.inf)
        slip[there] = np.abs(
            metric.norm(points[there], w[there]) / np.repeat(speed[todo], there.sum(axis=1)) - 1
        )
        followed = np.logical_and.accumulate(slip <= SLIP, axis=1)
        x[todo] = np.where(followed[..., None], points, np.nan)
        across = np.concatenate([w[:, :, None], J], axis=2)
        sign, log_det = np.linalg.slogdet(np.where(followed[..., None, None], across, np.eye(d)))
        same = sign == np.linalg.slogdet(start[todo])[0][:, None]
        inside = np.logical_and.accumulate(followed & same, axis=1)
        volume[todo] = np.where(inside, log_det, -np.inf)
        todo = todo[~followed[:, _body(d)]]
        if not len(todo):
            break
    seen = np.isfinite(volume)
    volume[seen] += metric.log_volume(x[seen])
    return x, volume


def _march(
    metric: Metric, a: Float[JaxArray, "m d"], start: Float[JaxArray, "m d d"], steps: JaxArray
) -> Any:
    """Points, velocities and Jacobi fields of m rays at all radii, with steps[0] steps between
    them."""
    d = a.shape[1]

    def field(y: State) -> Any:
        u, w, J, dJ = y
        f, by_change = jax.linearize(lambda u, w: metric.motion_along(a + u, w)[0], u, w)
        return w, f, dJ, jax.vmap(by_change)(J, dJ)

    def step(h: Scalar, y: State) -> Any:
        ahead = lambda share, k: jax.tree.map(lambda p, q: p + share * h * q, y, k)
        k1 = field(y)
        k2 = field(ahead(0.5, k1))
        k3 = field(ahead(0.5, k2))
        k4 = field(ahead(1.0, k3))
        return jax.tree.map(
            lambda p, a, b, c, e: p + h / 6 * (a + 2 * b + 2 * c + e), y, k1, k2, k3, k4
        )

    def panel(y: State, width: Scalar) -> Any:
        y = jax.lax.fori_loop(0, steps[0], lambda _, y: step(width / steps[0], y), y)
        return y, y[:3]

    across = jnp.moveaxis(start[:, 1:], 1, 0)
    y0 = jnp.zeros_like(a), start[:, 0], jnp.zeros((d - 1, *a.shape)), across
    _, (u, w, J) = jax.lax.scan(panel, y0, jnp.diff(jnp.asarray(RADII), prepend=0.0))
    return a[:, None] + jnp.moveaxis(u, 0, 1), jnp.moveaxis(w, 0, 1), jnp.moveaxis(J, 2, 0)
