"""The two latent spaces of Sec. 4.2, a half sphere and a split one: how long training takes, and what each solver finds.

    python benchmarks/latent.py                # 20 pairs each (some minutes, most of them SciPy's)

Training is timed with compilation. A solver's time is that of its second run, so without it, and includes the judge.
A path is "short" if it is no more than 0.1 % longer than the shortest one that any solver found.
"""

import argparse
import time
import warnings

import numpy as np

import orthodrome as od

SPHERES = {"half sphere": (od.datasets.half_sphere, "softplus"), "split sphere": (od.datasets.split_sphere, "tanh")}
"""The paper's data, and the activation of its generator there."""
SOLVERS = od.Auto(), od.Energy(), od.FixedPoint(), od.FixedPoint(mesh=50), od.Collocation()
SHORT = 1e-3


def trained(name, points=1000, **settings):
    """The model of one of the spheres, its codes, and the seconds it took to train."""
    make, activation = SPHERES[name]
    data = make(points, random_state=0)
    began = time.perf_counter()
    model = od.models.VAE(activation=activation, random_state=0, **settings).fit(data)
    return model, model.encode(data), time.perf_counter() - began


def measure(metric, a, b, solvers=SOLVERS):
    """For each solver: converged, certified, lengths (P,) each, and milliseconds a path."""
    found = {}
    for solver in solvers:
        for _ in range(2):
            began = time.perf_counter()
            path = od.shortest_path(metric, a, b, solver)
            length = path.length
            took = time.perf_counter() - began
        found[repr(solver)] = path.converged, path.certified, length, 1e3 * took / len(a)
    return found


def main(pairs=20, solvers=SOLVERS, spheres=SPHERES, **settings):
    """Prints a table for each sphere; returns what `measure` found on each."""
    tables = {}
    for name in spheres:
        model, codes, seconds = trained(name, **settings)
        print(
            f"{name}: trained in {seconds:.1f} s\n{'':28}{'converged':>10}{'certified':>11}{'short':>8}{'ms a path':>11}"
        )
        i, j = np.random.default_rng(0).choice(len(codes), (2, pairs), replace=False)
        tables[name] = measure(model.metric(), codes[i], codes[j], solvers)
        best = np.nanmin([length for _, _, length, _ in tables[name].values()], axis=0)
        for solver, (converged, certified, length, took) in tables[name].items():
            short = np.mean(length <= (1 + SHORT) * best)
            print(f"{solver:28}{converged.mean():10.0%}{certified.mean():11.0%}{short:8.0%}{took:11.1f}")
    return tables


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    warnings.simplefilter("ignore", od.ConvergenceWarning)
    main(parser.parse_args().pairs)
