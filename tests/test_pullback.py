"""Pullback metrics: chords, ambient metrics, ridges, bounded memory, and what does not depend on
coordinates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import orthodrome as od
from orthodrome import elements
from orthodrome.discretisation import chords
from orthodrome.discretisation.jets import assemble
from orthodrome.metrics import pullback
from test_elements import assembled

SURFACE = od.Pullback(lambda x: jnp.concatenate([x, jnp.sin(x) @ jnp.ones((3, 2)), (x @ x)[None]]))


def bowl(x):
    return jnp.array([x[0], x[1], 0.7 * (x @ x)])


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_chords_have_the_derivatives_they_say(degree, rng):
    widths, nodes = jnp.array([0.1, 0.2, 0.4, 0.3]), rng.standard_normal((4 * degree + 1, 3))
    with jax.enable_x64(True):
        widths, nodes = jnp.asarray(widths, float), jnp.asarray(nodes)
        total = chords.assemble(SURFACE, nodes, widths, SURFACE, True)
        energy = lambda x: chords.assemble(SURFACE, x, widths, SURFACE, True).energy
        gradient, hessian = (jax.jit(f(energy))(nodes) for f in (jax.grad, jax.hessian))
        by_ends = chords.pull_at_ends(SURFACE, nodes, widths)
        ends = elements.gather(by_ends)
        np.testing.assert_allclose(ends, elements.gather(total.gradient)[::degree], atol=1e-10)
        roughly = chords.assemble(SURFACE, nodes, widths, SURFACE.rougher(), True)
        np.testing.assert_array_equal(roughly.gradient, total.gradient)
        assert (
            0 < np.abs(roughly.hessian - total.hessian).max() < 1e-5 * np.abs(total.hessian).max()
        )
        part = chords.assemble(SURFACE, nodes, widths, SURFACE, False)
        np.testing.assert_array_equal(part.hessian, part.laplacian)
        np.testing.assert_allclose(
            part.gradient[1:-1], total.gradient[1:-1], rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(part.laplacian, total.laplacian, rtol=1e-12, atol=1e-12)
    H, g = assembled(
        np.asarray(total.hessian), np.asarray(total.gradient).reshape(4, -1), degree, 3
    )
    B, _ = assembled(
        np.asarray(total.laplacian), np.asarray(total.gradient).reshape(4, -1), degree, 3
    )
    np.testing.assert_allclose(g, np.ravel(gradient[1:-1]), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(H, np.reshape(hessian[1:-1, :, 1:-1], H.shape), rtol=1e-7, atol=1e-8)
    assert np.linalg.eigvalsh(B)[0] > 0


def test_a_curve_in_pieces_that_fit_into_memory_has_the_same_derivatives(rng, monkeypatch):
    nodes, widths = rng.standard_normal((13, 3)), np.array([0.1, 0.2, 0.4, 0.3])
    found = []
    with jax.enable_x64(True):
        for numbers in (pullback.CHUNK, 6 * 3 * 7, 1):  # all four elements at once, two, one
            monkeypatch.setattr(pullback, "CHUNK", numbers)
            total = chords.assemble(SURFACE, jnp.asarray(nodes), jnp.asarray(widths), SURFACE, True)
            loads = np.asarray(total.gradient).reshape(4, -1)
            found.append((total.energy, *assembled(np.asarray(total.hessian), loads, 3, 3)))
    for other in found[1:]:
        for one, same in zip(other, found[0], strict=True):
            np.testing.assert_allclose(one, same, rtol=1e-10, atol=1e-10)


def test_a_map_that_single_precision_cannot_hold_is_followed_in_double():
    a, b = np.array([-1.0, 0.3]), np.array([0.8, 0.6])
    maps = [lambda x, k=k: jnp.exp(k + 0 * x[0]) * bowl(x) for k in (0.0, 92.0)]
    plain, huge = (od.shortest_path(od.Pullback(g), a, b, od.Energy()) for g in maps)
    assert huge.converged and np.isclose(huge.length, np.exp(92.0) * plain.length, rtol=1e-9)
    assert huge.iterations > plain.iterations


def test_the_maps_of_the_library_may_run_in_threads_and_those_of_users_may_not():
    decoder = od.models.networks.Mean(lambda x: x, np.zeros(2), np.ones(2))
    assert od.Pullback(decoder).concurrent and od.Pullback(decoder).rougher().concurrent
    assert not od.Pullback(bowl).concurrent and not od.Pullback(decoder, bowl).concurrent


def test_a_polylines_energy_is_the_sum_of_its_squared_chords(rng):
    nodes, h = rng.standard_normal((6, 2)), 1 / 5
    with jax.enable_x64(True):
        metric = od.Pullback(bowl)
        found = chords.assemble(metric, jnp.asarray(nodes), jnp.full(5, h), metric, True).energy
        images = jax.vmap(bowl)(jnp.asarray(nodes))
    assert np.isclose(found, np.sum(np.diff(images, axis=0) ** 2) / (2 * h), rtol=1e-13)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_energy_by_chords_has_order_2s(degree):
    """On a smooth curve, from one mesh to one twice as fine."""
    metric = od.Pullback(bowl)
    errors = []
    with jax.enable_x64(True):
        curve = lambda t: np.stack([np.sin(2 * t), t**2 - t], axis=-1)
        exact = assemble(
            metric,
            jnp.asarray(curve(elements.node_times(np.linspace(0, 1, 129), 4))),
            jnp.full(128, 1 / 128),
        ).energy
        for K in (8, 16):
            nodes = curve(elements.node_times(np.linspace(0, 1, K + 1), degree))
            energy = chords.assemble(
                metric, jnp.asarray(nodes), jnp.full(K, 1 / K), metric, True
            ).energy
            errors.append(float(abs(energy - exact)))
    assert errors[1] < errors[0] / 2 ** (2 * degree - 0.5)


def test_the_second_variation_without_third_derivatives_is_the_same():
    """Along a geodesic the two densities differ by what cancels: the same quadratic form, up to
    quadrature."""
    metric = od.Pullback(bowl)
    path = od.shortest_path(metric, [-1.0, 0.4], [1.1, 0.5], solver=od.Energy())
    panels = 400
    t = (np.arange(panels) + 0.5) / panels
    widths = np.full(panels, 1 / panels)
    eta = np.stack(
        [
            np.sin(np.pi * np.arange(panels + 1) / panels),
            np.sin(3 * np.arange(panels + 1) * np.pi / panels),
        ],
        1,
    )
    forms = []
    with jax.enable_x64(True):
        for density in (metric.jet_along, metric.variation_along):
            H = elements.second_variation(
                density(jnp.asarray(path(t)), jnp.asarray(path.velocity(t))), jnp.asarray(widths)
            )
            local = np.concatenate([eta[:-1], eta[1:]], axis=1)
            forms.append(np.einsum("ki,kij,kj->", local, H, local))
    assert np.isclose(*forms, rtol=1e-4) and forms[0] > 0


# --- ambient metrics and ridges ---


def test_constant_weights_are_a_stretched_output(rng):
    weights = np.array([4.0, 1.0, 9.0])
    stretched = od.Pullback(lambda x: jnp.sqrt(weights) * bowl(x))
    weighted = od.Pullback(bowl, ambient=weights)
    a, b = rng.standard_normal((2, 4, 2))
    np.testing.assert_allclose(weighted.tensor(a), stretched.tensor(a), rtol=1e-12)
    np.testing.assert_allclose(
        weighted.acceleration(a, b), stretched.acceleration(a, b), rtol=1e-10
    )
    np.testing.assert_allclose(
        od.distance(weighted, a, b), od.distance(stretched, a, b), rtol=1e-10
    )


def test_an_ambient_metric_gives_the_geodesics_of_the_tensor_it_makes(rng):
    """Against the same metric written as a tensor: J' A J, by an independent formula for its
    acceleration."""
    data = rng.standard_normal((60, 3))
    ambient = od.LocalPCA(data, 0.8, 0.1)
    spread = lambda x: 0.3 + 0.1 * jnp.sin(bowl(x))
    for std in (None, spread):
        metric = od.Pullback(bowl, std, ambient=ambient, ridge=0.01)

        def tensor(x, std=std):
            A = ambient.tensor_at(bowl(x))
            parts = [jax.jacfwd(g)(x) for g in (bowl, std) if g]
            return sum(J.T @ A @ J for J in parts) + 0.01 * jnp.eye(2)

        plain = od.MetricTensor(tensor, 2)
        x, v = rng.standard_normal((2, 5, 2))
        np.testing.assert_allclose(metric.tensor(x), plain.tensor(x), rtol=1e-10)
        np.testing.assert_allclose(metric.inner(x, v, x), plain.inner(x, v, x), rtol=1e-10)
        np.testing.assert_allclose(
            metric.acceleration(x, v), plain.acceleration(x, v), rtol=1e-8, atol=1e-10
        )


def test_a_path_under_an_ambient_metric_is_certified(rng):
    metric = od.Pullback(
        bowl, ambient=od.LocalPCA(rng.standard_normal((60, 3)), 0.8, 0.1), ridge=0.01
    )
    path = od.shortest_path(metric, [-0.5, 0.2], [0.6, 0.4], solver=od.Energy())
    assert path.certified and path.residual < 1e-4


def test_a_ridge_makes_a_flat_direction_cost_something():
    flat = lambda x: jnp.array([x[0], 0.0, 0.0])
    with pytest.raises(ValueError, match="positive definite"):
        od.distance(od.Pullback(flat), [0.0, 0.0], [1.0, 1.0])
    metric = od.Pullback(flat, ridge=0.25)
    np.testing.assert_allclose(metric.tensor([0.0, 0.0]), [[1.25, 0.0], [0.0, 0.25]])
    assert np.isclose(od.distance(metric, [0.0, 0.0], [1.0, 1.0]), np.sqrt(1.5))
    np.testing.assert_array_equal(
        od.Pullback(bowl, ridge=0.0).tensor([0.3, 0.4]), od.Pullback(bowl).tensor([0.3, 0.4])
    )


@pytest.mark.parametrize(
    ("match", "call"),
    [
        ("positive", lambda: od.Pullback(bowl, ambient=[1.0, 0.0, 1.0])),
        ("diagonal tensor", lambda: od.Pullback(bowl, ambient=SURFACE)),
        ("ambient measures 2", lambda: od.Pullback(bowl, ambient=[1.0, 2.0]).tensor([0.0, 0.0])),
        ("ridge", lambda: od.Pullback(bowl, ridge=-1.0)),
        ("only 2 outputs", lambda: od.Pullback(lambda x: x[:2]).tensor([0.0, 0.0, 0.0])),
    ],
)
def test_bad_settings_are_refused(match, call):
    with pytest.raises((ValueError, TypeError), match=match):
        call()


# --- size ---

D, WIDTH, LATENT = 100_000, 16, 50


class Large:
    """A decoder of fifty latent and a hundred thousand output dimensions."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.inner, self.outer = (
            rng.standard_normal((WIDTH, LATENT)) / 7,
            rng.standard_normal((D, WIDTH)) / 300,
        )

    def __call__(self, x):
        return jnp.tanh(jnp.asarray(self.outer) @ jnp.tanh(jnp.asarray(self.inner) @ x))


