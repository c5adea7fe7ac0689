"""The door: the only place that checks input, enters float64, and warns. Everything behind it may
trust its arrays."""

import contextlib
import numbers
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from orthodrome._types import Array, ArrayLike
from orthodrome.status import Status

Kind = TypeVar("Kind")
"""Of the objects that a class makes."""


class ConvergenceWarning(UserWarning):
    """Some of the problems in a call were not solved. Warned once a call, with how many, why, and
    what to try."""


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """JAX computes in float64 inside this scope, in this thread, and nowhere else."""
    with jax.enable_x64(True):
        yield


def as_floats(value: ArrayLike, name: str) -> Array:
    """Any array of real numbers as NumPy float64: from NumPy, JAX, torch (on the CPU) or nested
    lists."""
    refuse_traced(value, name)
    if np.ma.is_masked(value):
        raise ValueError(f"{name} is a masked array with masked values: remove or fill those rows.")
    # a torch tensor, without importing torch
    if hasattr(value, "detach") and hasattr(value, "device"):
        if value.device.type != "cpu":
            raise TypeError(f"{name} is a torch tensor on {value.device}: pass {name}.cpu().")
        value = value.detach().numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} should be an array of numbers; rows of different lengths arrived ({error})."
        ) from None
    if array.dtype.kind == "O" and all(isinstance(x, numbers.Real) for x in array.flat):
        array = array.astype(np.float64)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} should be an array of real numbers; its type is {array.dtype}: convert it to "
            "floats."
        )
    # always a copy: later changes by the caller change nothing here
    return array.astype(np.float64)


def detached(value: Any, name: str) -> Any:
    """Torch tensors as NumPy; the rest as it is, for scikit-learn to judge."""
    return as_floats(value, name) if hasattr(value, "detach") else value


def refuse_traced(value: object, name: str) -> None:
    """Refuse what jax is transforming, and say how to get what was probably wanted."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name} is being traced by jax.jit, jax.vmap or jax.grad, and this function works on "
            "finished numbers: "
            "call it outside the transformation, or use the metric's own *_at methods, which are "
            "plain JAX. To "
            "differentiate a distance by what a metric is made of, make the metric first: "
            "jax.grad(lambda metric: orthodrome.gradients.distance(metric, a, b))(metric)."
        )


def as_points(value: ArrayLike, name: str, dim: int | None = None) -> Array:
    """Finite points of shape (..., dim)."""
    array = as_floats(value, name)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"{name} should have shape (..., d), coordinates last; a shape of {array.shape} "
            "arrived."
        )
    if dim is not None and array.shape[-1] != dim:
        raise ValueError(
            f"{name} has {array.shape[-1]} coordinates, the metric is on {dim}: pass points of "
            f"shape (..., {dim})."
        )
    require_finite(array, name)
    return array


def require_finite(array: Array, name: str) -> None:
    """Refuse NaN and infinity, naming the first place they stand."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = ", ".join(map(str, bad[0]))
        raise ValueError(
            f"{name} should be finite; {len(bad)} of {array.size} numbers are NaN or infinite, "
            "the first at "
            f"[{place}]: remove or fill those rows."
        )


def as_data(value: ArrayLike, name: str = "data") -> Array:
    """A set of points: finite, shape (n, D), at least two of them, not all the same."""
    array = as_points(value, name)
    if array.ndim != 2:
        raise ValueError(
            f"{name} should have shape (n, D), a row a point; a shape of {array.shape} arrived."
        )
    if len(array) < 2:
        raise ValueError(f"{name} should have at least 2 points; {len(array)} arrived.")
    if np.all(array == array[0]):
        raise ValueError(
            f"{name} should have at least 2 different points; all {len(array)} rows are the same."
        )
    return array


def as_positive(value: Any, name: str) -> float:
    """A positive, finite number."""
    refuse_traced(value, name)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or isinstance(value, str | bool):
        raise TypeError(f"{name} should be a positive number; {value!r} arrived.")
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name} should be positive and finite; {number} arrived.")
    return number


def as_count(value: object, name: str, least: int) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} should be a whole number; {value!r} arrived.")
    if value < least:
        raise ValueError(f"{name} should be at least {least}; {value} arrived.")
    return int(value)


def one_of(value: Any, name: str, allowed: Any) -> Any:
    """The value, if it is one of those allowed."""
    if value not in allowed:
        raise ValueError(
            f"{name} should be one of {', '.join(map(str, allowed))}; {value!r} arrived."
        )
    return value


def as_times(value: ArrayLike) -> Array:
    """Times in [0, 1], of shape () or (T,)."""
    t = as_floats(value, "t")
    if t.ndim > 1:
        raise ValueError(f"t should be a number or have shape (T,); a shape of {t.shape} arrived.")
    require_finite(t, "t")
    if np.any((t < 0) | (t > 1)):
        raise ValueError(
            f"t should lie in [0, 1], where the path lives; {t.min():g} to {t.max():g} arrived."
        )
    return t


def broadcast(arrays: Sequence[Array], names: Sequence[str]) -> tuple[list[Array], tuple[int, ...]]:
    """The arrays with their leading axes broadcast together and flattened, (P, d) each, and the
    broadcast shape."""
    shapes = [array.shape[:-1] for array in arrays]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        told = " and ".join(
            f"{name} {array.shape}" for name, array in zip(names, arrays, strict=True)
        )
        raise ValueError(
            f"the shapes {told} do not broadcast: their leading axes should agree or be 1."
        ) from None
    flat = [
        np.ascontiguousarray(np.broadcast_to(a, (*shape, a.shape[-1])).reshape(-1, a.shape[-1]))
        for a in arrays
    ]
    return flat, shape


def require_instance(value: object, kind: type[Kind], name: str, example: str) -> Kind:
    """Refuse an object of another kind, saying which kind was meant."""
    if not isinstance(value, kind):
        shown = f"the class {value.__name__}" if isinstance(value, type) else repr(value)[:80]
        raise TypeError(f"{name} should be {example}; {shown} arrived.")
    return value


def require_callable(value: object, name: str) -> Callable[..., Any]:
    """Refuse what cannot be called."""
    if not callable(value):
        raise TypeError(
            f"{name} should be a JAX function of one point; {type(value).__name__} arrived."
        )
    return value


def warn_unconverged(status: Array, what: str, total: int | None = None) -> None:
    """One warning for a whole call: how many problems were not solved, and for each reason what to
    try.

    `total`: how many there were, if these are not all of them.
    """
    codes, counts = np.unique(status[status != Status.CONVERGED], return_counts=True)
    if not len(codes):
        return
    reasons = "; ".join(
        f"{count}: {Status(code).sentence}" for code, count in zip(codes, counts, strict=True)
    )
    warn(
        f"{counts.sum()} of {status.size if total is None else total} {what} did not converge "
        f"({reasons})."
    )


def warn(message: str) -> None:
    """A `ConvergenceWarning` that points at the user's own line."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ConvergenceWarning, stacklevel=level)


_INSIDE = ("orthodrome", "equinox", "jaxtyping")
"""Warnings point at the first line outside these: the user's own, however deep the problem
arose."""
