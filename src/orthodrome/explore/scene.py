"""What the page shows: points, the metric under them, the plane they are seen in, and the lines
that make them."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from orthodrome import _boundary, io, plotting
from orthodrome._types import Array
from orthodrome.metrics import LocalPCA, Metric, Pullback
from orthodrome.models import VAE
from orthodrome.plotting import Plane
from orthodrome.torch import from_torch

PRIOR_REACH = 3.0
"""Half the side of the frame around a latent space of which no points are known, in units of the
prior."""

LEAST_IMAGE = 16
"""Outputs of a decoder that are taken for a square image if nobody says they are: at least so
many."""

MOST_OBLONG = 8
"""An array that is so many times as long as wide is no image, unless somebody says so."""

BRIGHTNESS_SAMPLE = 200
"""Points whose images decide what is black and what is white."""


End = int | tuple[float, float]
"""Where a path ends: the number of a point, or a place in the plane."""


class Settings(NamedTuple):
    """What the sliders set; None where the metric has no such thing."""

    sigma: float | None = None
    rho: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Scene(abc.ABC):
    """Points with a metric under them, from a file."""

    title: str
    points: Array
    """(n, d), n may be 0: data, or latent codes."""
    labels: tuple[str, ...]
    """What the points are called."""
    columns: tuple[str, ...]
    """What the coordinates are called."""
    lines: tuple[str, ...]
    """Python lines that make `points` and whatever the metric needs."""

    def __post_init__(self) -> None:
        if self.dim < 2:
            raise ValueError("the page shows two coordinates or more; there is one.")
        if self.dim > 2 and len(self.points) < 2:
            raise ValueError(
                f"the latent space has {self.dim} coordinates: pass data to encode, so that there "
                "is something to see."
            )
        object.__setattr__(self, "plane", Plane.of(self.points))

    plane: Plane = dataclasses.field(init=False)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.points.shape[1]

    @property
    def free(self) -> bool:
        """Whether a path may end anywhere, and not only at the points: only a plane can be pointed
        at."""
        return self.dim == 2

    @property
    def box(self) -> tuple[Array, Array]:
        """The corners of what is seen."""
        if not len(self.points):
            return np.full(2, -PRIOR_REACH), np.full(2, PRIOR_REACH)
        return plotting.frame(self.plane.points(self.points))

    @property
    @abc.abstractmethod
    def defaults(self) -> Settings:
        """Where the sliders stand at first."""

    @abc.abstractmethod
    def metric(self, settings: Settings) -> Metric:
        """The metric with these settings."""

    @abc.abstractmethod
    def metric_line(self, settings: Settings) -> str:
        """The Python line that makes it, from `self.lines`."""

    @property
    def axes(self) -> tuple[str, str]:
        """What the two directions are called that are seen."""
        if self.dim > 2:
            return plotting.PRINCIPAL
        return self.columns[0], self.columns[1]

    @property
    def points_name(self) -> str:
        """What the points are called in the Python lines."""
        return "data"

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """Of the images of points: height and width, perhaps 3 colours before them; None if there
        are none."""
        return None

    def in_units(self, points: Array) -> Array:
        """Coordinates (..., d) as the file has them."""
        return points

    def images(self, points: Array) -> Array | None:
        """Of points (k, d): (k, height, width), or with 3 colours behind, from 0 to 1; None if
        there are no images."""
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class DataScene(Scene):
    """A data set, with the metric learned from it."""

    table: io.Table
    learned: LocalPCA

    @property
    def defaults(self) -> Settings:
        return Settings(float(self.learned.sigma), float(self.learned.rho))

    def metric(self, settings: Settings) -> LocalPCA:
        # not LocalPCA(data, …): these share one array of data, and what was made of it
        return eqx.tree_at(
            lambda m: (m.sigma, m.rho), self.learned, tuple(map(np.asarray, settings))
        )

    def metric_line(self, settings: Settings) -> str:
        return f"metric = od.LocalPCA(data, sigma={settings.sigma!r}, rho={settings.rho!r})"

    @property
    def axes(self) -> tuple[str, str]:
        names = super().axes
        return (
            names
            if self.table.scale is None
            else (f"{names[0]} (standardised)", f"{names[1]} (standardised)")
        )

    def in_units(self, points: Array) -> Array:
        return self.table.in_units(points)


@dataclasses.dataclass(frozen=True, eq=False)
class ModelScene(Scene):
    """The latent space of a decoder."""

    pulled_back: Pullback
    making: str
    """The Python line that makes the metric."""
    decode: Callable[[Array], Array]
    """(k, d) → (k, ...)"""
    shown_as: tuple[int, ...] | None
    """The shape of an image."""

    def __post_init__(self) -> None:
        super().__post_init__()
        some = self.points[:: max(1, len(self.points) // BRIGHTNESS_SAMPLE)]
        prior = np.random.default_rng(0).standard_normal((BRIGHTNESS_SAMPLE, self.dim))
        values = self.decode(some if len(some) else prior)
        object.__setattr__(self, "brightness", (float(values.min()), float(np.ptp(values)) or 1.0))

    brightness: tuple[float, float] = dataclasses.field(init=False)
    """The value of black, and how much more white is."""

    @property
    def defaults(self) -> Settings:
        return Settings()

    def metric(self, settings: Settings) -> Pullback:
        return self.pulled_back

    def metric_line(self, settings: Settings) -> str:
        return self.making

    @property
    def points_name(self) -> str:
        return "codes"

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        return self.shown_as

    def images(self, points: Array) -> Array | None:
        if self.image_shape is None:
            return None
        black, contrast = self.brightness
        values = np.clip(
            (self.decode(points).reshape(-1, *self.image_shape) - black) / contrast, 0.0, 1.0
        )
        return np.moveaxis(values, 1, -1) if values.ndim == 4 else values


@dataclasses.dataclass(frozen=True, eq=False)
class MetricScene(Scene):
    """A metric that somebody has made in Python, over the points it was learned from."""

    shown: Metric

    @property
    def defaults(self) -> Settings:
        return Settings()

    def metric(self, settings: Settings) -> Metric:
        return self.shown

    def metric_line(self, settings: Settings) -> str:
        return f"metric = ...  # how you made it: {self.shown!r}"


def scene_of(metric: Metric, labels: Sequence[str] | None = None) -> Scene:
    """The scene of any metric that has data, to be served from Python."""
    data = metric.data
    if data is None:
        raise ValueError(
            f"the page shows the data of a metric; a {type(metric).__name__} has none of its own."
        )
    called = tuple(map(str, range(len(data)))) if labels is None else tuple(labels)
    columns = tuple(f"x{i}" for i in range(data.shape[1]))
    lines = ("data = ...  # the points that the metric was learned from",)
    return MetricScene(type(metric).__name__, data, called, columns, lines, metric)


def open_scene(
    file: Path,
    data: Path | None = None,
    *,
    columns: list[str] | None = None,
    index: str | None = None,
    standardize: bool = False,
    header: bool | None = None,
    sigma: float | None = None,
    rho: float | None = None,
    image_shape: tuple[int, int] | None = None,
) -> Scene:
    """The scene of a data file, or of a model with the data that it encodes."""
    suffix = file.suffix.lower()
    given = {
        "columns": columns,
        "index": index,
        "standardize": standardize or None,
        "header": header,
    }
    reading = {name: value for name, value in given.items() if value is not None}
    if suffix not in (".safetensors", ".pt2"):
        if data is not None or image_shape is not None:
            raise ValueError(f"--data and --image-shape are for a model; {file} is a data file.")
        return _data_scene(file, reading, sigma, rho)
    if sigma is not None or rho is not None:
        raise ValueError(
            f"--sigma and --rho are for a data file; {file} is a model, whose decoder makes the "
            "metric."
        )
    if data is None and reading:
        raise ValueError(
            "--columns, --index, --standardize and --header are for the data file: give it with "
            "--data."
        )
    return (_vae_scene if suffix == ".safetensors" else _decoder_scene)(
        file, data, reading, image_shape
    )


def _data_scene(
    file: Path, reading: dict[str, Any], sigma: float | None, rho: float | None
) -> DataScene:
    table = io.read_data(file, **reading)
    learned = LocalPCA(table.values, sigma, rho)
    lines = (f"data = {_reading_line(file, reading)}",)
    return DataScene(_title(file), table.values, table.labels, table.columns, lines, table, learned)


def _vae_scene(
    file: Path, data: Path | None, reading: dict[str, Any], image_shape: tuple[int, int] | None
) -> ModelScene:
    vae = VAE.load(file)
    lines = [f"vae = od.models.VAE.load({_path(file)})"]
    labels: Sequence[str] | None = None
    if data is not None:
        table = io.read_data(data, **reading)
        if table.values.shape[1] != vae.n_features_in_:
            raise ValueError(
                f"{data} has {table.values.shape[1]} columns; the model {file} encodes rows of "
                f"{vae.n_features_in_}."
            )
        codes, labels = vae.encode(table.values), table.labels
        lines.append(f"codes = vae.encode({_reading_line(data, reading)})")
    elif hasattr(vae.std_, "centers"):
        codes = np.asarray(vae.std_.centers, dtype=np.float64)
        lines.append("codes = vae.std_.centers  # among the codes that it was trained on")
    else:
        codes = np.zeros((0, vae.latent_dim_))
    shape = _image_shape(image_shape, (vae.n_features_in_,))
    return _model_scene(
        file, codes, labels, lines, vae.metric(), "metric = vae.metric()", vae.decode, shape
    )


def _decoder_scene(
    file: Path, data: Path | None, reading: dict[str, Any], image_shape: tuple[int, int] | None
) -> ModelScene:
    decoder = from_torch(file)
    lines = [f"decoder = od.from_torch({_path(file)})"]
    codes, labels = np.zeros((0, decoder.dim)), None
    if data is not None:
        table = io.read_data(data, **reading)
        if table.values.shape[1] != decoder.dim:
            raise ValueError(
                f"{data} has {table.values.shape[1]} columns; the decoder {file} takes latent "
                f"codes of {decoder.dim}."
            )
        codes, labels = table.values, table.labels
        lines.append(f"codes = {_reading_line(data, reading)}")

    many = eqx.filter_jit(lambda points: jax.vmap(decoder)(points))

    def decode(points: Array) -> Array:
        with _boundary.double_precision():
            return np.asarray(many(points))

    shape = _image_shape(image_shape, decode(np.zeros((1, decoder.dim))).shape[1:])
    making = "metric = od.Pullback(decoder)"
    return _model_scene(file, codes, labels, lines, Pullback(decoder), making, decode, shape)


def _model_scene(
    file: Path,
    codes: Array,
    labels: Sequence[str] | None,
    lines: list[str],
    metric: Pullback,
    making: str,
    decode: Callable[[Array], Array],
    image_shape: tuple[int, ...] | None,
) -> ModelScene:
    labels = tuple(map(str, range(len(codes)))) if labels is None else tuple(labels)
    columns = tuple(f"z{i}" for i in range(codes.shape[1]))
    return ModelScene(
        _title(file), codes, labels, columns, tuple(lines), metric, making, decode, image_shape
    )


def _image_shape(asked: tuple[int, int] | None, output: tuple[int, ...]) -> tuple[int, ...] | None:
    """What shape the outputs are seen in: as asked, as they are, or square; None if they are no
    image."""
    count = int(np.prod(output))
    if asked is not None:
        if int(np.prod(asked)) != count:
            raise ValueError(
                f"--image-shape {asked[0]}x{asked[1]} has {np.prod(asked)} pixels; the decoder "
                f"has {count}."
            )
        return asked
    if len(output) == 3 and output[0] in (1, 3):
        return output if output[0] == 3 else output[1:]
    if len(output) == 2:
        return output if max(output) <= MOST_OBLONG * min(output) else None
    side = round(count**0.5)
    return (side, side) if len(output) == 1 and side * side == count >= LEAST_IMAGE else None


def _reading_line(file: Path, reading: dict[str, Any]) -> str:
    settings = "".join(f", {name}={value!r}" for name, value in reading.items())
    return f"od.io.read_data({_path(file)}{settings}).values"


def _path(file: Path) -> str:
    """As Python writes it, from the root: the lines may be run anywhere."""
    return repr(str(file.resolve()))


def _title(file: Path) -> str:
    """Its name, also if that is not text."""
    return file.name.encode(errors="replace").decode()