def compiled(function, *shapes):
    with jax.enable_x64(True):
        return (
            jax.jit(function)
            .lower(*(jax.ShapeDtypeStruct(shape, jnp.float64) for shape in shapes))
            .compile()
        )


def test_fifty_latent_and_a_hundred_thousand_output_dimensions_need_no_tensor_of_third_order():
    metric = od.Pullback(Large())
    jacobian, too_much = 8 * D * LATENT, 8 * D * LATENT**2
    programs = {
        "tensor": (metric.tensor_at, (LATENT,)),
        "acceleration": (metric.acceleration_at, (LATENT,), (LATENT,)),
        "many accelerations": (
            lambda x, v: metric.motion_along(x, v)[0],
            (128, LATENT),
            (128, LATENT),
        ),
        "energy": (lambda n, w: chords.assemble(metric, n, w, metric, True), (33, LATENT), (16,)),
        "second variation": (metric.variation_along, (16, LATENT), (16, LATENT)),
    }
    for name, (function, *shapes) in programs.items():
        used = compiled(function, *shapes).memory_analysis().temp_size_in_bytes
        assert used < min(20 * jacobian, too_much / 2), f"{name}: {used / jacobian:.1f} Jacobians"


def test_memory_is_bounded_by_the_widest_layer_and_not_by_the_outputs():
    """Layers much wider than the output: all nodes of a curve at once would take gigabytes."""
    inner, outer = (
        np.random.default_rng(0).standard_normal(shape) / 10 for shape in ((2**17, 10), (50, 2**17))
    )
    metric = od.Pullback(jax.jit(lambda x: outer @ jnp.tanh(inner @ x)))
    assert pullback.widest(metric.embed_at, 10) >= 2**17
    energy = lambda nodes, widths: chords.assemble(metric, nodes, widths, metric, True)
    used = compiled(energy, (65, 10), (32,)).memory_analysis().temp_size_in_bytes
    assert used < 40 * 8 * 2**17 * 10


