"""Reading data files: csv, tsv, npy and npz, with errors that say which line is wrong."""

import contextlib
import csv
import dataclasses
import difflib
import re
from pathlib import Path

import numpy as np

from orthodrome import _boundary
from orthodrome._types import Array

_DELIMITERS = {".csv": ",", ".tsv": "\t"}

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
"""What every program writes as a number. `float` takes more: 1_000, nan, digits of any script."""

_MISSING = {
    *(
        "nan",
        "inf",
        "infinity",
        "na",
        "n/a",
        "n.a.",
        "<na>",
        "null",
        "none",
        "nil",
        "missing",
        "?",
        ".",
        "-",
        "--",
    ),
    *("#n/a", "#na", "#value!", "#div/0!", "1.#qnan"),
}
"""What people and programs write for numbers that are none: a first line with one of them may be a
row."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A data set from a file."""

    values: Array
    """(n, D) float64, finite."""
    columns: tuple[str, ...]
    """The names of the columns: the file's header, or x0, x1, …"""
    index: tuple[str, ...] | None = None
    """What the rows are called, if the file says so."""
    center: Array | None = None
    scale: Array | None = None
    """(D,) each: the file has values · scale + center, if they were standardised."""

    def __repr__(self) -> str:
        return f"Table({len(self.values)} rows of {', '.join(self.columns)})"

    @property
    def labels(self) -> tuple[str, ...]:
        """What the rows are called: by the file, or by their numbers."""
        return tuple(map(str, range(len(self.values)))) if self.index is None else self.index

    def row(self, label: str, name: str) -> int:
        """The number of a row, by its label in the index, or counted from 0; `name` is what asked
        for it."""
        rows = [i for i, known in enumerate(self.labels) if known == label]
        if len(rows) > 1:
            raise ValueError(
                f"{name}: {len(rows)} rows are called {label!r}; make their labels different."
            )
        if not rows:
            near = difflib.get_close_matches(label, self.labels, 1) or self.labels[:1]
            known = (
                f"a row from 0 to {len(self.values) - 1}"
                if self.index is None
                else "a label of the index"
            )
            such = "" if self.index is None else f", such as {near[0]}"
            raise ValueError(f"{name} should be {known}{such}; {label} arrived.")
        return rows[0]

    def in_units(self, values: Array) -> Array:
        """Coordinates (..., D) as the file has them."""
        return (
            values
            if self.scale is None or self.center is None
            else values * self.scale + self.center
        )


def read_data(
    file: str | Path,
    columns: list[str] | None = None,
    index: str | None = None,
    standardize: bool = False,
    header: bool | None = None,
) -> Table:
    """Read a data set (n, D), a row a point.

    csv and tsv may have a header: a first line without a single number in it, or whatever `header`
    says (True for one whose names are years, say). A first line of words such as NA may be either,
    and is refused until `header` says. npz files should hold one array, or one named `data`.
    `columns` takes some of the columns, by name or by number; the others may then hold anything.
    `index` is the column that says what the rows are called; a first column without a name, as
    pandas writes it, is one too. `standardize` gives every column mean 0 and standard deviation 1.
    No row is
    ever dropped: a value that is missing or not a number is an error that names its line.
    """
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise ValueError(f"{path} should be a file, not a folder.")
    suffix = path.suffix.lower()
    if suffix in _DELIMITERS:
        table = _read_text(path, _DELIMITERS[suffix], columns, index, header)
    elif suffix in (".npy", ".npz"):
        table = _read_numpy(path, columns, index)
    else:
        raise ValueError(
            f"{path} should end in .csv, .tsv, .npy or .npz, so that its format is known."
        )
    table = dataclasses.replace(table, values=_boundary.as_data(table.values, str(path)))
    return _standardized(table, path) if standardize else table


def _standardized(table: Table, path: Path) -> Table:
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = table.values.mean(axis=0), table.values.std(axis=0)
    if not np.isfinite(scale).all():
        raise ValueError(
            f"{path}: the numbers are too large to be standardised: divide them first."
        )
    flat = [
        name
        for name, spread in zip(table.columns, np.ptp(table.values, axis=0), strict=True)
        if spread == 0
    ]
    if flat:
        raise ValueError(
            f"{path}: column {flat[0]} is the same in every row and cannot be standardised: leave "
            "it out by choosing "
            "the other columns."
        )
    return dataclasses.replace(
        table, values=(table.values - center) / scale, center=center, scale=scale
    )


