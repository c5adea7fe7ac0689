"""The documentation is true: its code runs, its links lead somewhere, every public name is in
it."""

import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import orthodrome as od
from orthodrome.cli import app

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "_build" not in page.parts and page.parent.name != "reproduction"
]
CODE = re.compile(r"^```(?:\{code-cell\}|python)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^    (orthodrome .*?)(?:  #.*)?$", flags=re.MULTILINE)
ELSEWHERE = ("orthodrome demo", "orthodrome reproduce", "orthodrome explore")
"""Commands that other tests run: some take minutes, one never ends."""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if CODE.search(page.read_text())], ids=lambda page: page.stem
)
def test_every_block_of_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", od.ConvergenceWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # of others
        # somebody else's Dask dashboard
        warnings.filterwarnings("ignore", "\\s*Port 8787 is already in use")
        for block in CODE.findall(page.read_text(encoding="utf-8")):
            exec(compile(block, page.name, "exec"), scope)
    plt.close("all")


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_every_command_runs(page, tmp_path, monkeypatch):
    """In a folder with the files that the documentation speaks of."""
    monkeypatch.chdir(tmp_path)
    np.savetxt(
        "points.csv",
        od.datasets.semicircle(18, random_state=0),
        delimiter=",",
        header="x,y",
        comments="",
    )
    for command in COMMAND.findall(page.read_text(encoding="utf-8")):
        if command.startswith(ELSEWHERE) and "--list" not in command:
            continue
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, f"{command}: {done.output}"
        written = [
            shlex.split(command)[i + 1]
            for i, word in enumerate(shlex.split(command))
            if word in ("--out", "--plot")
        ]
        assert all(pathlib.Path(file).exists() for file in written)


def test_the_site_is_built_without_a_warning(tmp_path):
    """Without running the cells, which another test has done."""
    build = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-D",
        "nb_execution_mode=off",
        "-d",
        tmp_path / "trees",
    ]
    done = subprocess.run(
        [*build, ROOT / "docs", tmp_path / "html"],
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "html/api.html").read_text()
    for said in (
        "directions in which C is integrated",
        "of the logarithms; None means",
        od.Status.SADDLE.sentence,
    ):
        assert said in reference  # what settings mean, and how a solve ends


def test_every_setting_of_a_solver_is_in_the_reference():
    text = (ROOT / "docs/api.md").read_text()
    for solver in (od.Auto, od.Energy, od.Graph, od.FixedPoint, od.HennigHauberg, od.Collocation):
        (members,) = re.findall(rf":: {solver.__name__}\n   :members: (.*)\n", text)
        assert set(members.split(", ")) == {field.name for field in dataclasses.fields(solver)}


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs/api.md").read_text()
    for name in set(od.__all__) - {"models"}:
        assert re.search(rf":: (orthodrome\.)?{name}$", text, flags=re.MULTILINE), name


def test_every_link_in_the_readme_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (ROOT / "README.md").read_text()):
        assert target.startswith("http") or (ROOT / target).exists(), target
