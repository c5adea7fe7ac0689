"""The page: what it answers, in the library's own numbers, and what can be taken away."""

import csv
import io
import json

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import orthodrome as od
from orthodrome.explore import open_scene
from orthodrome.explore.session import RequestError, Session, straight_length


def test_an_answer_is_the_path_that_the_library_finds(session):
    scene = session.scene
    answer = json.loads(json.dumps(session.path({"start": 3, "end": [0.2, 0.1]}), allow_nan=False))
    path = od.shortest_path(od.LocalPCA(scene.points), scene.points[3], [0.2, 0.1])
    assert (
        answer["length"] == path.length
        and answer["certified"]
        and answer["message"] == path.message
    )
    np.testing.assert_array_equal(answer["curve"], path(np.linspace(0, 1, len(answer["curve"]))))
    assert answer["straight"] > answer["length"] > 0 and answer["frames"] is None
    band = np.reshape(answer["band"], (2, -1, 2))  # there and back
    middle = (band[0] + band[1, ::-1]) / 2
    np.testing.assert_allclose(middle, answer["curve"], atol=1e-12)
    assert np.ptp(band[0] - band[1, ::-1]) > 0 and answer["spread"] > 0


def test_the_straight_line_is_measured_in_the_metric():
    half_plane = od.MetricTensor(lambda x: jnp.eye(2) / x[1] ** 2, dim=2)
    np.testing.assert_allclose(
        straight_length(half_plane, np.array([0.0, 1.0]), np.array([0.0, 2.0])), np.log(2)
    )
    np.testing.assert_allclose(
        straight_length(half_plane, np.array([0.0, 2.0]), np.array([6.0, 2.0])), 3.0
    )


def test_from_an_earlier_path_it_follows_to_the_same_geodesic(session):
    first = session.path({"start": 3, "end": 80})
    there = session.scene.points[80] + [0.02, -0.03]
    near = session.path({"start": 3, "end": there.tolist(), "near": first["number"]})
    anew = session.path({"start": 3, "end": there.tolist()})
    np.testing.assert_allclose(near["length"], anew["length"], rtol=1e-4)
    assert near["certified"] and near["number"] != first["number"]
    assert anew["searched"] and "starts" in anew["message"]
    # it was not searched for, and does not say so
    assert not near["searched"] and "starts" not in near["message"]
    forgotten = session.path({"start": 3, "end": there.tolist(), "near": 10**6})
    assert forgotten["length"] == anew["length"] and forgotten["searched"]


def test_the_spread_goes_with_the_units(folder):
    data = np.load(folder / "codes.npy")
    spreads = []
    for scale in (1.0, 100.0):
        np.save(folder / "scaled.npy", scale * data)
        spreads.append(
            Session(open_scene(folder / "scaled.npy")).path({"start": 0, "end": 1})["spread"]
        )
    np.testing.assert_allclose(spreads[1], 100 * spreads[0], rtol=1e-6)


def test_tiny_huge_and_few_points_are_shown_as_they_are(folder):
    some = {
        "tiny": 1e-12 * np.load(folder / "codes.npy"),
        "two": np.array([[0.0, 0.0], [1.0, 2.0]]),
    }
    for name, data in some.items():
        np.save(folder / f"{name}.npy", data)
        session = Session(open_scene(folder / f"{name}.npy"))
        np.testing.assert_array_equal(session.describe()["points"], data)
        answer = session.path({"start": 0, "end": 1})
        assert answer["certified"] and np.isfinite(np.array(answer["band"], dtype=float)).all()


def test_sigma_and_rho_change_the_map_and_the_path(session):
    before, changed = session.scene.defaults, {"sigma": 2 * session.scene.defaults.sigma}
    maps = [session.map({"settings": settings}) for settings in ({}, before._asdict(), changed)]
    assert maps[0] == maps[1] != maps[2] and maps[0]["most"] > maps[0]["least"]
    one, other = (session.path({"start": 3, "end": 80, "settings": s}) for s in ({}, changed))
    wider = od.LocalPCA(session.scene.points, 2 * before.sigma, before.rho)
    assert other["length"] == od.distance(wider, *session.scene.points[[3, 80]]) != one["length"]


def test_a_deep_map_is_told_as_such(folder):
    told = Session(open_scene(folder / "moons.csv", index="name", rho=1e-12)).map({})
    assert json.loads(json.dumps(told))["deeper"] is True and told["most"] - told[
        "least"
    ] == pytest.approx(np.log(1e6))


def test_a_path_without_a_length_is_told_without_one(session, monkeypatch):
    # not positive in the middle
    walled = od.MetricTensor(lambda x: jnp.eye(2) * (x[0] ** 2 - 0.25), dim=2)
    with pytest.warns(od.ConvergenceWarning):
        path = od.shortest_path(walled, [-1.0, 0.0], [1.0, 0.0])
    assert not np.isfinite(path.length)
    monkeypatch.setattr(Session, "_search", lambda self, *_: path)
    told = session.path({"start": 5, "end": 6, "near": None})
    assert (
        told["number"] is None
        and told["length"] is None
        and told["straight"] > 0
        and not told["certified"]
    )


