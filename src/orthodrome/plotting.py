"""Pictures: axes in, artists out.

ax = plotting.scene(metric)        # the data over the metric's log volume element
plotting.paths(path, ax=ax)        # curves, with their posterior spread
plotting.strip(images)             # what is decoded along them
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from orthodrome import _boundary
from orthodrome._types import Array, ArrayLike
from orthodrome.metrics import Metric
from orthodrome.path import Path

GRID = 120
"""Cells of the background on each side."""

COLORS = ["#0b6e8f", "#c4452c", "#6a4c93", "#3b7a3b", "#b7791f"]
"""Distinct also without colour: they differ in lightness."""

SPREAD_STDS = 2.0
"""Half the width of the band around a path, in posterior standard deviations."""

MARGIN = 0.15
"""Around the data, as a fraction of their extent."""

PRINCIPAL = "first principal component", "second principal component"
"""What axes are called where there are more than two coordinates."""

ROW_GAP = 1
"""Pixels between two rows of a strip."""


Box = tuple[ArrayLike, ArrayLike]
"""The low and the high corner of what is seen, (2,) each."""


@dataclasses.dataclass(frozen=True, eq=False)
class Plane:
    """The two directions in which points are seen."""

    center: Array
    """(d,)"""
    axes: Array
    """(2, d), orthonormal."""

    @classmethod
    def of(cls, points: Array) -> "Plane":
        """Two coordinates as they are; of more, the two principal components."""
        if points.shape[1] == 2:
            return cls(np.zeros(2), np.eye(2))
        if points.shape[1] < 2 or len(points) < 2:
            raise ValueError(
                f"a picture needs two coordinates and two points; {points.shape[1]} and "
                f"{len(points)} arrived."
            )
        center = points.mean(axis=0)
        return cls(center, np.linalg.svd(points - center, full_matrices=False)[2][:2])

    def points(self, points: Array) -> Array:
        """(..., d) → (..., 2)."""
        return (points - self.center) @ self.axes.T

    def vectors(self, vectors: Array) -> Array:
        """(..., d) → (..., 2)."""
        return vectors @ self.axes.T

    def covariances(self, covariances: Array) -> Array:
        """(..., d, d) → (..., 2, 2)."""
        return self.axes @ covariances @ self.axes.T


def scene(
    metric: Metric,
    data: ArrayLike | None = None,
    ax: Axes | None = None,
    margin: float = MARGIN,
    **style: Any,
) -> Axes:
    """Draw the metric's log volume element with the data over it; returns the axes.

    Light is where a step is short, dark where it is long. `data` defaults to the
    points that the metric was learned from. If these have more than two coordinates, they are seen
    along their two principal components, without the volume element. `style` goes to matplotlib's
    `scatter`.
    """
    data = metric.data if data is None else data
    if data is None:
        raise ValueError(
            f"data should be the points to show: a {type(metric).__name__} has none of its own."
        )
    points = _boundary.as_points(data, "data")
    plane = _plane(metric, points.shape[-1], "data")
    seen, ax = plane.points(points), _axes(ax)
    if points.shape[-1] == 2:
        background(metric, frame(seen, margin), ax)
    else:
        (left, bottom), (right, top) = frame(seen, margin)
        ax.set(
            xlim=(left, right),
            ylim=(bottom, top),
            aspect="equal",
            xlabel=PRINCIPAL[0],
            ylabel=PRINCIPAL[1],
        )
    dots: dict[str, Any] = {"s": 9, "color": "#222222", "alpha": 0.55, "linewidths": 0, "zorder": 2}
    x, y = seen.T
    ax.scatter(x, y, **dots | style)
    return ax


def frame(points: Array, margin: float = MARGIN) -> tuple[Array, Array]:
    """The low and the high corner of a box around points (n, 2)."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = margin * (high - low).max()
    return low - room, high + room


def magnification(metric: Metric, box: Box, cells: int = GRID) -> Array:
    """½ log det M over the box (low corner, high corner), (cells, cells), a row a height: what a
    step costs there."""
    low, high = np.asarray(box, dtype=float)
    x, y = np.linspace(low, high, cells).T
    return metric.log_volume(np.stack(np.meshgrid(x, y), axis=-1))


def background(metric: Metric, box: Box, ax: Axes | None = None) -> AxesImage:
    """Draw ½ log det M over the box (low corner, high corner); returns the image."""
    ax = _axes(ax)
    (left, bottom), (right, top) = np.asarray(box, dtype=float)
    image = ax.imshow(
        magnification(metric, box),
        extent=(left, right, bottom, top),
        origin="lower",
        cmap="Greys",
        alpha=0.6,
        zorder=0,
        interpolation="bilinear",
    )
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    return image


