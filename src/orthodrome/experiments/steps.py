"""Fig. 3: the two steps of the algorithm, from a real run."""

import warnings

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.curves import GPCurve
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.figures import legend, sheet

TIMES = np.linspace(0, 1, 181)
"""The knots k/9 are among them."""


def compute(run: Run) -> Results:
    """The same problem stopped after i and after i + 1 iterations, and after each of them."""
    data, angle = od.datasets.semicircle(200, random_state=run.seed, return_angle=True)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    start, end = data[np.argsort(angle)[[30, 150]]]

    def stopped(iterations: int) -> od.Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", od.ConvergenceWarning)  # it was asked to stop
            return od.shortest_path(metric, start, end, od.FixedPoint(max_iter=iterations))

    def iterations() -> dict[str, object]:
        paths = [stopped(i) for i in range(stopped(1000).iterations + 1)]
        curves = [path.curve for path in paths if isinstance(path.curve, GPCurve)]
        z, knots = np.array([curve.z[0] for curve in curves]), curves[0].process.knots
        f = np.array([metric.acceleration(path(knots), path.velocity(knots)) for path in paths])
        return {
            "knots": knots,
            "z": z,
            "error": np.sum((z - f) ** 2, axis=(1, 2)),
            "c": [path(TIMES) for path in paths],
            "v": [path.velocity(TIMES) for path in paths],
            "a": [path.acceleration(TIMES) for path in paths],
            "converged": paths[-1].converged,
        }

    return {"iterations": run.part("iterations", iterations), "shown": run.settings.shown}


def draw(results: Results) -> Figure:
    """Accelerations, curve, velocities: before an update and after it."""
    r, i = results["iterations"], max(0, min(results["shown"], len(results["iterations"]["z"]) - 2))
    at_knots = np.rint(r["knots"] * (len(TIMES) - 1)).astype(int)
    figure, axes = sheet(3, height=3.4)
    panels = [
        ("a", "accelerations z", "#0b5c7a"),
        ("c", "1 · the posterior's curve μ", "#4f7a28"),
        ("v", "1 · its velocity μ'", "#a01732"),
    ]
    for ax, (key, title, color) in zip(axes, panels, strict=True):
        after = min(i + 1, len(r["z"]) - 1)
        for step, dash, fill, label in (
            (i, "-", color, f"iteration {i}"),
            (after, ":", "white", f"iteration {after}"),
        ):
            lines = r[key][step]
            marks = r["z"][step] if key == "a" else lines[at_knots]
            ax.plot(*lines.T, color=color, linestyle=dash, linewidth=1.4)
            ax.scatter(*marks.T, s=26, facecolors=fill, edgecolors=color, zorder=3, label=label)
        ax.set(title=title, xticks=[], yticks=[])
        legend(ax)
    axes[0].set_xlabel("2 · z moves towards f(μ, μ')")
    return figure


def measured(results: Results) -> str:
    """How the error fell."""
    r = results["iterations"]
    return (
        f"{len(r['z']) - 1} iterations from the line, Σ‖z − f‖² from {r['error'][0]:.3g} to "
        f"{r['error'][-1]:.2g}"
        f"{'' if r['converged'] else ', not converged'}"
    )


EXPERIMENT = Experiment(
    "steps",
    "Fig. 3: the two steps of Algorithm 1",
    "a drawing of one update of z, no numbers",
    quick={"shown": 2},
    full={"shown": 2},
    compute=compute,
    draw=draw,
    measured=measured,
)
