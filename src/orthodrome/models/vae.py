"""The variational autoencoder of Sec. 4.2: learn a latent space, and the metric that the decoder
gives it."""

import dataclasses
import numbers
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted, validate_data

from orthodrome import _boundary
from orthodrome._types import AnyArray, Array, ArrayLike, JaxArray, PyTree, RandomState
from orthodrome.metrics import Pullback
from orthodrome.models import files, losses, training
from orthodrome.models.networks import ACTIVATIONS, MLP, Encoder, Mean, NetworkStd, RBFStd
from orthodrome.progress import bars

REACH = 2.0
"""The bumps of the precision decay over so many times their cluster's mean spread: neighbouring
ones should overlap."""

WARM_UP = (("warm-up", 0.1), ("mean", 1.0))
"""Shares of the divergence in the loss, one training after the other. With all of it from the
start, networks that have learned nothing yet give up the latent space and never come back."""

FIRST_LOG_STD = -1.0
"""Of the decoder before training, in units of half the data's range."""

ROWS = 256
"""Rows that go through a network at once."""


class VAE(TransformerMixin, BaseEstimator):
    """A variational autoencoder, a scikit-learn estimator whose `metric()` measures its latent
    space.

    The decoder's mean is trained first, together with the encoder, with one variance for
    everything; then, with both held fixed, the variance as a function of the latent point. With
    `variance="rbf"` that grows away from the data (`networks.RBFStd`), so that shortest paths stay
    near them.

    Data of any range go in: inside they are moved into the box [−1, 1] (`output="tanh"`), and come
    out in their units.
    """

    def __init__(
        self,
        latent_dim: int = 2,
        hidden: Sequence[int] = (16, 16),
        activation: str = "softplus",
        output: str | None = None,
        likelihood: str = "gaussian",
        variance: str | None = "rbf",
        *,
        centers: int = 64,
        far_std: float = 5.0,
        kl_weight: float = 1.0,
        epochs: int = 1000,
        batch_size: int = 128,
        learning_rate: float = 3e-3,
        patience: int = 100,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        verbose: bool = False,
        random_state: RandomState = None,
    ) -> None:
        """Settings only; `fit` checks them.

        latent_dim: coordinates of the latent space.
        hidden: sizes of the decoder's hidden layers; the encoder has them in reverse.
        activation: of the hidden layers: softplus, tanh, elu, silu, gelu, relu, sigmoid.
        output: of the decoder's last layer: tanh or linear; sigmoid for a Bernoulli likelihood.
        likelihood: gaussian, or bernoulli for data in [0, 1].
        variance: of the decoder: rbf, network, or None for a deterministic one.
        centers: bumps of the RBF network, at most.
        far_std: the standard deviation far from all data, in the networks' units: half the data's
            range (tanh), their standard deviation (linear), one (Bernoulli). If it is large,
            shortest paths stay among the data.
        kl_weight: of the divergence between posterior and prior in the loss; 1 is the evidence
        lower bound.
        epochs, batch_size, learning_rate: of Adam, for each of the three trainings (`history_`): a
            warm-up with a tenth of the divergence, the mean, the variance.
        patience: epochs without progress on the data kept aside, a share `validation_fraction`,
        after which it ends.
        warm_start: begin with the encoder and the mean of the last `fit`.
        verbose: show progress: bars, or lines in a file.
        random_state: a number for repeatable results.
        """
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.activation = activation
        self.output = output
        self.likelihood = likelihood
        self.variance = variance
        self.centers = centers
        self.far_std = far_std
        self.kl_weight = kl_weight
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    # --- learning ---

    def fit(self, X: ArrayLike, y: object = None) -> "VAE":
        """Learn from data (n, D). Ctrl-C ends the training early and keeps what is best so far."""
        output = self._require_settings()
        x: Array = validate_data(
            self, _boundary.detached(X, "X"), dtype=np.float64, ensure_min_samples=2
        )
        center, scale = self._units(x, output)
        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        schedule = training.Schedule(
            self.epochs, self.batch_size, self.learning_rate, self.patience
        )
        with jax.enable_x64(False), bars(self.verbose) as begin:
            keys = jax.random.split(jax.random.key(seed), 5)
            rows = jnp.asarray((x - center) / scale, jnp.float32)
            order = jax.random.permutation(keys[0], len(x))
            n_aside = min(max(1, round(self.validation_fraction * len(x))), len(x) - 1)
            data = rows[order[n_aside:]], rows[order[:n_aside]]

            networks = self._first_networks(keys[1], x.shape[1], output)
            loss = losses.gaussian if self.likelihood == "gaussian" else losses.bernoulli
            self.history_ = {}
            for what, share in WARM_UP:
                weight = jnp.asarray(share * self.kl_weight, jnp.float32)
                keys = jax.random.split(keys[-1], 5)
                networks, history = training.minimise(
                    loss, networks, weight, data, keys[2], schedule, begin(what)
                )
                _require_success(what, history)
                self.history_[what] = history
                schedule = _after(history, schedule)

            std = None
            if self.variance is not None:
                std = self._first_std(keys[3], networks, data[0], seed)
                held = networks, std
                learned, history = training.minimise(
                    losses.variance, std.learned, held, data, keys[4], schedule, begin("variance")
                )
                _require_success("variance", history)
                self.history_["variance"] = history
                std = dataclasses.replace(std.with_learned(learned), scale=scale)
        encoder = Encoder(networks["encoder"], center, scale)
        mean = Mean(networks["mean"], center, scale)
        self.encoder_, self.mean_, self.std_ = jax.tree.map(_in_double, (encoder, mean, std))
        self.settings_ = self.get_params()
        self.n_iter_ = sum(history.epoch[-1] for history in self.history_.values() if history.epoch)
        self._warn_of_trouble()
        return self

    def _first_networks(self, key: JaxArray, features: int, output: str) -> dict[str, Any]:
        """Encoder and mean to begin with: the last ones, or random ones; and the one standard
        deviation."""
        one, other = jax.random.split(key)
        sizes = [self.latent_dim, *self.hidden, features]
        networks = {
            "encoder": MLP.random(
                one, [*sizes[:0:-1], 2 * self.latent_dim], self.activation, "linear"
            ),
            "mean": MLP.random(other, sizes, self.activation, output),
        }
        if self.warm_start and hasattr(self, "mean_"):
            last = {"encoder": self.encoder_.network, "mean": self.mean_.network}
            if jax.tree.map(np.shape, last) != jax.tree.map(np.shape, networks):
                raise ValueError(
                    "warm_start begins with the last fit's networks, and those were of another "
                    "kind."
                )
            networks = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), last)
        return networks | {"log_std": jnp.full((), FIRST_LOG_STD)}

    def _first_std(
        self, key: JaxArray, networks: dict[str, PyTree], rows: JaxArray, seed: int
    ) -> NetworkStd | RBFStd:
        """The decoder's standard deviation to begin with, in the units of the rows: much the same
        everywhere."""
        features, one = rows.shape[1], jnp.ones(())
        log_std = jnp.maximum(networks["log_std"], losses.LEAST_LOG_STD)
        if self.variance == "network":
            network = MLP.random(
                key, [self.latent_dim, *self.hidden, features], self.activation, "linear"
            )
            return NetworkStd(
                eqx.tree_at(lambda n: n.biases[-1], network, jnp.full(features, log_std)), one
            )
        codes = np.asarray(jax.vmap(networks["encoder"])(rows))[:, : self.latent_dim]
        centers, decays = bumps(codes, self.centers, seed)
        overlap = np.exp(-decays * cdist(codes, centers, "sqeuclidean")).sum(axis=1).mean()
        weights = jnp.full((features, len(centers)), jnp.exp(-2 * log_std) / overlap)
        return RBFStd(
            jnp.asarray(centers), jnp.asarray(decays), weights, one / self.far_std**2, one
        )

    # --- using ---

    @property
    def latent_dim_(self) -> int:
        """The coordinates of the latent space that was learned."""
        return self.mean_.dim

    def encode(self, X: ArrayLike) -> Array:
        """The latent points of data: the means of q(z | x). (n, D) → (n, latent_dim)."""
        check_is_fitted(self)
        rows = validate_data(self, _boundary.detached(X, "X"), dtype=np.float64, reset=False)
        with _boundary.double_precision():
            return np.asarray(_over_rows(self.encoder_, rows)[0])

    def decode(self, Z: ArrayLike, return_std: bool = False) -> Any:
        """The decoder's mean at latent points (..., latent_dim) → (..., D), and with `return_std`
        its deviation."""
        check_is_fitted(self)
        Z = _boundary.as_points(Z, "Z", self.latent_dim_)
        if return_std and self.std_ is None:
            raise ValueError(
                "this VAE has no standard deviation: fit it with variance='rbf' or 'network'."
            )
        with _boundary.double_precision():
            rows = Z.reshape(-1, self.latent_dim_)
            out = [
                np.asarray(_over_rows(g, rows)) for g in (self.mean_, self.std_)[: 1 + return_std]
            ]
        mean, *std = (values.reshape(*Z.shape[:-1], -1) for values in out)
        return (mean, *std) if return_std else mean

    transform, inverse_transform = encode, decode

    def metric(self, **settings: Any) -> Pullback:
        """The metric of the latent space: the expected pullback of the decoder. `settings` go to
        `Pullback`."""
        check_is_fitted(self)
        return Pullback(self.mean_, self.std_, **settings)

    # --- files ---

    def save(self, file: str | Path) -> None:
        """Write the model to a `.safetensors` file: plain arrays, and the settings as JSON in its
        header."""
        check_is_fitted(self)
        settings = dict(self.settings_)
        if not isinstance(settings["random_state"], numbers.Integral):
            settings["random_state"] = None
        networks = {"encoder": self.encoder_, "mean": self.mean_, "std": self.std_}
        files.write(file, settings, self.n_features_in_, networks)

    @classmethod
    def load(cls, file: str | Path) -> "VAE":
        """Read what `save` wrote."""
        settings, features, arrays = files.read(file)
        model = cls(**settings)
        model.settings_, model.n_features_in_ = model.get_params(), features
        networks = files.filled(model._skeleton(), arrays)
        model.encoder_, model.mean_ = networks["encoder"], networks["mean"]
        model.std_ = networks["std"]
        return model

    def _skeleton(self) -> dict[str, Any]:
        """The networks with anything for their arrays."""
        layers = lambda output: MLP(
            [0] * (len(self.hidden) + 1), [0] * (len(self.hidden) + 1), self.activation, output
        )
        std = {
            "rbf": RBFStd(0, 0, 0, 0, 0),
            "network": NetworkStd(layers("linear"), 0),
            None: None,
        }[self.variance]
        mean = Mean(layers(self._require_settings()), 0, 0)
        return {"encoder": Encoder(layers("linear"), 0, 0), "mean": mean, "std": std}

    # --- checks ---

    def _require_settings(self) -> str:
        """Refuse settings that make no sense; returns what the output's activation is."""
        for name in ("latent_dim", "centers", "epochs", "batch_size", "patience"):
            _boundary.as_count(getattr(self, name), name, 1)
        if not isinstance(self.hidden, Sequence | np.ndarray) or isinstance(self.hidden, str):
            raise TypeError(
                "hidden should be the sizes of the hidden layers, such as (16, 16); "
                f"{self.hidden!r} arrived."
            )
        for size in self.hidden:
            _boundary.as_count(size, "a size in hidden", 1)
        for name in ("far_std", "kl_weight", "learning_rate", "validation_fraction"):
            _boundary.as_positive(getattr(self, name), name)
        if self.validation_fraction >= 1:
            raise ValueError(
                f"validation_fraction should be below 1; {self.validation_fraction} arrived."
            )
        _boundary.one_of(self.activation, "activation", ACTIVATIONS)
        _boundary.one_of(self.likelihood, "likelihood", ("gaussian", "bernoulli"))
        _boundary.one_of(self.variance, "variance", ("rbf", "network", None))
        if self.likelihood == "bernoulli":
            return _boundary.one_of(
                self.output or "sigmoid", "output of a Bernoulli likelihood", ("sigmoid",)
            )
        return _boundary.one_of(self.output or "tanh", "output", ("tanh", "linear"))

    def _units(self, X: Array, output: str) -> tuple[Array, Array]:
        """Where the networks' zero and one lie in the data's own units, for each feature."""
        if self.likelihood == "bernoulli":
            if X.min() < 0 or X.max() > 1:
                raise ValueError(
                    f"a Bernoulli likelihood needs data in [0, 1]; {X.min():g} to {X.max():g} "
                    "arrived: scale them, or "
                    "use likelihood='gaussian', which takes any range."
                )
            return np.zeros(X.shape[1]), np.ones(X.shape[1])
        if output == "tanh":
            center, scale = (X.max(axis=0) + X.min(axis=0)) / 2, (X.max(axis=0) - X.min(axis=0)) / 2
        else:
            center, scale = X.mean(axis=0), X.std(axis=0)
        # a feature that is always the same has no range of its own: it gets the others'
        return center, np.where(scale > 0, scale, scale.max() or 1.0)

    def _warn_of_trouble(self) -> None:
        for what, history in self.history_.items():
            if history.reason in (training.INTERRUPTED, training.DIVERGED):
                warnings.warn(
                    f"the training of the {what} ended after {(history.epoch or [0])[-1]} epochs: "
                    f"{history.reason}. "
                    "The best networks so far are kept, and fit with warm_start=True goes on from "
                    "them.",
                    _boundary.ConvergenceWarning,
                    stacklevel=3,
                )


