"""The page: what it answers, whom it refuses, and how it is to use, in a real browser."""

import asyncio
import base64
import contextlib
import csv
import http.client
import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from playwright.sync_api import expect, sync_playwright

import orthodrome as od
from orthodrome.explore import open_scene, serve
from orthodrome.explore.server import LARGEST_REQUEST, app
from orthodrome.explore.session import RequestError, Session, straight_length

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
JSON = {"Content-Type": "application/json"}
PATIENCE = 120_000
"""Milliseconds: the first answer waits for the compiler."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data file with labels, and a model with the data that it encodes."""
    out = tmp_path_factory.mktemp("explore")
    data = 100 * od.datasets.two_moons(200, random_state=0) + 7
    with (out / "moons.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["name", "x", "y"], *([f"p{i}", *row] for i, row in enumerate(data.tolist()))]
        )
    rng = np.random.default_rng(0)
    z = rng.standard_normal((150, 2))
    images = 1 / (
        1 + np.exp(-np.tanh(z @ rng.standard_normal((2, 8))) @ rng.standard_normal((8, 16)))
    )
    np.save(out / "images.npy", images)
    np.save(out / "codes.npy", z)
    od.models.VAE(hidden=(8,), centers=8, epochs=30, random_state=0).fit(images).save(
        out / "vae.safetensors"
    )
    return out


@pytest.fixture(scope="module")
def session(folder):
    return Session(open_scene(folder / "moons.csv", index="name", standardize=True))


# --- answers ---


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
    assert (
        not near["searched"] and "starts" not in near["message"]
    )  # it was not searched for, and does not say so
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
    walled = od.MetricTensor(
        lambda x: jnp.eye(2) * (x[0] ** 2 - 0.25), dim=2
    )  # not positive in the middle
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


# --- models, and data that are no plane ---


def test_images_of_a_vae_lie_along_the_path_and_along_the_straight_line(folder):
    session = Session(open_scene(folder / "vae.safetensors", folder / "images.npy"))
    scene, vae = session.scene, od.models.VAE.load(folder / "vae.safetensors")
    np.testing.assert_allclose(scene.points, vae.encode(np.load(folder / "images.npy")))
    answer = session.path({"start": 3, "end": 80})
    frames = answer["frames"]
    assert frames["shape"] == [4, 4] and frames["count"] == len(frames["places"]) == 11
    pixels = np.frombuffer(base64.b64decode(frames["pixels"]), np.uint8).reshape(2, 11, 16)
    black, contrast = scene.brightness
    for row, places in zip(
        pixels, (frames["places"], np.linspace(*scene.points[[3, 80]], 11)), strict=True
    ):
        expected = 255 * np.clip((vae.decode(places) - black) / contrast, 0, 1)
        np.testing.assert_allclose(row, expected, atol=0.51)
    assert np.abs(pixels[0].astype(int) - pixels[1]).max() > 0 and scene.image_shape == (4, 4)
    with pytest.raises(RequestError, match="sigma is no setting of this metric"):
        session.map({"settings": {"sigma": 1.0}})


def test_a_model_without_data_shows_where_it_was_trained(folder):
    session = Session(open_scene(folder / "vae.safetensors"))
    assert len(session.scene.points) == 8 and "vae.std_.centers" in session.scene.lines[-1]


def test_a_decoder_of_torch_is_read_from_its_file(folder):
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(2, 8),
        torch.nn.Tanh(),
        torch.nn.Linear(8, 12),
        torch.nn.Unflatten(1, (3, 2, 2)),
    ).double()
    torch.export.save(
        torch.export.export(module.eval(), (torch.zeros(1, 2).double(),)), folder / "decoder.pt2"
    )
    session = Session(open_scene(folder / "decoder.pt2", folder / "codes.npy"))
    assert session.path({"start": 0, "end": 1})["frames"]["shape"] == [2, 2, 3]
    with torch.no_grad():
        expected = module(torch.tensor(session.scene.points[:1])).numpy()
    np.testing.assert_allclose(session.scene.decode(session.scene.points[:1]), expected, rtol=1e-12)
    nothing = open_scene(folder / "decoder.pt2")
    assert (
        nothing.points.shape == (0, 2)
        and nothing.box[1][0] == 3
        and nothing.images(np.zeros((1, 2))).shape == (1, 2, 2, 3)
    )
    assert Session(nothing).take_away({"kind": "svg", "paths": []})[2]


