"""Progress is seen wherever one watches: in a terminal, in a notebook, in a file."""

import io
import os
import pty
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from orthodrome import progress

WORK = """
from orthodrome.progress import bars
with bars(True) as begin:
    for name in ("first <b>", "second"):
        report = begin(name)
        for done in range(1, 5):
            report(done, 4, f"loss {1 / done:.2f}")
"""


def test_nothing_is_shown_unless_asked_for(capfd):
    with progress.bars(False) as begin:
        begin("work")(1, 2, "")
    assert capfd.readouterr() == ("", "")


def test_a_file_gets_a_line_now_and_then_without_control_characters(capsys, monkeypatch):
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    with progress.bars(True) as begin:
        report = begin("work")
        for done in range(1, 41):
            report(done, 40, f"{done} of 40")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and "\x1b" not in err and "\r" not in err
    assert (
        5 <= len(lines) < 40
        and lines[-1].startswith("work: 100 %, 40 of 40, ")
        and lines[0] == "work …"
        and "to go" in lines[1]
    )


def test_a_file_hears_of_work_that_was_stopped(capsys):
    with pytest.raises(KeyboardInterrupt), progress.bars(True) as begin:
        begin("work")(1, 4, "")
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "work …\nwork: 25 %, 0 s, about 0 s to go\n"


def test_a_terminal_gets_bars():
    watched, end = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", WORK], stderr=end, capture_output=False, stdout=subprocess.PIPE
    )
    os.close(end)
    seen = io.BytesIO()
    while True:
        try:
            seen.write(os.read(watched, 65536))
        except OSError:  # the other side is closed
            break
    os.close(watched)
    assert done.returncode == 0 and done.stdout == b""
    assert (
        b"second" in seen.getvalue()
        and "━".encode() in seen.getvalue()
        and b"loss 0.25" in seen.getvalue()
    )


def test_a_notebook_gets_bars_and_cards():
    """In a real kernel: what is displayed is what the last state was; names are text, not
    markup."""
    cells = [
        WORK,
        CARDS + "path",
        "od.shortest_path(metric, data[0], data[1], od.FixedPoint(max_iter=1, tol=1e-12))",
        "metric",
        "od.shortest_path(metric, data[0], data[1:5], od.Graph())",
        "od.Pullback(jnp.sin)",
        FLAT,
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=300).execute()
    outputs = [
        [
            output["data"]["text/html"]
            for output in cell.outputs
            if "text/html" in output.get("data", {})
        ]
        for cell in notebook.cells
    ]
    (bars,) = outputs[0]
    assert (
        bars.count("<progress") == 2
        and bars.count('value="4" max="4"') == 2
        and "first &lt;b&gt;: 100 %" in bars
    )
    (path,), (rough,), (metric,), (paths,), (pullback,), (flat,) = outputs[1:]
    assert path.count("<polyline") == 1 and path.count("<circle") == 40 and "certified" in path
    assert (
        "stroke-dasharray" not in path and "stroke-dasharray" in rough and "converged</th>" in rough
    )
    assert (
        "40 points in 2 dimensions" in metric
        and metric.count("<circle") == 40
        and "<polyline" not in metric
    )
    assert paths.count("<polyline") == 4 and "4, of shape (4,)" in paths
    assert flat.count("<polyline") == 1 and "<circle" not in flat
    assert "Pullback(sin)" in pullback and "<svg" not in pullback


FLAT = "od.shortest_path(od.MetricTensor(lambda x: jnp.eye(2), 2), [0.0, 0.0], [1.0, 2.0], od.Energy(elements=2))"
CARDS = """
import jax.numpy as jnp
import orthodrome as od
data = od.datasets.semicircle(40, random_state=0)
metric = od.LocalPCA(data)
path = od.shortest_path(metric, data[0], data[1], od.Graph())
"""