def _require_success(what: str, history: training.History) -> None:
    if history.epoch and not np.isfinite(history.validation).any():
        raise ValueError(f"the training of the {what} failed: {history.reason}.")


def bumps(codes: Array, most: int, seed: int) -> tuple[Array, Array]:
    """Centres (K, d) among latent codes, by k-means, and how fast a bump around each decays (K,).

    λₖ = ½ (REACH · mean distance to the centre)⁻², of the codes of each cluster.
    """
    distinct = len(np.unique(codes, axis=0))
    clusters = KMeans(min(most, distinct), n_init=1, random_state=seed % 2**31).fit(codes)
    away = np.linalg.norm(codes - clusters.cluster_centers_[clusters.labels_], axis=1)
    counts = np.bincount(clusters.labels_, minlength=len(clusters.cluster_centers_))
    spread = np.bincount(clusters.labels_, away, minlength=len(counts)) / np.maximum(counts, 1)
    usual = spread[counts > 1].mean() if np.any(counts > 1) else np.linalg.norm(codes.std(axis=0))
    spread = np.where(counts > 1, spread, usual)  # a cluster of one point has none
    spread = np.maximum(spread, 0.1 * usual) if usual > 0 else np.ones_like(spread)
    return clusters.cluster_centers_.astype(np.float32), (0.5 / (REACH * spread) ** 2).astype(
        np.float32
    )


# --- small things ---


@eqx.filter_jit
def _over_rows(function: Callable[..., PyTree], rows: AnyArray) -> PyTree:
    return jax.lax.map(function, rows, batch_size=ROWS)


def _after(history: training.History, schedule: training.Schedule) -> training.Schedule:
    """What is left to do: nothing, after Ctrl-C."""
    return (
        dataclasses.replace(schedule, epochs=0)
        if history.reason == training.INTERRUPTED
        else schedule
    )


def _in_double(leaf: ArrayLike) -> Array:
    return np.asarray(leaf, dtype=np.float64)
