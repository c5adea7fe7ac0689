"""Appendix: how the algorithm scales with the mesh and the dimension."""

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments import contest
from orthodrome.experiments.base import Experiment, Part, Results, Run
from orthodrome.experiments.figures import legend, sheet


def compute(run: Run) -> Results:
    """All paths from a random base point to a subset, each alone."""
    s = run.settings
    rows: dict[int, dict[int, Part]] = {}
    for dim in s.dims:
        data = od.datasets.semicircle_in(dim, s.points, random_state=run.seed)
        chosen = np.random.default_rng([run.seed, 1]).choice(
            len(data), s.targets + 1, replace=False
        )
        a, b = np.broadcast_to(data[chosen[0]], (s.targets, dim)), data[chosen[1:]]
        metric = od.LocalPCA(data, sigma=0.25, rho=0.01)
        rows[dim] = {}
        for mesh in s.meshes:
            only = {contest.OURS: od.FixedPoint(mesh=mesh)}
            rows[dim][mesh] = contest.contest(
                run, f"{dim}-{mesh}-", metric, a, b, only, mesh, alone=True
            )[contest.OURS]
    return {"rows": rows}


def growth(results: Results, key: str = "seconds") -> float:
    """p where the mean over all dimensions grows like N^p, by least squares on logarithms."""
    meshes = np.array(list(next(iter(results["rows"].values()))))
    means = np.array(
        [[row[key].mean() for row in by_mesh.values()] for by_mesh in results["rows"].values()]
    )
    return float(np.polyfit(np.log(meshes), np.log(means.mean(axis=0)), 1)[0])


def draw(results: Results) -> Figure:
    """Time and iterations against N, a line for each dimension."""
    figure, axes = sheet(2)
    looks = ("-o", "--s", "-.^", ":D", "-x")
    for k, (dim, by_mesh) in enumerate(results["rows"].items()):
        meshes, shade = list(by_mesh), str(0.65 * k / max(1, len(results["rows"]) - 1))
        for ax, key, unit in zip(axes, ("seconds", "iterations"), (1e3, 1), strict=True):
            values = [unit * row[key].mean() for row in by_mesh.values()]
            ax.plot(
                meshes,
                values,
                looks[k % len(looks)],
                color=shade,
                markersize=4,
                linewidth=1.2,
                label=f"D = {dim}",
            )
    for ax, label in zip(
        axes, ("mean ms a path, one problem a call", "mean iterations"), strict=True
    ):
        ax.set(xlabel="knots N", ylabel=label)
    axes[0].set(xscale="log", yscale="log")
    axes[0].set_xticks(meshes, meshes)
    axes[0].xaxis.minorticks_off()
    axes[1].set_ylim(bottom=0)
    legend(axes[1])
    return figure


def measured(results: Results) -> str:
    """The power of N, and failures."""
    every = [row for by_mesh in results["rows"].values() for row in by_mesh.values()]
    lost = np.mean([contest.unconverged(row).mean() for row in every])
    p = growth(results)
    counts = {
        dim: np.mean([row["iterations"].mean() for row in by_mesh.values()])
        for dim, by_mesh in results["rows"].items()
    }
    by_dim = ", ".join(f"{count:.0f} for D = {dim}" for dim, count in counts.items())
    meshes = list(next(iter(results["rows"].values())))
    return (
        f"from N = {meshes[0]} to {meshes[-1]} the run time grows like N^{p:.2f}, "
        f"{'sublinearly' if p < 1 else 'not sublinearly'}; mean iterations "
        f"{by_dim}; {lost:.1%} of all paths did not converge"
    )


def table(results: Results) -> list[list[str]]:
    """Milliseconds and iterations for each dimension and mesh."""
    meshes = list(next(iter(results["rows"].values())))
    cell = lambda row: (
        f"{1e3 * row['seconds'].mean():.1f} ms, {row['iterations'].mean():.1f} iterations, "
        + ", ".join(f"{contest.percent(test(row))} {name}" for name, test in contest.TESTS.items())
    )
    rows = [[str(dim), *map(cell, by_mesh.values())] for dim, by_mesh in results["rows"].items()]
    return [["D", *(f"N = {mesh}" for mesh in meshes)], *rows]


EXPERIMENT = Experiment(
    "scaling",
    "Appendix: scaling with mesh and dimension",
    "sublinear in N; more iterations in more dimensions",
    quick={"points": 200, "targets": 10, "dims": [2, 3], "meshes": [5, 10, 50]},
    full={
        "points": 1000,
        "targets": 100,
        "dims": [3, 5, 10, 25, 50],
        "meshes": [5, 10, 25, 50, 100],
    },
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
)
