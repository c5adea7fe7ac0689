"""The variational autoencoder: it learns, is uncertain away from data, can be saved, and gives a
metric."""

import signal

import jax
import numpy as np
import pytest
from sklearn.base import clone

import orthodrome as od
from orthodrome.models import training, vae

QUICK = {"epochs": 150, "patience": 40, "random_state": 0}


@pytest.fixture(scope="module")
def half_sphere():
    return od.datasets.half_sphere(600, random_state=0)


@pytest.fixture(scope="module")
def model(half_sphere):
    return od.models.VAE(**QUICK).fit(half_sphere)


def test_it_reconstructs_what_it_has_seen_far_better_than_the_mean_does(model, half_sphere):
    off = half_sphere - model.decode(model.encode(half_sphere))
    assert np.sqrt(np.mean(off**2)) < 0.25 * half_sphere.std()
    assert model.encode(half_sphere).shape == (600, 2)


def test_both_latent_directions_are_used(model, half_sphere):
    assert np.all(model.encode(half_sphere).std(axis=0) > 0.5)


def test_rbf_deviations_are_the_noise_at_the_data_and_grow_away_from_them(model, half_sphere):
    z = model.encode(half_sphere)
    _, near = model.decode(z, return_std=True)
    _, far = model.decode(10 * z, return_std=True)
    off = np.abs(half_sphere - model.decode(z)).mean()
    assert 0.5 * off < near.mean() < 4 * off
    scale = (half_sphere.max(axis=0) - half_sphere.min(axis=0)) / 2
    # far_std = 5 times half the range
    np.testing.assert_allclose(far.max(axis=0), 5 * scale, rtol=1e-3)
    assert np.median(far / near) > 20


def test_the_metric_is_the_papers(model, half_sphere):
    """JμᵀJμ + JσᵀJσ by differences of `decode`."""
    z, h = model.encode(half_sphere[:3]), 1e-6
    metric = model.metric()
    for point in z:
        steps = [model.decode([point + h * e, point - h * e], return_std=True) for e in np.eye(2)]
        J = [
            np.stack([(pair[0] - pair[1]) / (2 * h) for pair in column], axis=1)
            for column in zip(*steps, strict=True)
        ]
        np.testing.assert_allclose(metric.tensor(point), J[0].T @ J[0] + J[1].T @ J[1], rtol=1e-5)


@pytest.fixture(scope="module")
def pairs(model, half_sphere):
    """One latent point and three that are not far from it."""
    z = model.encode(half_sphere)
    return z[0], z[np.argsort(np.linalg.norm(z - z[0], axis=1))[[20, 40, 80]]]


@pytest.fixture(scope="module")
def reference(model, pairs):
    path = od.shortest_path(model.metric(), *pairs, solver=od.Auto(effort=1))
    assert path.certified.all()
    return path.length


@pytest.mark.parametrize(
    "solver", [od.Energy(), od.FixedPoint(tol=1e-6), od.Collocation()], ids=repr
)
def test_every_solver_runs_on_the_latent_space(model, pairs, reference, solver):
    path = od.shortest_path(model.metric(), *pairs, solver=solver)
    assert path.converged.all()
    np.testing.assert_allclose(path.length, reference, rtol=1e-3)


def test_the_same_seed_gives_the_same_model_and_another_gives_another(half_sphere):
    fit = lambda seed: (
        od.models.VAE(epochs=20, random_state=seed).fit(half_sphere).decode([0.1, 0.2])
    )
    np.testing.assert_array_equal(fit(3), fit(3))
    assert not np.array_equal(fit(3), fit(4))


def test_training_does_not_depend_on_the_callers_jax_configuration(half_sphere):
    settings = {"epochs": 10, "random_state": 0, "variance": None}
    outside = od.models.VAE(**settings).fit(half_sphere).decode([0.1, 0.2])
    with jax.enable_x64(True):
        inside = od.models.VAE(**settings).fit(half_sphere).decode([0.1, 0.2])
    np.testing.assert_array_equal(outside, inside)


def test_moving_and_stretching_the_data_moves_and_stretches_the_model(half_sphere, model):
    stretched = od.models.VAE(**QUICK).fit(half_sphere * [10.0, 1.0, 100.0] + 5)
    np.testing.assert_allclose(
        stretched.decode([0.1, 0.2]), model.decode([0.1, 0.2]) * [10.0, 1.0, 100.0] + 5, rtol=1e-2
    )


