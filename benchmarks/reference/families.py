"""The families of problems of the reference set: metrics and pairs of points, the same on every
machine.

`families()` returns them in the order in which `lengths.npz` numbers them. Nothing here solves
anything.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

import orthodrome as od

RHO = 0.01
PLANAR = {
    "semicircle": lambda seed: od.datasets.semicircle(200, random_state=seed),
    "moons": lambda seed: od.datasets.two_moons(400, random_state=seed),
    "curly": lambda seed: od.datasets.curly(400, random_state=seed),
    "sphere": lambda seed: od.datasets.sphere(400, random_state=seed),
    "spiral": lambda seed: od.datasets.spiral(400, random_state=seed),
}
PAIRS = 20
CLOSED_FORM_PAIRS = 8
ANGLES = (2.5, 2.9, 3.0, 3.05, 3.1)
"""Great circles almost as long as they can be while they are shortest, two of each."""


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """Problems on one metric: from each `start` to the `end` of the same row, both (m, d)."""

    name: str
    group: str
    metric: od.Metric
    start: np.ndarray
    end: np.ndarray
    exact: np.ndarray | None = None
    """(m,) the distances, where they are known."""


def families() -> list[Family]:
    """All of them, in order."""
    return [*_planar(), *_high_dimensional(), *_networks(), *_closed_forms()]


# --- learned from points ---


def _planar():
    for group, make in PLANAR.items():
        for sigma in (0.15, 0.1):
            for seed in range(3):
                data = make(seed)
                start, end = data[_random_pairs(np.random.default_rng(seed), len(data), PAIRS)]
                yield Family(
                    f"{group} sigma={sigma} seed={seed}",
                    group,
                    od.LocalPCA(data, sigma, RHO),
                    start,
                    end,
                )


def _high_dimensional():
    for hard in (False, True):
        for dim in (5, 10, 20):
            for seed in range(2):
                data = od.datasets.semicircle_in(dim, n=1000, random_state=seed, restandardize=hard)
                rng = np.random.default_rng(seed)
                base = _curve_end(data)
                others = rng.choice(
                    np.delete(np.arange(len(data)), base), PAIRS // 2, replace=False
                )
                from_base = np.stack([np.full(PAIRS // 2, base), others])
                start, end = data[
                    np.concatenate([from_base, _random_pairs(rng, len(data), PAIRS // 2)], axis=1)
                ]
                group = f"R{dim} hard" if hard else f"R{dim}"
                yield Family(
                    f"{group} seed={seed}", group, od.LocalPCA(data, 0.25, RHO), start, end
                )


def _random_pairs(rng, n, count):
    """(2, count) indices, no pair twice and no point with itself."""
    pairs = set()
    while len(pairs) < count:
        pairs.add(tuple(sorted(rng.choice(n, 2, replace=False).tolist())))
    return np.array(sorted(pairs)).T


def _curve_end(data):
    """The point farthest out in the plane of the curve, whitened: the two ends of a standardised
    semicircle are."""
    centred = data - data.mean(axis=0)
    left, _, _ = np.linalg.svd(centred, full_matrices=False)
    return int(np.argmax(np.sum(left[:, :2] ** 2, axis=1)))


# --- decoders ---


def _networks():
    for d, out, gain in ((2, 10, 3.0), (5, 20, 2.0)):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            shapes = ((32, d), (32, 32), (out, 32))
            weights = [gain * rng.standard_normal(shape) / np.sqrt(shape[1]) for shape in shapes]
            biases = [0.5 * rng.standard_normal(32) for _ in range(2)]
            metric = od.Pullback(jax.tree_util.Partial(_network, weights, biases))
            start, end = 1.5 * rng.standard_normal((2, PAIRS, d))
            yield Family(f"tanh d={d} seed={seed}", "tanh", metric, start, end)


def _network(weights, biases, x):
    for W, b in zip(weights[:-1], biases, strict=True):
        x = jnp.tanh(W @ x + b)
    return weights[-1] @ x


# --- closed forms ---


def _closed_forms():
    for d in (2, 5, 20):
        rng = np.random.default_rng(100 + d)
        start, end = rng.standard_normal((2, CLOSED_FORM_PAIRS, d)) / np.sqrt(d)
        high, top = start.copy(), end.copy()
        high[:, -1], top[:, -1] = np.exp(start[:, -1]), np.exp(end[:, -1])
        yield _closed(
            "half-space", od.MetricTensor(_half_space, d), high, top, _half_space_distance
        )
        yield _closed("round sphere", od.MetricTensor(_round, d), start, end, _round_distance)
        yield _closed("flat", od.Pullback(_bend), start, end, _flat_distance)
        yield _closed("paraboloid", od.Pullback(_paraboloid), start, end, _paraboloid_distance)
    start, end = _nearly_opposite(np.random.default_rng(0))
    yield _closed(
        "nearly opposite on the sphere", od.MetricTensor(_round, 2), start, end, _round_distance
    )


def _closed(name, metric, start, end, distance):
    exact = np.array([distance(a, b) for a, b in zip(start, end, strict=True)])
    return Family(f"{name} d={start.shape[1]}", "closed forms", metric, start, end, exact)


def _half_space(x):
    return jnp.eye(x.shape[0]) / x[-1] ** 2


def _half_space_distance(a, b):
    return 2 * np.arcsinh(np.linalg.norm(a - b) / (2 * np.sqrt(a[-1] * b[-1])))


def _round(x):
    """The unit sphere, seen from its pole −e: stereographic coordinates."""
    return 4 * jnp.eye(x.shape[0]) / (1 + x @ x) ** 2


def _round_distance(a, b):
    u, v = _lift(a), _lift(b)
    return 2 * np.arctan2(np.linalg.norm(u - v), np.linalg.norm(u + v))


def _lift(x):
    return np.append(2 * x, 1 - x @ x) / (1 + x @ x)


def _nearly_opposite(rng):
    """Pairs at `ANGLES` on the sphere whose great circle stays 0.6 rad away from the pole that is
    at infinity."""
    pairs = []
    for angle in np.repeat(ANGLES, 2):
        while True:
            u, v = np.linalg.qr(rng.standard_normal((3, 2)))[0].T
            t = np.linspace(0, angle, 200)[:, None]
            circle = np.cos(t) * u + np.sin(t) * v
            if circle[:, 2].min() > -np.cos(0.6):
                break
        pairs.append([p[:2] / (1 + p[2]) for p in (circle[0], circle[-1])])
    return np.array(pairs).swapaxes(0, 1)


def _bend(x):
    return x + 0.3 * jnp.sin(1.5 * jnp.roll(x, 1))


def _flat_distance(a, b):
    bend = lambda x: x + 0.3 * np.sin(1.5 * np.roll(x, 1))
    return np.linalg.norm(bend(b) - bend(a))


def _paraboloid(x):
    return jnp.append(x, x @ x)


def _paraboloid_distance(a, b):
    """By Clairaut's relation p sin ψ = h, in the plane of a and b: the geodesic comes no nearer to
    the axis than h.

    With p = h + u² both the angle swept and the length from radius h to p are integrals without a
    singularity. A geodesic that does not turn has their difference between the two radii, one that
    does has their sum.
    """
    r, s = sorted([np.linalg.norm(a), np.linalg.norm(b)])
    angle = np.arccos(a @ b / (r * s))

    def from_turn(f, h, p):
        return quad(
            lambda u: f(h + u * u) / np.sqrt(2 * h + u * u),
            0,
            np.sqrt(p - h),
            epsabs=1e-13,
            epsrel=1e-12,
        )[0]

    def over_both(
        f, tau
    ):  # tau in (0, 1): h = r tau and no turn; in (1, 2): h = r (2 - tau) and a turn
        h = r * min(tau, 2 - tau)
        return from_turn(lambda p: f(p, h), h, s) + np.sign(tau - 1) * from_turn(
            lambda p: f(p, h), h, r
        )

    swept = lambda tau: over_both(lambda p, h: 2 * h * np.sqrt(1 + 4 * p * p) / p, tau)
    tau = brentq(lambda tau: swept(tau) - angle, 1e-6, 2 - 1e-6, xtol=1e-14, rtol=1e-13)
    return over_both(lambda p, h: 2 * p * np.sqrt(1 + 4 * p * p), tau)
