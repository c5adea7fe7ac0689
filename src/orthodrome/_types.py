"""The names that annotations use, in one place.

Shapes are written with these letters, unless a room says otherwise: `d` coordinates of the
manifold, `D` of the space around it, `n` data, `N` nodes or knots of a curve, `K` its elements, `P`
problems, `T` times, `m` points near each other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree
from numpy.typing import ArrayLike

Array = np.ndarray
"""An array of NumPy, on the host: what the library's own rooms hand to one another."""

JaxArray = jax.Array
"""An array of JAX, or what stands for one while a function is traced."""

AnyArray = Any
"""An array of NumPy on the host, of JAX in a trace. It is `Any` because arithmetic on a union of
both does not type-check."""

Scalar = Float[JaxArray, ""]
"""A number in compiled code."""

Flag = Bool[JaxArray, ""]
"""A truth value in compiled code."""

Count = Int[JaxArray, ""]
"""A whole number in compiled code."""

Number = JaxArray | Array | float | int
"""A number, or a truth value, on either side: an array of no dimension, traced or not, or Python's
own."""

Index = Array | slice | list[int]
"""What picks rows: a mask, numbers of rows, or a slice."""

RandomState = int | Sequence[int] | np.random.Generator | np.random.RandomState | None
"""What repeats random numbers, as scikit-learn takes it."""

Map = Callable[[JaxArray], JaxArray]
"""A JAX function of one point."""

__all__ = [
    "AnyArray",
    "Array",
    "ArrayLike",
    "Count",
    "Flag",
    "Float",
    "Index",
    "Int",
    "JaxArray",
    "Map",
    "Number",
    "PyTree",
    "RandomState",
    "Scalar",
]
