"""What a discretisation promises: meshes and tolerances that suit it, and a model of the energy."""

import abc
from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx

from orthodrome import elements, elimination
from orthodrome._types import Float, JaxArray, Number, Scalar
from orthodrome.metrics import Metric


@runtime_checkable
class LocalModel(Protocol):
    """The energy around a curve, to the second order, as a descent needs it.

    Steps and loads are in coordinates of the model's own: nodes of the curve, or numbers that
    multiply a few variations of it.
    """

    @property
    def energy(self) -> Scalar:
        """Of the curve itself."""

    def slope(self, step: JaxArray) -> Scalar:
        """The derivative of the energy along a step."""

    def stride(self, step: JaxArray) -> Scalar:
        """The size of a step, measured by the Laplacian: the part of the second variation that is
        always positive."""

    def solve(self, damping: Number, pull: JaxArray | float) -> tuple[JaxArray, Scalar]:
        """The step −(H + damping · B)⁻¹ (gradient − pull), with H the second variation and B the
        Laplacian, and the smallest pivot: it is positive if the matrix is positive definite."""

    def wave(self) -> JaxArray:
        """The load of a wave of size one that has a share in every slow variation."""

    def still(self) -> JaxArray:
        """The step that moves nothing."""

    def nodes(self, step: JaxArray) -> Float[JaxArray, "N d"]:
        """A step as a change of the curve's nodes."""


class Discretisation(eqx.Module):
    """One way to compute the energy of curves by elements, with its derivatives.

    It has no fields: the constants below and three methods are all that a new one overrides. They
    are written for a metric of which tensors cost little.
    """

    search_elements: ClassVar[int] = 16
    """Elements of the curves that look for the way. With 8 and with 32, the 180 paths
    of `benchmarks/constants.py` stay within 0.1 % of the shortest, in 1.03 and 1.12 times the
    time."""

    polish_elements: ClassVar[int] = 32
    """Elements of the first polished curve. With 16 the 180 paths of `benchmarks/constants.py` take
    1.25 times the time, with 64 as long as with 32."""

    refinement: ClassVar[int] = 2
    """How many times more elements the next polished curve has."""

    panels: ClassVar[int] = 8
    """Panels of the judge's first quadrature, at least."""

    quadrature_share: ClassVar[float] = 1e-3
    """The error of a quadrature that is believed, as a share of the tolerance: so small that the
    error of the curve decides."""

    approximate: ClassVar[bool] = False
    """Whether cheap models leave something out: one that is not `curved` a part of the second
    variation, one that is not `precise` digits. A descent then begins with the cheap models, and is
    repeated with precise ones where it did not converge."""

    one_by_one: ClassVar[bool] = False
    """Whether curves are descended one at a time. A batch computes what any of its curves needs for
    all of them, which pays where that is a few matrix products and not where it is a network."""

    def first_mesh(self, rtol: float) -> int:
        """Elements of the first polished curve, whose length is to be known to `rtol`."""
        return self.polish_elements

    @abc.abstractmethod
    def explore(
        self,
        metric: Metric,
        nodes: Float[JaxArray, "N d"],
        widths: Float[JaxArray, " K"],
        curved: Number,
        precise: bool,
    ) -> LocalModel:
        """The energy around a curve that is given by its nodes.

        `curved`: whether the model has all of the second variation, a number that may be traced.
        `precise`: whether all of it is in double precision.
        """

    def gradient(
        self, metric: Metric, nodes: Float[JaxArray, "N d"], widths: Float[JaxArray, " K"]
    ) -> Float[JaxArray, "K corners d"]:
        """The derivatives of each element's energy by its nodes; the last two are its left and its
        right end, and there need not be others."""
        return elements.gradient(metric, nodes, widths)

    def gain(
        self,
        metric: Metric,
        c: Float[JaxArray, "K d"],
        v: Float[JaxArray, "K d"],
        widths: Float[JaxArray, " K"],
        load: Float[JaxArray, "K 2 d"],
    ) -> tuple[Scalar, Scalar]:
        """The energy that a load on the ends of K panels could gain, ½ ⟨load, H⁻¹ load⟩, and the
        smallest pivot of H.

        The second variation H is that of variations linear on each panel, from the curve's middle
        points c and velocities v.
        """
        hessian = elements.second_variation(metric.variation_along(c, v), widths)
        _, shift, smallest_pivot = elimination.solve(
            hessian, load.reshape(len(load), -1), c.shape[-1]
        )
        return 0.5 * elements.inner(load, shift), smallest_pivot
