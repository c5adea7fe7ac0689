"""Models in files: `.safetensors`, plain arrays with the settings as JSON in their header."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from orthodrome._types import Array, PyTree

MODEL, FORMAT = "orthodrome.VAE", 1
"""What a file says it holds, and the version of its layout."""


def write(file: str | Path, settings: Mapping[str, Any], features: int, networks: PyTree) -> None:
    """Write networks, the settings of the model they belong to, and how many features it has."""
    from safetensors.numpy import save_file

    path = Path(file)
    if path.suffix != ".safetensors":
        raise ValueError(f"file should end in .safetensors; {path.name} arrived.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}.")
    header = {"model": MODEL, "format": FORMAT, "settings": settings, "features": features}
    leaves = jax.tree_util.tree_leaves_with_path(networks)
    arrays = {_name(place): np.array(leaf, order="C") for place, leaf in leaves}
    save_file(arrays, path, metadata={"orthodrome": json.dumps(header, default=_plain)})


def read(file: str | Path) -> tuple[dict[str, Any], int, dict[str, Array]]:
    """The settings, the number of features, and the arrays by name, that `write` wrote."""
    from safetensors import safe_open

    if not Path(file).exists():
        raise FileNotFoundError(f"there is no file {file}.")
    try:
        with safe_open(file, "numpy") as held:
            header = json.loads((held.metadata() or {})["orthodrome"])
            arrays = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
    except Exception as error:
        raise ValueError(
            f"{file} should be a file written by VAE.save; it cannot be read as one ({error})."
        ) from None
    if header.get("model") != MODEL:
        raise ValueError(
            f"{file} should be a file written by VAE.save; it is one of {header.get('model')}."
        )
    if header["format"] != FORMAT:
        raise ValueError(
            f"{file} has layout {header['format']}; this orthodrome reads {FORMAT}: use the "
            "version that wrote it."
        )
    return header["settings"], header["features"], arrays


def filled(skeleton: PyTree, arrays: Mapping[str, Array]) -> PyTree:
    """Networks with these arrays in the places that have their names."""
    return jax.tree_util.tree_map_with_path(lambda place, _: arrays[_name(place)], skeleton)


def _name(place: tuple[object, ...]) -> str:
    return jax.tree_util.keystr(place, simple=True, separator=".")


def _plain(value: np.generic | Sequence[int]) -> Any:
    return value.item() if isinstance(value, np.generic) else list(value)
