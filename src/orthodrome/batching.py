"""Many problems at the speed of the hardware: the only place that knows fixed shapes, tiles,
refilling and threads.

Compiled code has fixed shapes. Two shapes serve every size here: a small one for a single problem,
and a larger one of several tiles whose number is an argument, so that neither another number of
points nor another number of problems compiles anything anew, and rows of padding cost at most one
tile.
"""

import contextlib
import contextvars
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome._types import AnyArray, Array, Count, Flag, Index, JaxArray, PyTree
from orthodrome.programs import Batchable, Function, call
from orthodrome.status import RUNNING

FEW_POINTS = 16
"""Up to so many points go through the small shape: a query of one point should not pay for a
tile."""

POINT_TILE = 128
"""Points a tile: points × data of one tile stay in a core's cache."""

STEP_TILE = 32
"""Points a tile of an iteration: smaller, because a tile goes on until its slowest problem has
finished."""

FEW_LANES = 2
"""Up to so many problems a tile, a single problem goes through it as well: a shape of its own would
not pay."""

TILES = 16
"""Tiles a call, at most: long enough to hide the cost of the call, short enough to bound memory."""

TICKS = 16
"""Steps of an iteration between two checks of which problems are finished. With more of them,
finished problems keep their places for longer; with fewer, the calls themselves begin to cost."""


@runtime_checkable
class Running(Protocol):
    """A state of an iteration: a tuple of arrays (P, ...) with a status for each problem."""

    @property
    def status(self) -> Array:
        """(P,): `RUNNING`, or the `Status` it ended with."""


States = TypeVar("States", bound=Running)

Carry = tuple[AnyArray, AnyArray, PyTree]
"""How many steps were made, states, problems."""


def over_points(
    function: Function,
    metric: Batchable,
    *arrays: Array,
    few: int = FEW_POINTS,
    tile: int = POINT_TILE,
) -> PyTree:
    """`function(metric, *blocks)` for blocks of rows of the arrays, (M, ...) each; the first are
    points, near ones together. NumPy in, NumPy out (a pytree of arrays). Up to `few` rows have a
    shape of their own, unless that is 0."""
    order = metric.order(arrays[0]) if len(arrays[0]) > FEW_POINTS else None
    if order is None:
        return _over(function, metric, arrays, tile, few)
    out = _over(function, metric, [array[order] for array in arrays], tile, few)
    return _rows(out, np.argsort(order))


