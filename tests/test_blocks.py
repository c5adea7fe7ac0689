"""Sums over the data in their fast form: the same numbers as one by one, and far data left out
within the bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome.metrics.blocks import BLOCK, Blocks, neighbourhood


def relative(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(b))


def block_form(metric, x, v):
    """f, M v, M⁻¹ v, log volume and jets at a block of points."""
    f, lower = metric.motion_along(x, v)
    return (
        f,
        lower(v),
        metric.raise_along(x, v),
        metric.log_volume_along(x),
        *metric.jet_along(x, v),
    )


def one_by_one(metric, x, v):
    forms = [metric.acceleration_at, metric.lower_at, metric.raise_at]
    jets = jax.vmap(metric.jet_at)(x, v)
    return *(jax.vmap(form)(x, v) for form in forms), jax.vmap(metric.log_volume_at)(x), *jets


@pytest.mark.parametrize("n", [90, 2000])
@pytest.mark.parametrize("D", [1, 2, 3, 5, 10])
def test_a_block_of_points_gives_what_the_points_give_one_by_one(n, D, rng):
    data = rng.standard_normal((n, D))
    metric = od.LocalPCA(data, 0.4 * np.sqrt(D), 0.05)
    x, v = data[:70] + 0.1 * rng.standard_normal((70, D)), rng.standard_normal((70, D))
    with jax.enable_x64(True):
        fast, slow = jax.jit(block_form)(metric.prepared(), x, v), jax.jit(one_by_one)(metric, x, v)
    assert (metric.prepared().blocks is None) == (n == 90)
    for a, b in zip(fast, slow, strict=True):
        assert relative(a, b) < 1e-9


def test_far_from_the_origin_no_digits_are_lost(rng):
    data = rng.standard_normal((300, 2))
    x, v = rng.standard_normal((2, 40, 2))
    shift = 2.0**20 * np.array([1.0, -3.0])  # exact in binary
    data, x = np.round(data * 2**20) / 2**20, np.round(x * 2**20) / 2**20
    with jax.enable_x64(True):
        here = jax.jit(block_form)(od.LocalPCA(data, 0.3, 0.01), x, v)
        there = jax.jit(block_form)(od.LocalPCA(data + shift, 0.3, 0.01), x + shift, v)
    for a, b in zip(there, here, strict=True):
        assert relative(a, b) < 1e-7


def test_what_is_left_out_stays_below_the_bound(rng):
    """Along short paths in a long cloud of data; a loose bound must leave something out, a tight
    one next to nothing."""
    data = np.concatenate(
        [rng.uniform(0, 100, (20000, 1)), rng.standard_normal((20000, 1))], axis=1
    )
    line = np.linspace([50.0, 0.0], [52.0, 3.0], 32)
    worst = {}
    for bound in (1e-2, 1e-6, 1e-10):
        metric = od.LocalPCA(data, 1.0, 0.01, truncation=bound)
        with jax.enable_x64(True):
            x = jnp.asarray(line)
            exact = jax.vmap(metric.variance_at)(x)
            prepared = jax.device_put(metric.prepared())
            near = prepared.blocks.near(x, 1.0, bound * 0.01)[1]
            worst[bound] = float(
                np.max(np.abs(prepared.raise_along(x, jnp.ones_like(x)) / exact - 1))
            )
        assert worst[bound] <= max(bound, 1e-13)
        assert near < len(prepared.blocks.points) / 3
    assert worst[1e-2] > worst[1e-10]


def test_the_error_of_the_default_is_below_1e_8_relative_in_M(rng):
    data = od.datasets.sphere(6000, random_state=0)
    metric = od.LocalPCA(data)
    points = data[rng.choice(6000, 200)] + 0.05 * rng.standard_normal((200, 3))
    with jax.enable_x64(True):
        exact = np.asarray(jax.vmap(metric.tensor_at)(points))
    assert relative(metric.tensor(points), exact) < 1e-8


def test_blocks_hold_every_point_once_and_their_boxes_hold_them(rng):
    points = rng.uniform(0, 10, (5000, 3)) ** 2
    blocks = Blocks.of(points)
    inside = blocks.inside.astype(bool)
    assert blocks.points.shape[1] == BLOCK and inside.sum() == 5000
    assert len(blocks.points) == -(-5000 // BLOCK)
    np.testing.assert_array_equal(np.sort(blocks.points[inside], axis=0), np.sort(points, axis=0))
    low, high = blocks.block_boxes.reshape(2, -1, 3)[:, : len(blocks.points), None]
    assert np.all(low <= blocks.points) and np.all(blocks.points <= high)
    np.testing.assert_array_equal(blocks.box, [points.min(axis=0), points.max(axis=0)])
    x = points[:1] + 0.1 * rng.standard_normal((5, 3))
    with jax.enable_x64(True):
        which, count = jax.device_put(blocks).near(jnp.asarray(x), 5.0, 1e-3)
    left_out = np.setdiff1d(np.arange(len(blocks.points)), np.asarray(which)[: int(count)])
    r2 = np.sum((blocks.points[left_out, :, None] - x) ** 2, axis=-1)
    assert len(left_out) and np.all(np.sum(r2 * np.exp(-r2 / (2 * 5.0**2)), axis=(0, 1)) <= 1e-3)


def test_a_smoother_metric_shares_the_blocks_and_other_data_do_not():
    data = od.datasets.sphere(3000, random_state=0)
    metric = od.LocalPCA(data)
    points = metric.prepared().blocks.points
    assert metric.smoother(2.0).prepared().blocks.points is points
    assert od.LocalPCA(data + 1.0).prepared().blocks.points is not points
    assert neighbourhood(metric.data[:500]) is None


def test_paths_among_many_data_are_those_of_the_full_sum(rng):
    """The same geodesics as on a metric that sums over all data at every point."""
    data = od.datasets.sphere(1500, random_state=0)
    metric = od.LocalPCA(data, 0.15, 0.05)
    full = od.MetricTensor(metric.tensor_at, 3)
    a, b = data[:4], data[4:8]
    path = od.shortest_path(metric, a, b)
    again = od.shortest_path(full, a, b, init=path)
    assert path.certified.all()
    np.testing.assert_allclose(path.length, again.length, rtol=1e-6)
    end = od.exp_map(metric, a, od.log_map(metric, a, b))
    np.testing.assert_allclose(end, b, atol=1e-3)


def test_the_data_of_a_metric_cannot_be_changed_behind_its_back(rng):
    data = rng.standard_normal((50, 2))
    metric = od.LocalPCA(data)
    with pytest.raises(ValueError, match="read-only"):
        metric.data[0] = 0.0
    data[0] = 0.0  # the caller's own array is the caller's


def test_a_metric_whose_rho_was_chosen_is_the_one_with_that_rho(rng):
    """Choosing ρ evaluates a metric; what that leaves in compiled code must not be taken for this
    one."""
    data = rng.standard_normal((100, 2))
    chosen = od.LocalPCA(data)
    given = od.LocalPCA(data, float(chosen.sigma), float(chosen.rho))
    np.testing.assert_array_equal(chosen.tensor(data), given.tensor(data))


@pytest.mark.parametrize("n", [90, 2000, 5000])
@pytest.mark.parametrize("stray", [np.nan, np.inf, -1e300, 1e12])
def test_a_point_that_is_nowhere_does_not_disturb_the_others(n, stray, rng):
    data = rng.standard_normal((n, 2))
    metric = od.LocalPCA(data, 0.3, 0.05).prepared()
    x, v = data[:20] + 0.1, rng.standard_normal((20, 2))
    lost = x.copy()
    lost[7] = stray
    with jax.enable_x64(True):
        alone, together = (jax.jit(block_form)(metric, points, v) for points in (x, lost))
    for a, b in zip(together, alone, strict=True):
        assert relative(np.delete(a, 7, axis=0), np.delete(b, 7, axis=0)) < 1e-9
