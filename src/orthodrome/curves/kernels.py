"""Covariance functions k(t, s) with the derivatives that second-order equations need.

Those here are stationary, k(t, s) = φ(t − s), because then both ends of a path are treated alike:
reversing time gives the same curve.
"""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import Polynomial

from orthodrome import _boundary
from orthodrome._types import Array
from orthodrome.records import brief_repr, full_name, named


@dataclasses.dataclass(frozen=True, repr=False)
class Kernel(abc.ABC):
    """A covariance function. Each has its own rule for `lengthscale=None`."""

    lengthscale: float | None = None

    def __post_init__(self) -> None:
        if self.lengthscale is not None:
            object.__setattr__(
                self, "lengthscale", _boundary.as_positive(self.lengthscale, "lengthscale")
            )

    def __repr__(self) -> str:
        return brief_repr(self)

    kinds: ClassVar[dict[str, type["Kernel"]]] = {}
    """Every kernel by its full name, so that files can name it."""

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        Kernel.kinds[full_name(cls)] = cls

    def packed(self) -> dict[str, Any]:
        """Its name and its settings, as JSON can write them."""
        return {"name": full_name(type(self)), **dataclasses.asdict(self)}

    @staticmethod
    def unpacked(packed: Mapping[str, Any]) -> "Kernel":
        """The kernel that `packed` describes."""
        name, own = packed["name"], f"{__name__}.{packed['name']}"
        kind = named(Kernel.kinds, name) or Kernel.kinds.get(own)  # older files: without a module
        if kind is None:
            raise ValueError(f"the file has a kernel {name}: import its module, and try again.")
        return kind(**{key: value for key, value in packed.items() if key != "name"})

    def resolved(self, mesh: int) -> "Kernel":
        """This kernel with its lengthscale filled in for a mesh of so many knots on [0, 1]."""
        if self.lengthscale is not None:
            return self
        return dataclasses.replace(self, lengthscale=self.default_lengthscale(mesh))

    @abc.abstractmethod
    def default_lengthscale(self, mesh: int) -> float:
        """λ for a mesh of so many knots on [0, 1]."""

    @abc.abstractmethod
    def covariance(self, t: Array, s: Array, t_order: int, s_order: int) -> Array:
        """∂ᵗ∂ˢ k(t, s), of orders 0 to 2 each, for all pairs of times (..., T) and (..., S): (...,
        T, S)."""


class Stationary(Kernel):
    """k(t, s) = φ(t − s)."""

    def covariance(self, t: Array, s: Array, t_order: int, s_order: int) -> Array:
        """∂ᵗ∂ˢ φ(t − s); d/ds changes the sign."""
        return (-1) ** s_order * self.derivative(
            t[..., :, None] - s[..., None, :], t_order + s_order
        )

    @abc.abstractmethod
    def derivative(self, r: Array, order: int) -> Array:
        """φ⁽ᵒʳᵈᵉʳ⁾(r), for order 0 to 4."""


@dataclasses.dataclass(frozen=True, repr=False)
class SquaredExponential(Stationary):
    """φ(r) = exp(−r² / 2λ²): infinitely smooth. The paper's choice, with its rule λ² = ½ Δt."""

    def default_lengthscale(self, mesh: int) -> float:
        """λ² = ½ Δt: a longer one would make the Gram matrix singular."""
        return math.sqrt(0.5 / (mesh - 1))

    def derivative(self, r: Array, order: int) -> Array:
        """(−1/λ)ⁿ Heₙ(r/λ) φ(r), with the probabilists' Hermite polynomials Heₙ."""
        x = r / self.lengthscale
        hermite = np.polynomial.HermiteE.basis(order)(x)
        rate = -1 / self.lengthscale  # type: ignore[operator]
        return rate**order * hermite * np.exp(-(x**2) / 2)


@dataclasses.dataclass(frozen=True, repr=False)
class Matern(Stationary):
    """The Matérn kernel of smoothness ν = 7/2 or 9/2: paths with 3 or 4 derivatives, and better
    conditioned matrices.

    Its default λ = 1 is the whole path. A Matérn kernel can afford that, and needs it: with the
    squared exponential's rule the error falls with N only like N^-½ (benchmarks/closed_forms.py
    prints both).
    """

    nu: float = 3.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (3.5, 4.5):
            raise ValueError(
                f"nu should be 3.5 or 4.5; {self.nu} arrived (a smaller one has no fourth "
                "derivative, which the "
                "geodesic equation needs; for a smoother one use SquaredExponential)."
            )

    def default_lengthscale(self, mesh: int) -> float:
        """λ = 1."""
        return 1.0

    def derivative(self, r: Array, order: int) -> Array:
        """φ(r) = p(x) e⁻ˣ with x = √(2ν)|r|/λ; each derivative turns p into p' − p."""
        rate = math.sqrt(2 * self.nu) / self.lengthscale  # type: ignore[operator]
        q = int(self.nu)
        # p(x) = q!/(2q)! Σₙ (2q−n)!/((q−n)! n!) (2x)ⁿ, Rasmussen & Williams (4.16)
        p = Polynomial(
            [
                math.comb(q, n) * math.factorial(2 * q - n) / math.factorial(2 * q) * 2**n
                for n in range(q + 1)
            ]
        )
        for _ in range(order):
            p = p.deriv() - p
        x = rate * np.abs(r)
        sign = np.sign(r) if order % 2 else 1.0
        return rate**order * sign * p(x) * np.exp(-x)
