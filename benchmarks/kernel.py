"""LocalPCA's acceleration against the roofline: the bare `exp` over the same entries plus the same
matrix products.

    python benchmarks/kernel.py

One thread; points in the same chunks as the library's. The smallest of several times, in
microseconds a point.
"""

import json
import os
import sys
import time
from pathlib import Path

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np

import orthodrome as od
from orthodrome.metrics import local_pca, moments
from orthodrome.metrics.blocks import BLOCK, ONE_BLOCK

POINTS, REPEATS = 2048, 7


def best(function, *args):
    jax.block_until_ready(function(*args))
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(function(*args))
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def roofline(n, D, size):
    """Seconds a point of exp over (size, C) and of the products that f needs, for all blocks of C
    data."""
    C, blocks = (n, 1) if n <= ONE_BLOCK else (BLOCK, -(-n // BLOCK))
    sweeps = 1 if D <= local_pca.FEW_SLOPES else 2
    w, x = jnp.full((size, C), -1.0), jnp.ones((size, D))
    repeats = max(1, 2_000_000 // (size * C))

    def chain(step, carry):  # each repetition waits for the one before
        return jax.jit(
            lambda c, *a: jax.lax.fori_loop(0, repeats, lambda _, c: step(c, *a), c)
        ), carry

    exponential, e0 = chain(lambda c: jnp.exp(c * 0.5 - 1.0), w)
    bare = best(exponential, e0) / repeats * sweeps
    in_ = [D] if sweeps == 1 else [D, D, D, D, D]
    out = (
        [moments.monomials(jnp.ones((1, D)), 3).shape[1]]
        if sweeps == 1
        else [2 * D + 1, 2 * D + 1, D + 1]
    )
    products = 0.0
    for k in in_:
        times, t0 = chain(
            lambda c, y: c * 0.5 + (c[:, :1] + x[:, :1] + jnp.ones((size, len(y)))) @ y, w
        )
        plain, _ = chain(lambda c, y: c * 0.5 + c[:, :1] + y[:1], w)
        y = jnp.ones((k, C))
        products += max(best(times, t0, y) - best(plain, t0, y), 0.0) / repeats
    for k in out:
        times, t0 = chain(lambda c, y: (w + c[:, :1]) @ y, jnp.ones((size, k)))
        plain, _ = chain(lambda c, y: c + jnp.sum(w[:1] + c[:, :1]) + y[:1], jnp.ones((size, k)))
        y = jnp.ones((C, k)) / C
        products += max(best(times, t0, y) - best(plain, t0, y), 0.0) / repeats
    return (bare + products) * blocks / size


def acceleration(n, D, rng):
    data = rng.standard_normal((n, D))
    metric = od.LocalPCA(data, 0.5 * np.sqrt(D), 0.01).prepared()
    chunk = local_pca.CHUNK if n > ONE_BLOCK else max(1, local_pca.IN_CACHE // n)
    size = -(-128 // -(-128 // chunk))
    points = POINTS if n < 5000 else POINTS // 4
    x, v = rng.standard_normal((2, points // 128, 128, D))
    run = jax.jit(lambda metric, x, v: jax.lax.map(lambda c: metric.motion_along(*c)[0], (x, v)))
    return best(run, jax.device_put(metric), x, v) / points, size


def main(out=None):
    rng = np.random.default_rng(0)
    rows = []
    print("| data n | D | f, µs a point | roofline, µs a point | ratio |\n|---|---|---|---|---|")
    with jax.enable_x64(True):
        for n in (400, 1000, 10_000):
            for D in (2, 3, 5, 10, 20):
                f, size = acceleration(n, D, rng)
                floor = roofline(n, D, size)
                rows.append({"n": n, "D": D, "f": f, "roofline": floor})
                print(
                    f"| {n} | {D} | {f * 1e6:.2f} | {floor * 1e6:.2f} | {f / floor:.2f} |",
                    flush=True,
                )
    if out:
        Path(out).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
