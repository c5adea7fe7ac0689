"""Many problems in one call: seconds, memory, and how much a batch gains over one call a problem.

Semicircle problems between random pairs of points, `FixedPoint()`, judge included.
"""

import resource
import time
import warnings

import numpy as np

import orthodrome as od


def main():
    warnings.simplefilter("ignore", od.ConvergenceWarning)
    data = od.datasets.semicircle(200, random_state=0)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    pairs = np.random.default_rng(0).integers(0, 200, (2, 10_000))
    start, end = data[pairs]
    for n in (1, 50):
        _ = od.shortest_path(
            metric, start[:n], end[:n], od.FixedPoint()
        ).certified  # compile, the judge as well
    began = time.perf_counter()
    for i in range(50):
        _ = od.shortest_path(metric, start[i], end[i], od.FixedPoint()).certified
    alone = (time.perf_counter() - began) / 50
    began = time.perf_counter()
    few = od.shortest_path(metric, start[:20], end[:20], od.Collocation())
    _ = few.certified
    scipy = (time.perf_counter() - began) / 20
    print(f"{'':34s} ms a path   converged   certified")
    print(
        f"{'SciPy (Collocation), 20 paths':34s} {scipy * 1e3:9.2f} {few.converged.mean():11.1%} "
        f"{few.certified.mean():11.1%}"
    )
    print(f"{'FixedPoint(), one call a path':34s} {alone * 1e3:9.2f}")
    for n in (100, 1000, 10_000):
        began = time.perf_counter()
        path = od.shortest_path(metric, start[:n], end[:n], od.FixedPoint())
        _ = path.certified
        each = (time.perf_counter() - began) / n
        label = f"FixedPoint(), {n} in one call"
        print(
            f"{label:34s} {each * 1e3:9.2f} {path.converged.mean():11.1%} "
            f"{path.certified.mean():11.1%}"
        )
    print(
        "\npeak memory of this process: "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    )


if __name__ == "__main__":
    main()
