"""How the figures look: everybody has a colour, a dash and a marker, so that print and greyscale
tell them apart."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orthodrome import plotting
from orthodrome._types import Array, ArrayLike
from orthodrome.experiments.contest import AUTO, BVP4, BVP5, HH, OURS
from orthodrome.metrics import Metric

STYLE: dict[str, dict[str, Any]] = {
    OURS: {"color": "#0b5c7a", "linestyle": "-", "marker": "o"},
    BVP4: {"color": "#c4452c", "linestyle": "--", "marker": "s"},
    BVP5: {"color": "#e59a3c", "linestyle": "-.", "marker": "D"},
    HH: {"color": "#7f6aa6", "linestyle": ":", "marker": "^"},
    AUTO: {"color": "#111111", "linestyle": (0, (6, 1)), "marker": "x"},
}
HATCH = {OURS: "", BVP4: "//", BVP5: "\\\\", HH: "..", AUTO: "xx"}
MARKER_SIZE = 4


def sheet(
    columns: int, rows: int = 1, width: float = 3.6, height: float = 3.2
) -> tuple[Figure, Array]:
    """A figure of so many axes, these in one row (rows × columns,)."""
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes.ravel()


def line(
    ax: Axes, who: str, x: ArrayLike, y: ArrayLike, markers: bool = True, **style: Any
) -> None:
    """One solver's line, or only its markers with `linestyle=""`."""
    chosen = {**STYLE[who], "markersize": MARKER_SIZE, "linewidth": 1.4, "label": who} | style
    if not markers:
        chosen["marker"] = ""
    ax.plot(x, y, **chosen)


def bars(
    ax: Axes, groups: Sequence[str], values: Mapping[str, Array], text: str = "{:.0f}"
) -> None:
    """A bar for each solver in each group, its number above it."""
    width = 0.8 / len(values)
    for i, (who, heights) in enumerate(values.items()):
        place = np.arange(len(groups)) + (i - (len(values) - 1) / 2) * width
        drawn = ax.bar(
            place,
            heights,
            width,
            label=who,
            color=STYLE[who]["color"],
            hatch=HATCH[who],
            edgecolor="white",
        )
        ax.bar_label(drawn, [text.format(height) for height in heights], fontsize=6, padding=1)
    ax.set_xticks(np.arange(len(groups)), groups)


def scene(ax: Axes, metric: Metric, data: Array | None = None, **dots: Any) -> None:
    """The data over the metric, without ticks: coordinates mean nothing here."""
    plotting.scene(metric, data, ax=ax, **dots)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def curve(ax: Axes, who: str, points: Array, **style: Any) -> None:
    """One solver's path (T, 2), a marker now and then, with a light edge that lifts it off the
    data."""
    every = max(1, len(points) // 8)
    # beneath all of the paths: some lie on each other
    ax.plot(*points.T, color="white", linewidth=3, zorder=4)
    chosen: dict[str, Any] = {"markevery": (every // 2, every), "zorder": 5} | style
    line(ax, who, *points.T, **chosen)


def legend(ax: Axes, **options: Any) -> None:
    """Without a frame."""
    ax.legend(**{"frameon": False, "fontsize": 8} | options)


def legend_below(figure: Figure, ax: Axes, columns: int) -> None:
    """What is in `ax`, below everything."""
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
    )