def _read_numpy(path: Path, columns: list[str] | None, index: str | None) -> Table:
    try:
        loaded = np.load(path, allow_pickle=False)
        with (
            contextlib.nullcontext({"data": loaded})
            if isinstance(loaded, np.ndarray)
            else loaded as arrays
        ):
            stored = dict(arrays)
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read as a NumPy file of plain numbers ({error})."
        ) from None
    if "data" not in stored and len(stored) != 1:
        raise ValueError(
            f"{path} should hold one array, or one named 'data'; it holds {list(stored)}."
        )
    values = _boundary.as_floats(stored.get("data", next(iter(stored.values()))), str(path))
    if values.ndim != 2:
        raise ValueError(
            f"{path} should hold an array of shape (n, D), a row a point; its shape is "
            f"{values.shape}."
        )
    names = [f"x{i}" for i in range(values.shape[1])]
    chosen, label = _choose(names, columns, index, path)
    labels = (
        None
        if label is None
        else tuple(str(int(v)) if v.is_integer() else repr(v) for v in values[:, label].tolist())
    )
    return Table(values[:, chosen], tuple(names[k] for k in chosen), labels)


def _read_text(
    path: Path, delimiter: str, columns: list[str] | None, index: str | None, header: bool | None
) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            rows = [
                (reader.line_num, [] if len(row) == 1 and row[0].isspace() else row)
                for row in reader
            ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"{path} cannot be read as text in UTF-8 ({error}): save it as that."
        ) from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}).") from None
    while rows and not rows[-1][1]:
        rows.pop()
    if not rows:
        raise ValueError(f"{path} is empty.")
    split = f"columns are separated by {delimiter!r} in a {path.suffix} file"
    width = len(next(row for _, row in rows if row))
    if (
        width > 1
    ):  # an empty line between them is no row; in a single column it may be a value that is missing
        rows = [(line, row) for line, row in rows if row]
    for line, row in rows:
        if len(row) != width:
            expected = f"{width} columns were expected, as in the first line"
            raise ValueError(f"{path}, line {line}: {expected}, {len(row)} arrived; {split}.")
    if header is None:
        header = not any(map(_NUMBER.fullmatch, rows[0][1]))
        missing = [
            cell.strip() for cell in rows[0][1] if cell.strip().lower().lstrip("+-") in _MISSING
        ]
        if header and missing:
            raise ValueError(
                f"{path}: the first line has {missing[0]!r}, and may be a header or a row: say "
                "which, by --header or "
                "--no-header (header=True or False)."
            )
    names = [cell.strip() for cell in rows.pop(0)[1]] if header else [f"x{i}" for i in range(width)]
    if not rows:
        raise ValueError(f"{path} has a header and no rows.")
    if "" in names[1:] and columns is None:
        raise ValueError(
            f"{path}: column {names.index('', 1)} has no name; say which columns are coordinates: "
            "--columns "
            f"{','.join(name for name in names if name)}."
        )
    if (
        index is None and names[0] == "" and "0" not in (columns or ())
    ):  # as pandas writes its index
        index = "0"
    chosen, label = _choose(names, columns, index, path)
    for line, row in rows:
        for k in chosen:
            if not _NUMBER.fullmatch(row[k]):
                raise ValueError(
                    f"{path}, line {line}, column {names[k]}: a number was expected, "
                    f"{row[k].strip()!r} arrived. Mend "
                    f"it, choose other columns, or make it the index (--index {names[k]}, "
                    f"index={names[k]!r}); {split}."
                )
    values = np.array([[float(row[k]) for k in chosen] for _, row in rows])
    labels = None if label is None else tuple(row[label].strip() for _, row in rows)
    return Table(values, tuple(names[k] for k in chosen), labels)


def _choose(
    names: list[str], columns: list[str] | None, index: str | None, path: Path
) -> tuple[list[int], int | None]:
    """The numbers of the columns asked for, by name or by number, and of the index; all others if
    none were."""

    def number(name: str) -> int:
        name = str(name).strip()
        if name not in names and not (
            name.isascii() and name.isdecimal() and int(name) < len(names)
        ):
            raise ValueError(
                f"{path} has no column {name!r}; it has {', '.join(filter(None, names))}."
            )
        if names.count(name) > 1:
            raise ValueError(
                f"{path} has {names.count(name)} columns called {name!r}: say which by number, "
                "from 0."
            )
        return names.index(name) if name in names else int(name)

    label = None if index is None else number(index)
    chosen = (
        [k for k in range(len(names)) if k != label]
        if columns is None
        else [number(name) for name in columns]
    )
    twice = next((names[k] for k in chosen if chosen.count(k) > 1), None)
    if twice is not None:
        raise ValueError(f"column {twice} of {path} is asked for twice.")
    if not chosen:
        raise ValueError(f"{path} has no columns of coordinates.")
    return chosen, label
