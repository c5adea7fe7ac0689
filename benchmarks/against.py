"""Whether two versions of the library find the same numbers, and which of them is faster.

    python benchmarks/against.py store before.npz            # with the orthodrome of this python
    python benchmarks/against.py compare before.npz          # the same again, and how it differs
    python benchmarks/against.py compare before.npz --only decoder maps
    python benchmarks/against.py times OTHER_PYTHON          # this python and the other one by turns

`compare` ends with 1 if a status or a certificate is another one, if a length differs by more than
1e-10, relatively, or if answers are missing. Only public names are used: it runs with both versions.
Code is compiled quickly rather than well, as in the tests, unless `store` is told --optimised.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import orthodrome as od

ALLOWED = {"status": 0, "certified": 0, "length": 1e-10}
"""Rounding in another order changes lengths by less than that, another geodesic by much more."""

QUICK = " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
"""XLA then compiles in a quarter of the time, and most of the time goes into compiling."""

ROUNDS, CALLS = 3, 7
"""Processes for each python, by turns, as machines have slow minutes; and calls in each of them."""
COUNTED, MEASURED = ("status", "certified", "message"), ("length", "error", "velocity", "other")

INFO = ("converged", "certified", "status", "error")
"""What every version's `Info` has."""

# --- metrics, each with points to take the ends of paths from ---


def decoder(d: int, outputs: int, act: Any = jnp.tanh, **settings: Any) -> Any:
    rng, sizes = np.random.default_rng(outputs), [(d, 16), (16, 16), (16, outputs)]
    weights = [2.0 * rng.standard_normal(size) / np.sqrt(size[0]) for size in sizes]
    network = lambda w, x: act(act(x @ w[0]) @ w[1]) @ w[2]
    return od.Pullback(pure(network, weights), **settings), normal(d)


def high(d: int) -> Any:
    """As in benchmarks/scaling.py: the weights reach as many data in every dimension."""
    return learned(od.datasets.semicircle_in(d, 200, random_state=0), 0.3 * np.sqrt(d / 2), 0.01)


pure = jax.tree_util.Partial  # jax sees into it: distances can be differentiated by its weights
normal = lambda d, size=1.0: size * np.random.default_rng(d).standard_normal((60, d))
learned = lambda data, *settings: (od.LocalPCA(data, *settings), data)
tensor = lambda M, points: (od.MetricTensor(pure(M), points.shape[1]), points)
wavy = lambda x: (2 + jnp.sin(x @ x)) * jnp.eye(len(x)) + jnp.outer(x, x)
spread = lambda x: jax.nn.softplus(jnp.cumsum(jnp.outer(x, jnp.arange(10.0)).ravel()))
METRICS: dict[str, Callable[[], Any]] = {
    "semicircle": lambda: learned(od.datasets.semicircle(200, random_state=0), 0.15, 0.01),
    "moons": lambda: learned(od.datasets.two_moons(200, random_state=0)),
    "blocks": lambda: learned(od.datasets.two_moons(1500, random_state=0), 0.15, 0.01),
    "sphere": lambda: learned(od.datasets.sphere(200, random_state=0), 0.3, 0.01),
    **{f"D={d}": partial(high, d) for d in (10, 20, 40, 100)},
    "bowl": lambda: (od.Pullback(pure(lambda x: jnp.append(x, x @ x))), normal(2)),
    "decoder 2": lambda: decoder(2, 20),
    "decoder 6": lambda: decoder(6, 30, jax.nn.softplus),
    "stochastic": lambda: decoder(2, 20, std=spread),
    "weights": lambda: decoder(2, 20, ambient=np.linspace(0.5, 2.0, 20)),
    "ambient": lambda: decoder(2, 20, ambient=od.LocalPCA(normal(20), 4.0, 0.1)),
    "ridge": lambda: (od.Pullback(lambda x: jnp.maximum(x, 0.0) ** 3, ridge=0.01), normal(2)),
    "half-plane": lambda: tensor(lambda x: jnp.eye(2) / x[1] ** 2, np.exp(normal(2))),
    "round": lambda: tensor(lambda x: 4 * jnp.eye(3) / (1 + x @ x) ** 2, normal(3, 0.5)),
    "wavy 5": lambda: tensor(wavy, normal(5, 0.5)),
    "wavy 20": lambda: tensor(wavy, normal(20, 0.2)),
}
problem = cache(lambda name: METRICS[name]())

# --- cases: metrics, how many paths, and solvers, or whatever else is to be computed from the metric
# m, starts a and ends b, and its points x; by groups ---

