"""What the page asks, and the answers: maps, paths, and what can be taken away. Requests are
checked here."""

import base64
import math
import warnings
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.integrate import simpson

from orthodrome import _boundary, plotting
from orthodrome._types import Array
from orthodrome.explore import exports
from orthodrome.explore.scene import End, Scene, Settings
from orthodrome.metrics import Metric
from orthodrome.path import Path, shortest_path

CURVE_TIMES = np.linspace(0.0, 1.0, 121)
"""At which a path is drawn."""

FRAMES = 11
"""Images along a path."""

SPREAD_KNOTS = 10
"""Of the Gaussian process whose spread is drawn around a path: the paper's default mesh."""

STRAIGHT_PIECES = 400
"""Of Simpson's rule for the length of the straight line."""

REMEMBERED = 64
"""Paths that later ones may begin from, and paths that need not be found again."""

SLIDER_REACH = 10.0
"""How far the sliders go, as a factor in both directions."""

MOST_PATHS = 50
"""On one page."""

MOST_COLOR = 10**6
"""They go round."""

MAP_DEPTH = math.log(1e6)
"""Magnifications that are a million times smaller than the largest are drawn as that: below lies
rounding."""

NO_NUMBER = 255
"""The level of a cell that has none."""

MOST = 1e300
"""Numbers beyond this are a mistake, and some of Python's whole numbers are no floats at all."""


class RequestError(ValueError):
    """What arrived cannot be answered, in a sentence."""