def test_more_than_two_coordinates_are_seen_along_principal_components(tmp_path):
    data = od.datasets.sphere(60, random_state=0)
    np.save(tmp_path / "sphere.npy", data)
    session = Session(open_scene(tmp_path / "sphere.npy"))
    told = session.describe()
    assert not told["free"] and session.map({}) == {"cells": None}
    seen, centred = np.array(told["points"]), data - data.mean(axis=0)
    np.testing.assert_allclose(np.linalg.svd(seen)[1], np.linalg.svd(centred)[1][:2], rtol=1e-6)
    answer = session.path({"start": 0, "end": 1})
    np.testing.assert_allclose(np.array(answer["curve"])[[0, -1]], seen[[0, 1]], atol=1e-8)
    assert answer["length"] == od.distance(od.LocalPCA(data), data[0], data[1])
    with pytest.raises(RequestError, match="a place in a projection is none in the data"):
        session.path({"start": [0.0, 0.0], "end": 1})


@pytest.mark.parametrize(("call", "match"), [
    (lambda f: open_scene(f / "moons.csv", f / "images.npy"), "--data and --image-shape are for a model"),
    (lambda f: open_scene(f / "vae.safetensors", sigma=1.0), "--sigma and --rho are for a data file"),
    (lambda f: open_scene(f / "vae.safetensors", columns=["x"]), "are for the data file: give it with --data"),
    (lambda f: open_scene(f / "vae.safetensors", f / "moons.csv", index="name"), "has 2 columns; the model .* encodes rows of 16"),
    (lambda f: open_scene(f / "vae.safetensors", image_shape=(3, 5)), "3x5 has 15 pixels; the decoder has 16"),
    (lambda f: open_scene(f / "moons.csv", columns=["x"]), "two coordinates or more"),
    (lambda f: open_scene(f / "nothing.csv"), "does not exist"),
])  # fmt: skip
def test_what_cannot_be_opened_is_refused_with_a_sentence(folder, call, match):
    with pytest.raises((ValueError, OSError), match=match):
        call(folder)


# --- the server ---


@contextlib.contextmanager
def serving(folder, *arguments):
    """The real command, at any free port: yields its address."""
    command = [
        sys.executable,
        "-m",
        "orthodrome",
        "explore",
        *arguments,
        "--no-browser",
        "--port",
        "0",
    ]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            address = process.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address), process.stderr.read()
            yield address
            assert process.poll() is None, process.stderr.read()
        finally:
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=30)[1]
    assert process.returncode == 0 and "Traceback" not in said, said


@pytest.fixture(scope="module")
def address(folder):
    with serving(folder, "moons.csv", "--index", "name") as found:
        yield found


def ask(address, method, path, body=None, headers=JSON):
    connection = http.client.HTTPConnection(
        address.removeprefix("http://").rstrip("/"), timeout=120
    )
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, response, content


def alive(address):
    return ask(address, "POST", "/api/path", '{"start": 0, "end": 1}')[0] == 200


@pytest.mark.parametrize(("headers", "status"), [
    ({}, 200),
    ({"Host": "evil.example"}, 421),
    ({"Host": "evil.example:{port}"}, 421),
    ({"Host": "127.0.0.1"}, 421),
    ({"Host": "localhost:{port}"}, 200),
    ({"Origin": "http://127.0.0.1:{port}"}, 200),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "http://127.0.0.1:1"}, 403),
    ({"Origin": "null"}, 403),
])  # fmt: skip
def test_only_its_own_page_at_its_own_address_is_answered(address, headers, status):
    port = address.rstrip("/").rpartition(":")[2]
    headers = {name: value.format(port=port) for name, value in headers.items()}
    for method, path in (("GET", "/"), ("GET", "/api/scene"), ("POST", "/api/path")):
        got, response, _ = ask(address, method, path, '{"start": 0, "end": 1}', JSON | headers)
        assert got == status
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"


