"""Fig. 2: a geodesic on a data manifold, and its tangent vector."""

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.contest import AUTO
from orthodrome.experiments.figures import curve, scene, sheet

ARROW = 0.35
"""Of the tangent vector's length is drawn."""


def compute(run: Run) -> Results:
    """Logarithm, geodesic, and back by the exponential map."""
    data, angle = od.datasets.semicircle(200, random_state=run.seed, return_angle=True)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    start, end = data[np.argsort(angle)[[20, 170]]]

    def geodesic() -> dict[str, object]:
        path = od.shortest_path(metric, start, end)
        tangent = od.log_map(metric, start, end)
        return {
            "points": path(np.linspace(0, 1, run.settings.points)),
            "length": path.length,
            "certified": path.certified,
            "tangent": tangent,
            "norm": metric.norm(start, tangent),
            "reached": od.exp_map(metric, start, tangent),
            "end": end,
        }

    return {"metric": metric, "geodesic": run.part("geodesic", geodesic)}


def draw(results: Results) -> Figure:
    """The path with its tangent at the start."""
    figure, (ax,) = sheet(1, width=4.6, height=3.2)
    scene(ax, results["metric"])
    g = results["geodesic"]
    curve(ax, AUTO, g["points"], marker="", linestyle="-")
    start = g["points"][0]
    ax.annotate(
        "",
        start + ARROW * g["tangent"],
        start,
        arrowprops={"width": 1.6, "headwidth": 7, "color": "#c4452c"},
        zorder=6,
    )
    ax.scatter(*g["points"][[0, -1]].T, s=28, color="black", zorder=7)
    ax.set_title(f"length {g['length']:.3f}; the arrow is {ARROW:g} of the tangent vector")
    return figure


def measured(results: Results) -> str:
    """That the tangent vector has the path's length, and leads to its end."""
    g = results["geodesic"]
    off = abs(g["norm"] - g["length"]) / g["length"]
    miss = np.linalg.norm(g["reached"] - g["end"])
    sure = "certified" if g["certified"] else "not certified"
    return (
        f"a path by Auto, {sure}; the tangent's norm is the length to {off:.0e}, and Exp(Log(y)) "
        f"misses y by {miss:.0e}"
    )


EXPERIMENT = Experiment(
    "tangent",
    "Fig. 2: a geodesic and its tangent vector",
    "a tangent vector whose norm is the length of the path (a picture)",
    quick={"points": 200},
    full={"points": 200},
    compute=compute,
    draw=draw,
    measured=measured,
)
