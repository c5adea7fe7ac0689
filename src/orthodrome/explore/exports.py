"""What can be taken away from the page: a picture, a table, and the program that finds the same
paths."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from orthodrome import plotting
from orthodrome.explore.scene import DataScene, End, Scene, Settings
from orthodrome.metrics import Metric
from orthodrome.path import Path

MEDIA = {
    "png": "image/png",
    "svg": "image/svg+xml",
    "csv": "text/csv; charset=utf-8",
    "py": "text/x-python; charset=utf-8",
}
"""What a browser calls each kind of file."""

MOST_NAMED = 8
"""Paths whose lengths a picture names: a longer legend would cover the data."""

PICTURE_TIMES = np.linspace(0.0, 1.0, 201)
TABLE_TIMES = np.linspace(0.0, 1.0, 101)


def picture(
    scene: Scene, metric: Metric, paths: Sequence[Path], colors: Sequence[int], kind: str
) -> bytes:
    """The scene with the paths over it, in these of the colours, for print: png or svg."""
    figure = Figure(figsize=(6, 5.4), layout="constrained")
    ax: Any = figure.add_subplot()
    if scene.free:
        plotting.background(metric, scene.box, ax)
    x, y = scene.plane.points(scene.points).T
    ax.scatter(x, y, s=9, color="#222222", alpha=0.55, linewidths=0, zorder=2)
    for i, path in zip(colors, paths, strict=True):
        color = plotting.COLORS[i % len(plotting.COLORS)]
        seen = scene.plane.points(path(PICTURE_TIMES))
        style, (first, last) = "-" if path.converged else "--", seen[[0, -1]].T
        ax.plot(*seen.T, color=color, lw=1.8, ls=style, label=f"{path.length:.4g}", zorder=3)
        ax.plot(first, last, color=color, lw=0.8, ls=":", zorder=3)
        ax.scatter(first, last, s=26, color=color, edgecolors="white", linewidths=0.8, zorder=4)
    (left, bottom), (right, top) = scene.box
    across, up = scene.axes
    ax.set(
        xlim=(left, right),
        ylim=(bottom, top),
        aspect="equal",
        xlabel=across,
        ylabel=up,
        title=scene.title,
    )
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
        text.set_parse_math(False)  # names are names, also with a dollar sign
    if 0 < len(paths) <= MOST_NAMED:
        ax.legend(title="length", loc="upper right", framealpha=0.9)
    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "orthodrome"}):  # the same picture is the same file
        figure.savefig(
            stream, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None
        )
    return stream.getvalue()


def table(scene: Scene, paths: Sequence[Path]) -> bytes:
    """The curves as csv, in the file's units; a row a place, a hundred and one for each path."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    ours = [
        f"path_{name}" if name in scene.columns else name
        for name in ("path", "length", "certified", "t")
    ]
    writer.writerow([*ours, *scene.columns])
    for i, path in enumerate(paths, 1):  # as the page counts them
        fixed = [i, float(path.length), "yes" if path.certified else "no"]
        places = scene.in_units(path(TABLE_TIMES))
        writer.writerows(
            [*fixed, t, *place]
            for t, place in zip(TABLE_TIMES.tolist(), places.tolist(), strict=True)
        )
    return stream.getvalue().encode()


def program(scene: Scene, settings: Settings, ends: Sequence[tuple[End, End]]) -> bytes:
    """Python lines that find the same paths, to the last digit."""
    name = scene.points_name
    drawn = len(scene.points) > 0 and (scene.free or isinstance(scene, DataScene))
    write = lambda end: f"{name}[{end}]" if isinstance(end, int) else f"[{end[0]!r}, {end[1]!r}]"
    lines = [
        "import orthodrome as od",
        "",
        *scene.lines,
        scene.metric_line(settings),
        "ends = [",
        *(f"    ({write(start)}, {write(end)})," for start, end in ends),
        "]",
        "paths = [od.shortest_path(metric, start, end) for start, end in ends]",
        *([f"ax = od.plotting.scene(metric, {name})"] if drawn else []),
        "for path in paths:",
        "    print(path)",
        *(
            ["    path.plot(ax)", 'ax.figure.savefig("orthodrome_paths.png", dpi=200)']
            if drawn
            else []
        ),
    ]
    return "\n".join([*lines, ""]).encode()