def test_the_widest_layer_is_one_that_depends_on_the_point():
    W, V = np.ones((300, 4)), np.ones((7, 300))

    def network(x):
        layer = jax.jit(lambda W, x: jnp.tanh(x @ W.T))
        hidden = jax.lax.cond(
            x[0] > 0, lambda: layer(jnp.asarray(W), x), lambda: jnp.zeros(300, x.dtype)
        )
        return hidden @ jnp.swapaxes(jnp.asarray(V), 0, 1)

    assert pullback.widest(network, 4) == 300
    assert pullback.widest(lambda x: jnp.outer(network(x), x).sum(axis=1), 4) == 300
    assert pullback.widest(lambda x: jnp.outer(jnp.tile(x, 20), x).sum(axis=1), 4) == 320


def test_an_acceleration_costs_d_passes_the_values_own_and_one_of_second_order():
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape) / 10 for shape in ((200, 10), (200, 200), (784, 200))]

    def decoder(x):
        for W in weights:
            x = jnp.tanh(W @ x)
        return x

    flops = lambda f, *shapes: compiled(f, *shapes).cost_analysis()["flops"]
    forward = flops(decoder, (10,))
    solving = 2 * 784 * 10 * 10  # the product JᵀJ is no pass
    cost = (flops(od.Pullback(decoder).acceleration_at, (10,), (10,)) - solving) / forward
    assert cost < 1.05 * (10 + 1 + 2)  # a second-order pass is two of first order


