"""Computes `lengths.npz`: for every pair of `families()` the shortest curve that any of over twenty
starts leads to.

Independent of the library's solvers: of the library only the data sets and the metrics' one-point
functions are used. A curve is a clamped cubic spline in a time of constant speed; its energy, by
Gauss quadrature, is minimised over the coefficients by L-BFGS, preconditioned with ∫ B' M B' on the
current curve. Every start is solved with few segments, the distinct short ones again with more, and
the length is that of the spline, by a finer quadrature: an upper bound on the distance.

    python benchmarks/reference/make.py [--only TEXT] [--work FOLDER]

Finished families are kept in the work folder, so a run that was interrupted goes on where it
stopped.
"""

import os

# matrices are small: threads only wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import functools
import pathlib
import tempfile
import time
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from families import Family, families
from scipy.interpolate import BSpline
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

import orthodrome as od

HERE = pathlib.Path(__file__).parent
COARSE, MIDDLE = 64, 128
"""Segments of the splines: for all starts, and for the distinct short ones."""
FINER = ((256, 2e-7), (512, 1e-6))
"""Segments for the shortest, and how much the two resolutions before must differ, relatively, to
make it worth it."""
SAME = 1e-3
"""Starts whose lengths agree to this fraction found the same curve, or one as good."""
CANDIDATES = 5
"""The most curves of a pair, none the same and none 20 % longer than the shortest, that are
refined."""
MEMORY, REFRESH = 12, 20
"""Steps that L-BFGS remembers, and steps after which its preconditioner is made anew."""
GRAPHS, VIAS, RELAYS = (6, 10, 15), 10, (8, 16)
"""Neighbours in the graphs of the data, random points to pass, neighbours in the graphs of
solutions."""
BOWS = (
    (1, 0.15),
    (1, -0.15),
    (1, 0.4),
    (1, -0.4),
    (1, 0.8),
    (1, -0.8),
    (2, 0.3),
    (2, -0.3),
    (3, 0.2),
    (3, -0.2),
)
"""Half waves and amplitudes, in units of the distance between the ends, each two in one random
direction."""
FEW = 6
"""So many of VIAS and of BOWS where a curve takes long: in ten dimensions and more."""
WIDER = (3.0, 1.7)
"""Factors of sigma, the solution for each the start for the next."""
KINDS = (
    "straight",
    *(f"graph {k}" for k in GRAPHS),
    "core",
    "lattice",
    *(f"via {i}" for i in range(VIAS)),
    *(f"bow {i}" for i in range(len(BOWS))),
    "wider straight",
    "wider graph",
    *(f"relay {k}" for k in RELAYS),
)
"""The starts: the straight line; shortest paths in graphs of neighbours: of the data, of the data
and their local means, of a grid (d = 2), and by way of a random point; bowed lines; solutions for a
larger sigma; paths over all the curves that the starts before have found for the whole family."""


# --- splines ---


@functools.cache
def spline(segments: int, points: int):
    """Values, derivatives (both (segments * points, segments + 3)) and weights of a quadrature on
    [0, 1]."""
    node, weight = np.polynomial.legendre.leggauss(points)
    t = ((np.arange(segments)[:, None] + (node + 1) / 2) / segments).ravel()
    return *basis(segments, t), np.tile(weight / 2 / segments, segments)


def basis(segments, t):
    knots = np.concatenate([np.zeros(3), np.linspace(0, 1, segments + 1), np.ones(3)])
    functions = BSpline(knots, np.eye(segments + 3), 3)
    return functions(t), functions.derivative()(t)


@functools.cache
def _fit(segments):
    """The matrix that turns values at `4 segments + 1` even times into coefficients between the two
    ends."""
    B, _ = basis(segments, np.linspace(0, 1, 4 * segments + 1))
    return B, np.linalg.pinv(B[:, 1:-1])


def fit(values, segments):
    B, inverse = _fit(segments)
    ends = B[:, :1] * values[0] + B[:, -1:] * values[-1]
    return np.concatenate([values[:1], inverse @ (values - ends), values[-1:]])


def sample(P, count):
    """The curve at `count` even times."""
    return basis(len(P) - 3, np.linspace(0, 1, count))[0] @ P


@eqx.filter_jit
def speeds(metric, x, v):
    return jnp.sqrt(jax.vmap(metric.inner_at)(x, v, v))


