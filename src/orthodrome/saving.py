"""Paths in files: a `.npz` of plain arrays, read without unpickling anything."""

import dataclasses
import json
import zipfile
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from orthodrome.curves import (
    GaussianProcess,
    GPCurve,
    Matern,
    NoisyGPCurve,
    PiecewiseCurve,
    SquaredExponential,
)
from orthodrome.judging import Judgement, Verdict
from orthodrome.metrics import LocalPCA

FORMAT = 2
"""The version of the file's layout."""

_KERNELS = {kernel.__name__: kernel for kernel in (SquaredExponential, Matern)}


def write(file: str | FilePath, path: dict[str, Any]) -> None:
    """Write a path's fields."""
    curve, metric = path["curve"], path["metric"]
    header = {"format": FORMAT, "shape": path["shape"], "solver": path["solver"]}
    arrays = {name: path[f"solver_{name}"] for name in ("status", "iterations", "starts")}
    arrays |= _fields(path["judgement"].verdict)
    if isinstance(curve, GPCurve):
        process = curve.process
        header["kernel"] = _kernel(process.kernel)
        arrays |= {"knots": process.knots, "noise": np.asarray(process.noise)}
        arrays |= {"start": curve.start, "end": curve.end, "z": curve.z}
        header["calibrated"] = curve.calibrated
    elif isinstance(curve, NoisyGPCurve):
        header["noisy kernel"] = _kernel(curve.kernel)
        arrays |= {
            name: np.asarray(value) for name, value in _fields(curve).items() if name != "kernel"
        }
    else:
        arrays |= _fields(curve)
    if isinstance(metric, LocalPCA):
        arrays |= {
            "metric_data": metric.data,
            "metric_sigma": metric.sigma,
            "metric_rho": metric.rho,
        }
    with FilePath(file).open("wb") as stream:
        np.savez(
            stream, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays
        )


def read(file: str | FilePath) -> dict[str, Any]:
    """Read a path's fields."""
    try:
        with zipfile.ZipFile(
            file
        ):  # what np.load would otherwise take for a pickle or a bare array
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
    if header["format"] != FORMAT:
        raise ValueError(
            f"{file} has layout {header['format']}; this orthodrome reads {FORMAT}: use the "
            "version that wrote it."
        )
    if "kernel" in header:
        process = GaussianProcess(
            arrays["knots"], _read_kernel(header["kernel"]), float(arrays["noise"])
        )
        curve: Any = GPCurve(
            process, arrays["start"], arrays["end"], arrays["z"], header["calibrated"]
        )
    elif "noisy kernel" in header:
        rest = {
            field.name: arrays[field.name]
            for field in dataclasses.fields(NoisyGPCurve)
            if field.name in arrays
        }
        kernel = _read_kernel(header["noisy kernel"])
        curve = NoisyGPCurve(**rest | {"kernel": kernel, "noise": float(arrays["noise"])})
    else:
        curve = PiecewiseCurve(
            **{field.name: arrays[field.name] for field in dataclasses.fields(PiecewiseCurve)}
        )
    has_metric = "metric_data" in arrays
    return {
        "metric": LocalPCA(*(arrays[f"metric_{name}"] for name in ("data", "sigma", "rho")))
        if has_metric
        else None,
        "curve": curve,
        "shape": tuple(header["shape"]),
        "judgement": Judgement(
            Verdict(**{field.name: arrays[field.name] for field in dataclasses.fields(Verdict)})
        ),
        "solver_status": arrays["status"],
        "solver_iterations": arrays["iterations"],
        "solver_starts": arrays["starts"],
        "solver": header["solver"],
    }


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _kernel(kernel: Any) -> dict[str, Any]:
    return {"name": type(kernel).__name__, **dataclasses.asdict(kernel)}


def _read_kernel(settings: dict[str, Any]) -> Any:
    return _KERNELS[settings.pop("name")](**settings)
