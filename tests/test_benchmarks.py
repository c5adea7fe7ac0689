"""A small version of the benchmark that makes the README's table and figure."""

import json
import pathlib
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def speed(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import speed

    return speed


def test_everybody_is_measured_on_the_same_pairs(speed, monkeypatch, tmp_path, capsys):
    metric, a, b = speed.workload("semicircle")
    monkeypatch.setattr(speed, "workload", lambda name: (metric, a[:6], b[:6]))
    solvers = [
        ("Auto()", od.Auto(), None),
        ("FixedPoint()", od.FixedPoint(), None),
        ("solve_bvp", od.Collocation(), 2),
    ]
    monkeypatch.setattr(
        speed, "rows", lambda full: [(name, speed.ours(solver), n) for name, solver, n in solvers]
    )
    monkeypatch.setattr(sys, "argv", ["speed.py", "semicircle", "--out", str(tmp_path)])
    speed.main()
    rows = json.loads((tmp_path / "speed.json").read_text())["semicircle"]
    assert [rows[name]["pairs"] for name, _, _ in solvers] == [6, 6, 2]
    assert rows["Auto()"]["close"] == 1 and rows["FixedPoint()"]["error"] >= 0
    assert "| Auto() | 6 | 100% | 100.0% |" in capsys.readouterr().out
    assert (tmp_path / "speed.png").stat().st_size > 10_000


def test_a_curve_that_is_too_long_is_not_counted_as_close(speed, monkeypatch):
    metric, a, b = speed.workload("semicircle")
    t = speed.SAMPLES[:, None]
    straight = lambda metric, a, b: (
        [(1 - t) * x + t * y for x, y in zip(a, b, strict=True)],
        np.ones(4, bool),
        1.0,
        1.0,
    )
    far = np.argsort(np.linalg.norm(a - b, axis=1))[-4:]  # from end to end of the half circle
    monkeypatch.setattr(speed, "workload", lambda name: (metric, a[far], b[far]))
    monkeypatch.setattr(
        speed,
        "rows",
        lambda full: [("Auto()", speed.ours(od.Auto()), None), ("straight", straight, None)],
    )
    found = speed.measure("semicircle", full=False)
    assert (
        found["Auto()"]["close"] == 1
        and found["straight"]["close"] == 0
        and found["straight"]["error"] > 0.1
    )


@pytest.mark.parametrize("name, d", [("decoder 2 to 784", 2), ("decoder 10 to 784", 10)])
def test_decoders_are_metrics_of_784_outputs(speed, name, d):
    metric, a, _ = speed.workload(name)
    assert a.shape[1] == d and np.all(np.linalg.eigvalsh(metric.tensor(a[:2])) > 0)
    assert metric.embed_at(jnp.asarray(a[0])).shape == (784,)


def test_a_convolutional_decoder_agrees_with_torch_and_energies_are_measured_by_chords(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import decoders

    decoder, codes = decoders.trained(epochs=0)
    assert decoders.disagreement(decoder, codes[:2], np.random.default_rng(0)).max() < 1e-10
    t = np.linspace(0, 1, decoders.CHORDS + 1)[:, None]
    straight = codes[:1, None] + t * (codes[1:2] - codes[:1])[:, None]
    there_and_back = codes[:1, None] + (1 - abs(1 - 2 * t)) * (codes[1:2] - codes[:1])[:, None]
    assert (
        decoders.energies(decoder, there_and_back)[0]
        > 3 * decoders.energies(decoder, straight)[0]
        > 0
    )


def test_the_page_is_timed_through_its_server(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import page

    page.main(points=60, pairs=page.FIRST + 3, moves=4)
    scratch, dragged = capsys.readouterr().out.splitlines()
    assert (
        "from scratch" in scratch
        and "3 of 3 certified" in scratch
        and "4 of 4 certified" in dragged
    )