MALFORMED = {
    "no JSON": (b"start", JSON, 400),
    "half an object": (b'{"start": 0,', JSON, 400),
    "nothing": (b"", JSON, 400),
    "no UTF-8": (b'{"start": "\xff\xfe"}', JSON, 400),
    "NaN": (b'{"start": [NaN, 0], "end": 1}', JSON, 400),
    "infinity": (b'{"start": [1e999, 0], "end": 1}', JSON, 422),
    "a number with five thousand digits": (b'{"start": ' + b"9" * 5000 + b', "end": 1}', JSON, 400),
    "a thousand brackets": (b"[" * 30_000, JSON, 400),
    "another kind of body": (b'{"start": 0, "end": 1}', {"Content-Type": "text/plain"}, 415),
    "no kind": (b'{"start": 0, "end": 1}', {}, 415),
    "too long": (b'{"start": "' + b"x" * LARGEST_REQUEST + b'"}', JSON, 413),
    "a length that is none": (b"{}", JSON | {"Content-Length": "99999999999"}, 413),
    "a list": (b"[1, 2]", JSON, 422),
    "null": (b"null", JSON, 422),
    "no such point": (b'{"start": 0, "end": 5000}', JSON, 422),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_answered_with_4xx_and_the_server_stays_alive(address, name):
    body, headers, status = MALFORMED[name]
    for path in ("/api/path", "/api/map", "/api/take-away"):
        got, _, content = ask(address, "POST", path, body, headers)
        assert got == status or (got == 422 and path != "/api/path")
        assert json.loads(content)["error"].endswith(".")
    assert alive(address)


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/nothing", 404), ("GET", "/../pyproject.toml", 404), ("GET", "/%2e%2e/etc/passwd", 404),
    ("GET", "//etc/passwd", 404), ("GET", "/page.js/../scene.py", 404), ("GET", "/api/path", 405),
    ("POST", "/", 405), ("PUT", "/api/path", 405), ("DELETE", "/api/scene", 405),
])  # fmt: skip
def test_nothing_else_is_served(address, method, path, status):
    assert ask(address, method, path)[0] == status


def test_what_is_no_http_is_survived(address):
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    for junk in (
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/path HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=20) as line:
            line.sendall(junk)
            line.shutdown(socket.SHUT_WR)
            answer = line.recv(1000)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    with socket.create_connection(
        (host, int(port))
    ) as line:  # somebody who promises more than comes
        line.sendall(
            f"POST /api/path HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{{".encode()
        )
    assert alive(address)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "0", "0x0"])
def test_no_address_at_all_is_refused(host):
    with pytest.raises(ValueError, match="the one address that people will type"):
        serve(None, host)


def test_a_mistake_of_ours_is_told_as_such(folder, monkeypatch):
    monkeypatch.setattr(Session, "map", lambda self, request: 1 / 0)
    monkeypatch.setattr(Session, "warm_up", lambda self: iter(()))
    application = app(open_scene(folder / "moons.csv", index="name"), {"here"})
    headers = [
        (b"host", b"here"),
        (b"content-type", b"application/json"),
        (b"content-length", b"2"),
    ]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/map",
        "headers": headers,
        "query_string": b"",
    }
    said = []

    async def receive():
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message):
        said.append(message)

    with pytest.raises(ZeroDivisionError):  # for the log
        asyncio.run(application(scope, receive, send))
    assert said[0]["status"] == 500 and "ZeroDivisionError" in json.loads(said[1]["body"])["error"]