AUTO = "Auto(); Auto(effort=1); Auto(effort=2); Auto(rtol=1e-8); Auto(rtol=1e-2); Auto(nodes=x)"
ALL = "[p := path(m, a, b, od.Auto(alternatives=True)), *p.alternatives]"
ENERGY = "Energy(); Energy(64, degree=1); Energy(16, degree=2); Energy(4, degree=4)"
MESHES = "FixedPoint(mesh=50); FixedPoint(mesh='adaptive'); FixedPoint(20, od.Matern(nu=4.5))"
STEPS = "; ".join(f"FixedPoint(step='{s}', max_iter=99)" for s in ("mann", "ishikawa", "anderson"))
SPREADS = "p, p.std([0.1, 0.5]), p.covariance(0.3), p.sample(0.2, 2, random_state=0)]"
LIKELIEST = f"[p := path(m, a, b, od.FixedPoint(calibrate=True)), {SPREADS}"
POSTERIOR = f"[p := path(m, a, b).posterior(20, calibrate=True), {SPREADS}"
HENNIG = "HennigHauberg(); HennigHauberg(refinements=2, search=(0.7, 1))"
EACH = [f"od.{name}()" for name in ("Auto", "Energy", "FixedPoint", "HennigHauberg", "Collocation")]
ROUGH = "init=path(m, a, b, od.Energy(16, degree=2))"
INIT = "; ".join(f"path(m, a, b, {solver}, {ROUGH})" for solver in EACH)
STILL = "; ".join(f"path(m, a, [a[0], a[1] + 1e-9], {solver})" for solver in EACH)
FILES = "; ".join(f"again(path(m, a, b, {solver}))" for solver in EACH)
VALUES = "m.tensor(a); m.inner(a, a, b); m.log_volume(a); m.acceleration(a, b); m.norm(a[0], b[0])"
LOGS = "od.log_map(m, a, b, return_info=True); od.geodesic(m, a, od.log_map(m, a, b) / 2)"
EXP = "od.exp_map(m, a, 0.8 * od.log_map(m, a, b), return_info=True)"
MATRIX = "od.distance_matrix(m, x[:40], return_info=True)"
APART = "od.distance_matrix(m, a, b, od.FixedPoint()); od.distance(m, a, b, return_info=True)"
MEANS = "od.frechet_mean(m, b, return_info=True); od.frechet_mean(m, b, median=True, init=x[0])"
NEAR = "od.neighbors(m, x[:40], 3); od.interpolate(m, x[:3], np.linspace(0, 1, 7))"
PCA = "[p := od.TangentPCA(metric=m).fit(b), p.transform(a)]"
KMEANS = "[p := od.GeodesicKMeans(2, m, random_state=0).fit(x[:40]), p.predict(a)]"
LAND = "p := od.LAND(2, m, n_rays=32, max_iter=3, random_state=0).fit(x[:40])"
CASES: dict[str, list[tuple[str, int, str]]] = {
    "plane": [("semicircle", 30, "Auto()"), ("semicircle", 8, AUTO), ("moons", 20, ALL)],
    "hopeless": [("semicircle", 6, "Auto(rtol=1e-12, max_elements=64); Energy(max_iter=4)")],
    "alone": [("semicircle, decoder 2", 1, "Auto(); FixedPoint()")],
    "blocks": [("blocks", 10, "Auto(); Auto(rtol=1e-8); FixedPoint(); Graph()")],
    "space": [("sphere", 12, "Auto()"), ("D=10, D=20", 8, "Auto()")],
    "many": [("D=40", 5, "Auto(); Auto(rtol=1e-8)"), ("D=100", 4, "Auto()")],
    "bowl": [("bowl", 12, f"{AUTO}; {ALL}")],
    "decoder": [("decoder 2", 10, f"{AUTO}; {ALL}"), ("decoder 6", 8, "Auto(); Auto(rtol=1e-2)")],
    "pullback": [("stochastic, weights, ambient, ridge", 6, "Auto()")],
    "tensor": [("half-plane", 12, AUTO), ("round, wavy 5, wavy 20", 6, "Auto()")],
    "Energy": [("semicircle, bowl, half-plane, D=20, D=40", 5, ENERGY)],
    "Graph": [("moons, D=20", 6, "Graph()"), ("bowl", 5, "Graph(x, neighbours=6)")],
    "Algorithm 1": [
        ("semicircle", 10, f"FixedPoint(); {MESHES}; {STEPS}; {LIKELIEST}; {POSTERIOR}"),
        ("sphere, D=20, D=100, decoder 2, half-plane", 5, "FixedPoint()"),
    ],
    "Hennig": [("semicircle, bowl", 5, HENNIG)],
    "Collocation": [("semicircle, half-plane", 4, "Collocation(); Collocation(order=5)")],
    "init": [("semicircle, bowl", 4, INIT), ("semicircle", 4, f"path(m, a + 0.01, b, {ROUGH})")],
    "still": [("semicircle, half-plane", 2, STILL)],
    "files": [("semicircle", 4, FILES)],
    "metrics": [(", ".join(METRICS), 20, VALUES)],
    "maps": [("semicircle, blocks, D=20, D=40, decoder 2, half-plane", 4, f"{LOGS}; {EXP}")],
    "lost": [("decoder 2", 4, "od.exp_map(m, a, 300 * (b - a), return_info=True)")],
    "distances": [("moons, half-plane", 4, f"{MATRIX}; {APART}")],
    "gradients": [("semicircle, blocks, D=20, decoder 2, bowl, half-plane", 2, "slopes(m, a, b)")],
    "means": [("moons, bowl, half-plane", 20, f"{MEANS}; {PCA}; {NEAR}")],
    "clusters": [("moons", 20, f"{KMEANS}; [{LAND}, p.score_samples(b), p.sample(5, 0)]")],
}
CLOCK = {
    "plane, 199 paths": ("semicircle", 199, "Auto()"),
    "plane, one path": ("semicircle", 1, "Auto()"),
    "D=20, 20 paths": ("D=20", 20, "Auto()"),
    "D=100, 5 paths": ("D=100", 5, "Auto()"),
    "decoder 6 to 30, 10 paths": ("decoder 6", 10, "Auto()"),
    "half-plane, 50 paths": ("half-plane", 50, "Auto()"),
    "moons, 40 x 40 matrix": ("moons", 4, MATRIX),
}


