"""Errors on manifolds whose distances are known: how they fall with the mesh, for each kernel.

Prints the largest relative error of 8 distances for d = 2, 5, 20, how far exp(log) lands from the
point (and how far with the curve's own initial velocity in place of the logarithm), and the error
against N for the squared exponential and Matérn kernels on the half-plane (median of 8).
"""

import pathlib
import sys
import warnings

import numpy as np

import orthodrome as od

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
from problems import NAMES, problem

MESHES = (5, 7, 10, 14, 20, 30, 50)


def main():
    warnings.simplefilter("ignore", od.ConvergenceWarning)  # tolerances below rounding
    print(
        f"{'problem':12s} {'d':>3s} {'N':>3s} {'largest relative error':>23s} "
        f"{'exp(log) misses by':>19s} {'... by own velocity':>20s} {'certified':>10s}"
    )
    for name in NAMES:
        for d in (2, 5, 20):
            for mesh in (20, 30, 50):
                p, solver = problem(name, d), od.FixedPoint(mesh=mesh, tol=1e-14, max_iter=400)
                path = od.shortest_path(p.metric, p.start, p.end, solver)
                end = od.exp_map(p.metric, p.start, od.log_map(p.metric, p.start, p.end, solver))
                own = np.abs(od.exp_map(p.metric, p.start, path.velocity(0.0)) - p.end).max()
                error, miss = np.abs(path.length / p.distance - 1).max(), np.abs(end - p.end).max()
                print(
                    f"{name:12s} {d:3d} {mesh:3d} {error:23.1e} {miss:19.1e} {own:20.1e} "
                    f"{path.certified.mean():10.0%}"
                )

    print("\nhalf-plane, median relative error against N")
    print(f"{'kernel':46s}" + "".join(f"{n:>9d}" for n in MESHES))
    p = problem("half-space", 2)
    rule = [np.sqrt(0.5 / (n - 1)) for n in MESHES]
    for name, kernels in {
        "SquaredExponential(), λ² = ½ Δt": [od.SquaredExponential()] * len(MESHES),
        "Matern(nu=3.5), λ = 1": [od.Matern()] * len(MESHES),
        "Matern(nu=4.5), λ = 1": [od.Matern(nu=4.5)] * len(MESHES),
        "Matern(nu=3.5), λ² = ½ Δt (the SE's rule)": [
            od.Matern(lengthscale) for lengthscale in rule
        ],
    }.items():
        solvers = [
            od.FixedPoint(mesh=n, tol=1e-16, max_iter=200, kernel=k)
            for n, k in zip(MESHES, kernels, strict=True)
        ]
        errors = [
            np.median(np.abs(od.distance(p.metric, p.start, p.end, s) / p.distance - 1))
            for s in solvers
        ]
        print(f"{name:46s}" + "".join(f"{e:9.0e}" for e in errors))


if __name__ == "__main__":
    main()
