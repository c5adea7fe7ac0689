"""Hints: what a metric may say of itself, each declared once with its default."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    hint = property
else:

    class hint:  # noqa: N801, used as a decorator, like `property`
        """A property with a default that a subclass overrides by a field, a property or a constant.

        A plain `property` could not be overridden by a field of an equinox module: it would be
        taken for the field's default, and could not be set.
        """

        def __init__(self, default):
            self.default, self.__doc__ = default, default.__doc__

        def __get__(self, metric, kind=None):
            if metric is None:
                raise AttributeError("a hint belongs to a metric, not to its class")
            return self.default(metric)
