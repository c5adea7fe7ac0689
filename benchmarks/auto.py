"""`Auto` on the reference set: certified, shortest, honest about its error; and other solvers
beside it.

    python benchmarks/auto.py               # its table, work, symmetry, triangles, honesty; others
    python benchmarks/auto.py auto work     # only these parts
    python benchmarks/auto.py peers         # the libraries in benchmarks/reference/peers.py

The reference lengths in benchmarks/reference/lengths.npz were found by another method from at least
20 starts a pair.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import orthodrome as od

sys.path.insert(0, str(Path(__file__).parent))
from reference.families import families

REFERENCE = np.load(Path(__file__).parent / "reference" / "lengths.npz")
CLOSE = 1e-3
"""A path this much longer than the reference, at most, counts as the shortest."""
TOO_LONG = 1e-2
"""A path that is called converged and is this much longer is a wrong answer without a word."""
COLUMNS = ["group", "length", "reference", "certified", "converged", "error", "seconds"]


def cases():
    """Each family with its reference lengths."""
    for k, family in enumerate(families()):
        yield family, REFERENCE["length"][REFERENCE["family"] == k]


def solve_all(solver, every=1):
    """What a solver finds, an array (pairs,) for each column."""
    found = []
    for family, reference in cases():
        start, end, reference = family.start[::every], family.end[::every], reference[::every]
        od.distance(family.metric, start, end, solver)  # compile
        began = time.perf_counter()
        length, info = od.distance(family.metric, start, end, solver, return_info=True)
        seconds = np.full(len(start), (time.perf_counter() - began) / len(start))
        group = np.full(len(start), family.group)
        found.append(
            (group, length, reference, info.certified, info.converged, info.error, seconds)
        )
        print(f"\r  {family.name:50s}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return {
        name: np.concatenate(column)
        for name, column in zip(COLUMNS, zip(*found, strict=True), strict=True)
    }


def table(name, found):
    longer = found["length"] / found["reference"] - 1
    wrong = found["converged"] & ~(longer <= TOO_LONG)
    below = longer < -np.maximum(found["error"], 1e-6)  # the reference itself is good to 1e-6
    print(f"\n{name}\n")
    print(
        "| group | pairs | converged | certified | within 0.1 % | converged, > 1 % too long | "
        "below reference | ms a path |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for group in [*dict.fromkeys(found["group"]), "**all**"]:
        mine = (found["group"] == group) | (group == "**all**")
        shares = [found["converged"], found["certified"], longer <= CLOSE, wrong]
        told = " | ".join(f"{share[mine].mean():.1%}" for share in shares)
        print(
            f"| {group} | {mine.sum()} | {told} | {below[mine].sum()} | "
            f"{found['seconds'][mine].mean() * 1e3:.1f} |"
        )


def honesty():
    """`error` against the true error, where that is known: closed forms exactly, the others by
    rtol=1e-10."""
    true, told = [], []
    for family, _ in cases():
        path = od.shortest_path(family.metric, family.start, family.end)
        tight = od.shortest_path(
            family.metric, family.start, family.end, od.Auto(rtol=1e-10), init=path
        )
        rough = od.shortest_path(
            family.metric, family.start, family.end, od.Energy(16, degree=2), init=path
        )
        for curve in (path, rough):
            good = (
                np.isfinite(curve.error)
                & tight.converged
                & (np.abs(curve.length / tight.length - 1) < 0.01)
            )
            (
                true.append(np.abs(curve.length / tight.length - 1)[good]),
                told.append(curve.error[good]),
            )
    true, told = np.concatenate(true), np.concatenate(told)
    seen = true > 1e-11  # below that, rounding is all one sees
    ratio = told[seen] / true[seen]
    print(
        f"\nerror, told / true, of {seen.sum()} curves of Auto() and Energy(16, degree=2) whose "
        "true error is above 1e-11:"
        f" at least the true one in {np.mean(ratio >= 1):.2%}, median {np.median(ratio):.1f}"
    )


def symmetry():
    worst, errors = 0.0, 0
    for family, _ in cases():
        there, info = od.distance(
            family.metric, family.start, family.end, od.Auto(rtol=1e-8), return_info=True
        )
        back = od.distance(family.metric, family.end, family.start, od.Auto(rtol=1e-8))
        worst = max(worst, np.max(np.abs(there / back - 1)))
        errors += np.sum(~info.certified)
    print(
        f"\nsymmetry at rtol=1e-8: largest |d(a,b)/d(b,a) - 1| = {worst:.1e}; not certified at "
        f"1e-8: {errors} of 1066"
    )


def triangles():
    violations, total, worst = 0, 0, 0.0
    for family, _ in cases():
        points = np.concatenate([family.start[:4], family.end[:4]])
        d, info = od.distance_matrix(family.metric, points, return_info=True)
        slack = d * np.where(np.isfinite(info.error), info.error, 0.0)
        excess = (d - slack)[:, None, :] - (d + slack)[:, :, None] - (d + slack)[None, :, :]
        i, j, k = np.ogrid[:8, :8, :8]
        proper = (i < k) & (i != j) & (j != k)
        violations += np.sum((excess > 1e-9 * d.max()) & proper)
        worst = max(worst, np.max(np.where(proper, excess / d.max(), 0)))
        total += proper.sum()
    print(
        f"\ntriangle inequality beyond the errors: violated in {violations} of {total} triangles, "
        f"by at most {worst:.1e} of the largest distance"
    )


def work():
    """Seconds on the easy problems, in evaluations of f, against Algorithm 1 at its settings of a
    similar accuracy."""
    family, _ = next(cases())
    data = od.datasets.semicircle(200, random_state=0)
    rng = np.random.default_rng(0)
    start, end = data[rng.integers(0, 200, (2, 1000))]
    x, v = rng.standard_normal((2, 20_000, 2))
    metric = family.metric
    truth = od.distance(metric, start, end, od.Auto(rtol=1e-10))

    def seconds(f):
        f()
        times = []
        for _ in range(3):
            began = time.perf_counter()
            f()
            times.append(time.perf_counter() - began)
        return min(times)

    one = seconds(lambda: metric.accelerations(x, v)) / len(x)
    print(
        f"\nwork on the semicircle, 1000 random pairs; one evaluation of f takes {one * 1e6:.2f} "
        "microseconds\n"
    )
    print(
        "| solver | ms a path | in evaluations of f | median error | worst error "
        "|\n|---|---|---|---|---|"
    )
    solvers = [
        od.Auto(),
        *(
            od.FixedPoint(mesh=n, tol=tol)
            for n, tol in ((10, 0.1), (50, 1e-4), (50, 1e-6), (100, 1e-6))
        ),
    ]
    for solver in solvers:
        took = seconds(lambda s=solver: od.distance(metric, start, end, s)) / len(start)
        off = np.abs(od.distance(metric, start, end, solver) / np.where(truth > 0, truth, 1) - 1)[
            truth > 0
        ]
        print(
            f"| {solver!r} | {took * 1e3:.2f} | {took / one:.0f} | {np.median(off):.1e} | "
            f"{np.nanmax(off):.1e} |"
        )


def polyline_length(metric, points):
    """The length of a polyline, by eight Gauss points a segment."""
    x, w = np.polynomial.legendre.leggauss(8)
    step = np.diff(points, axis=0)
    at = points[:-1, None] + (x[:, None] + 1) / 2 * step[:, None]
    return np.sum(metric.norm(at, np.broadcast_to(step[:, None], at.shape)) @ (w / 2))


def peers(pairs=3):
    from reference.peers import installed

    some = [
        (f, r)
        for f, r in cases()
        if f.name.endswith("seed=0") and f.metric.require_points(f.start, "start").shape[1] <= 5
    ]
    some += [(f, r) for f, r in cases() if f.group == "closed forms" and f.start.shape[1] == 2]
    total = sum(len(r[:pairs]) for _, r in some)
    print(
        f"\npeers, {pairs} pairs of each of {len(some)} families with at most 5 dimensions "
        f"({total} pairs), one after the other\n"
    )
    print(
        "| solver | pairs | calls itself converged | within 1 % | within 0.1 % | not said to have "
        "failed, > 1 % too long |"
    )
    print("|---|---|---|---|---|---|", flush=True)

    def row(name, found):
        longer, said = zip(*found, strict=True)
        longer, said_yes, said_no = (
            np.array(longer),
            np.mean([s is True for s in said]),
            np.array([s is False for s in said]),
        )
        yes = f"{said_yes:.0%}" if any(s is not None for s in said) else "says nothing"
        wrong = np.mean(~said_no & ~(longer <= TOO_LONG))
        print(
            f"| {name} | {len(said)} | {yes} | {np.mean(longer <= TOO_LONG):.0%} | "
            f"{np.mean(longer <= CLOSE):.0%} | {wrong:.0%} |",
            flush=True,
        )

    for solver in (od.Auto(), od.FixedPoint(), od.FixedPoint(mesh=50, tol=1e-6), od.Collocation()):
        found = []
        for family, reference in some:
            for a, b, best in zip(
                family.start[:pairs], family.end[:pairs], reference[:pairs], strict=True
            ):
                path = od.shortest_path(family.metric, a, b, solver)
                found.append((path.length / best - 1, bool(path.converged)))
        row(repr(solver), found)
    for name, solve in installed().items():
        found = []
        for family, reference in some:
            for a, b, best in zip(
                family.start[:pairs], family.end[:pairs], reference[:pairs], strict=True
            ):
                answer = solve(family.metric, a, b)
                print(f"\r  {name} {family.name:50s}", end="\r", file=sys.stderr, flush=True)
                if answer.skipped:
                    continue
                if answer.points is None or not np.all(np.isfinite(answer.points)):
                    found.append((np.inf, answer.converged))
                    continue
                missed = max(
                    np.abs(answer.points[0] - a).max(), np.abs(answer.points[-1] - b).max()
                )
                met = missed <= 1e-3 * np.abs(b - a).max()
                longer = polyline_length(family.metric, answer.points) / best - 1 if met else np.inf
                found.append((longer, answer.converged))
        row(name, found)


def auto():
    table("Auto()", solve_all(od.Auto()))


def others():
    for solver in (od.Auto(effort=1), od.FixedPoint(), od.FixedPoint(mesh=50, tol=1e-6)):
        table(repr(solver), solve_all(solver))
    table("Collocation(), every fifth pair", solve_all(od.Collocation(), every=5))


PARTS = {
    "auto": auto,
    "work": work,
    "symmetry": symmetry,
    "triangles": triangles,
    "honesty": honesty,
    "others": others,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore", od.ConvergenceWarning)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[*PARTS, "peers", []],
        help="which parts; all but peers if left out",
    )
    for part in parser.parse_args().parts or PARTS:
        (PARTS | {"peers": peers})[part]()
        sys.stdout.flush()
        jax.clear_caches()  # a process may hold only so many compiled programs