def test_an_end_where_the_metric_is_not_positive_is_answered_with_a_sentence(session, monkeypatch):
    monkeypatch.setattr(
        Session, "_metric", lambda self, _: od.MetricTensor(lambda x: jnp.eye(2) * x[0], dim=2)
    )
    with pytest.raises(RequestError, match="positive"):
        session.path({"start": [-0.5, 0.0], "end": [0.5, 0.1]})


def test_the_python_lines_find_the_same_paths(session, tmp_path, monkeypatch, capsys):
    asked = {
        "paths": [{"start": 3, "end": 80}, {"start": [0.5, 0.25], "end": 7}],
        "settings": {"rho": session.scene.defaults.rho * 1.7},
    }
    _, _, code = session.take_away(asked | {"kind": "py"})
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(code.decode(), scope)
    plt.close("all")
    shown = [session.path(pair | {"settings": asked["settings"]}) for pair in asked["paths"]]
    assert [path.length for path in scope["paths"]] == [answer["length"] for answer in shown]
    assert capsys.readouterr().out.count("Path from") == 2
    assert (tmp_path / "orthodrome_paths.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_is_in_the_units_of_the_file(session, folder):
    name, media, content = session.take_away({"kind": "csv", "paths": [{"start": 3, "end": 80}]})
    header, *rows = csv.reader(io.StringIO(content.decode()))
    assert header == ["path", "length", "certified", "t", "x", "y"] and (name, media[:8]) == (
        "orthodrome_paths.csv",
        "text/csv",
    )
    data = od.io.read_data(folder / "moons.csv", index="name").values
    ends = np.array([rows[0][4:], rows[-1][4:]], dtype=float)
    np.testing.assert_allclose(ends, data[[3, 80]], rtol=1e-12)


def test_columns_of_any_name_can_be_taken_away(folder):
    with (folder / "odd.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["t", "$^$"], *od.datasets.semicircle(20, random_state=0).tolist()]
        )
    session = Session(open_scene(folder / "odd.csv", standardize=True))
    asked = {"paths": [{"start": 0, "end": 1, "color": 3}]}
    header = session.take_away(asked | {"kind": "csv"})[2].decode().splitlines()[0]
    assert header == "path,length,certified,path_t,t,$^$"
    svg = session.take_away(asked | {"kind": "svg"})[2].decode()
    assert od.plotting.COLORS[3] in svg and od.plotting.COLORS[0] not in svg
    assert session.describe()["axes"] == ["t (standardised)", "$^$ (standardised)"]


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_pictures_are_pictures(session, kind, begins):
    _, _, content = session.take_away({"kind": kind, "paths": [{"start": 3, "end": 80}]})
    _, _, empty = session.take_away({"kind": kind, "paths": []})
    assert content.startswith(begins) and empty.startswith(begins) and len(content) > len(empty)
    assert session.take_away({"kind": kind, "paths": [{"start": 3, "end": 80}]})[2] == content


BAD = {
    "no object": ([], "an object with"),
    "no ends": ({}, "start should be the number of a point, or"),
    "another field": ({"start": 1, "end": 2, "file": "/etc/passwd"}, "'file' is not known"),
    "no such point": ({"start": 1, "end": 200}, "a point from 0 to 199; 200 arrived"),
    "a point before the first": ({"start": -1, "end": 2}, "a point from 0"),
    "truth for a point": ({"start": True, "end": 2}, "number of a point"),
    "three coordinates": ({"start": [1, 2, 3], "end": 2}, "or \\[x, y\\]"),
    "words for coordinates": ({"start": ["1", "2"], "end": 2}, "start should be a finite number"),
    "a place outside": ({"start": [1e6, 0], "end": 2}, "should lie in the frame"),
    "a huge number": ({"start": [10**400, 0], "end": 2}, "finite number"),
    "settings that are none": ({"start": 1, "end": 2, "settings": []}, "an object with rho, sigma"),
    "no number for near": (
        {"start": 1, "end": 2, "near": "x"},
        "near should be the number of an earlier path",
    ),
    "a negative sigma": (
        {"start": 1, "end": 2, "settings": {"sigma": -1}},
        "within a factor of 10",
    ),
    "a word for rho": (
        {"start": 1, "end": 2, "settings": {"rho": "small"}},
        "rho should be a finite number",
    ),
    "another setting": ({"start": 1, "end": 2, "settings": {"path": "x"}}, "'path' is not known"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_answered_with_a_sentence(session, name):
    request, match = BAD[name]
    with pytest.raises(RequestError, match=match):
        session.path(request)


@pytest.mark.parametrize(("request_", "match"), [
    ({"kind": "exe", "paths": []}, "kind should be one of png, svg, csv, py; 'exe' arrived"),
    ({"kind": ["png"], "paths": []}, "kind should be one of"),
    ({"kind": "png", "paths": 3}, "a list of at most 50"),
    ({"kind": "png", "paths": [{"start": 1, "end": 2}] * 51}, "a list of at most 50"),
    ({"kind": "png", "paths": [[1, 2]]}, "an object with"),
    ({"kind": "png", "paths": [{"start": 1, "end": 2, "color": "red"}]}, "color should be the number of a colour"),
])  # fmt: skip
def test_what_cannot_be_taken_away(session, request_, match):
    with pytest.raises(RequestError, match=match):
        session.take_away(request_)