def slopes(m: Any, a: Any, b: Any) -> list[Any]:
    """Of distances, by the ends and by what the metric is made of."""
    with jax.enable_x64(True):
        of = jax.grad(lambda *given: od.gradients.distance(*given).sum(), (0, 1, 2))(m, a, b)
    parts = [getattr(of[0], key, None) for key in ("data", "sigma", "rho", "mean")]
    return jax.tree.leaves([of[1:], parts])


def again(path: Any) -> Any:
    """Saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path.save(Path(folder, "path.npz"))
        return od.Path.load(Path(folder, "path.npz"))


def answer(name: str, count: int, text: str) -> dict[str, Any]:
    """One case; half of several paths start at one point, so that they may help each other."""
    metric, points = problem(name)
    index = np.random.default_rng(count).permutation(len(points))
    a, b = points[index[:count]], points[index[-count:]]
    a[: count // 2] = a[0]
    a, b = (a, b) if count > 1 else (a[0], b[0])
    known = {"m": metric, "a": a, "b": b, "x": points, "od": od, "np": np}
    known |= {"path": od.shortest_path, "again": again, "slopes": slopes}
    return told(eval(f"path(m, a, b, od.{text})" if text[0].isupper() else text, known))


def told(found: Any, at: str = "") -> dict[str, Any]:
    """What a path, an info, an estimator or an array says, or several of them: arrays by names."""
    if isinstance(found, list | tuple):
        parts = [told(part, f"{at}{k} ") for k, part in enumerate(found)]
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(found, od.Path):
        names = "length", "error", "status", "certified", "residual"
        fields = {name: getattr(found, name) for name in names}
        fields |= {"message": np.asarray(found.message, str), "velocity": found.velocity([0, 1])}
    elif hasattr(found, "fit"):
        fitted = {key: value for key, value in vars(found).items() if key.endswith("_")}
        fields = {k: v for k, v in fitted.items() if isinstance(v, np.ndarray | float | int)}
    else:
        names = (
            INFO if isinstance(found, od.Info) else vars(found) if hasattr(found, "slope") else ()
        )
        fields = {name: getattr(found, name) for name in names} or {"": found}
    return {f"{at}{key}": np.asarray(value) for key, value in fields.items()}


def compute(groups: list[str]) -> dict[str, Any]:
    found = {}
    for group in groups:
        began = time.perf_counter()
        for names, count, texts in CASES[group]:
            for name, text in ((n, t) for n in names.split(", ") for t in texts.split("; ")):
                try:
                    fields = answer(name, count, text)
                except Exception as error:  # the other cases still tell something
                    fields = {"message": np.array(f"{type(error).__name__}: {error}")}
                    print(f"{group}, {name}, {text} raised {fields['message']}", file=sys.stderr)
                found |= {f"{group}|{name} {count} {text}|{key}": x for key, x in fields.items()}
        print(f"{time.perf_counter() - began:6.1f} s  {group}", file=sys.stderr, flush=True)
    return found


def apart(kind: str, a: Any, b: Any) -> float:
    """The largest relative difference of numbers or vectors, or of arrays, to their largest number."""
    if a.shape != b.shape:
        return np.inf
    a, b = a.astype(float), b.astype(float)
    with np.errstate(all="ignore"):
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        size = np.abs(a) if kind in MEASURED else np.abs(a).max(initial=0, where=np.isfinite(a))
        if kind == "velocity":
            gap, size = np.linalg.norm(gap, axis=-1), np.linalg.norm(a, axis=-1)
        relative = np.where(gap == 0, 0.0, gap / size)
    return float(np.nan_to_num(relative, nan=np.inf, posinf=np.inf).max(initial=0))


def compare(old: dict[str, Any], new: dict[str, Any], groups: list[str]) -> int:
    """Print how they differ; 1 if they do."""
    bad, names = [], ("cases", "paths", *COUNTED, *MEASURED)
    print(f"{'group':12s}" + "".join(f"{name:>10s}" for name in names) + "  bit for bit")
    for group in groups:
        keys = [key for key in {**old, **new} if key.startswith(f"{group}|")]
        row, others = dict.fromkeys(names, 0.0), 0
        row["cases"] = len({key.rpartition("|")[0] for key in keys})
        for key in keys:
            a, b = (fields.get(key, np.zeros(0)) for fields in (old, new))
            equal = a.shape == b.shape and (a == b) | ((a != a) & (b != b))
            others += not np.all(equal)
            kind = key.rpartition("|")[2].split(" ")[-1]
            column = kind if kind in COUNTED + MEASURED else "other"
            if column in COUNTED:
                change = np.sum(~equal) if a.shape == b.shape else max(a.size, b.size)
                row[column] += change
            else:
                row[column] = max(row[column], change := apart(kind, a, b))
            row["paths"] += a.size if kind == "status" else 0
            if (key in old) != (key in new) or change > ALLOWED.get(column, np.inf):
                bad.append(f"{key}: {change:.3g}{'' if key in new else ', it is gone'}")
        told = f"NO: {others} of {len(keys)} arrays" if others else "yes"
        print(f"{group:12s}" + "".join(f"{row[name]:10.4g}" for name in names), told, sep="  ")
    print(*(bad or ["no status, no certificate and no length is another one"]), sep="\n")
    return int(bool(bad))


def times(pythons: list[str], folder: str) -> None:
    found: dict[str, Any] = {label: ([], []) for label in CLOCK}
    for k in [0, 1] * ROUNDS:
        run = [pythons[k], __file__, "clock", "-", "--cache", folder]
        out = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout
        for label, seconds in json.loads(out).items():
            found[label][k].append(seconds * 1e3)
    print(f"{'milliseconds':28s}{'this':>9s}{'other':>9s}{'this / other':>14s}")
    for label, both in found.items():
        this, other = map(np.median, both)
        print(f"{label:28s}{this:9.1f}{other:9.1f}{this / other:14.3f}")


def main() -> int | None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("store", "compare", "times", "clock"))
    parser.add_argument("file", help="the .npz, or for times the other python")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="GROUP")
    parser.add_argument("--cache", help="a folder for compiled code; a temporary one without it")
    parser.add_argument("--optimised", action="store_true", help="compile as users do: slow")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", od.ConvergenceWarning)
    with tempfile.TemporaryDirectory() as folder:
        folder = asked.cache or folder
        if asked.what == "times":
            return times([sys.executable, asked.file], folder)
        old = dict(np.load(asked.file)) if asked.what == "compare" else {}
        well = asked.what == "clock" or asked.optimised or bool(old.pop("optimised", False))
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + ("" if well else QUICK)
        od.enable_compilation_cache(folder)
        if asked.what == "clock":
            calls = {k: timeit.Timer(partial(answer, *case)) for k, case in CLOCK.items()}
            medians = {k: np.median(t.repeat(1 + CALLS, 1)[1:]) for k, t in calls.items()}
            return print(json.dumps(medians))  # without the first calls, which compile
        print(f"orthodrome in {Path(od.__file__).parent}, jax {jax.__version__}", file=sys.stderr)
        new = compute(asked.only)
    if asked.what == "compare":
        return compare(old, new, asked.only)
    return np.savez(asked.file, optimised=asked.optimised, **new)


if __name__ == "__main__":
    sys.exit(main())
