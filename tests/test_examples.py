"""The examples run, on few images and a model that was hardly trained, and make their pictures."""

import pathlib
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import orthodrome as od

SOLVER = od.Energy(elements=8, degree=2, max_iter=500)
"""Here the pictures matter, not the paths."""

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder, images, labels and a small model in the folder."""
    sys.path.insert(0, str(EXAMPLES))
    import mnist_model

    out = tmp_path_factory.mktemp("out")
    images, labels = mnist_model.digits()
    images, labels = images[::8], labels[::8]
    model = mnist_model.model(
        out, images, hidden=(16,), centers=4, far_std=0.3, epochs=40, verbose=False
    )
    again = mnist_model.model(out, images, hidden=(99,))  # from the file: nothing is trained twice
    np.testing.assert_array_equal(again.encode(images[:2]), model.encode(images[:2]))
    yield out, images, labels, model
    sys.path.remove(str(EXAMPLES))
    plt.close("all")


def test_interpolation(small):
    import interpolation

    out, images, labels, model = small
    figure, paths, grey = interpolation.main(out, images, labels, model, pairs=2, solver=SOLVER)
    assert all(path.converged.all() for path in paths.values()) and len(figure.axes) == 2
    assert (
        set(grey) == {"straight line", *paths}
        and interpolation.grey(np.array([0.0, 0.5, 1.0])) == 0.25
    )
    assert (out / "interpolation.png").stat().st_size > 10_000


def test_magnification(small):
    import magnification

    out, images, labels, model = small
    figure = magnification.main(out, images, labels, model)
    drawn = figure.axes[0].images[0].get_array()
    assert np.isfinite(drawn).all() and np.ptp(drawn) > 1


def test_distances(small):
    import distances

    out, images, labels, model = small
    _, D, E, kinds, info = distances.main(out, images, labels, model, each=2, solver=SOLVER)
    assert D.shape == E.shape == (6, 6) and np.allclose(D, D.T) and info.converged.all()
    assert 0 <= distances.alike(D, kinds, neighbours=1) <= 1
    apart = np.array([[0, 1, 9, 9], [1, 0, 9, 9], [9, 9, 0, 1], [9, 9, 1, 0]])
    assert distances.alike(apart, np.array([0, 0, 1, 1]), neighbours=1) == 1
    assert distances.alike(apart, np.array([0, 1, 0, 1]), neighbours=1) == 0


def test_precomputed(small):
    import precomputed

    figure, D, scores = precomputed.main(small[0], each=15, solver=SOLVER)
    assert (
        D.shape == (30, 30)
        and len(figure.axes) == 4
        and list(scores) == ["shortest paths", "straight lines"]
    )
    apart = np.kron(np.eye(2), np.ones((5, 5))) * -9 + 10 - np.eye(10)
    labels = np.repeat([0, 1], 5)
    assert (
        precomputed.clusters(apart, labels)[1] == 1
        and precomputed.classification(apart, labels) == 1
    )
    assert np.allclose(
        np.linalg.norm(np.diff(precomputed.embedding(np.array([[0, 3.0], [3.0, 0]])), axis=0)), 3
    )


def test_every_example_says_what_it_does_and_how_to_call_it():
    for file in EXAMPLES.glob("*.py"):
        text = file.read_text()
        assert f"python examples/{file.name}" in text.split('"""')[1]
    assert od.datasets.mnist([3])[0].shape == (500, 784)
