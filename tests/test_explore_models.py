"""The page on models, and on data that are no plane."""

import base64

import numpy as np
import pytest

import orthodrome as od
from orthodrome.explore import open_scene
from orthodrome.explore.session import RequestError, Session


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
