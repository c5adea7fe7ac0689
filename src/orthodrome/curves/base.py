"""What every curve promises: it can be evaluated, cut up, taken apart, joined and kept in a
file."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from orthodrome._types import Array
from orthodrome.records import Record, full_name


class Curve(Record, abc.ABC):
    """P curves on [0, 1] that are known in the same way.

    A new kind is a frozen dataclass of arrays with a row for each curve. It writes `pieces`, `mesh`
    and `evaluate`, has `start` and `end`, and overrides the rest only where its fields are of
    another form.
    """

    if TYPE_CHECKING:  # not in the class itself, where they would be taken for fields' defaults

        @property
        def start(self) -> Array:
            """(P, d)"""

        @property
        def end(self) -> Array:
            """(P, d)"""

    @property
    @abc.abstractmethod
    def pieces(self) -> int:
        """In how many pieces the curve can bend; of the curve that has most of them."""

    @abc.abstractmethod
    def mesh(self, panels: int) -> Array:
        """Times (panels + 1,) or (P, panels + 1) from 0 to 1, spread as the curve's pieces are."""

    @abc.abstractmethod
    def evaluate(self, t: Array, order: int = 0) -> Array:
        """The derivative of this order at times (T,), or at each curve's own (P, T): (P, T, d)."""

    def derivatives(self, t: Array, orders: Sequence[int] = (0, 1, 2)) -> list[Array]:
        """Several derivatives at the same times: `evaluate` for each of the orders."""
        return [self.evaluate(t, order) for order in orders]

    def __len__(self) -> int:
        return len(self.start)

    # --- the Gaussian process posterior, of curves that are its mean ---

    has_posterior: ClassVar[bool] = False
    """Whether the two methods that follow are written."""

    def covariance(self, t: Array, S: Array) -> Array:
        """The posterior covariance at the times (T,), (P, T, d, d); S (d, d) sets its scale."""
        raise TypeError(f"a {type(self).__name__} has no posterior.")

    def deviations(self, t: Array, S: Array, noise: Array) -> Array:
        """Standard normal numbers (n, P, T, d) as draws of the posterior, less its mean."""
        raise TypeError(f"a {type(self).__name__} has no posterior.")

    # --- files ---

    kinds: ClassVar[dict[str, type["Curve"]]] = {}
    """Every class of curves by its full name, so that files can name it."""

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        Curve.kinds[full_name(cls)] = cls

    def packed(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file needs to hold: settings that JSON can write, and arrays by name."""
        return {}, {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def unpacked(cls, settings: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The curves that `packed` took apart; the arrays may have others among them."""
        return cls(**{field.name: arrays[field.name] for field in dataclasses.fields(cls)})
