"""Every Python block of the README runs, in order, as a new user would run it."""

import pathlib
import re
import warnings

import matplotlib.pyplot as plt
import numpy as np

import orthodrome as od

README = pathlib.Path(__file__).parent.parent / "README.md"


def words(text):
    """The text without its small numbers and its count of certified paths, which may differ a
    little by machine."""
    return re.sub(r"\d\.\de[-+]\d+|\d+(?= certified)", "#", text).strip()


def test_the_readme_runs_and_prints_what_it_says(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    said = "".join(re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL))
    scope = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            exec(compile(block, "README.md", "exec"), scope)
    plt.close("all")
    warned = [
        f"ConvergenceWarning: {w.message}" for w in caught if w.category is od.ConvergenceWarning
    ]
    assert {w.category for w in caught} <= {od.ConvergenceWarning} and warned == [
        line for line in said.splitlines() if "Warning" in line
    ]
    printed = [line for line in words(said).splitlines() if "Warning" not in line]
    assert words(capsys.readouterr().out).splitlines() == printed
    (certified,) = re.findall(r"(\d+) certified", said)
    assert abs(scope["paths"].certified.sum() - int(certified)) <= 3
    assert scope["D"].shape == (20, 20) and np.abs(scope["y"] - scope["data"][1]).max() < 1e-3
