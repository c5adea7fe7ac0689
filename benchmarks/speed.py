"""Time against accuracy on the paper's data sets, everybody in the same run.

    python benchmarks/speed.py                 # a few minutes; the other libraries on few pairs
    python benchmarks/speed.py --full          # all of them on more pairs; decoders too
    python benchmarks/speed.py --out folder    # also writes speed.json and speed.png

Each solver gets the same metric and the same pairs, warm: what compiles has compiled. Lengths are
all measured by one quadrature on the curve that was returned; the reference is the shortest curve
that anyone found. finslerax runs one by one and vmapped, and the better time counts. What is not
installed is left out with a line (`make peers` installs it).
"""

import argparse
import json
import resource
import sys
import time
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import orthodrome as od

sys.path.insert(0, str(Path(__file__).parent))
from reference import peers

CLOSE = 1e-3
SAMPLES = np.linspace(0.0, 1.0, 1001)
WORKLOADS = ("semicircle", "curly", "moons", "sphere")
DECODERS = {"decoder 2 to 784": (2, 10), "decoder 10 to 784": (10, 5)}
"""Latent dimension, and how many codes all pairs are taken of."""

SLOW = ("geomstats, shooting", "geomstats, bvp", "finslerax, graph")
"""Only with --full."""


def decoder(d, rng):
    """A network with two layers of 64 tanh and 784 outputs, its weights random."""
    sizes = [(d, 64), (64, 64), (64, 784)]
    A, B, C = (rng.standard_normal(size) / np.sqrt(size[0]) for size in sizes)
    return od.Pullback(lambda z: jnp.tanh(jnp.tanh(2 * z @ A) @ B) @ C)


def workload(name):
    """A metric and pairs: 199 from one point of the semicircle, 780 between 40 data, or all between
    some codes."""
    if name in DECODERS:
        d, count = DECODERS[name]
        rng = np.random.default_rng(0)
        codes, (i, j) = 1.5 * rng.standard_normal((count, d)), np.triu_indices(count, 1)
        return decoder(d, rng), codes[i], codes[j]
    if name == "semicircle":
        data = od.datasets.semicircle(200, random_state=0)
        return od.LocalPCA(data, 0.15, 0.01), np.broadcast_to(data[0], (199, 2)), data[1:]
    data = getattr(od.datasets, {"moons": "two_moons"}.get(name, name))(400, random_state=0)
    some = data[np.random.default_rng(0).choice(400, 40, replace=False)]
    i, j = np.triu_indices(40, 1)
    return od.LocalPCA(data, 0.15, 0.01), some[i], some[j]


def ours(solver):
    def run(metric, a, b):
        began = time.perf_counter()
        _ = od.shortest_path(metric, a, b, solver).certified  # the judge's time counts
        first = time.perf_counter() - began
        began = time.perf_counter()
        path = od.shortest_path(metric, a, b, solver)
        _ = path.certified
        seconds = time.perf_counter() - began
        return path(SAMPLES), path.converged, seconds / len(a), first

    return run


def theirs(name):
    def run(metric, a, b):
        solve = peers.installed()[name]
        first = solve(metric, a[0], b[0]).seconds
        answers = [solve(metric, *pair) for pair in zip(a, b, strict=True)]
        points = [x.points for x in answers]
        said = [bool(x.points is not None and x.converged is not False) for x in answers]
        seconds = np.mean([x.seconds for x in answers])
        if name == "finslerax, fine":
            seconds = min(seconds, vmapped(metric, a, b))
        return points, np.array(said), seconds, first

    return run


def vmapped(metric, a, b):
    """Seconds a path of finslerax, fine, on all pairs at once."""
    import jax
    from finslerax.geometry import EuclideanSpace, Riemannian, SegmentQuadratureMetric
    from finslerax.solvers import GaussNewtonGeodesic

    space = SegmentQuadratureMetric(
        Riemannian(EuclideanSpace(a.shape[1]), metric.tensor_at), nquad=2
    )
    solver = GaussNewtonGeodesic(iterations=200)
    solve = jax.jit(
        jax.vmap(lambda x, y: solver.solve(space, x, y, 100, None, train_mode=False).xs)
    )
    jax.block_until_ready(solve(a, b))
    began = time.perf_counter()
    jax.block_until_ready(solve(a, b))
    return (time.perf_counter() - began) / len(a)


