"""Pictures: axes in, artists out."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import orthodrome as od


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_a_scene_shows_the_data_over_the_log_volume_element(semicircle, ax):
    data, _, metric = semicircle
    assert od.plotting.scene(metric, ax=ax) is ax
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    x, y = np.linspace(left, right, od.plotting.GRID), np.linspace(bottom, top, od.plotting.GRID)
    np.testing.assert_allclose(
        image.get_array()[7, 30], metric.log_volume([x[30], y[7]]), rtol=1e-12
    )
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), data)


def test_a_path_is_drawn_from_end_to_end_with_its_spread(semicircle, ax):
    data, _, metric = semicircle
    path = od.shortest_path(metric, data[:2], data[2:4], od.FixedPoint(mesh=5))
    artists = path.plot(ax)
    assert len(ax.lines) == 2 and len(ax.patches) == 2 and len(artists) == 6
    np.testing.assert_allclose(ax.lines[0].get_xydata()[[0, -1]], [data[0], data[2]])
    band = ax.patches[0].get_xy()
    middle = np.argmax(path[0].std(np.linspace(0, 1, 200)).sum(axis=1))
    width = np.linalg.norm(band[middle] - band[399 - middle])
    normal = path[0].velocity(np.linspace(0, 1, 200))[middle][::-1] * [-1, 1]
    normal /= np.linalg.norm(normal)
    std = np.sqrt(normal @ path[0].covariance(np.linspace(0, 1, 200))[middle] @ normal)
    np.testing.assert_allclose(width, 2 * od.plotting.SPREAD_STDS * std, rtol=1e-6)


def test_what_is_not_converged_is_dashed_and_what_has_no_posterior_has_no_band(semicircle, ax):
    data, angle, metric = semicircle
    far = data[np.argsort(angle)[[-1, 0]]]
    with pytest.warns(od.ConvergenceWarning):
        path = od.shortest_path(metric, *far, od.FixedPoint(max_iter=2))
    od.plotting.paths(path, ax=ax, spread=False, c="red", linewidth=1)
    assert (
        ax.lines[0].get_linestyle() == "--" and ax.lines[0].get_color() == "red" and not ax.patches
    )
    near = od.shortest_path(metric, *data[np.argsort(angle)[[100, 110]]], od.Collocation())
    od.plotting.paths(near, ax=ax)
    assert not ax.patches


def test_more_than_two_coordinates_are_drawn_along_principal_components(ax):
    data = od.datasets.sphere(30, random_state=0) * [1.0, 2.0, 3.0]
    metric = od.LocalPCA(data)
    od.plotting.scene(metric, ax=ax)
    path = od.shortest_path(metric, data[0], data[1], od.FixedPoint(mesh=5, tol=1e6))
    path.plot(ax)
    _, _, axes = np.linalg.svd(data - data.mean(axis=0), full_matrices=False)
    seen = (data - data.mean(axis=0)) @ axes[:2].T
    np.testing.assert_allclose(ax.collections[0].get_offsets(), seen, atol=1e-12)
    np.testing.assert_allclose(ax.lines[0].get_xydata()[[0, -1]], seen[:2], atol=1e-8)
    assert not ax.images and ax.get_xlabel() == "first principal component" and len(ax.patches) == 1


def test_what_has_no_plane_to_be_seen_in_is_refused_before_axes_are_made():
    space = od.MetricTensor(lambda x: jnp.eye(3), dim=3)
    path = od.shortest_path(space, [0, 0, 0], [1, 1, 1])
    for draw, name in ((path.plot, "path"), (lambda: space.plot(np.eye(3)), "data")):
        with pytest.raises(ValueError, match=f"{name} has 3 coordinates: pictures are of two"):
            draw()
    line = od.LocalPCA(np.arange(9.0)[:, None])
    with pytest.raises(ValueError, match="data has 1 coordinates"):
        line.plot()
    assert not plt.get_fignums()


def test_a_strip_puts_rows_of_images_side_by_side():
    images = np.arange(2 * 3 * 6, dtype=float).reshape(2, 3, 6)
    ax = od.plotting.strip(images, shape=(2, 3), labels=["one", "two"], vmin=0, vmax=40)
    sheet = ax.images[0].get_array()
    assert sheet.shape == (5, 9) and np.ma.getmaskarray(sheet)[2].all()  # a gap between the rows
    np.testing.assert_array_equal(sheet[3:, 3:6], images[1, 1].reshape(2, 3))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two"]
    for bad, match in ((images[0], "rows, columns, pixels"), (images, "pass their shape")):
        with pytest.raises(ValueError, match=match):
            od.plotting.strip(bad)


def test_a_metric_draws_itself(semicircle, ax):
    data, _, metric = semicircle
    assert metric.plot(ax=ax) is ax and len(ax.images) == 1
    plane = od.MetricTensor(lambda x: jnp.eye(2), dim=2)
    assert len(plane.plot(data[:5], ax=ax).collections) == 2
    with pytest.raises(ValueError, match="a MetricTensor has none of its own"):
        plane.plot(ax=ax)
