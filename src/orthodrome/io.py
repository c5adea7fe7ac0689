"""Reading data files: csv, tsv, npy and npz, with errors that say which line is wrong."""

import contextlib
import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from orthodrome import _boundary

Array = np.ndarray[Any, Any]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A data set from a file."""

    values: Array
    """(n, D) float64, finite."""
    columns: tuple[str, ...]
    """The names of the columns: the file's header, or x0, x1, …"""


def read_data(file: str | Path, columns: list[str] | None = None) -> Table:
    """Read a data set (n, D), a row a point.

    csv and tsv may have a header: a first line without a single number in it. npz files should hold one array, or one
    named `data`. `columns` takes some of the columns, by name or by number; the others may then hold anything. No row
    is ever dropped: a value that is missing or not a number is an error that names its line.
    """
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise ValueError(f"{path} should be a file, not a folder.")
    suffix = path.suffix.lower()
    if suffix in _DELIMITERS:
        names, values = _read_text(path, _DELIMITERS[suffix], columns)
    elif suffix in (".npy", ".npz"):
        names, values = _read_numpy(path, columns)
    else:
        raise ValueError(f"{path} should end in .csv, .tsv, .npy or .npz, so that its format is known.")
    return Table(_boundary.as_data(values, str(path)), names)


def _read_numpy(path: Path, columns: list[str] | None) -> tuple[tuple[str, ...], Array]:
    try:
        loaded = np.load(path, allow_pickle=False)
        with contextlib.nullcontext({"data": loaded}) if isinstance(loaded, np.ndarray) else loaded as arrays:
            found = dict(arrays)
    except Exception:
        raise ValueError(f"{path} cannot be read as a NumPy file of plain numbers.") from None
    if "data" not in found and len(found) != 1:
        raise ValueError(f"{path} should hold one array, or one named 'data'; it holds {list(found)}.")
    values = _boundary.as_floats(found.get("data", next(iter(found.values()))), str(path))
    if values.ndim != 2:
        raise ValueError(f"{path} should hold an array of shape (n, D), a row a point; its shape is {values.shape}.")
    names = [f"x{i}" for i in range(values.shape[1])]
    chosen = _choose(names, columns, path)
    return tuple(names[k] for k in chosen), values[:, chosen]


def _read_text(path: Path, delimiter: str, columns: list[str] | None) -> tuple[tuple[str, ...], Array]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, delimiter=delimiter)
            rows = [(reader.line_num, row) for row in reader if len(row) > 1 or "".join(row).strip()]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as text in UTF-8 ({error}).") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}).") from None
    if not rows:
        raise ValueError(f"{path} is empty.")
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise ValueError(f"{path}, line {line}: {width} columns were expected, {len(row)} arrived.")
    has_header = not any(_is_number(cell) for cell in rows[0][1])
    names = [cell.strip() for cell in rows.pop(0)[1]] if has_header else [f"x{i}" for i in range(width)]
    if not rows:
        raise ValueError(f"{path} has a header and no rows.")
    if "" in names and columns is None:
        raise ValueError(
            f"{path}: column {names.index('')} has no name, as an index would have none; say which columns are "
            f"coordinates: {','.join(name for name in names if name)}."
        )
    chosen = _choose(names, columns, path)
    for line, row in rows:
        for k in chosen:
            if not _is_number(row[k]):
                raise ValueError(
                    f"{path}, line {line}, column {names[k]}: a number was expected, {row[k].strip()!r} arrived. Mend "
                    f"it, or choose other columns; they are separated by {delimiter!r} in a {path.suffix} file."
                )
    return tuple(names[k] for k in chosen), np.array([[float(row[k]) for k in chosen] for _, row in rows])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _choose(names: list[str], columns: list[str] | None, path: Path) -> list[int]:
    """The numbers of the columns asked for, by name or by number; all of them if none were."""
    columns = None if columns is None else [str(name).strip() for name in columns]
    for name in columns or ():
        if name not in names and not (name.isdigit() and int(name) < len(names)):
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(names)}.")
    if columns is None:
        return list(range(len(names)))
    return [names.index(name) if name in names else int(name) for name in columns]