def over_curves(function: Function, metric: Batchable, *arrays: Array, points: int) -> PyTree:
    """`function(metric, *rows)` for all rows of the arrays, (M, ...) each, that take about so many
    points a row."""
    at_once = min(POINT_TILE, metric.at_once(arrays[0].shape[-1]))
    return _over(OneByOne(function), metric, arrays, max(1, at_once // points))


@dataclasses.dataclass(frozen=True)
class OneByOne:
    """A function of one row as a function of many."""

    function: Function

    def __call__(self, metric: Batchable, *rows: PyTree) -> PyTree:
        """The function of each row."""
        return _each(partial(self.function, metric), *rows)


def _each(function: Function, *rows: PyTree) -> PyTree:
    """The function of one row, for all rows of pytrees of arrays."""
    if len(jax.tree.leaves(rows)[0]) > 1:
        return jax.vmap(function)(*rows)
    # a batch of one needs no vmap, which would take both branches of a decision
    return jax.tree.map(lambda leaf: leaf[None], function(*_rows(rows, 0)))


def _over(
    function: Function, metric: Batchable, arrays: Sequence[Array], tile: int, few: int = FEW_POINTS
) -> PyTree:
    tile, tiles = (few, 1) if 0 < few < tile and len(arrays[0]) <= few else (tile, TILES)
    capacity = tile * tiles
    share = -(-len(arrays[0]) // (tile * _threads(metric))) * tile  # full tiles for every thread
    size = min(capacity, max(tile, share))
    starts = range(0, len(arrays[0]), size)

    if not len(arrays[0]):  # the shapes of nothing: evaluate a point of ones and keep none of it
        ones = [np.ones((1, *array.shape[1:])) for array in arrays]
        return _rows(_over(function, metric, ones, tile, few), slice(0))

    def run(start: int) -> PyTree:
        rows = [array[start : start + size] for array in arrays]
        count = len(rows[0])
        out = call(
            _tiled,
            function,
            metric,
            tile,
            np.asarray(-(-count // tile)),
            [_padded(row, capacity) for row in rows],
        )
        return _rows(out, slice(count))

    blocks = _in_threads(run, starts, _threads(metric))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *blocks)


def _in_threads(run: Callable[[int], PyTree], items: Sequence[int], threads: int) -> list[PyTree]:
    """`run` over the items, in so many threads."""
    if len(items) < 2 or threads < 2:
        return [run(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, items))


def _tiled(
    function: Function, metric: Batchable, tile: int, count: Count, arrays: list[JaxArray]
) -> PyTree:
    # traced once, though it is asked for its shape and then run
    one_tile = jax.jit(partial(function, metric))
    tiles = [array.reshape(-1, tile, *array.shape[1:]) for array in arrays]
    if tiles[0].shape[0] == 1:
        return one_tile(*(t[0] for t in tiles))
    shapes = jax.eval_shape(one_tile, *(t[0] for t in tiles))
    out = jax.tree.map(lambda s: jnp.zeros((tiles[0].shape[0], *s.shape), s.dtype), shapes)

    def body(i: Count, out: PyTree) -> PyTree:
        return jax.tree.map(lambda o, r: o.at[i].set(r), out, one_tile(*(t[i] for t in tiles)))

    out = jax.lax.fori_loop(0, count, body, out)
    return jax.tree.map(lambda o: o.reshape(o.shape[0] * o.shape[1], *o.shape[2:]), out)


def _rows(tree: PyTree, index: Index | Count | int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _padded(rows: Array, length: int) -> Array:
    """The rows with the last one repeated behind them: padding that every function can evaluate.

    The last one, because a tile is then the same however many tiles go together: a metric may look
    at all of a tile's points, and results should not depend, in their last digits, on how many
    cores there are.
    """
    if len(rows) == length:
        return rows
    return np.concatenate([rows, np.broadcast_to(rows[-1:], (length - len(rows), *rows.shape[1:]))])


def iterate(
    step: Function,
    metric: Batchable,
    common: PyTree,
    problems: PyTree,
    states: States,
    points_per_step: int,
) -> States:
    """Run `step(metric, common, problem, state) -> state` on every problem until its `state.status`
    is not RUNNING.

    Problems and states are pytrees of arrays (P, ...). Problems do not wait for each other: the
    ones that finish leave, new ones take their places. Returns the final states.
    """
    total = len(states.status)
    tile = max(1, STEP_TILE // points_per_step)
    tile, tiles = (1, 1) if total == 1 and tile > FEW_LANES else (tile, TILES)
    lanes = tile * tiles
    threads = min(_threads(metric), -(-total // tile))
    # full tiles, and some for every thread
    share = min(lanes, tile * -(-total // (tile * max(1, threads))))
    final = jax.tree.map(np.array, states)
    queue = iter(range(total))  # shared by the threads: each takes the next problems from it

    def work(_: int) -> None:
        active, running = np.zeros(0, dtype=int), _rows(states, slice(0))
        while True:
            fresh = np.fromiter(itertools.islice(queue, share - len(active)), dtype=int)
            active = np.concatenate([active, fresh])
            if not len(active):
                return
            running = jax.tree.map(
                lambda *parts: np.concatenate(parts), running, _rows(states, fresh)
            )
            padded = jax.tree.map(
                lambda leaf: _padded(leaf, lanes), (_rows(problems, active), running)
            )
            advanced = call(
                _advance, step, metric, common, tile, np.asarray(-(-len(active) // tile)), *padded
            )
            running = _rows(
                jax.tree.unflatten(jax.tree.structure(states), advanced), slice(len(active))
            )
            done = running.status != RUNNING
            for target, source in zip(
                jax.tree.leaves(final), jax.tree.leaves(running), strict=True
            ):
                target[active[done]] = source[done]
            active, running = active[~done], _rows(running, ~done)

    _in_threads(work, range(threads), threads)
    return final


def _advance(
    step: Function,
    metric: Batchable,
    common: PyTree,
    tile: int,
    count: Count,
    problems: PyTree,
    states: Running,
) -> list[JaxArray]:
    """The leaves of the states after some ticks."""
    step_tile = partial(_each, partial(step, metric, common))

    def still_running(carry: Carry) -> Flag:
        tick, state, _ = carry
        return (tick < TICKS) & jnp.any(state.status == RUNNING)

    def tick_all(carry: Carry) -> Carry:
        tick, state, problem = carry
        stepped = step_tile(problem, state)
        keep = state.status == RUNNING
        state = jax.tree.map(
            lambda a, b: jnp.where(keep.reshape(-1, *[1] * (a.ndim - 1)), b, a), state, stepped
        )
        return tick + 1, state, problem

    def body(i: Count, states: PyTree) -> PyTree:
        _, state, _ = jax.lax.while_loop(
            still_running, tick_all, (0, _rows(states, i), _rows(problems, i))
        )
        return jax.tree.map(lambda all_, one: all_.at[i].set(one), states, state)

    problems, states = jax.tree.map(
        lambda leaf: leaf.reshape(-1, tile, *leaf.shape[1:]), (problems, states)
    )
    states = jax.lax.fori_loop(0, count, body, states)
    return [leaf.reshape(-1, *leaf.shape[2:]) for leaf in jax.tree.leaves(states)]


def _threads(metric: Batchable) -> int:
    return max(1, cores() // _SHARING.get()) if metric.concurrent else 1


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def sharing_cores(processes: int) -> Iterator[None]:
    """Use only this process' share of the cores meanwhile: so many processes work beside each
    other."""
    token = _SHARING.set(processes)
    try:
        yield
    finally:
        _SHARING.reset(token)


_SHARING = contextvars.ContextVar("how many processes share the cores", default=1)
