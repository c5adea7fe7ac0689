"""Appendix: a challenging path on the paraboloid [x, y, x² + y²], and what the solver makes of
another one's curve."""

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.contest import AUTO, BVP4, BVP5, OURS
from orthodrome.experiments.figures import curve, legend_below, sheet
from orthodrome.plotting import background

START, END = np.array([-2.0, 0.1]), np.array([2.0, 0.1])
"""The paper does not say which; from here straight over the bottom is a geodesic, and far from the
shortest."""
TIMES = np.linspace(0, 1, 300)
SPEEDS = np.linspace(0, 1, 1001)


def paraboloid() -> od.Pullback:
    """The paper's deterministic generator."""
    return od.Pullback(lambda x: jnp.array([x[0], x[1], x[0] ** 2 + x[1] ** 2]))


def compute(run: Run) -> Results:
    """The baselines, the paper's solver from the line, and from the baseline's curve."""
    metric = paraboloid()

    def solved(who: str) -> dict[str, object]:
        baseline = {BVP4: od.Collocation(), BVP5: od.Collocation(order=5), AUTO: od.Auto()}
        if who in baseline:
            path = od.shortest_path(metric, START, END, baseline[who])
        else:
            mesh, init = int(who.split()[0]), od.shortest_path(metric, START, END, od.Collocation())
            path = od.shortest_path(
                metric, START, END, od.FixedPoint(mesh=mesh), init=init if "from" in who else None
            )
        speed = path.speed(SPEEDS)
        return {
            "points": path(TIMES),
            "length": path.length,
            "converged": path.converged,
            "certified": path.certified,
            "message": np.array(str(path.message)),
            "speed": speed.std() / speed.mean(),
            "iterations": path.iterations,
        }

    names = [
        BVP4,
        BVP5,
        AUTO,
        *(f"{mesh} knots{how}" for mesh in run.settings.meshes for how in ("", " from bvp")),
    ]
    return {
        "paths": {
            who: run.part(who.replace(" ", "-").replace(",", ""), solved, who) for who in names
        }
    }


def draw(results: Results) -> Figure:
    """All paths over the paraboloid."""
    figure, (ax,) = sheet(1, width=5.6, height=4.2)
    background(paraboloid(), ([-2.4, -0.9], [2.4, 2.1]), ax)
    for k, (who, path) in enumerate(results["paths"].items()):
        name = who if who in (BVP4, BVP5, AUTO) else OURS
        label = f"{who if name == who else f'{OURS}, {who}'} ({float(path['length']):.2f})"
        # markers at other places for each, because several of the curves are the same
        places = (4 + 8 * k, 8 * len(results["paths"]))
        curve(
            ax,
            name,
            path["points"],
            label=label,
            marker="sDxo^v*"[k % 7],
            markersize=6,
            markevery=places,
        )
    ax.set(xticks=[], yticks=[])
    ax.set_title("paths on [x, y, x² + y²], seen from above (length)")
    ax.spines[:].set_visible(False)
    legend_below(figure, ax, 2)
    return figure


def measured(results: Results) -> str:
    """Lengths, speeds and what the judge says."""
    told = []
    for who, path in results["paths"].items():
        judgement = "certified" if path["certified"] else str(path["message"])
        told.append(
            f"{who}: {float(path['length']):.3f} ({judgement}; speed constant to "
            f"{float(path['speed']):.0e})"
        )
    return "; ".join(told)


EXPERIMENT = Experiment(
    "robustness",
    "Appendix: robustness on the paraboloid",
    "bvp5c ends in a suboptimal curve; Algorithm 1 finds the shortest from the straight line, and "
    "from bvp5c's curve a "
    "geodesic: of constant speed, locally shortest",
    quick={"meshes": [10, 50]},
    full={"meshes": [10, 50]},
    compute=compute,
    draw=draw,
    measured=measured,
)
