"""Fig. 1: how ill-conditioned the Jacobian of the geodesic equation is on a manifold learned from
data."""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome._boundary import double_precision
from orthodrome._types import Array
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.figures import sheet
from orthodrome.metrics import Metric

VELOCITY = np.array([1.0, 1.0]) / np.sqrt(2)
"""The paper fixes one and does not say which; its size does not matter to a condition number."""

NEAR = 0.05
"""How far apart two places are whose condition numbers are compared; the half circle has radius
1."""

ROOM = 0.4
"""How far the picture goes beyond the data."""


def log_condition(metric: Metric, x: Array) -> Array:
    """log₁₀ of the condition number of ∂f(x, v)/∂x at points (M, d): (M,). NaN where it is
    singular."""
    with double_precision():
        jacobian = jax.jit(
            jax.vmap(jax.jacfwd(lambda y: metric.acceleration_at(y, jnp.asarray(VELOCITY))))
        )(x)
    values = np.linalg.svd(np.asarray(jacobian), compute_uv=False)
    with np.errstate(all="ignore"):
        out = np.log10(values[:, 0] / values[:, -1])
    return np.where(np.isfinite(out), out, np.nan)


def compute(run: Run) -> Results:
    """On a grid over the semicircle."""
    data = od.datasets.semicircle(200, random_state=run.seed)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    low, high = data.min(axis=0) - ROOM, data.max(axis=0) + ROOM
    axes = [np.linspace(*ends, run.settings.grid) for ends in zip(low, high, strict=True)]
    points = np.stack(np.meshgrid(*axes), axis=-1)
    grid = run.part("grid", lambda: {"log_condition": log_condition(metric, points.reshape(-1, 2))})
    return {
        "data": data,
        "box": (low, high),
        "grid": grid["log_condition"].reshape(points.shape[:2]),
    }


def draw(results: Results) -> Figure:
    """The data over it."""
    figure, (ax,) = sheet(1, width=5.2, height=3.6)
    (left, bottom), (right, top) = results["box"]
    shown = np.clip(results["grid"], 0, np.nanpercentile(results["grid"], 99.5))
    image = ax.imshow(shown, extent=(left, right, bottom, top), origin="lower", cmap="viridis")
    ax.scatter(*results["data"].T, s=8, color="white", edgecolors="black", linewidths=0.4)
    ax.set(xticks=[], yticks=[], title="condition of ∂f/∂c, velocity fixed")
    ax.spines[:].set_visible(False)
    figure.colorbar(image, ax=ax, label="log₁₀ of the condition number")
    return figure


def measured(results: Results) -> str:
    """How large, and how it changes from one place of the grid to the next."""
    grid, ((left, _), (right, _)) = results["grid"], results["box"]
    median, most = np.nanmedian(grid), np.nanpercentile(grid, 99)
    cells = max(1, round(NEAR * grid.shape[1] / (right - left)))
    step = np.nanpercentile(np.abs(grid[:, cells:] - grid[:, :-cells]), 90)
    return (
        f"condition number: median {10**median:.0f}, one in a hundred above {10**most:.0f}; at a "
        f"distance of {NEAR:g} "
        f"it is another by a factor of {10**step:.0f} or more in one place of ten"
    )


EXPERIMENT = Experiment(
    "condition",
    "Fig. 1: condition number of the Jacobian of f",
    "the Jacobian is ill-conditioned and highly oscillatory (a picture, no numbers)",
    quick={"grid": 80},
    full={"grid": 300},
    compute=compute,
    draw=draw,
    measured=measured,
)
