"""What the tests of the page share: files to show, a session, a server that runs, how to ask it."""

import contextlib
import csv
import http.client
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import orthodrome as od
from orthodrome.explore import open_scene
from orthodrome.explore.session import Session

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
JSON = {"Content-Type": "application/json"}
PATIENCE = 120_000
"""Milliseconds: the first answer waits for the compiler."""


@pytest.fixture(scope="session")
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