def rows(full):
    """Each solver with how many pairs it gets; None for all."""
    few, fewer = (200, 50) if full else (12, 4)
    yield "Auto()", ours(od.Auto()), None
    yield "Auto(effort=1)", ours(od.Auto(effort=1)), None
    yield "FixedPoint()", ours(od.FixedPoint()), None
    yield "FixedPoint(mesh=50, tol=1e-6)", ours(od.FixedPoint(mesh=50, tol=1e-6)), None
    yield "solve_bvp", ours(od.Collocation()), few
    for name in peers.installed():
        if name in SLOW and not full:
            continue
        yield name, theirs(name), few if name.startswith("finslerax") else fewer


def measure(name, full):
    metric, a, b = workload(name)
    found = {}
    for solver, run, count in rows(full):
        which = (
            np.arange(len(a))
            if count is None
            else np.unique(np.linspace(0, len(a) - 1, count).astype(int))
        )
        try:
            points, said, seconds, first = run(metric, a[which], b[which])
        except Exception as error:
            print(f"  {solver}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        length = np.array([np.inf if p is None else peers.length(metric, p) for p in points])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        found[solver] = {
            "which": which,
            "length": length,
            "said": said,
            "s": seconds,
            "first": first,
            "peak": peak,
        }
        print(f"\r  {name}: {solver:40s}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    best = np.full(len(a), np.inf)
    for row in found.values():
        np.minimum.at(best, row["which"], row["length"])
    for row in found.values():
        longer = row["length"] / best[row["which"]] - 1
        row |= {"close": np.mean(longer <= CLOSE), "error": np.median(longer), "pairs": len(longer)}
    return found


def table(name, found):
    ours_ = found["Auto()"]["s"]
    print(f"\n{name}\n")
    print(
        "| solver | pairs | calls itself solved | within 0.1 % | median excess | ms a path | "
        "times `Auto()` | first call, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for solver, row in found.items():
        print(
            f"| {solver} | {row['pairs']} | {np.mean(row['said']):.0%} | {row['close']:.1%} | "
            f"{row['error']:.0e} "
            f"| {row['s'] * 1e3:.2f} | {row['s'] / ours_:.1f} | {row['first']:.1f} |"
        )
    peak = max(row["peak"] for solver, row in found.items() if "(" in solver)
    print(f"\npeak memory of the process after orthodrome's rows: {peak:.2f} GiB")


def draw(results, file):
    """Time a path against the share of pairs that are within 0.1 % of the shortest."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    count = len(results)
    figure, axes = plt.subplots(
        1, count, figsize=(3.0 * count, 3.4), sharex=True, sharey=True, layout="constrained"
    )
    families = {
        "Auto": ("orthodrome, Auto", "C3", "*"),
        "FixedPoint": ("orthodrome, the paper's FixedPoint", "C0", "o"),
        "solve_bvp": ("SciPy solve_bvp", "C7", "o"),
        "finslerax": ("finslerax", "C2", "o"),
        "stochman": ("stochman", "C4", "o"),
        "geomstats": ("geomstats", "C1", "o"),
    }
    for ax, (name, found) in zip(np.atleast_1d(axes), results.items(), strict=True):
        for family, (label, color, marker) in families.items():
            mine = [
                (r["s"] * 1e3, 100 * r["close"])
                for solver, r in found.items()
                if solver.startswith(family)
            ]
            if mine:
                size = 140 if marker == "*" else 30
                ax.scatter(
                    *zip(*mine, strict=True),
                    color=color,
                    label=label,
                    s=size,
                    marker=marker,
                    zorder=3,
                )
        ax.set(xscale="log", title=name, ylim=(-4, 107))
        ax.grid(alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("% within 0.1 % of the shortest")
    figure.supxlabel(
        "milliseconds a path (each library at its defaults and tuned)", fontsize="medium"
    )
    handles, labels = np.atleast_1d(axes)[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize="small"
    )
    figure.savefig(file, dpi=130)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workloads", nargs="*", help=", ".join([*WORKLOADS, *DECODERS]))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for name in asked.workloads or [*WORKLOADS, *(DECODERS if asked.full else ())]:
        results[name] = measure(name, asked.full)
        table(name, results[name])
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        plain = {
            k: {s: {x: float(np.mean(y)) for x, y in r.items()} for s, r in f.items()}
            for k, f in results.items()
        }
        (asked.out / "speed.json").write_text(json.dumps(plain, indent=1))
        draw(results, asked.out / "speed.png")


if __name__ == "__main__":
    main()