def paths(
    path: Path, ax: Axes | None = None, spread: bool = True, samples: int = 200, **style: Any
) -> list[Artist]:
    """Draw each path with two posterior standard deviations around it; returns the lines and bands.

    A path that is not converged is dashed. With more than two coordinates it is seen as `scene`
    shows the data of its metric. `style` goes to matplotlib's `plot`.
    """
    plane = _plane(path.metric, path.dim, "path")
    ax = _axes(ax)
    style = normalize_kwargs(style, Line2D)  # color or c, lw or linewidth
    t = np.linspace(0, 1, samples)
    curves, velocities = (
        seen.reshape(-1, samples, 2)
        for seen in (plane.points(path(t)), plane.vectors(path.velocity(t)))
    )
    converged = np.atleast_1d(path.converged).ravel()
    covariances = _covariances(path, t) if spread else [None] * len(curves)
    artists = list[Artist]()
    for i, (curve, velocity, covariance) in enumerate(
        zip(curves, velocities, covariances, strict=True)
    ):
        chosen: dict[str, Any] = {
            "color": COLORS[i % len(COLORS)],
            "linewidth": 1.8,
            "zorder": 3,
            "linestyle": "-" if converged[i] else "--",
        } | style
        artists += ax.plot(*curve.T, **chosen)
        if covariance is not None:
            outline = band(curve, velocity, plane.covariances(covariance))
            artists += ax.fill(
                *outline.T, color=chosen["color"], alpha=0.25, lw=0, zorder=chosen["zorder"]
            )
        ends = curve[[0, -1]]
        artists.append(
            ax.scatter(
                ends[:, 0],
                ends[:, 1],
                s=26,
                color=chosen["color"],
                edgecolors="white",
                linewidths=0.8,
                zorder=4,
            )
        )
    return artists


def strip(
    images: ArrayLike,
    shape: tuple[int, int] | None = None,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
    **style: Any,
) -> Axes:
    """Draw rows of images (rows, columns, pixels) side by side, such as those decoded along paths;
    returns the axes.

    `shape` is an image's height and width; a square if left out. `labels` name the rows. Black is
    the largest value; `style` goes to matplotlib's `imshow`.
    """
    ax = _axes(ax)
    images = _boundary.as_floats(images, "images")
    if images.ndim != 3:
        raise ValueError(
            f"images should have shape (rows, columns, pixels); {images.shape} arrived."
        )
    rows, columns, pixels = images.shape
    height, width = shape or (int(np.sqrt(pixels)),) * 2
    if height * width != pixels:
        raise ValueError(
            f"images have {pixels} pixels, which is not {height} × {width}: pass their shape."
        )
    tall = height + ROW_GAP
    gap = [(0, 0), (0, 0), (0, ROW_GAP), (0, 0)]
    spaced = np.pad(images.reshape(rows, columns, height, width), gap, constant_values=np.nan)
    sheet = spaced.swapaxes(1, 2).reshape(rows * tall, columns * width)[:-ROW_GAP]
    ax.imshow(sheet, **{"cmap": "gray_r", "interpolation": "nearest"} | style)
    ax.set(xticks=[], yticks=np.arange(rows) * tall + (height - 1) / 2)
    ax.set_yticklabels([""] * rows if labels is None else labels)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def band(curve: Array, velocity: Array, covariance: Array) -> Array:
    """The outline (2 T, 2) of two standard deviations around a curve (T, 2): across it, not along
    it."""
    normal = velocity[:, ::-1] * [-1, 1]
    squared = np.sum(normal**2, axis=1)
    across = np.einsum("ti,tij,tj->t", normal, covariance, normal)
    offset = (SPREAD_STDS * np.sqrt(np.maximum(across, 0.0)) / np.where(squared > 0, squared, 1.0))[
        :, None
    ] * normal
    return np.concatenate([curve + offset, (curve - offset)[::-1]])


def _covariances(path: Path, t: Array) -> Array | list[None]:
    """(P, T, d, d), or None for each path."""
    try:
        return path.covariance(t).reshape(-1, len(t), path.dim, path.dim)
    except (TypeError, ValueError):  # no posterior, or no metric to scale it by
        return [None] * len(path.curve)


def _axes(ax: Axes | None) -> Axes:
    return plt.gca() if ax is None else ax


def _plane(metric: Metric | None, dim: int, name: str) -> Plane:
    """In which things on this metric are seen, always the same."""
    if dim == 2:
        return Plane.of(np.zeros((0, 2)))
    data = None if metric is None else metric.data
    if dim < 2 or data is None:
        raise ValueError(
            f"{name} has {dim} coordinates: pictures are of two, or along the principal components "
            "of the data that a metric such as LocalPCA was learned from. Choose two yourself, of "
            "path(t) for instance."
        )
    return Plane.of(data)
