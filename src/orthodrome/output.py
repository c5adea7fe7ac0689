"""What the command line leaves behind: matrices, tables and pictures, in files."""

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from orthodrome.checkpoint import write


def require_file(file: Path | None, option: str, suffixes: list[str], data: Path) -> None:
    """Refuse an output file of an unknown format, in a folder that does not exist, or over the
    data, before anything is computed."""
    if file is None:
        return
    if file.suffix.lower() not in suffixes:
        raise ValueError(f"{option} should end in {' or '.join(suffixes)}; {file} arrived.")
    if not file.parent.is_dir():
        raise ValueError(f"the folder {file.parent} of {file} does not exist: make it first.")
    if file.is_dir():
        raise ValueError(f"{option} should be a file; {file} is a folder.")
    if file.exists() and file.samefile(data):
        raise ValueError(f"{option} would overwrite the data in {file}: choose another name.")


def save(file: Path, put: Callable[[Any], None]) -> None:
    """Write a file all at once: what is written may be mapped from the old one."""

    def through(draft: Path) -> None:
        with draft.open("wb") as stream:
            put(stream)

    write(file, through)


def write_rows(file: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A csv file; Python writes numbers with enough digits to be read back exactly."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)


def draw(metric: Any, path: Any, file: Path) -> None:
    """The path over the data, in a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from orthodrome import plotting

    figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
    plotting.scene(metric, ax=ax)
    plotting.paths(path, ax=ax)
    ax.set_title(f"length {path.length:.4g}, {'certified' if path.certified else 'not certified'}")
    figure.savefig(file, dpi=150)
    plt.close(figure)