@pytest.mark.parametrize("variance", ["rbf", "network", None])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_it_comes_back_from_its_file_as_it_was(tmp_path, likelihood, variance, half_sphere):
    data = (half_sphere > 0).astype(float) if likelihood == "bernoulli" else half_sphere
    model = od.models.VAE(
        3, [8], "tanh", None, likelihood, variance, epochs=20, random_state=np.int64(0)
    ).fit(data)
    model.save(tmp_path / "model.safetensors")
    again = od.models.VAE.load(tmp_path / "model.safetensors")
    assert again.get_params()["hidden"] == [8] and again.n_features_in_ == 3
    z = model.encode(data[:5])
    np.testing.assert_array_equal(again.encode(data[:5]), z)
    np.testing.assert_array_equal(again.decode(z), model.decode(z))
    np.testing.assert_array_equal(again.metric().tensor(z), model.metric().tensor(z))
    assert (likelihood == "gaussian") or np.all((model.decode(z) > 0) & (model.decode(z) < 1))
    if variance is None:
        with pytest.raises(ValueError, match="no standard deviation"):
            model.decode(z, return_std=True)


def test_early_stopping_keeps_the_best_networks(half_sphere):
    model = od.models.VAE(
        epochs=400, patience=30, learning_rate=0.03, random_state=0, variance=None
    ).fit(half_sphere)
    history = model.history_["mean"]
    assert history.epoch[-1] < 400 and "no progress for 30" in history.reason
    best = int(np.argmin(history.validation))
    assert history.epoch[-1] - history.epoch[best] == 30


def test_ctrl_c_keeps_what_is_best_so_far_and_a_warm_start_goes_on(half_sphere, monkeypatch):
    looked = []

    def stop(*args):
        looked.append(args)
        if len(looked) == 3:
            signal.raise_signal(signal.SIGINT)
        return original(*args)

    original = training._validate
    monkeypatch.setattr(training, "_validate", stop)
    # a process in the background may have been told to ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = od.models.VAE(epochs=100, random_state=0, variance=None)
    with pytest.warns(od.ConvergenceWarning, match="ended after 20 epochs: interrupted"):
        model.fit(half_sphere)
    assert (
        model.history_["warm-up"].reason == training.INTERRUPTED
        and not model.history_["mean"].epoch
    )
    before = np.mean((half_sphere - model.decode(model.encode(half_sphere))) ** 2)
    model.set_params(warm_start=True, epochs=60).fit(half_sphere)
    assert np.mean((half_sphere - model.decode(model.encode(half_sphere))) ** 2) < before


def test_progress_goes_to_standard_error_and_only_if_asked_for(half_sphere, capfd):
    od.models.VAE(epochs=10, variance=None).fit(half_sphere)
    assert capfd.readouterr() == ("", "")
    od.models.VAE(epochs=10, variance=None, verbose=True).fit(half_sphere)
    out, err = capfd.readouterr()
    assert out == "" and "mean" in err and "loss" in err


def test_it_is_a_scikit_learn_estimator(half_sphere, model):
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(model.transform(half_sphere[:2]), model.encode(half_sphere[:2]))
    np.testing.assert_array_equal(model.inverse_transform([0.1, 0.2]), model.decode([0.1, 0.2]))
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.encode(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="not fitted yet"):
        od.models.VAE().encode(half_sphere)


@pytest.mark.parametrize(
    ("match", "settings"),
    [
        ("latent_dim", {"latent_dim": 0}),
        ("a size in hidden", {"hidden": (16, 0)}),
        ("activation should be one of", {"activation": "swoosh"}),
        ("likelihood should be one of", {"likelihood": "poisson"}),
        ("variance should be one of", {"variance": "rfb"}),
        ("output of a Bernoulli", {"likelihood": "bernoulli", "output": "tanh"}),
        (r"needs data in \[0, 1\]", {"likelihood": "bernoulli"}),
        ("validation_fraction", {"validation_fraction": 1.0}),
        ("learning_rate", {"learning_rate": -1.0}),
    ],
)
def test_bad_settings_are_refused_before_anything_is_trained(match, settings, half_sphere):
    with pytest.raises((ValueError, TypeError), match=match):
        od.models.VAE(**settings).fit(half_sphere)


def test_a_training_that_diverges_says_so(half_sphere):
    with pytest.raises(ValueError, match="failed.*learning_rate"):
        od.models.VAE(learning_rate=1e30, epochs=20, random_state=0).fit(half_sphere)


def test_other_files_are_refused(tmp_path, model):
    with pytest.raises(ValueError, match=r"\.safetensors"):
        model.save(tmp_path / "model.npz")
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="written by VAE.save"):
        od.models.VAE.load(tmp_path / "x.safetensors")
    with pytest.raises(FileNotFoundError):
        od.models.VAE.load(tmp_path / "nowhere.safetensors")


def test_bumps_cover_the_codes_and_clusters_of_one_point_are_not_spikes():
    codes = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)), [[30.0, 30.0]]])
    centers, decays = vae.bumps(codes, 8, 0)
    assert (
        len(centers) == 8 and np.all(np.isfinite(decays)) and decays.max() < 100 * np.median(decays)
    )
    heights = np.exp(-decays * ((codes[:, None] - centers) ** 2).sum(-1)).max(axis=1)
    assert heights.min() > 0.1
    same, flat = vae.bumps(np.ones((5, 2)), 8, 0)
    assert len(same) == 1 and np.isfinite(flat).all()