def test_a_taken_port_is_refused_with_a_sentence(folder, address):
    port = address.rstrip("/").rpartition(":")[2]
    command = [
        sys.executable,
        "-m",
        "orthodrome",
        "explore",
        "moons.csv",
        "--index",
        "name",
        "--no-browser",
        "--port",
        port,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (
        done.returncode == 2
        and f"127.0.0.1:{port}" in done.stderr
        and "choose another --port or --host" in done.stderr
    )


# --- the browser ---


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "the page is tested in a real browser: apt-get install chromium"
    with sync_playwright() as playwright:
        profile = tmp_path_factory.mktemp("profile")
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=FLAGS, viewport={"width": 1100, "height": 760}
        )
        yield context
        context.close()


@pytest.fixture
def page(browser, address):
    yield from _page(browser, address)


def _page(browser, address):
    page, wrong = browser.new_page(), []
    page.expected = None
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.goto(address)
    page.wait_for_selector("#overlay[data-ready=true]", timeout=PATIENCE)
    yield page
    assert not [text for text in wrong if not (page.expected and page.expected in text)]
    page.close()


def spot(page, point):
    """Where a place of the plane is on the screen."""
    scene = page.evaluate("fetch('/api/scene').then(response => response.json())")
    (left, bottom), (right, top) = scene["box"]
    edge = page.locator("#overlay").bounding_box()
    scale = min(edge["width"] / (right - left), edge["height"] / (top - bottom))
    x, y = scene["points"][point] if isinstance(point, int) else point
    return (
        edge["x"] + edge["width"] / 2 + scale * (x - (left + right) / 2),
        edge["y"] + edge["height"] / 2 - scale * (y - (bottom + top) / 2),
    )


def settled(page, count=1):
    """The lengths that are shown, when nothing is under way any more."""
    expect(page.locator("#paths .badge")).to_have_count(count, timeout=PATIENCE)
    expect(page.locator("main")).to_have_attribute("aria-busy", "false", timeout=PATIENCE)
    return [float(text) for text in page.locator("#paths .length").all_inner_texts()]


def test_press_two_points_and_see_the_path_and_its_length(page, folder):
    data = od.io.read_data(folder / "moons.csv", index="name").values
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (length,) = settled(page)
    np.testing.assert_allclose(length, od.distance(od.LocalPCA(data), data[3], data[80]), rtol=1e-3)
    shown = page.locator("#paths").inner_text()
    assert "✓ certified" in shown and "straight line" in shown and "posterior spread" in shown
    colour = page.evaluate("""() => {
        const canvas = document.getElementById('overlay'), pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let i = 0; i < pixels.length; i += 4) count += pixels[i] === 11 && pixels[i + 1] === 110 && pixels[i + 2] === 143 && pixels[i + 3] === 255;
        return count;
    }""")  # the first path's colour, #0b6e8f
    assert colour > 300


def test_drag_an_end_and_the_path_follows(page, folder):
    data = od.io.read_data(folder / "moons.csv", index="name").values
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (before,) = settled(page)
    answers = []
    page.on(
        "response", lambda response: answers.append(response) if "path" in response.url else None
    )
    page.mouse.move(*spot(page, 80))
    page.mouse.down()
    page.mouse.move(*spot(page, 50), steps=12)
    page.mouse.up()
    expect(page.locator("#paths .length")).not_to_have_text(f"{before:g}")
    (after,) = settled(page)
    np.testing.assert_allclose(after, od.distance(od.LocalPCA(data), data[3], data[50]), rtol=1e-3)
    asked = [answer.request.post_data_json for answer in answers]
    assert (
        len(asked) > 2 and asked[0]["near"] and asked[-1]["near"] is None and asked[-1]["end"] == 50
    )


def test_pressing_an_end_moves_nothing_and_begins_another_path_there(page):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    x, y = spot(page, 80)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.mouse.click(x + 8, y)
    page.wait_for_timeout(400)
    assert not asked and page.locator("#paths li").count() == 1
    expect(page.locator("#hint")).to_have_text("now the other end")
    page.mouse.click(*spot(page, 50))
    settled(page, 2)
    assert page.locator("#paths li").count() == 2


