"""The server of the page: whom it refuses, and that it survives what it is sent."""

import asyncio
import json
import socket
import subprocess
import sys

import pytest

from exploring import JSON, alive, ask
from orthodrome.explore import open_scene, serve
from orthodrome.explore.server import LARGEST_REQUEST, app
from orthodrome.explore.session import Session


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