class Session:
    """One scene and what was found on it so far. Not to be used by two threads at once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._metrics = _Recent(2)
        """By settings."""
        self._recent = _Recent(REMEMBERED)
        """Paths to begin from, by their numbers."""
        self._found = _Recent(REMEMBERED)
        """Paths that were searched for in full, by ends and settings."""
        self._count = 0

    # --- what the page asks ---

    def describe(self) -> dict[str, Any]:
        """The points and where they are; needs no computation."""
        scene = self.scene
        sliders = {
            name: {"value": value, "least": value / SLIDER_REACH, "most": value * SLIDER_REACH}
            for name, value in scene.defaults._asdict().items()
            if value is not None
        }
        return {
            "title": scene.title,
            "points": scene.plane.points(scene.points).tolist(),
            "labels": list(scene.labels),
            "dimensions": scene.dim,
            "axes": list(scene.axes),
            "free": scene.free,
            "images": scene.image_shape and list(scene.image_shape[-2:]),
            "box": [corner.tolist() for corner in scene.box],
            "sliders": sliders,
            "colors": plotting.COLORS,
        }

    def map(self, request: object) -> dict[str, Any]:
        """The magnification over the frame, a byte a cell from the bottom row up, the last one
        where it is no number; nothing if there are more than two coordinates."""
        settings = self._settings(_fields(request, {"settings"}))
        if not self.scene.free:
            return {"cells": None}
        values = plotting.magnification(self._metric(settings), self.scene.box)
        finite = np.isfinite(values)
        if not finite.any():
            raise RequestError("the metric is finite nowhere in this frame.")
        lowest, most = float(values[finite].min()), float(values[finite].max())
        least = max(lowest, most - MAP_DEPTH)
        share = (np.where(finite, values, most).clip(min=least) - least) / ((most - least) or 1.0)
        levels = np.where(finite, (NO_NUMBER - 1) * share, NO_NUMBER).astype(np.uint8)
        told = {"least": least, "most": most, "deeper": lowest < least, "blank": not finite.all()}
        return {"cells": _letters(levels), "side": len(levels)} | told

    def path(self, request: object) -> dict[str, Any]:
        """The shortest path between two ends; with `near`, the number of an earlier one, beginning
        from that."""
        fields = _fields(request, {"start", "end", "settings", "near"})
        settings, near = self._settings(fields), fields.get("near")
        start, end = self._end(fields, "start"), self._end(fields, "end")
        if near is not None and (isinstance(near, bool) or not isinstance(near, int)):
            raise RequestError(
                f"near should be the number of an earlier path; {_brief(near)} arrived."
            )
        begin = None if near is None else self._recent.get(near)
        path = (
            self._find(start, end, settings)
            if begin is None
            else self._search(start, end, settings, begin)
        )
        number = None
        if np.isfinite(path.length):
            self._count = number = self._count + 1
            # only its curve is needed: let the metric go
            self._recent.put(number, replace(path, metric=None, solution=path.solution.forgetful()))
        return {"number": number, "searched": begin is None} | self._told(
            path, self._metric(settings), self._place(start), self._place(end)
        )

    def take_away(self, request: object) -> tuple[str, str, bytes]:
        """The paths as a file: its name, its kind for the browser, and what is in it."""
        fields = _fields(request, {"kind", "paths", "settings"})
        settings, kind, wanted = self._settings(fields), fields.get("kind"), fields.get("paths")
        if not isinstance(kind, str) or kind not in exports.MEDIA:
            raise RequestError(
                f"kind should be one of {', '.join(exports.MEDIA)}; {_brief(kind)} arrived."
            )
        if not isinstance(wanted, list) or len(wanted) > MOST_PATHS:
            raise RequestError(
                f"paths should be a list of at most {MOST_PATHS}; {_brief(wanted)} arrived."
            )
        pairs = [_fields(pair, {"start", "end", "color"}) for pair in wanted]
        colors = [_color(pair.get("color", i)) for i, pair in enumerate(pairs)]
        ends = [(self._end(pair, "start"), self._end(pair, "end")) for pair in pairs]
        if kind == "py":
            content = exports.program(self.scene, settings, ends)
        else:
            paths = [self._find(*pair, settings) for pair in ends]
            content = (
                exports.table(self.scene, paths)
                if kind == "csv"
                else exports.picture(self.scene, self._metric(settings), paths, colors, kind)
            )
        # not orthodrome.py, which would import itself
        return (
            f"orthodrome_paths.{kind}",
            exports.MEDIA[kind],
            content,
        )

    def warm_up(self) -> Iterator[None]:
        """Compile what the first click would wait for, in steps between which others may ask."""
        yield
        self.map({})
        yield
        low, high = self.scene.box
        places = [(low + share * (high - low)).tolist() for share in (0.3, 0.7)]
        asked = dict(zip(("start", "end"), places if self.scene.free else (0, 1), strict=True))
        number = self.path(asked)["number"]
        yield
        self.path(asked | {"near": number})

    # --- checks ---

    def _settings(self, fields: Mapping[str, Any]) -> Settings:
        settings = fields.get("settings")
        given = _fields({} if settings is None else settings, set(Settings._fields))
        values = self.scene.defaults._asdict()
        for name, value in given.items():
            if value is None:
                continue
            if values[name] is None:
                raise RequestError(f"{name} is no setting of this metric.")
            number, default = _number(value, name), values[name]
            if not default / SLIDER_REACH * 0.999 <= number <= default * SLIDER_REACH * 1.001:
                raise RequestError(
                    f"{name} should be within a factor of {SLIDER_REACH:g} of {default:g}; "
                    f"{number:g} arrived."
                )
            values[name] = number
        return Settings(**values)

    def _end(self, fields: Mapping[str, Any], name: str) -> End:
        value, count = fields.get(name), len(self.scene.points)
        if isinstance(value, int) and not isinstance(value, bool):
            if not 0 <= value < count:
                raise RequestError(
                    f"{name} should be a point from 0 to {count - 1}; {_brief(value)} arrived."
                )
            return value
        if not isinstance(value, list) or len(value) != 2:
            raise RequestError(
                f"{name} should be the number of a point, or [x, y]; {_brief(value)} arrived."
            )
        if not self.scene.free:
            raise RequestError(
                f"{name} should be the number of a point: a place in a projection is none in the "
                "data."
            )
        x, y = (_number(coordinate, name) for coordinate in value)
        low, high = self.scene.box
        if not (low[0] <= x <= high[0] and low[1] <= y <= high[1]):
            raise RequestError(
                f"{name} should lie in the frame, from {low.tolist()} to {high.tolist()}; [{x:g}, "
                f"{y:g}] arrived."
            )
        return x, y

    # --- work ---

    def _metric(self, settings: Settings) -> Metric:
        return self._metrics.get(settings) or self._metrics.put(
            settings, self.scene.metric(settings)
        )

    def _find(self, start: End, end: End, settings: Settings) -> Path:
        """The shortest path, as the Python lines find it."""
        key = (start, end, settings)
        return self._found.get(key) or self._found.put(key, self._search(start, end, settings))

    def _search(self, start: End, end: End, settings: Settings, near: Path | None = None) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", _boundary.ConvergenceWarning)  # the answer says it
            try:
                return shortest_path(
                    self._metric(settings), self._place(start), self._place(end), init=near
                )
            except ValueError as error:  # an end where the metric is not positive, say
                raise RequestError(str(error)) from error

    def _place(self, end: End) -> Array:
        return self.scene.points[end] if isinstance(end, int) else np.array(end)

    def _told(self, path: Path, metric: Metric, start: Array, end: Array) -> dict[str, Any]:
        """What the page shows of a path."""
        plane, t = self.scene.plane, CURVE_TIMES
        told = {
            "curve": _plain(plane.points(path(t))),
            "length": _plain(path.length),
            "straight": _plain(straight_length(metric, start, end)),
            "error": _plain(path.error),
            "converged": bool(path.converged),
            "certified": bool(path.certified),
            "message": str(path.message),
            "band": None,
            "spread": None,
        }
        if not np.isfinite(path.length):
            return told | {"frames": None}
        covariance = path.posterior(SPREAD_KNOTS, calibrate=True).covariance(t)
        if np.isfinite(covariance).all():
            told["band"] = _plain(
                plotting.band(
                    plane.points(path(t)),
                    plane.vectors(path.velocity(t)),
                    plane.covariances(covariance),
                )
            )
            told["spread"] = float(np.sqrt(np.trace(covariance, axis1=1, axis2=2).max()))
        return told | self._frames(path, start, end)

    def _frames(self, path: Path, start: Array, end: Array) -> dict[str, Any]:
        """The images along the path and along the straight line, a byte a pixel (or three)."""
        t = np.linspace(0.0, 1.0, FRAMES)
        places = path(t)
        images = self.scene.images(np.concatenate([places, start + t[:, None] * (end - start)]))
        if images is None or not np.isfinite(images).all():
            return {"frames": None}
        pixels = (255 * images).round().astype(np.uint8)
        return {
            "frames": {
                "pixels": _letters(pixels),
                "shape": list(pixels.shape[1:]),
                "count": FRAMES,
                "places": _plain(self.scene.plane.points(places)),
            }
        }


class _Recent:
    """The last few things, by their names."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """What is kept under this name, or None."""
        if key not in self.held:
            return None
        self.held.move_to_end(key)
        return self.held[key]

    def put(self, key: Hashable, value: object) -> Any:
        """Keep it, and let go of what was not asked for longest."""
        self.held[key] = value
        if len(self.held) > self.most:
            self.held.popitem(last=False)
        return value


def straight_length(metric: Metric, a: Array, b: Array) -> float:
    """The length of the straight line from a to b, (d,) each, by Simpson's rule."""
    t = np.linspace(0.0, 1.0, STRAIGHT_PIECES + 1)[:, None]
    return float(
        simpson(metric.norm(a + t * (b - a), np.broadcast_to(b - a, (len(t), len(a)))), x=t[:, 0])
    )


def _fields(value: object, allowed: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(
            f"an object with {', '.join(sorted(allowed))} was expected; {_brief(value)} arrived."
        )
    unknown = value.keys() - allowed
    if unknown:
        raise RequestError(
            f"{_brief(min(unknown))} is not known; {', '.join(sorted(allowed))} are."
        )
    return value


def _color(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_COLOR:
        raise RequestError(f"color should be the number of a colour; {_brief(value)} arrived.")
    return value


def _number(value: object, name: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or abs(value) > MOST
        or not math.isfinite(value)
    ):
        raise RequestError(f"{name} should be a finite number; {_brief(value)} arrived.")
    return float(value)


def _brief(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write whole numbers with thousands of digits
        text = "a number with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "…"


def _plain(values: object) -> Any:
    """Numbers as JSON has them: null for those that are not finite."""
    array = np.asarray(values)
    plain = array.astype(object)
    plain[~np.isfinite(array)] = None
    return plain.tolist()


def _letters(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
