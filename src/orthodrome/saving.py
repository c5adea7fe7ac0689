"""Paths in files: a `.npz` of plain arrays, read without unpickling anything.

What is written of a curve or a metric is its own business: `Curve.packed`, `Metric.parameters`. The
file names their classes.
"""

import dataclasses
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from orthodrome._types import Array
from orthodrome.curves import Curve
from orthodrome.judging import Verdict
from orthodrome.metrics import LocalPCA, Metric
from orthodrome.records import full_name, named
from orthodrome.solvers import Solution

FORMAT, OLDEST = 3, 2
"""The version of the file's layout, and the oldest one that is still read."""

METRIC, CURVE = "metric_", "curve_"
"""How the names begin that the arrays of a metric and of curves have in a file."""


def write(
    file: str | FilePath,
    metric: Metric | None,
    solution: Solution,
    shape: tuple[int, ...],
    solver: str,
) -> None:
    """Write paths: a metric if it can be written, curves, and what is known of them."""
    settings, packed = solution.curve.packed()
    header = {"format": FORMAT, "shape": shape, "solver": solver}
    header["curve"] = {"kind": full_name(type(solution.curve)), **settings}
    arrays: dict[str, Any] = {CURVE + name: array for name, array in packed.items()}
    arrays |= _columns(solution.verdict)
    arrays |= {"status": solution.status, "iterations": solution.iterations}
    arrays |= {"starts": solution.tried}
    if metric is not None and metric.parameters is not None:
        header["metric"] = full_name(type(metric))
        arrays |= {METRIC + name: value for name, value in metric.parameters.items()}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with FilePath(file).open("wb") as stream:
        np.savez(stream, header=text, **arrays)


def read(file: str | FilePath) -> tuple[Metric | None, Solution, tuple[int, ...], str]:
    """What `write` wrote; no metric if its class is not there."""
    try:
        with zipfile.ZipFile(file):  # what np.load would otherwise take for a pickle or an array
            pass
        with np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
        header = json.loads(arrays["header"].tobytes())
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(
            f"{file} should be a file written by Path.save; it cannot be read as one ({error})."
        ) from error
    if not OLDEST <= header["format"] <= FORMAT:
        raise ValueError(
            f"{file} has layout {header['format']}; this orthodrome reads {OLDEST} to {FORMAT}: "
            "use the version that wrote it."
        )
    if header["format"] == OLDEST:
        header |= _as_of_layout_2(header, arrays)
        arrays |= {CURVE + name: array for name, array in arrays.items()}
    kind = header["curve"].pop("kind")
    curves = named(Curve.kinds, kind)
    if curves is None:
        raise ValueError(f"{file} has curves of the kind {kind}: import its module, and try again.")
    verdict = Verdict(*(arrays[field.name] for field in dataclasses.fields(Verdict)))
    solution = Solution(
        curves.unpacked(header["curve"], _named(CURVE, arrays)),
        arrays["status"],
        arrays["iterations"],
        arrays["starts"],
        judged=verdict,
    )
    return _metric(header.get("metric"), arrays), solution, tuple(header["shape"]), header["solver"]


def _metric(name: str | None, arrays: Mapping[str, Array]) -> Metric | None:
    """The metric of a class by its name, from its arrays; None if there is no such class."""
    kind = None if name is None else named(Metric.kinds, name)
    own = _named(METRIC, arrays)
    try:
        return None if kind is None else kind(**own)
    except TypeError as error:
        raise ValueError(
            f"the file has a {name} made of {', '.join(own)}, and that class takes other arguments "
            f"now ({error}): use the version that wrote it, or write the path anew."
        ) from error


def _named(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin so, by the rest of their names."""
    return {key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)}


def _as_of_layout_2(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> dict[str, Any]:
    """What the header of a file would say that was written before curves and metrics had names."""
    if "kernel" in header:
        curve = {
            "kind": "orthodrome.curves.gp.GPCurve",
            **{key: header[key] for key in ("kernel", "calibrated")},
        }
    elif "noisy kernel" in header:
        curve = {
            "kind": "orthodrome.baselines.noisy.NoisyGPCurve",
            "kernel": header["noisy kernel"],
        }
    else:
        curve = {"kind": "orthodrome.curves.piecewise.PiecewiseCurve"}
    return {"curve": curve, "metric": full_name(LocalPCA) if METRIC + "data" in arrays else None}


def _columns(verdict: Verdict) -> dict[str, Array]:
    return {field.name: getattr(verdict, field.name) for field in dataclasses.fields(verdict)}
