"""Records of many rows: the one way to take some of them and to join several; names for files.

Whatever is known of P problems (curves, verdicts, solutions) is a record: a dataclass some of whose
fields have a row for each problem.
"""

import contextlib
import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from orthodrome._types import Index

Kind = TypeVar("Kind")
"""Of the objects that a class makes."""

ROOMS = "orthodrome.curves.", "orthodrome.metrics.", "orthodrome.baselines."
"""Where the classes are that a file may name."""


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """A dataclass whose arrays, and whose fields that are records, have a row for each problem.

    Anything else, such as a metric or a tolerance, is the same for all rows.
    """

    shared: ClassVar[tuple[str, ...]] = ()
    """Names of arrays that have no rows, but are the same for all."""

    def take(self, index: Index) -> Self:
        """Some of the rows."""
        rows = {
            name: value[index] if isinstance(value, np.ndarray) else value.take(index)
            for name, value in self.rows().items()
        }
        return dataclasses.replace(self, **rows)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """The rows of several records behind one another.

        What is the same for all rows is that of the first record. A field that is None in one of
        them is None in the whole.
        """
        rows = [part.rows() for part in parts]
        joined: dict[str, Any] = {}
        for name, value in rows[0].items():
            columns: list[Any] = [part.get(name) for part in rows]
            if any(column is None for column in columns):
                joined[name] = None
            elif isinstance(value, np.ndarray):
                joined[name] = np.concatenate(columns)
            else:
                joined[name] = type(value).join(columns)
        return dataclasses.replace(parts[0], **joined)

    def rows(self) -> dict[str, Any]:
        """The fields that have rows, by name."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            name: value
            for name, value in fields.items()
            if isinstance(value, np.ndarray | Record) and name not in self.shared
        }


def brief_repr(record: object) -> str:
    """A dataclass as one would write it: only the fields that are not the default."""
    settings = dataclasses.fields(record)  # type: ignore[arg-type]
    fields = [(field, getattr(record, field.name)) for field in settings]
    brief = lambda value: (
        f"<{' x '.join(map(str, value.shape))}>" if isinstance(value, np.ndarray) else repr(value)
    )
    changed = [
        (field, value)
        for field, value in fields
        if isinstance(value, np.ndarray) or value != field.default
    ]
    shown = ", ".join(f"{field.name}={brief(value)}" for field, value in changed)
    return f"{type(record).__name__}({shown})"


def full_name(kind: type) -> str:
    """What a class is called, with its module: how files name it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def named(kinds: Mapping[str, type[Kind]], name: str) -> type[Kind] | None:
    """The class that a file names, of those that are there; None if it is not.

    A room of this library that has such classes is imported if it has to be. Anything else has to
    be there already: a file should not be able to make a program import something.
    """
    if name not in kinds and name.startswith(ROOMS):
        with contextlib.suppress(ImportError):
            importlib.import_module(name.rpartition(".")[0])
    return kinds.get(name)
