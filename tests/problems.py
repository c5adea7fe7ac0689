"""The bank of problems with known answers that every solver, map and estimator meets."""

import dataclasses
from collections.abc import Callable
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

import orthodrome as od


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Geodesics whose lengths are known."""

    name: str
    metric: od.Metric
    start: np.ndarray
    end: np.ndarray
    distance: np.ndarray
    on_geodesic: Callable
    """(path points (P, T, d)) -> (P, T) how far they are from the true curve, as a set."""


PAIRS = 8


def half_space(d: int) -> Problem:
    """Hyperbolic space; geodesics are arcs of circles centred on the boundary."""
    a, b = _points(d)
    a[:, -1], b[:, -1] = np.exp(a[:, -1]), np.exp(b[:, -1])
    distance = np.arccosh(1 + np.sum((a - b) ** 2, axis=1) / (2 * a[:, -1] * b[:, -1]))

    def off(c):
        base = b[:, :-1] - a[:, :-1]
        width = np.linalg.norm(base, axis=1)
        # in the plane of a and b: horizontal coordinate along base, centre at s, all points at the
        # same radius
        s = (b[:, -1] ** 2 - a[:, -1] ** 2 + width**2) / (2 * width)
        radius = np.hypot(s, a[:, -1])
        along = np.einsum("pti,pi->pt", c[..., :-1] - a[:, None, :-1], base) / width[:, None]
        across = c[..., :-1] - a[:, None, :-1] - along[..., None] * (base / width[:, None])[:, None]
        return np.abs(np.hypot(along - s[:, None], c[..., -1]) - radius[:, None]) + np.linalg.norm(
            across, axis=-1
        )

    return Problem("half-space", od.MetricTensor(_half_space_tensor, d), a, b, distance, off)


def sphere(d: int) -> Problem:
    """The unit sphere in stereographic coordinates; geodesics are great circles."""
    a, b = _points(d)
    distance = 2 * np.arcsin(np.linalg.norm(_lift(a) - _lift(b), axis=1) / 2)

    def off(c):
        u, v = _lift(a), _lift(b)
        v = v - np.sum(u * v, axis=1, keepdims=True) * u
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        y = _lift(c)
        inside = (
            np.einsum("pti,pi->pt", y, u)[..., None] * u[:, None]
            + np.einsum("pti,pi->pt", y, v)[..., None] * v[:, None]
        )
        return np.linalg.norm(y - inside, axis=-1)

    return Problem("sphere", od.MetricTensor(_sphere_tensor, d), a, b, distance, off)


def flat(d: int) -> Problem:
    """Flat space in curved coordinates; geodesics are straight lines after the change of
    coordinates."""
    a, b = _points(d)
    distance = np.linalg.norm(_bend(b) - _bend(a), axis=1)

    def off(c):
        step = (_bend(b) - _bend(a)) / distance[:, None]
        offset = _bend(c) - _bend(a)[:, None]
        along = np.einsum("pti,pi->pt", offset, step)
        return np.linalg.norm(offset - along[..., None] * step[:, None], axis=-1)

    return Problem("flat", od.Pullback(_bend_map), a, b, distance, off)


def paraboloid(d: int) -> Problem:
    """z = ‖x‖²; lengths by Clairaut's relation, in the plane that the two points span with the
    axis."""
    rng = np.random.default_rng(d)
    a = rng.standard_normal((PAIRS, d))
    b = a + 0.5 * np.linalg.norm(a, axis=1, keepdims=True) * rng.standard_normal(
        (PAIRS, d)
    ) / np.sqrt(d)
    a *= 0.6 / np.linalg.norm(a, axis=1, keepdims=True)
    b *= 1.2 / np.linalg.norm(b, axis=1, keepdims=True)
    angle = np.arccos(np.sum(a * b, axis=1) / (0.6 * 1.2))
    clairaut = [_clairaut(0.6, 1.2, x) for x in angle]
    h = np.array([h for h, _ in clairaut])
    distance = np.array([length for _, length in clairaut])

    def off(c):
        # Clairaut: r² θ' / speed = h along the whole geodesic, from finite differences of a fine
        # sampling
        r = np.linalg.norm(c, axis=-1)
        lifted = np.concatenate([c, r[..., None] ** 2], axis=-1)
        ds = np.linalg.norm(np.diff(lifted, axis=1), axis=-1)
        cosine = np.sum(c[:, 1:] * c[:, :-1], axis=-1) / (r[:, 1:] * r[:, :-1])
        dtheta = np.arccos(np.clip(cosine, -1, 1))
        return np.abs((0.5 * (r[:, 1:] + r[:, :-1])) ** 2 * dtheta / ds - h[:, None])

    return Problem("paraboloid", od.Pullback(_paraboloid_map), a, b, distance, off)


@lru_cache
def problem(name: str, d: int) -> Problem:
    """A problem of the bank, made once."""
    return {"half-space": half_space, "sphere": sphere, "flat": flat, "paraboloid": paraboloid}[
        name
    ](d)


NAMES = ("half-space", "sphere", "flat", "paraboloid")


def _points(d):
    rng = np.random.default_rng(d)
    return 0.7 * rng.standard_normal((2, PAIRS, d)) / np.sqrt(d / 2)


def _half_space_tensor(x):
    return jnp.eye(x.shape[0]) / x[-1] ** 2


def _sphere_tensor(x):
    return 4 * jnp.eye(x.shape[0]) / (1 + x @ x) ** 2


def _lift(x):
    square = np.sum(x**2, axis=-1, keepdims=True)
    return np.concatenate([2 * x, 1 - square], axis=-1) / (1 + square)


def _bend_map(x):
    return x + 0.3 * jnp.sin(1.5 * jnp.roll(x, 1))


def _bend(x):
    return x + 0.3 * np.sin(1.5 * np.roll(x, 1, axis=-1))


def _paraboloid_map(x):
    return jnp.concatenate([x, (x @ x)[None]])


def _clairaut(r, s, angle):
    """Clairaut's constant and the length of the geodesic from radius r to s over an angle without a
    turning point."""

    def integrate(f):  # u = √(ρ − r) takes away the root at a turning point
        return quad(
            lambda u: 2 * u * f(r + u * u), 0, np.sqrt(s - r), epsabs=1e-13, epsrel=1e-12, limit=200
        )[0]

    def swept(h):
        return integrate(lambda p: h * np.sqrt(1 + 4 * p * p) / (p * np.sqrt(p * p - h * h)))

    h = brentq(lambda h: swept(h) - angle, 1e-9, r * (1 - 1e-9), xtol=1e-14, rtol=1e-13)
    return h, integrate(lambda p: p * np.sqrt(1 + 4 * p * p) / np.sqrt(p * p - h * h))