def length(metric, P):
    """By Gauss quadrature with at least 1024 points, on the spline's own segments."""
    segments = len(P) - 3
    B, dB, w = spline(segments, max(1024 // segments, 6))
    return float(w @ speeds(metric, B @ P, dB @ P))


# --- minimising the energy ---


@eqx.filter_jit
def _minimise(metric, B, dB, w, P, tol, iterations, refresh):
    def energy(Z):
        whole = P.at[1:-1].set(Z)
        x, v = B @ whole, dB @ whole
        return w @ jax.vmap(metric.inner_at)(x, v, v)

    def preconditioner(Z):
        """Half the inverse of ∫ B' M_ii B' for each coordinate i."""
        weights = w[:, None] * jax.vmap(lambda x: jnp.diagonal(metric.tensor_at(x)))(
            B @ P.at[1:-1].set(Z)
        )
        inner = dB[:, 1:-1]
        K = jax.vmap(lambda wi: inner.T @ (wi[:, None] * inner), in_axes=1)(weights)
        return 0.5 * jnp.linalg.inv(K)

    def direction(g, S, Y, K):
        """The two loops of L-BFGS, newest step last; unused memory is zero."""
        sy = jnp.sum(S * Y, axis=(1, 2))
        rate = jnp.where(sy > 0, 1 / jnp.where(sy > 0, sy, 1), 0)

        def back(q, syr):
            s, y, r = syr
            a = r * jnp.sum(s * q)
            return q - a * y, a

        q, a = jax.lax.scan(back, g, (S, Y, rate), reverse=True)
        q = jnp.einsum("ijk,ki->ji", K, q)

        def forth(q, syra):
            s, y, r, a = syra
            return q + (a - r * jnp.sum(y * q)) * s, None

        return -jax.lax.scan(forth, q, (S, Y, rate, a))[0]

    def step(state):
        n, Z, E, g, S, Y, K, alpha, _ = state
        K = jax.lax.cond(n % refresh == 0, preconditioner, lambda _: K, Z)
        p = direction(g, S, Y, K)
        slope = jnp.sum(g * p)
        trial = Z + alpha * p
        E1, g1 = jax.value_and_grad(energy)(trial)
        rise = E1 - E
        ok = jnp.all(jnp.isfinite(g1)) & (rise <= 1e-4 * alpha * slope + 1e-14 * E)
        s, y = trial - Z, g1 - g
        keep = ok & (jnp.sum(s * y) > 1e-6 * alpha * jnp.abs(slope))
        push = lambda A, new: jnp.where(keep, jnp.roll(A, -1, axis=0).at[-1].set(new), A)
        S, Y = push(S, s), push(Y, y)
        Z, E, g = jax.tree.map(lambda new, old: jnp.where(ok, new, old), (trial, E1, g1), (Z, E, g))
        done = (jnp.abs(slope) < tol * E) | (alpha < 1e-8)
        return (
            n + 1,
            Z,
            E,
            g,
            S,
            Y,
            K,
            jnp.where(ok, jnp.minimum(1.0, 3 * alpha), 0.3 * alpha),
            done,
        )

    Z = P[1:-1]
    E, g = jax.value_and_grad(energy)(Z)
    zeros = jnp.zeros((MEMORY, *Z.shape))
    K = jnp.zeros((Z.shape[1], Z.shape[0], Z.shape[0]))
    state = (0, Z, E, g, zeros, zeros, K, 1.0, ~jnp.isfinite(E))
    state = jax.lax.while_loop(lambda s: (s[0] < iterations) & ~s[-1], step, state)
    return P.at[1:-1].set(state[1])


def minimise(metric, P, segments, tol, iterations):
    """The spline of `segments` segments with the least energy that is found from the curve P."""
    if len(P) != segments + 3:
        P = fit(sample(P, 4 * segments + 1), segments)
    points = 2 if segments == COARSE else 3
    return np.asarray(_minimise(metric, *spline(segments, points), P, tol, iterations, REFRESH))


def coarse(metric, P, tol=1e-8):
    return minimise(metric, P, COARSE, tol, 200)


# --- starts ---


def along(metric, points, count=600):
    """The COARSE spline through a polyline, in a time of constant speed."""
    points = np.asarray(points)
    at = np.append(0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    dense = _interpolate(np.linspace(0, at[-1], count), at, points)
    step = np.diff(dense, axis=0)
    passed = np.append(0, np.cumsum(speeds(metric, dense[:-1] + step / 2, step)))
    return fit(_interpolate(np.linspace(0, passed[-1], 4 * COARSE + 1), passed, dense), COARSE)


def _interpolate(t, at, points):
    return np.stack([np.interp(t, at, column) for column in points.T], axis=1)


def bows(rng, a, b, count):
    """Polylines from a to b, off the straight line by sines in random directions across it."""
    t = np.linspace(0, 1, 200)[:, None]
    for i, (waves, amplitude) in enumerate(BOWS[:count]):
        if i % 2 == 0:
            across = rng.standard_normal(len(a))
            across -= across @ (b - a) / ((b - a) @ (b - a)) * (b - a)
            across *= np.linalg.norm(b - a) / np.linalg.norm(across)
        yield a + (b - a) * t + amplitude * np.sin(waves * np.pi * t) * across


class Graph:
    """Shortest paths between the pairs of a family over the `k` nearest neighbours among `cloud`
    and the ends."""

    def __init__(self, family: Family, cloud: np.ndarray, k: int) -> None:
        self.m = len(family.start)
        self.nodes = np.concatenate([family.start, family.end, cloud])
        _, near = cKDTree(self.nodes).query(self.nodes, k + 1)
        i, j = np.repeat(np.arange(len(near)), k + 1), near.ravel()
        i, j = np.unique(np.sort([i[i != j], j[i != j]], axis=0), axis=1)
        graph = csr_array(
            (edges(family.metric, self.nodes[i], self.nodes[j]), (i, j)),
            shape=(len(near), len(near)),
        )
        self.distance, self.before = dijkstra(
            graph, directed=False, indices=np.arange(2 * self.m), return_predecessors=True
        )

    def path(self, pair: int) -> np.ndarray:
        """The shortest one."""
        return self.nodes[self._back(pair, self.m + pair)]

    def via(self, pair: int, rng: np.random.Generator) -> np.ndarray:
        """The shortest one by way of a random node that makes it at most half as long again, if
        there are enough."""
        detour = self.distance[pair] + self.distance[self.m + pair]
        allowed = np.flatnonzero(detour < 1.5 * self.distance[pair, self.m + pair])
        node = rng.choice(allowed if len(allowed) > VIAS else np.argsort(detour)[: 5 * VIAS])
        return self.nodes[[*self._back(pair, node), *self._back(self.m + pair, node)[-2::-1]]]

    def _back(self, source, node):
        path = [node]
        while path[-1] != source:
            path.append(self.before[source, path[-1]])
            if path[-1] < 0:  # not connected: straight there
                path[-1] = source
        return path[::-1]


def edges(metric, x, y, points=3):
    """Lengths of the straight lines from x to y, both (e, d)."""
    node, weight = np.polynomial.legendre.leggauss(points)
    out = np.full(len(x), 1e-12)  # none of them zero, which a sparse graph would take for no edge
    for u, w in zip((node + 1) / 2, weight / 2, strict=True):
        out += w * _chunked(metric, x + u * (y - x), y - x)
    return out


def _chunked(metric, x, v, size=2048):
    """`speeds` in pieces of one size: small enough for the cache, and compiled once."""
    n = len(x)
    x, v = (
        np.concatenate([z, np.repeat(z[:1], -n % size, axis=0)]).reshape(-1, size, z.shape[1])
        for z in (x, v)
    )
    return np.concatenate([speeds(metric, *xv) for xv in zip(x, v, strict=True)])[:n]


def clouds(family, rng):
    """The points of the graphs: (data, the same with their local means, a grid), each None if there
    is none."""
    metric, ends = family.metric, np.concatenate([family.start, family.end])
    d = ends.shape[1]
    if family.exact is not None:
        return None, None, None
    if isinstance(metric, od.LocalPCA):
        data = metric.data
        core = np.concatenate([data, data[cKDTree(data).query(data, 15)[1]].mean(axis=1)])
    else:
        data, core = ends.std() * rng.standard_normal((2, 1000, d))
        core = np.concatenate([data, core])
    if d > 2:
        return data, core, None
    low, high = core.min(axis=0) - 0.2, core.max(axis=0) + 0.2
    grid = np.stack(np.meshgrid(*np.linspace(low, high, 100).T, indexing="ij"), axis=-1).reshape(
        -1, 2
    )
    return data, core, grid


def starts(family):
    """For each pair a dictionary: kind → COARSE spline, not solved; relays are for later."""
    rng = np.random.default_rng(0)
    count = FEW if family.exact is None and family.start.shape[1] >= 10 else max(VIAS, len(BOWS))
    metric, pairs = family.metric, list(zip(family.start, family.end, strict=True))
    data, core, grid = clouds(family, rng)
    out = [{"straight": along(metric, pair)} for pair in pairs]
    if data is not None:
        graphs = {f"graph {k}": Graph(family, data, k) for k in GRAPHS} | {
            "core": Graph(family, core, 12)
        }
        if grid is not None:
            graphs["lattice"] = Graph(family, grid, 24)
        for i, found in enumerate(out):
            found |= {kind: along(metric, graph.path(i)) for kind, graph in graphs.items()}
            found |= {
                f"via {j}": along(metric, graphs["core"].via(i, rng))
                for j in range(min(VIAS, count))
            }
    for (a, b), found in zip(pairs, out, strict=True):
        found |= {f"bow {j}": along(metric, line) for j, line in enumerate(bows(rng, a, b, count))}
        if data is None:  # by way of random points, which stay near enough to be inside every chart
            for j in range(VIAS):
                middle = (a + b) / 2 + 0.4 * np.linalg.norm(a - b) * rng.standard_normal(
                    len(a)
                ) / np.sqrt(len(a))
                found[f"via {j}"] = along(metric, [a, middle, b])
        if isinstance(metric, od.LocalPCA):
            for name in ("straight", "graph"):
                P = found[name if name == "straight" else "graph 10"]
                for factor in WIDER:
                    P = coarse(od.LocalPCA(metric.data, factor * metric.sigma, metric.rho), P, 1e-6)
                found[f"wider {name}"] = P
    return out


# --- the reference ---


def solve(family: Family) -> dict[str, np.ndarray]:
    """Lengths and what is known of them, a row a pair."""
    metric = family.metric
    solved = [{kind: coarse(metric, P) for kind, P in found.items()} for found in starts(family)]
    lengths = [{kind: length(metric, P) for kind, P in found.items()} for found in solved]
    if family.exact is None:
        for k in RELAYS:  # over the shortest curves so far, sampled finely
            best = [
                sample(found[min(have, key=have.get)], 60)
                for found, have in zip(solved, lengths, strict=True)
            ]
            graph = Graph(family, np.concatenate(best), k)
            for i, (found, have) in enumerate(zip(solved, lengths, strict=True)):
                found[f"relay {k}"] = coarse(metric, along(metric, graph.path(i)))
                have[f"relay {k}"] = length(metric, found[f"relay {k}"])
    rows = [refine(metric, found, have) for found, have in zip(solved, lengths, strict=True)]
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def refine(metric, found, have):
    """The shortest of the distinct coarse solutions of one pair, with more segments."""
    have = {kind: value for kind, value in have.items() if np.isfinite(value)}
    order = sorted(have, key=have.get)
    distinct = order[:1] + [b for a, b in pairwise(order) if have[b] > (1 + 0.1 * SAME) * have[a]]
    distinct = [kind for kind in distinct if have[kind] < 1.2 * have[order[0]]][:CANDIDATES]
    curves = {kind: minimise(metric, found[kind], MIDDLE, 1e-12, 1000) for kind in distinct}
    refined = {kind: length(metric, P) for kind, P in curves.items()}
    winner = min(refined, key=refined.get)
    P, best, spread = curves[winner], refined[winner], abs(have[winner] / refined[winner] - 1)
    for segments, difference in FINER:
        if spread > difference:
            P = minimise(metric, P, segments, 1e-12, 1000)
            finer = length(metric, P)
            best, spread = min(best, finer), abs(best / finer - 1)
    ratio = np.array([have.get(kind, np.nan) for kind in KINDS]) / best
    return {
        "length": best,
        "spread": spread,
        "starts": len(found),
        "agreeing": np.mean(ratio[np.isfinite(ratio)] < 1 + SAME),
        "winner": next(
            k for k in KINDS if k in have and abs(have[k] / have[winner] - 1) < 0.01 * SAME
        ),  # of equals
        "ratio": ratio.astype(np.float32),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="families whose names contain this")
    parser.add_argument(
        "--work",
        type=pathlib.Path,
        default=pathlib.Path(tempfile.gettempdir()) / "reference-lengths",
    )
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_enable_x64", True)
    every, began = families(), time.perf_counter()
    chosen = [family for family in every if options.only in family.name]
    for i, family in enumerate(chosen):
        file = options.work / f"{family.name}.npz"
        if not file.exists():
            np.savez(file, **solve(family))
        report(f"{i + 1}/{len(chosen)} {time.perf_counter() - began:5.0f} s", family, np.load(file))
    if len(chosen) == len(every):
        write([np.load(options.work / f"{family.name}.npz") for family in every], every)


def report(progress, family, found):
    line = f"{progress}  {family.name:32s} spread {found['spread'].max():.0e}"
    line += f"  agreeing {found['agreeing'].mean():4.0%}  straight {np.mean(found['ratio'][:, 0] < 1 + SAME):4.0%}"
    if family.exact is not None:
        line += f"  error {np.abs(found['length'] / family.exact - 1).max():.0e}"
    print(line, flush=True)


def write(found, every):
    """One row a pair; points of fewer than 20 coordinates are filled up with NaN."""
    wide = max(family.start.shape[1] for family in every)
    pad = lambda x: np.pad(x, ((0, 0), (0, wide - x.shape[1])), constant_values=np.nan)
    np.savez_compressed(
        HERE / "lengths.npz",
        names=np.array([family.name for family in every]),
        groups=np.array([family.group for family in every]),
        family=np.repeat(np.arange(len(every)), [len(family.start) for family in every]).astype(
            np.int16
        ),
        start=np.concatenate([pad(family.start) for family in every]),
        end=np.concatenate([pad(family.end) for family in every]),
        kinds=np.array(KINDS),
        **{key: np.concatenate([one[key] for one in found]) for key in found[0]},
    )


if __name__ == "__main__":
    main()
