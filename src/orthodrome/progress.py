"""How far long work has come: bars in a terminal or a notebook, a line now and then in a file."""

import contextlib
import html
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Report = Callable[[float, float, str], None]
"""(done, of how much, a remark)"""

LINE_EVERY = 10.0
"""Seconds between two lines about the same work, where nobody watches."""

PICTURE_EVERY = 0.1
"""Seconds between two pictures of the bars in a notebook."""


@contextlib.contextmanager
def bars(show: bool) -> Iterator[Callable[[str], Report]]:
    """A function that begins a bar with a name and returns how to move it; if asked to."""
    if not show:
        yield lambda name: lambda done, total, remark: None
        return
    with _notebook() if in_notebook() else _terminal() if sys.stderr.isatty() else _log() as begin:
        yield begin


def in_notebook() -> bool:
    """Whether somebody watches in a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


@contextlib.contextmanager
def _terminal() -> Iterator[Callable[[str], Report]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[remark]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:

        def begin(name: str) -> Report:
            bar = shown.add_task(name, total=None, remark="")
            return lambda done, total, remark: shown.update(
                bar, completed=done, total=total, remark=remark
            )

        yield begin


@contextlib.contextmanager
def _notebook() -> Iterator[Callable[[str], Report]]:
    from IPython.display import HTML, display

    rows: dict[int, str] = {}
    handle: Any = display(HTML(""), display_id=True)
    drawn = -PICTURE_EVERY

    def begin(name: str) -> Report:
        key, began = len(rows), time.monotonic()

        def report(done: float, total: float, remark: str) -> None:
            nonlocal drawn
            told = html.escape(_told(name, done, total, remark, time.monotonic() - began))
            rows[key] = f'<div><progress value="{done}" max="{total}"></progress> {told}</div>'
            if done >= total or time.monotonic() - drawn >= PICTURE_EVERY:
                handle.update(HTML("".join(rows.values())))
                drawn = time.monotonic()

        rows[key] = f"<div><progress></progress> {html.escape(name)}</div>"
        return report

    try:
        yield begin
    finally:
        handle.update(HTML("".join(rows.values())))


@contextlib.contextmanager
def _log() -> Iterator[Callable[[str], Report]]:
    last: dict[int, str] = {}  # what there is to say, if it was not said yet
    numbers = itertools.count()

    def begin(name: str) -> Report:
        began = said = time.monotonic()
        key = next(numbers)
        print(f"{name} …", file=sys.stderr, flush=True)

        def report(done: float, total: float, remark: str) -> None:
            nonlocal said
            last[key] = _told(name, done, total, remark, time.monotonic() - began)
            if done >= total or time.monotonic() - said >= LINE_EVERY:
                print(last.pop(key), file=sys.stderr, flush=True)
                said = time.monotonic()

        return report

    try:
        yield begin
    finally:
        for line in last.values():
            print(line, file=sys.stderr, flush=True)


def _told(name: str, done: float, total: float, remark: str, seconds: float) -> str:
    share = done / total if total else 1.0
    left = f", about {seconds * (1 - share) / share:.0f} s to go" if 0 < share < 1 else ""
    return f"{name}: {100 * share:.0f} %{', ' if remark else ''}{remark}, {seconds:.0f} s{left}"
