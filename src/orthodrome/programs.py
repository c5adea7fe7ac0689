"""Compiled programs, known by what they were made for, and how they are called."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from orthodrome import compilation
from orthodrome._boundary import double_precision
from orthodrome._types import Array, PyTree
from orthodrome.memo import once

MOST_PROGRAMS = 512
"""So many are remembered; then the one that was not used for longest goes. A process may have
65,530 memory maps, and a program takes some of them: a few thousand programs would end it."""

MOST_STRANGERS = 16
"""Programs are remembered for so many of the users' own functions, with whatever these hold on to.
One is too few: whoever compares two metrics goes to and fro between them. Hundreds would keep alive
the networks of a whole afternoon in a notebook."""


@runtime_checkable
class Batchable(Protocol):
    """The first argument of every function of many rows: a pytree of arrays that says how it wants
    to be evaluated. Every `Metric` is one, and its contract says what each member means."""

    @property
    def concurrent(self) -> bool:
        """Whether compiled code may run in several threads at once."""

    def prepared(self) -> "Batchable":
        """What compiled code takes in its place."""

    def order(self, points: Array) -> Array | None:
        """A permutation of points (P, d) that puts near ones together; None if that is no use."""

    def at_once(self, dim: int) -> int:
        """How many points to evaluate together at most."""


Function = Callable[..., PyTree]


def call(program: Function, function: Function, metric: Batchable, *args: PyTree) -> PyTree:
    """`program(function, metric, *args)` in float64, compiled, its results as NumPy arrays.

    A call that has to compile keeps the others waiting, which would compile the same. So do all
    calls on a metric that is not `concurrent`.
    """
    with double_precision():
        arrays, rest = eqx.partition((once(metric, _on_device), args), eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        values, kind = jax.tree.flatten(rest)
        shapes = ((leaf.shape, leaf.dtype) for leaf in leaves)
        key = (program, function, structure, kind, *values, *shapes)
        strangers = _strangers(rest[0])
        compiled = _PROGRAMS.get(key)
        if compiled is not None and metric.concurrent:
            return jax.tree.map(np.asarray, compiled(*leaves))
        with _ONE_AT_A_TIME:
            compiled = _PROGRAMS.get(key)
            if compiled is not None:
                return jax.tree.map(np.asarray, compiled(*leaves))
            compiled = _compiled(program, function, leaves, structure, rest)
            out = jax.tree.map(np.asarray, compiled(*leaves))
            _PROGRAMS.put(key, compiled, strangers)  # not before: whoever finds it need not wait
            return out


class Programs:
    """Programs by what they were made for, and the users' functions that each holds on to."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, tuple[Hashable, Function]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Function | None:
        """The program, if it is there; it is then the last one to go."""
        with self._lock:
            if key not in self._held:
                return None
            self._held.move_to_end(key)
            return self._held[key][1]

    def put(self, key: Hashable, program: Function, strangers: Hashable) -> None:
        """Keep a program, and let go of what was not used for longest."""
        with self._lock:
            self._held[key] = strangers, program
            if len(self._held) > MOST_PROGRAMS:
                self._held.popitem(last=False)
            latest = dict.fromkeys(mine for mine, _ in reversed(self._held.values()))
            for mine in [some for some in latest if some != ()][MOST_STRANGERS:]:
                for old in [name for name, (theirs, _) in self._held.items() if theirs == mine]:
                    del self._held[old]


_PROGRAMS = Programs()

_ONE_AT_A_TIME = threading.Lock()


def _strangers(metric: PyTree) -> Hashable:
    """The code in a metric that is not of this library; () if there is none."""
    values, kind = jax.tree.flatten(metric)
    functions = tuple(value for value in values if callable(value))
    return functions if _ours(kind) else (*functions, kind)


def _on_device(metric: Batchable) -> PyTree:
    """The metric ready for compiled code, its arrays where that reads them."""
    arrays, rest = eqx.partition(metric.prepared(), eqx.is_array)
    return eqx.combine(jax.device_put(arrays), rest)


def _compiled(
    program: Function, function: Function, leaves: list[Any], structure: Any, rest: PyTree
) -> Function:
    """`program` for arguments that are partly arrays and partly not, as a function of the
    arrays."""

    def whole(*leaves: Any) -> PyTree:
        metric, args = eqx.combine(jax.tree.unflatten(structure, leaves), rest)
        return program(function, metric, *args)

    name = lasting_name(program, function, rest) if compilation.keeping() else None
    return jax.jit(whole) if name is None else compilation.kept(whole, name, *leaves)


def lasting_name(program: Function, function: Function, rest: PyTree) -> str | None:
    """What tells this program from others in any process; None if it depends on code that is not of
    this library."""
    inner = getattr(function, "function", function)  # of `batching.OneByOne`
    name = f"{inner.__module__}.{getattr(inner, '__qualname__', '<nameless>')}"
    values, structure = jax.tree.flatten(rest)
    ours = _ours(structure) and all(isinstance(value, int | float | str) for value in values)
    # a static field without a repr is known by its address alone, which means nothing elsewhere
    ours = ours and " at 0x" not in str(structure)
    if not ours or "<" in name:
        return None
    return f"{program.__name__} {type(function).__name__} {name} {structure} {values}"


def _ours(structure: Any) -> bool:
    """Whether all the types a pytree is made of are of this library, or Python's own."""
    node = structure.node_data()
    return node is None or (
        node[0].__module__.partition(".")[0] in ("orthodrome", "builtins")
        and all(map(_ours, structure.children()))
    )
