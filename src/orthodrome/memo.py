"""What is made once and kept for as long as the thing it was made from lives."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Thing = TypeVar("Thing")
Made = TypeVar("Made")


def once(thing: Thing, make: Callable[..., Made], *args: Hashable) -> Made:
    """`make(thing, *args)`, made once for as long as the thing lives.

    Things are told apart by their identity. That is safe because an entry goes when its thing does,
    before another one can have the same `id`. Arrays have no hash and metrics should not be
    compared number by number, so a `WeakKeyDictionary` would not do.
    """
    key = id(thing), make, args
    if key not in _MADE:
        _MADE[key] = make(thing, *args)
        weakref.finalize(thing, _MADE.pop, key, None)
    return _MADE[key]


_MADE: dict[Hashable, Any] = {}