def test_a_point_pressed_twice_begins_nothing(page):
    page.mouse.dblclick(*spot(page, 3))
    page.wait_for_timeout(200)
    assert page.locator("#paths li").count() == 0
    expect(page.locator("#hint")).to_have_text("press one point, then another")


def test_what_is_followed_is_not_called_certified(page):
    for start, end in ((3, 80), (10, 30)):
        page.mouse.click(*spot(page, start))
        page.mouse.click(*spot(page, end))
    settled(page, 2)
    x, y = spot(page, 30)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 30, y - 30, steps=5)
    badges = page.locator("#paths .badge")
    expect(badges.nth(1)).to_have_text("following")
    page.wait_for_timeout(600)  # still held: it stays what it is
    assert (
        badges.all_inner_texts() == ["✓ certified", "following"]
        and page.locator("#status").inner_text() == ""
    )
    page.mouse.up()
    expect(badges.nth(1)).to_have_text("✓ certified")
    page.evaluate("""() => {
        const slider = document.getElementById('sigma');
        slider.value = Number(slider.value) + 0.1;
        slider.dispatchEvent(new Event('input'));
    }""")
    assert set(badges.all_inner_texts()) == {"following"}  # at once, before any answer
    expect(badges.nth(0)).to_have_text("✓ certified")
    expect(badges.nth(1)).to_have_text("✓ certified")


def test_a_screen_reader_is_told_what_is_what(page):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (length,) = settled(page)
    row = page.locator("#paths .choose")
    assert row.inner_text().split()[:3] == ["1", f"{length:g}", "✓"]
    for name in ("σ", "ρ"):
        expect(page.get_by_role("slider", name=name)).to_be_visible()
    expect(page.locator("#status")).to_have_text(f"path 1: length {length:g}, certified")


def test_a_path_that_fails_shows_no_length_and_no_certificate(page):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    page.expected = "Failed to load resource"
    page.route("**/api/path", lambda route: route.fulfill(status=429, json={"error": "too many."}))
    page.mouse.move(*spot(page, 80))
    page.mouse.down()
    page.mouse.move(*spot(page, 50), steps=3)
    page.mouse.up()
    expect(page.locator("#paths .length")).to_have_text("no path")
    expect(page.locator("#paths .badge")).to_be_hidden()
    expect(page.locator("#status")).to_have_text("too many.")
    page.unroute("**/api/path")


def test_what_was_only_followed_is_searched_when_all_is_still(page):
    """A slider that goes out and comes back to where it was tells the page nothing at the end."""
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    answers = []
    page.on(
        "response", lambda response: answers.append(response) if "path" in response.url else None
    )
    page.evaluate("""() => {
        const slider = document.getElementById('sigma'), value = Number(slider.value);
        for (const there of [value + 0.1, value]) { slider.value = there; slider.dispatchEvent(new Event('input')); }
    }""")
    page.wait_for_timeout(800)
    settled(page)
    assert (
        answers[0].request.post_data_json["near"]
        and answers[-1].request.post_data_json["near"] is None
    )


def test_press_and_pull_makes_a_path_and_there_may_be_several(page):
    for start, end in ((3, 80), (10, 30)):
        page.mouse.move(*spot(page, start))
        page.mouse.down()
        page.mouse.move(*spot(page, end), steps=5)
        page.mouse.up()
    settled(page, 2)
    page.locator(".remove").first.click()
    settled(page, 1)
    page.locator("#clear").click()
    assert page.locator("#paths li").count() == 0 and page.locator("#none").is_visible()


