"""Elements: the derivatives of the energy are its derivatives, chains of elements are solved,
orders are as derived."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome import elements, elimination
from orthodrome.discretisation.jets import assemble
from orthodrome.solvers.descent import descend, smooth
from problems import problem


def assembled(blocks, loads, degree, d):
    """The chain's whole matrix and right-hand side, without the ends."""
    K = len(blocks)
    H, g = np.zeros(((K * degree + 1) * d,) * 2), np.zeros((K * degree + 1) * d)
    for k in range(K):
        nodes = [*range(k * degree + 1, k * degree + degree), k * degree, k * degree + degree]
        index = np.concatenate([np.arange(n * d, n * d + d) for n in nodes])
        H[np.ix_(index, index)] += blocks[k]
        g[index] += loads[k]
    return H[d:-d, d:-d], g[d:-d]


@pytest.mark.parametrize(
    "K, degree, d",
    [
        (2, 1, 2),
        (4, 3, 2),
        (32, 1, 3),
        (16, 3, 5),
        (8, 2, 1),
        (5, 1, 2),
        (1, 3, 2),
        (64, 1, 9),
        (16, 4, 8),
    ],
)
@pytest.mark.parametrize("shift", [0.0, -30.0])
def test_a_chain_of_elements_is_solved_and_its_definiteness_seen(rng, K, degree, d, shift):
    m = (degree + 1) * d
    blocks = rng.standard_normal((K, m, m))
    blocks = (
        blocks @ blocks.swapaxes(1, 2) + 0.1 * np.eye(m) + shift * rng.random((K, 1, 1)) * np.eye(m)
    )
    loads = rng.standard_normal((K, m))
    H, g = assembled(blocks, loads, degree, d)
    with jax.enable_x64(True):
        found = elimination.solve(jnp.asarray(blocks), jnp.asarray(loads), d)
    inner, nodes, pivot = map(np.asarray, found)
    found = np.concatenate([nodes[:-1, None], inner.reshape(K, -1, d)], axis=1).reshape(-1, d)[1:]
    np.testing.assert_allclose(found.ravel(), np.linalg.solve(H, g), rtol=1e-6, atol=1e-9)
    assert (pivot > 0) == (np.linalg.eigvalsh(H)[0] > 0)


def test_an_ill_conditioned_system_is_solved_to_all_digits(rng):
    turn, _ = np.linalg.qr(rng.standard_normal((8, 8)))
    A = (turn * np.logspace(-12, 0, 8)) @ turn.T
    b = A @ rng.standard_normal(8)
    with jax.enable_x64(True):
        x, pivot = map(
            np.asarray, elimination.solve_dense(jnp.asarray((A + A.T) / 2), jnp.asarray(b))
        )
    assert pivot > 0 and np.linalg.norm(A @ x - b) < 1e-14 * np.linalg.norm(x)


METRICS = {
    "LocalPCA": lambda: od.LocalPCA(od.datasets.sphere(50, random_state=0), 0.4, 0.02),
    "Pullback": lambda: od.Pullback(
        lambda x: jnp.concatenate([x, jnp.sin(x) @ jnp.ones((3, 2)), (x @ x)[None]])
    ),
    "MetricTensor": lambda: od.MetricTensor(
        lambda x: jnp.eye(3) + jnp.outer(jnp.sin(x), jnp.sin(x)), 3
    ),
}


@pytest.mark.parametrize("name", METRICS)
def test_jets_are_the_derivatives_of_the_energy(name, rng):
    metric = METRICS[name]()
    with jax.enable_x64(True):
        x, v = map(jnp.asarray, rng.standard_normal((2, 3)))
        energy = lambda x, v: 0.5 * metric.inner_at(x, v, v)
        both, slopes = (jax.jit(f(energy, (0, 1)))(x, v) for f in (jax.hessian, jax.grad))
        jet, lowered = metric.jet_at(x, v), metric.lower_at(x, v)
        raised = metric.raise_at(x, lowered)
        expected = [energy(x, v), *slopes, both[0][0], both[0][1], both[1][1]]
    for mine, true in zip(jet, expected, strict=True):
        np.testing.assert_allclose(mine, true, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(raised, v, rtol=1e-10)
    np.testing.assert_allclose(lowered, jet.v, rtol=1e-10)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_gradient_and_hessian_are_the_derivatives_of_the_sum(degree, rng):
    metric = METRICS["LocalPCA"]()
    widths = np.array([0.1, 0.2, 0.4, 0.3])
    nodes = rng.standard_normal((4 * degree + 1, 3))
    with jax.enable_x64(True):
        total = assemble(metric, jnp.asarray(nodes), jnp.asarray(widths))
        energy = lambda x: assemble(metric, x, jnp.asarray(widths)).energy
        gradient, hessian = (
            jax.jit(f(energy))(jnp.asarray(nodes)) for f in (jax.grad, jax.hessian)
        )
    H, g = assembled(
        np.asarray(total.hessian), np.asarray(total.gradient).reshape(4, -1), degree, 3
    )
    n = H.shape[0]
    np.testing.assert_allclose(g, np.ravel(gradient[1:-1]), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(H, np.reshape(hessian[1:-1, :, 1:-1], (n, n)), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_ends_of_the_elements_have_order_twice_the_degree(degree):
    """Minimising the energy is Gauss collocation: compare positions and velocities with a known
    geodesic."""
    p = problem("half-space", 2)
    exact = od.shortest_path(p.metric, p.start, p.end, od.Auto(rtol=1e-10))
    errors = []
    for K in (4, 8):
        breaks = np.broadcast_to(np.linspace(0, 1, K + 1), (len(p.start), K + 1))
        begin = exact(elements.node_times(breaks[0], degree))
        curve = smooth(p.metric, descend(p.metric, begin, breaks, 1e-14, 50).nodes, breaks)
        errors.append(
            [
                np.abs(curve.evaluate(breaks[0], k) - exact.curve.evaluate(breaks[0], k)).max()
                for k in (0, 1)
            ]
        )
    order = np.log2(np.array(errors[0]) / errors[1])
    assert np.all(order > 2 * degree - 0.7), order