# --- what does not depend on coordinates ---


def test_distances_do_not_depend_on_the_coordinates_of_the_latent_space(rng):
    weights = [
        rng.standard_normal(shape) * s
        for shape, s in (((12, 2), 0.5), ((12, 12), 0.3), ((5, 12), 0.4))
    ]

    def decoder(z):
        for W in weights:
            z = jnp.tanh(W @ z)
        return z

    turn, wave = rng.standard_normal((2, 2, 2))
    change = lambda u: (
        u
        + 0.2 * jnp.tanh(turn @ u) / np.linalg.norm(turn, 2)
        + 0.3 * jnp.sin(wave @ u) / np.linalg.norm(wave, 2)
    )
    u, w = rng.standard_normal((2, 4, 2))
    with jax.enable_x64(True):
        a, b = (np.asarray(jax.vmap(change)(jnp.asarray(p))) for p in (u, w))
    solver = od.Auto(rtol=1e-8)
    one = od.distance(od.Pullback(decoder), a, b, solver=solver)
    other = od.distance(od.Pullback(lambda x: decoder(change(x))), u, w, solver=solver)
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_relu_decoder_has_paths_by_chords_and_no_certificate_it_does_not_deserve(rng):
    """The metric leaps at the kinks, and the geodesic equation says nothing there; the chords still
    go down."""
    W, V = rng.standard_normal((24, 2)), rng.standard_normal((5, 24)) / 5
    metric = od.Pullback(lambda x: V @ jax.nn.relu(W @ x + 0.3), ridge=1e-3)
    a, b = np.array([-1.0, -0.7]), np.array([1.0, 0.8])
    path = od.shortest_path(metric, a, b, solver=od.Energy(elements=64, degree=1))
    t = np.linspace(0, 1, 2001)
    images = np.maximum((path(t) @ W.T) + 0.3, 0) @ V.T
    straight = np.maximum(((a + t[:, None] * (b - a)) @ W.T) + 0.3, 0) @ V.T
    length = lambda y: np.linalg.norm(np.diff(y, axis=0), axis=1).sum()
    assert length(images) < length(straight) and not path.certified


def test_no_shorter_path_is_missed_beside_bumps_that_a_straight_start_would_go_over():
    rng = np.random.default_rng(1)
    centers, heights = rng.uniform(-1, 1, (6, 2)), rng.uniform(0.4, 1.2, 6)
    steepness = rng.uniform(2, 8, 6)

    def bumps(x):
        return jnp.append(
            x, jnp.sum(heights * jnp.exp(-steepness * jnp.sum((x - centers) ** 2, axis=1)))
        )

    def tensor(x):
        J = jax.jacfwd(bumps)(x)
        return J.T @ J

    a, b = rng.uniform(-1.5, 1.5, (2, 150, 2))[:, 30:60]
    by_map = od.distance(od.Pullback(bumps), a, b)
    by_tensor = od.distance(od.MetricTensor(tensor, dim=2), a, b)
    assert np.all(by_map <= (1 + 1e-3) * by_tensor)