def test_a_slider_changes_the_map_and_the_path(page, folder):
    data = od.io.read_data(folder / "moons.csv", index="name").values
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    (before,) = settled(page)
    pixels = "document.getElementById('ground').toDataURL()"
    ground, slider = page.evaluate(pixels), page.locator("#sigma")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("PageUp")
    expect(page.locator("#paths .length")).not_to_have_text(f"{before:g}")
    (after,) = settled(page)
    sigma = np.exp(float(slider.input_value()))
    metric = od.LocalPCA(data, sigma, od.LocalPCA(data).rho)
    np.testing.assert_allclose(after, od.distance(metric, data[3], data[80]), rtol=1e-3)
    assert page.evaluate(pixels) != ground
    page.locator("#reset").click()
    expect(page.locator("#paths .length")).to_have_text(f"{before:g}")


def test_it_works_by_keyboard_alone(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "overlay"
    for keys in (
        ["Enter", *["ArrowLeft"] * 9, "Enter"],
        [*["ArrowRight"] * 18, *["ArrowUp"] * 3, "Enter"],
    ):
        for key in keys:
            page.keyboard.press(key)
    (before,) = settled(page)
    for key in (
        "Enter",
        "Shift+ArrowDown",
        "Shift+ArrowDown",
        "Enter",
    ):  # take up the end under the cross, put it down elsewhere
        page.keyboard.press(key)
    expect(page.locator("#paths .length")).not_to_have_text(f"{before:g}")
    page.keyboard.press("Delete")
    assert page.locator("#paths li").count() == 0


def test_everything_can_be_taken_away(page, tmp_path):
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    for kind in ("png", "svg", "csv"):
        with page.expect_download() as download:
            page.locator(f"aside [data-kind={kind}]").click()
        download.value.save_as(tmp_path / kind)
        assert (
            download.value.suggested_filename == f"orthodrome_paths.{kind}"
            and (tmp_path / kind).stat().st_size > 1000
        )
    page.locator("#python").click()
    expect(page.locator("#lines")).to_contain_text("paths = [od.shortest_path(metric, start, end)")
    with page.expect_download() as download:
        page.locator("dialog [data-kind=py]").click()
    program = tmp_path / download.value.suggested_filename
    download.value.save_as(program)
    page.keyboard.press("Escape")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True)
    (length,) = settled(page)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(float(re.search(r"length (\S+)", done.stdout)[1]), length, rtol=1e-3)


def test_a_narrow_window_has_everything_one_below_the_other(page):
    page.set_viewport_size({"width": 380, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    canvas, panel = page.locator("#canvases").bounding_box(), page.locator("aside").bounding_box()
    assert panel["y"] >= canvas["y"] + canvas["height"] and canvas["width"] > 340
    page.mouse.click(*spot(page, 3))
    page.mouse.click(*spot(page, 80))
    settled(page)
    page.set_viewport_size({"width": 1100, "height": 760})


def test_another_page_cannot_ask(browser, address):
    page = browser.new_page()
    form = f'<form method="post" action="{address}api/path"><button>press me</button></form>'
    page.route(
        "http://evil.example/", lambda route: route.fulfill(body=form, content_type="text/html")
    )
    page.goto("http://evil.example/")
    with pytest.raises(Exception, match="Failed to fetch"):
        page.evaluate(f"fetch('{address}api/scene').then(response => response.text())")
    with page.expect_navigation() as arrived:
        page.locator("button").click()
    assert arrived.value.status == 403 and "only to its own page" in page.inner_text("body")
    page.close()


def test_a_decoder_shows_its_images_on_the_way(browser, folder):
    with serving(folder, "vae.safetensors", "--data", "images.npy") as address:
        for page in _page(browser, address):
            page.mouse.click(*spot(page, 3))
            page.mouse.click(*spot(page, 80))
            settled(page)
            film = page.locator("#frames")
            assert film.is_visible() and page.locator("#metric").is_hidden()
            shades = page.evaluate("""() => {
                const canvas = document.getElementById('frames'), data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                return new Set(data.filter((_, i) => i % 4 === 0)).size;
            }""")
            assert shades > 20
