"""What the two latent spaces of Sec. 4.2 have in common: a sphere's variational autoencoder, and
solvers in it."""

from collections.abc import Callable
from typing import Any

import numpy as np

import orthodrome as od
from orthodrome._types import Array
from orthodrome.experiments.base import Run

MODEL: dict[str, Any] = {"hidden": (16, 16)}
"""The paper's; the rest is as `VAE` has it."""
MESH = 10
"""Sec. 4's default, for want of other words."""


def space(
    run: Run, make: Callable[..., Array], activation: str
) -> tuple[od.models.VAE, Array, Array]:
    """The model trained on the paper's data, the data and their codes. Two layers of 16 units, tanh
    in the end."""
    s = run.settings
    data = make(s.points, random_state=run.seed)
    settings = MODEL | {"activation": activation, "epochs": s.epochs, "random_state": run.seed}
    model = run.model("vae", lambda: od.models.VAE(**settings).fit(data))
    return model, data, model.encode(data)


def spread(name: str, values: Array) -> str:
    """The median and the longest of some times, in milliseconds."""
    if not len(values):
        return f"{name} none"
    return f"{name} {1e3 * np.median(values):.0f} ms (at most {1e3 * np.max(values):.0f})"
