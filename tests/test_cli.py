"""The command line, run as people run it."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import orthodrome as od
from orthodrome import cli


def run(*arguments, cwd):
    """The real command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "orthodrome", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


@pytest.fixture
def data(tmp_path, semicircle):
    values, angle, _ = semicircle
    values = values[np.argsort(angle)][::10]
    np.savetxt(
        tmp_path / "points.csv",
        values,
        delimiter=",",
        header="east,north",
        comments="",
        fmt="%.17g",
    )
    return values


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    """`main` in this process: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments, capsys):
        monkeypatch.setattr(sys, "argv", ["orthodrome", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return (stopped.value.code or 0, *capsys.readouterr())

    return call


def test_a_path_is_found_written_and_drawn(tmp_path, data):
    done = run(
        "path",
        "points.csv",
        "--from",
        0,
        "--to",
        15,
        "--sigma",
        0.3,
        "--rho",
        0.05,
        "--out",
        "c.csv",
        "--plot",
        "c.png",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    path = od.shortest_path(od.LocalPCA(data, 0.3, 0.05), data[0], data[15])
    assert (
        f"length      {path.length:.8g}" in done.stdout
        and "converged   yes" in done.stdout
        and "certified" in done.stdout
    )
    with (tmp_path / "c.csv").open() as stream:
        header, *rows = csv.reader(stream)
    assert header == ["t", "east", "north"]
    np.testing.assert_allclose(
        np.array(rows, float)[:, 1:], path(np.linspace(0, 1, 101)), rtol=1e-12
    )
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_a_finer_mesh_and_tolerance_certify_a_path(data, invoke, capsys):
    arguments = ("path", "points.csv", "--from", 8, "--to", 12, "--sigma", 0.5, "--rho", 0.1)
    _, out, _ = invoke(*arguments, "--mesh", 10, capsys=capsys)
    assert "certified   no" in out and "between its knots" in out
    code, out, _ = invoke(*arguments, "--mesh", 50, "--tol", 1e-6, capsys=capsys)
    assert code == 0 and "certified   yes" in out
    code, out, _ = invoke(*arguments, "--rtol", 1e-8, capsys=capsys)
    assert code == 0 and "certified   yes" in out and "locally minimising" in out


def test_distances_are_written(tmp_path, data, invoke, capsys):
    code, out, err = invoke(
        "distances", "points.csv", "--out", "D.npy", "--sigma", 0.5, "--rho", 0.1, capsys=capsys
    )
    assert code == 0 and "paths       190" in out and "LocalPCA(20 points" in err
    np.testing.assert_allclose(
        np.load(tmp_path / "D.npy"),
        od.distance_matrix(od.LocalPCA(data, 0.5, 0.1), data),
        rtol=1e-12,
    )
    code, *_ = invoke(
        "distances", "points.csv", "--out", "D.npz", "--columns", "north,east", capsys=capsys
    )
    with np.load(tmp_path / "D.npz") as saved:
        assert code == 0 and set(saved) == {
            "distances",
            "labels",
            "converged",
            "certified",
            "status",
            "error",
        }


def test_labels_and_units_of_the_file_come_back(tmp_path, data, invoke, capsys):
    names = [f"p{i}" for i in range(len(data))]
    with (tmp_path / "named.csv").open("w", newline="") as stream:
        rows = [(name, *(1000 * point).tolist()) for name, point in zip(names, data, strict=True)]
        csv.writer(stream).writerows([("", "east", "north"), *rows])
    words = ("named.csv", "--standardize", "--sigma", 0.5, "--rho", 0.1, "--mesh", 10)
    code, *_ = invoke("path", *words, "--from", "p3", "--to", "p4", "--out", "c.csv", capsys=capsys)
    curve = np.loadtxt(tmp_path / "c.csv", delimiter=",", skiprows=1)
    assert code == 0
    np.testing.assert_allclose(curve[[0, -1], 1:], 1000 * data[[3, 4]], rtol=1e-12)
    code, *_ = invoke("distances", *words, "--out", "D.csv", capsys=capsys)
    with (tmp_path / "D.csv").open() as stream:
        header, *rows = csv.reader(stream)
    assert code == 0 and header == ["", *names] and [row[0] for row in rows] == names
    scaled = (data - data.mean(axis=0)) / data.std(axis=0)
    D = od.distance_matrix(od.LocalPCA(scaled, 0.5, 0.1), scaled, solver=od.FixedPoint(mesh=10))
    np.testing.assert_allclose(np.array([row[1:] for row in rows], float), D, rtol=1e-9)


def test_what_is_not_converged_has_its_own_exit_code(tmp_path, data, invoke, capsys, monkeypatch):
    monkeypatch.setattr(
        od, "FixedPoint", lambda mesh, tol: od.solvers.FixedPoint(mesh=mesh, tol=tol, max_iter=1)
    )
    code, out, _ = invoke(
        "path",
        "points.csv",
        "--from",
        0,
        "--to",
        19,
        "--sigma",
        0.15,
        "--rho",
        0.01,
        "--mesh",
        10,
        capsys=capsys,
    )
    assert code == cli.Exit.NOT_CONVERGED and "converged   no" in out and "out of budget" in out
    code, out, err = invoke(
        "distances",
        "points.csv",
        "--out",
        "D.npy",
        "--sigma",
        0.15,
        "--rho",
        0.01,
        "--mesh",
        10,
        capsys=capsys,
    )
    assert code == cli.Exit.NOT_CONVERGED and "upper bounds" in err
    with (tmp_path / "D.failures.csv").open() as stream:
        header, *listed = csv.reader(stream)
    assert (
        header == ["from", "to", "reason"] and f"{len(listed)} not converged: {listed[0][2]}" in err
    )


def test_a_checkpoint_is_gone_on_from_and_another_job_is_refused(
    tmp_path, data, invoke, capsys, monkeypatch
):
    words = (
        "distances",
        "points.csv",
        "--out",
        "D.npy",
        "--sigma",
        0.5,
        "--rho",
        0.1,
        "--checkpoint",
        "run",
    )
    assert invoke(*words, capsys=capsys)[0] == 0
    first = np.load(tmp_path / "D.npy")
    monkeypatch.setattr("orthodrome.workers.solve", pytest.fail)
    assert invoke(*words, capsys=capsys)[0] == 0
    np.testing.assert_array_equal(first, np.load(tmp_path / "D.npy"))
    code, _, err = invoke(*words, "--rtol", 1e-6, capsys=capsys)
    assert (
        code == cli.Exit.BAD_INPUT
        and "run holds results made with other settings (solver was 'Auto()'" in err
    )

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("orthodrome.workers.solve", stop)
    code, _, err = invoke(*words[:-1], "other", capsys=capsys)
    assert code == cli.Exit.STOPPED and "what is finished is in other" in err


BAD = {
    "no file": (("path", "none.csv", "--from", 0, "--to", 1), "none.csv does not exist"),
    "an index out of range": (("path", "points.csv", "--from", 0, "--to", 99), "--to should be a row from 0 to 19; 99 arrived"),
    "a negative index": (("path", "points.csv", "--from", -1, "--to", 3), "--from should be a row from 0 to 19; -1 arrived"),
    "a bad sigma": (("path", "points.csv", "--from", 0, "--to", 3, "--sigma", -1), "sigma should be positive and finite; -1.0 arrived"),
    "two solvers at once": (
        ("path", "points.csv", "--from", 0, "--to", 3, "--mesh", 10, "--rtol", 1e-6),
        "give one or the other",
    ),
    "a bad mesh": (("path", "points.csv", "--from", 0, "--to", 3, "--mesh", 1), "mesh should be at least 2; 1 arrived"),
    "one point of a curve": (("path", "points.csv", "--from", 0, "--to", 3, "--points", 1), "--points should be at least 2"),
    "an unknown column": (("distances", "points.csv", "--out", "D.npy", "--columns", "up"), "has no column 'up'; it has east, north"),
    "a folder that is not there": (("distances", "points.csv", "--out", "no/D.npy"), "the folder no of no/D.npy does not exist"),
    "an unknown format": (("distances", "points.csv", "--out", "D.xls"), "--out should end in .npy or .npz"),
    "a plot of one column": (("path", "points.csv", "--from", 0, "--to", 3, "--columns", "east", "--plot", "c.png"), "--plot draws two columns or more"),
    "a curve in another format": (("path", "points.csv", "--from", 0, "--to", 3, "--out", "c.npy"), "--out should end in .csv; c.npy arrived"),
    "a curve over the data": (("path", "points.csv", "--from", 0, "--to", 3, "--out", "./points.csv"), "--out would overwrite the data in points.csv"),
    "a matrix over the data": (("distances", "points.csv", "--out", "points.csv"), "--out would overwrite the data"),
    "a plot without a format": (("path", "points.csv", "--from", 0, "--to", 3, "--plot", "c"), "--plot should end in .png or .pdf or .svg"),
}  # fmt: skip


def test_a_matrix_may_have_a_name_in_capitals(data, invoke, capsys, tmp_path):
    for name in ("D.NPY", "D.NPZ"):
        assert (
            invoke(
                "distances", "points.csv", "--out", name, "--mesh", 5, "--tol", 1e9, capsys=capsys
            )[0]
            == 0
        )
        assert (tmp_path / name).exists()
    assert np.load(tmp_path / "D.NPY").shape == (20, 20) and not list(tmp_path.glob(".draft*"))


def test_what_the_system_refuses_is_told_with_its_name(data, invoke, capsys, tmp_path):
    code, _, err = invoke(
        "distances", "points.csv", "--out", "D.npy", "--checkpoint", "points.csv/run", capsys=capsys
    )
    assert code == cli.Exit.BAD_INPUT and "error: points.csv/run: Not a directory." in err


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line_and_exit_code_2(what, data, invoke, capsys, tmp_path):
    arguments, sentence = BAD[what]
    code, out, err = invoke(*arguments, capsys=capsys)
    assert code == cli.Exit.BAD_INPUT and out == ""
    assert err.startswith("error: ") and sentence in err and "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["points.csv"]  # nothing was written


def test_names_with_brackets_are_said_as_they_are(data, invoke, capsys, tmp_path):
    np.savetxt(tmp_path / "units.csv", data, delimiter=",", header="x[um],y[/um]", comments="")
    code, _, err = invoke(
        "path", "units.csv", "--from", 0, "--to", 1, "--columns", "z", capsys=capsys
    )
    assert code == cli.Exit.BAD_INPUT and "it has x[um], y[/um]" in err
    code, out, _ = invoke(
        "distances", "units.csv", "--out", "D[x].npy", "--sigma", 0.5, "--rho", 0.1, capsys=capsys
    )
    assert code == 0 and "D[x].npy" in out and (tmp_path / "D[x].npy").exists()


def test_a_missing_option_is_exit_code_2_too(invoke, capsys, data):
    assert invoke("path", "points.csv", capsys=capsys)[0] == cli.Exit.BAD_INPUT


@pytest.mark.parametrize("command", ["demo", "path", "distances"])
def test_help_has_an_example(command):
    shown = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert f"Example: orthodrome {command}" in shown


def test_version(invoke, capsys):
    assert invoke("--version", capsys=capsys)[:2] == (0, f"orthodrome {od.__version__}\n")


def test_the_demo_makes_its_figure_and_table(invoke, capsys, tmp_path, monkeypatch):
    from orthodrome import demo

    monkeypatch.setattr(demo, "EVERY", 40)
    code, out, _ = invoke("demo", "--out", "shown", capsys=capsys)
    assert code == 0 and "certified" in out
    assert (tmp_path / "shown" / demo.FIGURE).read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "shown" / demo.TABLE).open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["solver"] for row in rows] == list(demo.SOLVERS)
    assert rows[0]["converged"] == rows[1]["converged"] == "100.0%"
