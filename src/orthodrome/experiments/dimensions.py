"""Fig. 6: run time and failures of the semicircle in more and more dimensions, both readings of the
data."""

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome._types import Array
from orthodrome.experiments import contest
from orthodrome.experiments.base import Experiment, Part, Results, Run
from orthodrome.experiments.figures import bars, legend_below, line, sheet

READINGS = {"standardised once, random base": False, "standardised again, base at an end": True}
"""The paper's sentence can be read in both ways: see `datasets.semicircle_in`."""


def problems(run: Run, dim: int, again: bool) -> tuple[od.Metric, Array, Array]:
    """The metric, a base point and the subset. Where axes are standardised again the base is an end
    of the curve."""
    s = run.settings
    data, angle = od.datasets.semicircle_in(
        dim, s.points, 0.1, run.seed, restandardize=again, return_angle=True
    )
    chosen = np.random.default_rng([run.seed, 1]).choice(len(data), s.targets + 1, replace=False)
    metric = od.LocalPCA(data, sigma=0.25, rho=0.01)
    base = data[np.argmax(angle) if again else chosen[0]]
    return metric, np.broadcast_to(base, (s.targets, dim)), data[chosen[1:]]


def compute(run: Run) -> Results:
    """Each problem alone. Collocation gets fewer of them in many dimensions, where it takes many
    seconds each."""
    rows: dict[str, dict[int, dict[str, Part]]] = {}
    for reading, again in READINGS.items():
        for dim in run.settings.dims:
            metric, a, b = problems(run, dim, again)
            name = f"{'again' if again else 'once'}-{dim}-"
            few = run.settings.for_bvp.get(str(dim), len(a))
            row = contest.some_for_bvp(run, name, metric, a, b, few, mesh=10, alone=True)
            rows.setdefault(reading, {})[dim] = row
    return {"rows": rows}


def draw(results: Results) -> Figure:
    """Time above, failures below, a column for each reading."""
    figure, axes = sheet(2, rows=2, width=4.8, height=2.9)
    for column, (reading, by_dim) in enumerate(results["rows"].items()):
        times, shares = axes[column], axes[2 + column]
        dims = list(by_dim)
        for who in by_dim[dims[0]]:
            line(times, who, dims, [1e3 * by_dim[dim][who]["seconds"].mean() for dim in dims])
        times.set(
            xscale="log", yscale="log", xlabel="dimensions", ylabel="mean ms a path", title=reading
        )
        times.set_xticks(dims, dims)
        times.minorticks_off()
        share = {
            who: np.array([100 * contest.unconverged(by_dim[dim][who]).mean() for dim in dims])
            for who in by_dim[dims[0]]
        }
        bars(shares, [f"D = {dim}" for dim in dims], share)
        shares.set(ylabel="% not converged", ylim=(0, 128))
    legend_below(figure, axes[0], 5)
    return figure


def measured(results: Results) -> str:
    """The paper's table, for both readings."""
    told = []
    for reading, by_dim in results["rows"].items():
        whom = next(iter(by_dim.values()))
        shares = {
            who: "/".join(
                f"{100 * contest.unconverged(rows[who]).mean():.0f} "
                f"({100 * contest.failed(rows[who]).mean():.0f})"
                + (
                    f" of {len(rows[who]['length'])}"
                    if len(rows[who]["length"]) < len(rows[contest.OURS]["length"])
                    else ""
                )
                for rows in by_dim.values()
            )
            for who in whom
        }
        each = ", ".join(f"{who} {share}" for who, share in shares.items())
        told.append(f"{reading}, D = {'/'.join(map(str, by_dim))}, % {contest.FAILURES}: {each}")
    return "; ".join(told)


def table(results: Results) -> list[list[str]]:
    """Every reading, dimension and solver."""
    out: list[list[str]] = []
    for reading, by_dim in results["rows"].items():
        for dim, rows in by_dim.items():
            header, *body = contest.table(rows)
            out = out or [["data", "D", *header]]
            out += [[reading, str(dim), *row] for row in body]
    return out


EXPERIMENT = Experiment(
    "dimensions",
    "Fig. 6: failures and run time in 2 to 20 dimensions",
    "D = 2/5/10/20, % failed: Algorithm 1 0/0/0/9, bvp5c 9/24/42/50, H&H 69/95/100/100; bvp5c "
    "slowest",
    quick={"points": 200, "targets": 8, "dims": [2, 3], "for_bvp": {"2": 4, "3": 2}},
    full={
        "points": 1000,
        "targets": 100,
        "dims": [2, 5, 10, 20],
        "for_bvp": {"5": 50, "10": 20, "20": 10},
    },
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
)
