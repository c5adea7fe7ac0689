"""Training: a loss, parameters and data in; the parameters that did best on data kept aside, and
the history, out."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from orthodrome._types import JaxArray, Number, PyTree
from orthodrome.progress import Report

Loss = Callable[..., Any]

PROBES = 4
"""Samples of the noise for each point in the loss on the data kept aside: one alone would be too
rough a judge."""

INTERRUPTED, DIVERGED = "interrupted", "the loss is no longer finite: lower learning_rate"

LOOKS = 10
"""Epochs between two looks at the data kept aside."""


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long and how fast to train."""

    epochs: int
    batch_size: int
    learning_rate: float
    patience: int
    """Epochs without progress on the data kept aside after which training ends."""


@dataclasses.dataclass
class History:
    """What happened, a number for each look at the data kept aside."""

    epoch: list[int] = dataclasses.field(default_factory=list)
    train: list[float] = dataclasses.field(default_factory=list)
    validation: list[float] = dataclasses.field(default_factory=list)
    reason: str = "all epochs done"
    """Why it ended."""


def minimise(
    loss: Loss,
    params: PyTree,
    held: PyTree,
    data: tuple[Any, Any],
    key: JaxArray,
    schedule: Schedule,
    report: Report,
) -> tuple[Any, History]:
    """Adam on `loss(params, held, batch, key)` until it stops improving on the data kept aside, the
    second of `data`.

    `loss` should be a function that is the same object in every call, so that it is compiled once.

    Ctrl-C ends the training, not the program: what is best so far is kept.
    """
    history, best, best_loss, best_epoch = History(), params, np.inf, 0
    train, aside = data
    state = optax.adam(schedule.learning_rate).init(params)
    probe_key, key = jax.random.split(key)
    size = min(schedule.batch_size, len(train))
    try:
        for epoch in range(0, schedule.epochs, LOOKS):
            key, now = jax.random.split(key)
            some = min(LOOKS, schedule.epochs - epoch)
            params, state, train_loss = _some_epochs(
                loss, size, some, params, held, state, train, now, schedule.learning_rate
            )
            aside_loss = float(_validate(loss, params, held, aside, probe_key))
            done = epoch + some
            history.epoch.append(done)
            history.train.append(float(train_loss))
            history.validation.append(aside_loss)
            report(done, schedule.epochs, f"loss {aside_loss:.4g}")
            if not np.isfinite(aside_loss):
                history.reason = DIVERGED
                break
            if aside_loss < best_loss:
                best, best_loss, best_epoch = params, aside_loss, done
            if done - best_epoch >= schedule.patience:
                history.reason = f"no progress for {schedule.patience} epochs"
                break
    except KeyboardInterrupt:
        history.reason = INTERRUPTED
    return best, history


@partial(jax.jit, static_argnums=(0, 1, 2))
def _some_epochs(
    loss: Loss,
    size: int,
    epochs: int,
    params: PyTree,
    held: PyTree,
    state: PyTree,
    data: tuple[JaxArray, JaxArray],
    key: JaxArray,
    rate: Number,
) -> tuple[Any, Any, Any]:
    """A few epochs of batches of one size; the rows that are left over are others in each epoch."""
    steps = len(data) // size

    def step(carry: PyTree, now: PyTree) -> Any:
        params, state = carry
        rows, noise = now
        value, slope = jax.value_and_grad(loss)(params, held, data[rows], noise)
        change, state = optax.adam(rate).update(slope, state)
        return (optax.apply_updates(params, change), state), value

    def epoch(carry: PyTree, key: JaxArray) -> Any:
        order, noise = jax.random.split(key)
        rows = jax.random.permutation(order, len(data))[: steps * size].reshape(steps, size)
        return jax.lax.scan(step, carry, (rows, jax.random.split(noise, steps)))

    (params, state), values = jax.lax.scan(epoch, (params, state), jax.random.split(key, epochs))
    return params, state, jnp.mean(values[-1])


@partial(jax.jit, static_argnums=0)
def _validate(
    loss: Loss, params: PyTree, held: PyTree, data: tuple[JaxArray, JaxArray], key: JaxArray
) -> Any:
    return jnp.mean(
        jax.lax.map(lambda k: loss(params, held, data, k), jax.random.split(key, PROBES))
    )
