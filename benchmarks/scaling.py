"""How the cost of a path grows: with the data, the dimension, the number of pairs, the mesh; and
what the first path costs.

python benchmarks/scaling.py                     # everything, some minutes
python benchmarks/scaling.py data dimension      # only these
python benchmarks/scaling.py --out folder        # also writes scaling.json and scaling.png
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import orthodrome as od


def seconds(metric, a, b, solver):
    """A path's seconds, warm, and the share that is certified."""
    od.distance(metric, a, b, solver)
    began = time.perf_counter()
    _, info = od.distance(metric, a, b, solver, return_info=True)
    return (time.perf_counter() - began) / len(a), float(np.mean(info.certified))


def exponent(x, y):
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def data():
    """A wavy sheet in space with one datum a unit of area; paths of 8 to 16 units in its middle."""
    sizes, found = [1000, 10_000, 100_000, 1_000_000], []
    print(
        "\n| data n | LocalPCA(data), s | LocalPCA(data, sigma, rho), s | first call, s | ms a "
        "path | certified |\n|---|---|---|---|---|---|"
    )
    for n in sizes:
        rng = np.random.default_rng(0)
        side = np.sqrt(n)
        xy = rng.uniform(0, side, (n, 2))
        sheet = np.column_stack(
            [xy, 2 * np.sin(xy[:, 0] / 6) + 2 * np.cos(xy[:, 1] / 7) + 0.2 * rng.standard_normal(n)]
        )
        began = time.perf_counter()
        od.LocalPCA(sheet)
        chosen = time.perf_counter() - began
        began = time.perf_counter()
        metric = od.LocalPCA(sheet, 1.5, 0.5)
        metric.prepared()
        given = time.perf_counter() - began
        middle = sheet[np.linalg.norm(xy - side / 2, axis=1) < 14]
        a, b = middle[rng.choice(len(middle), (2, 1000))]
        apart = np.linalg.norm(a - b, axis=1)
        keep = np.flatnonzero((apart > 8) & (apart < 16))[:200]
        began = time.perf_counter()
        od.distance(metric, a[keep], b[keep])
        first = time.perf_counter() - began
        found.append(seconds(metric, a[keep], b[keep], None))
        print(
            f"| {n} | {chosen:.1f} | {given:.1f} | {first:.0f} | {found[-1][0] * 1e3:.1f} | "
            f"{found[-1][1]:.0%} |",
            flush=True,
        )
    return sizes, {"Auto()": [t for t, _ in found]}


def dimension():
    """The semicircle in D dimensions, 200 data, 199 paths from one of them."""
    sizes, solvers = (
        [2, 5, 10, 20, 50, 100],
        {"FixedPoint(mesh=20)": od.FixedPoint(mesh=20), "Auto()": od.Auto()},
    )
    found = {name: [] for name in solvers}
    print(
        "\n| D | "
        + " | ".join(f"{name}, ms a path | certified" for name in solvers)
        + " |\n|---|---|---|---|---|"
    )
    for D in sizes:
        points = od.datasets.semicircle_in(D, 200, random_state=0)
        metric = od.LocalPCA(points, 0.3 * np.sqrt(D / 2), 0.01)
        cells = []
        for name, solver in solvers.items():
            t, certified = seconds(metric, np.broadcast_to(points[0], (199, D)), points[1:], solver)
            found[name].append(t)
            cells.append(f"{t * 1e3:.2f} | {certified:.0%}")
        print(f"| {D} | " + " | ".join(cells) + " |", flush=True)
    return sizes, found


def pairs():
    """Two moons, 400 data: how the whole call grows, and what memory it takes."""
    sizes, found = [100, 1000, 10_000, 100_000], []
    points = od.datasets.two_moons(400, random_state=0)
    metric = od.LocalPCA(points, 0.15, 0.01)
    i, j = np.random.default_rng(0).choice(400, (2, sizes[-1]))
    print("\n| pairs | s | ms a path | peak memory, GiB |\n|---|---|---|---|")
    for count in sizes:
        began = time.perf_counter()
        od.distance(metric, points[i[:count]], points[j[:count]], od.Auto(effort=2))
        found.append(time.perf_counter() - began if count > 100 else np.nan)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"| {count} | {found[-1]:.1f} | {found[-1] / count * 1e3:.2f} | {peak:.2f} |",
            flush=True,
        )
    return sizes[1:], {"Auto(effort=2), whole call": found[1:]}


def mesh():
    """FixedPoint's knots, on the semicircle."""
    sizes, found = [10, 20, 40, 80], []
    points = od.datasets.semicircle(200, random_state=0)
    metric = od.LocalPCA(points, 0.15, 0.01)
    print("\n| knots N | ms a path |\n|---|---|")
    for N in sizes:
        found.append(
            seconds(
                metric, np.broadcast_to(points[0], (199, 2)), points[1:], od.FixedPoint(mesh=N)
            )[0]
        )
        print(f"| {N} | {found[-1] * 1e3:.2f} |", flush=True)
    return sizes, {"FixedPoint(mesh=N)": found}


def start():
    """Seconds of fresh processes: importing jax, and the first path with compiled code in the
    cache."""
    code = """
import time; began = time.perf_counter()
import orthodrome as od
od.enable_compilation_cache({folder!r})
data = od.datasets.two_moons(400, random_state=0)
path = od.shortest_path(od.LocalPCA(data, 0.15, 0.01), data[0], data[1])
print(time.perf_counter() - began)
"""
    bare = (
        "import time; began = time.perf_counter()\nimport jax\nprint(time.perf_counter() - began)"
    )
    run = lambda text: float(
        subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        ).stdout
    )
    with tempfile.TemporaryDirectory() as folder:
        cold = run(code.format(folder=folder))
        warm, jax_alone = (
            min(run(text) for _ in range(3)) for text in (code.format(folder=folder), bare)
        )
    print(
        f"\nimport jax {jax_alone:.1f} s; first path, nothing in the cache {cold:.1f} s, warm "
        f"cache {warm:.1f} s"
    )
    return


PARTS = {"data": data, "dimension": dimension, "pairs": pairs, "mesh": mesh, "start": start}


def draw(results, file):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(results), figsize=(3.6 * len(results), 3.4), layout="constrained"
    )
    for ax, (name, (x, lines)) in zip(np.atleast_1d(axes), results.items(), strict=True):
        for label, y in lines.items():
            ax.loglog(x, np.array(y) * 1e3, "o-", label=f"{label}: exponent {exponent(x, y):.2f}")
        ax.set(title=name, ylabel="milliseconds")
        ax.legend(fontsize="small")
        ax.grid(alpha=0.3)
    figure.savefig(file, dpi=130)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for name in asked.parts:
        found = PARTS[name]()
        if found is not None:
            results[name] = found
            for label, y in found[1].items():
                print(f"\n{label}: exponent {exponent(found[0], y):.2f}", flush=True)
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "scaling.json").write_text(json.dumps(results, indent=1))
        draw(results, asked.out / "scaling.png")


if __name__ == "__main__":
    main()
