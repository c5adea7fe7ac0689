"""Sec. 3.2: the residual of Hennig & Hauberg's solver reaches a plateau, that of Algorithm 1 does
not."""

import warnings

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome._types import Array
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.contest import HH, OURS, missed
from orthodrome.experiments.figures import legend, line, sheet

MESH = 10


def compute(run: Run) -> Results:
    """The same problems with more and more refinements, and with more and more iterations."""
    s = run.settings
    data, angle = od.datasets.semicircle(200, random_state=run.seed, return_angle=True)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    order = np.argsort(angle)
    # near enough for both to find something
    start = data[order[80]]
    ends = data[order[90 : 150 : 60 // s.problems]]

    def residuals(who: str) -> dict[str, Array]:
        solver = {
            HH: lambda count: od.HennigHauberg(mesh=MESH, refinements=count),
            OURS: lambda count: od.FixedPoint(mesh=MESH, tol=1e-14, max_iter=count),
        }[who]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", od.ConvergenceWarning)  # they are stopped on purpose
            paths = [od.shortest_path(metric, start, ends, solver(count)) for count in s.counts]
        return {
            "residual": np.array(
                [missed(metric, path.curve, np.linspace(0, 1, MESH)) for path in paths]
            )
        }

    return {
        "counts": np.array(s.counts),
        "residual": {
            who: run.part(name, residuals, who)["residual"]
            for who, name in ((HH, "hennig-hauberg"), (OURS, "algorithm-1"))
        },
    }


def draw(results: Results) -> Figure:
    """Every problem thin, the median thick."""
    figure, (ax,) = sheet(1, width=4.8)
    for who, values in results["residual"].items():
        line(
            ax,
            who,
            1 + results["counts"],
            values,
            markers=False,
            linewidth=0.4,
            alpha=0.5,
            label=None,
        )
        line(ax, who, 1 + results["counts"], np.median(values, axis=1), linewidth=2)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="1 + refinements, or iterations",
        ylabel="largest ‖c'' − f‖² at a knot",
    )
    legend(ax)
    return figure


def measured(results: Results) -> str:
    """The last residuals, and how much they still fell at the end."""
    counts = results["counts"]
    last = {who: np.median(values, axis=1) for who, values in results["residual"].items()}
    told = ", ".join(
        f"{who} {values[-1]:.1e} ({values[len(values) // 2]:.1e} after {counts[len(counts) // 2]})"
        for who, values in last.items()
    )
    return f"median residual after {counts[-1]} rounds: {told}"


EXPERIMENT = Experiment(
    "plateau",
    "Sec. 3.2: Hennig & Hauberg cannot converge",
    "a proof: with Λ > 0 the mean does not interpolate its own accelerations, so refining leaves "
    "a residual",
    quick={"problems": 6, "counts": [0, 1, 2, 4, 8, 16, 32]},
    full={"problems": 20, "counts": [0, 1, 2, 4, 8, 16, 32, 64, 128]},
    compute=compute,
    draw=draw,
    measured=measured,
)
