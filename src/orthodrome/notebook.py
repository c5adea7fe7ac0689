"""How paths and metrics show themselves in a notebook: a few facts, and a sketch where there are
two coordinates.

Nothing is computed for it: the sketch is of points that are known, in plain SVG.
"""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from orthodrome._types import Array
from orthodrome.metrics import Metric
from orthodrome.path import Path, at_most
from orthodrome.plotting import COLORS, frame

SIDE = 180
"""Pixels of the longer side of a sketch."""

MOST_POINTS, MOST_CURVES = 400, 30
"""In a sketch; more are thinned out."""

CURVE_TIMES = np.linspace(0.0, 1.0, 60)


def path_card(path: Path) -> str:
    """A path, or an array of them."""
    v, certified = path.verdict, np.atleast_1d(path.certified)
    if not path.shape:
        facts = [
            ("length", f"{v.length[0]:.6g}"),
            ("relative error", f"below {at_most(v.error[0])}"),
            ("converged", "yes" if path.converged else "no"),
            ("certified", "yes" if certified[0] else "no"),
            ("in words", str(path.message)),
            ("solver", path.solver),
        ]
    else:
        known = v.length[np.isfinite(v.length)]
        facts = [
            ("paths", f"{len(path.curve)}, of shape {path.shape}, in {path.dim} dimensions"),
            ("lengths", f"{known.min():.4g} to {known.max():.4g}" if len(known) else "none"),
            ("converged", str(np.count_nonzero(path.converged))),
            ("certified", str(np.count_nonzero(certified))),
            ("solver", path.solver),
        ]
    some = _thinned(np.arange(len(path.curve)), MOST_CURVES)
    curves: Any = path.curve.take(some).evaluate(CURVE_TIMES) if path.dim == 2 and len(some) else []
    whole = np.atleast_1d(path.converged).ravel()[some][: len(curves)]
    return _card(
        "Path" if not path.shape else "Paths", facts, _sketch(_data_of(path.metric), curves, whole)
    )


def metric_card(metric: Metric) -> str:
    """A metric: what it is made of."""
    return _card(type(metric).__name__, metric.facts, _sketch(_data_of(metric)))


def _card(title: str, facts: Sequence[tuple[str, str]], sketch: str) -> str:
    cell = "border:0;background:none;text-align:left;padding:1px 8px 1px 0;vertical-align:top"
    rows = "".join(
        f'<tr style="background:none"><th style="{cell};font-weight:normal;opacity:.7">'
        f'{html.escape(name)}</th><td style="{cell}">{html.escape(value)}</td></tr>'
        for name, value in facts
    )
    return (
        '<div style="display:flex;gap:1em;align-items:center">'
        f"{sketch}<div><b>{html.escape(title)}</b>"
        f'<table style="border:0;margin:0">{rows}</table></div></div>'
    )


def _sketch(
    data: Array | None, curves: Sequence[Array] | Array = (), whole: Sequence[bool] | Array = ()
) -> str:
    """Points (n, 2) and curves (k, T, 2) in a small picture, dashed where not `whole`; nothing if
    nothing is there."""
    parts = [np.reshape(part, (-1, 2)) for part in (data, curves) if part is not None and len(part)]
    if not parts:
        return ""
    low, high = frame(np.concatenate(parts), 0.05)
    scale = SIDE / max(*(high - low), np.finfo(float).tiny)
    place = lambda points: np.round(
        (points - low) * [scale, -scale] + [0, scale * (high - low)[1]], 1
    )
    width, height = scale * (high - low)
    points = np.zeros((0, 2)) if data is None else _thinned(data, MOST_POINTS)
    drawn = [f'<circle cx="{x}" cy="{y}" r="1.3"/>' for x, y in place(points)]
    for i, (curve, solid) in enumerate(zip(curves, whole, strict=bool(len(curves)))):
        dash = "" if solid else ' stroke-dasharray="5 4"'
        color, line = COLORS[i % len(COLORS)], " ".join(f"{x},{y}" for x, y in place(curve))
        drawn.append(
            f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'
        )
    return (
        f'<svg width="{width:.0f}" height="{height:.0f}" style="flex:none" role="img" '
        'aria-label="sketch">'
        f'<g fill="currentColor" fill-opacity=".4">{"".join(drawn)}</g></svg>'
    )


def _data_of(metric: Metric | None) -> Array | None:
    return metric.data if metric is not None and metric.dim == 2 else None


def _thinned(rows: Array, most: int) -> Array:
    return rows[:: max(1, -(-len(rows) // most))]
