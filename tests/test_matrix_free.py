"""Newton's method without matrices against the same with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome import elements
from orthodrome.discretisation import MANY, matrix_free
from orthodrome.discretisation.jets import assemble
from orthodrome.discretisation.matrix_free import MatrixFree
from orthodrome.solvers.descent import descend


def curve(degree, rng, bend=0.3):
    """A metric in five dimensions and a curve on it that is no geodesic."""
    points = od.datasets.semicircle_in(5, 120, random_state=1)
    widths = np.array([0.1, 0.15, 0.3, 0.2, 0.05, 0.1, 0.05, 0.05])
    times = elements.node_times(np.concatenate([[0.0], np.cumsum(widths)]), degree)[:, None]
    nodes = (
        points[0]
        + times * (points[1] - points[0])
        + bend * np.sin(np.pi * times) * rng.standard_normal(5)
    )
    return od.LocalPCA(points, 0.5, 0.05), jnp.asarray(nodes), jnp.asarray(widths)


def explore(metric, nodes, widths):
    return MatrixFree().explore(metric, nodes, widths, curved=True, precise=True)


@pytest.mark.parametrize("degree", [1, 3])
def test_the_energy_among_variations_is_the_one_of_the_elements(degree, rng):
    with jax.enable_x64(True):
        problem = curve(degree, rng)
        space, total = explore(*problem), assemble(*problem)
        np.testing.assert_allclose(space.energy, total.energy, rtol=1e-12)
        for u in jnp.eye(matrix_free.MOST)[:4]:
            step = space.nodes(u)
            np.testing.assert_allclose(step[jnp.array([0, -1])], 0.0, atol=1e-13)
            np.testing.assert_allclose(total.stride(step), space.stride(u), rtol=1e-9)
            np.testing.assert_allclose(total.slope(step), space.slope(u), rtol=1e-8, atol=1e-11)
            curvature = elements.inner(elements.times(total.hessian, step), step)
            np.testing.assert_allclose(curvature, u @ space.matrix @ u, rtol=1e-8)


@pytest.mark.parametrize("degree", [1, 3])
def test_its_step_is_newtons_up_to_the_generic_share(degree, rng):
    with jax.enable_x64(True):
        problem = curve(degree, rng, bend=0.05)
        space, total = explore(*problem), assemble(*problem)
        mine, pivot = space.solve(0.0, 0.0)
        newton, sure = total.solve(0.0, jnp.zeros_like(total.gradient))
        assert pivot > 0
        assert sure > 0
        assert total.stride(space.nodes(mine) - newton) < matrix_free.GENERIC * total.stride(newton)
        np.testing.assert_allclose(
            space.slope(mine), total.slope(newton), rtol=2 * matrix_free.GENERIC**2
        )


def test_both_see_whether_the_second_variation_is_positive(rng):
    positive = []
    with jax.enable_x64(True):
        for bend in (0.1, 0.5, 1.0, 2.0):
            problem = curve(1, rng, bend)
            models = explore(*problem), assemble(*problem)
            positive += [
                [bool(m.solve(damping, 0.0)[1] > 0) for m in models]
                for damping in (0.0, 0.1, 1.0, 10.0)
            ]
    mine, sure = np.transpose(positive)
    np.testing.assert_array_equal(mine, sure)
    assert mine.any()
    assert not mine.all()


def hill():
    """Two flat sheets of data around an empty hill in 32 dimensions, and a straight way over its
    top."""
    rng = np.random.default_rng(0)
    ring = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    points = np.zeros((120, MANY))
    points[:60, :2] = np.stack([np.cos(ring), np.sin(ring)], axis=1)
    points[60:] = points[:60] + 0.01 * rng.standard_normal((60, MANY))
    metric = od.LocalPCA(points, 0.25, 1e-3)
    ends = np.zeros((2, 1, MANY))
    ends[0, 0, 0], ends[1, 0, 0] = -1.0, 1.0
    return metric, *ends


def test_a_saddle_is_left_and_never_certified():
    """Straight through the middle of a ring: a geodesic by symmetry, or nearly so, and not a
    shortest path."""
    metric, a, b = hill()
    breaks = np.linspace(0, 1, 33)[None]
    straight = a[:, None] + breaks[..., None] * (b - a)[:, None]
    found = descend(metric, straight, breaks, 1e-8, 300)
    path = od.shortest_path(metric, a[0], b[0])
    assert found.bent[0]
    assert path.certified
    assert (
        path.length
        < 0.9 * metric.norm(straight[0], np.broadcast_to(b - a, straight[0].shape)).mean()
    )
    np.testing.assert_allclose(np.sqrt(2 * found.energy), path.length, rtol=0.02)


class WithMatrices(od.LocalPCA):
    """The same metric, which does not say that it is diagonal."""

    diagonal = False


def test_auto_finds_the_same_with_and_without_matrices():
    """1500 data are more than one block: then the sums over the data are loops."""
    points = od.datasets.semicircle_in(MANY, 1500, random_state=0)
    a, b = points[:3], points[3:6]
    mine, info = od.distance(od.LocalPCA(points, 1.2, 0.01), a, b, return_info=True)
    assert info.certified.all()
    by_elimination = od.distance(WithMatrices(points, 1.2, 0.01), a, b)
    np.testing.assert_allclose(mine, by_elimination, rtol=1e-5)
    assert np.any(mine != by_elimination)
