"""Reading data files: csv, tsv, npy and npz, with errors that say which line is wrong."""

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

    csv and tsv may have a header line, which is any first line that is not all numbers. npz files should hold one
    array, or one named `data`. `columns` takes some of the columns, by name or by number. No row is ever dropped: a
    value that is missing or not a number is an error that names its line.
    """
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.is_file():
        raise ValueError(f"{path} should be a file, not a folder.")
    suffix = path.suffix.lower()
    if suffix in _DELIMITERS:
        values, names = _read_text(path, _DELIMITERS[suffix])
    elif suffix in (".npy", ".npz"):
        values, names = _read_numpy(path), None
    else:
        raise ValueError(f"{path} should end in .csv, .tsv, .npy or .npz, so that its format is known.")
    if values.ndim != 2:
        raise ValueError(f"{path} should hold an array of shape (n, D), a row a point; its shape is {values.shape}.")
    table = Table(_boundary.as_data(values, str(path)), tuple(names or (f"x{i}" for i in range(values.shape[1]))))
    return table if columns is None else _choose(table, columns, path)


def _read_numpy(path: Path) -> Array:
    try:
        loaded = np.load(path, allow_pickle=False)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a NumPy file of plain numbers ({error}).") from None
    if isinstance(loaded, np.ndarray):
        return _boundary.as_floats(loaded, str(path))
    with loaded:
        names = list(loaded)
        if len(names) != 1 and "data" not in names:
            raise ValueError(f"{path} should hold one array, or one named 'data'; it holds {names}.")
        try:
            return _boundary.as_floats(loaded["data" if "data" in names else names[0]], str(path))
        except ValueError as error:
            raise ValueError(f"{path} cannot be read as a NumPy file of plain numbers ({error}).") from None


def _read_text(path: Path, delimiter: str) -> tuple[Array, list[str] | None]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, delimiter=delimiter)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
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
    header = None if all(_is_number(cell) for cell in rows[0][1]) else [cell.strip() for cell in rows[0][1]]
    body = rows if header is None else rows[1:]
    if not body:
        raise ValueError(f"{path} has a header and no rows.")
    values = np.empty((len(body), width))
    for i, (line, row) in enumerate(body):
        for k, cell in enumerate(row):
            if not _is_number(cell):
                name = header[k] if header else str(k)
                raise ValueError(
                    f"{path}, line {line}, column {name}: a number was expected, {cell.strip()!r} arrived."
                )
            values[i, k] = float(cell)
    return values, header


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _choose(table: Table, columns: list[str], path: Path) -> Table:
    index = []
    for name in columns:
        if name in table.columns:
            index.append(table.columns.index(name))
        elif name.isdigit() and int(name) < len(table.columns):
            index.append(int(name))
        else:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(table.columns)}.")
    return Table(table.values[:, index], tuple(table.columns[k] for k in index))
