"""Checks the shapes written in the library's annotations, while the tests run."""

import inspect

import beartype
import jaxtyping


def checked(function):
    """Beartype, for functions whose annotations speak of array shapes; input is otherwise checked
    at the library's door."""
    annotations = inspect.get_annotations(function).values() if inspect.isfunction(function) else ()
    shaped = any(
        isinstance(a, type) and issubclass(a, jaxtyping.AbstractArray) for a in annotations
    )
    return beartype.beartype(function) if shaped else function
