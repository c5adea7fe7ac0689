"""Newton's method without matrices, for many dimensions: there a second variation is cheap to apply
and expensive to write down.

A variation that is zero at both ends is known by its slopes at the Gauss points, whose integral is
zero. Scaled by √(weight · M) these slopes make the Laplacian the identity, and what the second
variation adds to it is smooth: a few steps of Lanczos show the Newton step, and whether the second
variation is positive (docs/derivations/energy.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome import elements, elimination
from orthodrome._types import AnyArray, Array, Flag, Float, JaxArray, Map, Number, Scalar
from orthodrome.discretisation.base import Discretisation
from orthodrome.metrics import Metric

MOST = 32
"""Steps of Lanczos, at most."""

RTOL = 1e-3
"""It ends when the equation it solves on the way has so small a residual, relatively."""

GENERIC = 0.05
"""The share of a generic wave in the vector it starts from. The rest is the gradient, which alone
might know nothing of a direction in which the second variation is negative."""

WAVES = 4
"""Cosines in the generic wave: what makes a second variation negative is slow."""


class MatrixFree(Discretisation):
    """Newton's method by Lanczos: for many dimensions, where the tensor is diagonal."""

    def explore(
        self,
        metric: Metric,
        nodes: Float[JaxArray, "N d"],
        widths: Float[JaxArray, " K"],
        curved: Number,
        precise: bool,
    ) -> "KrylovModel":
        """The energy to the second order among a few variations."""
        return around(metric, *elements.at_gauss_points(nodes, widths), widths)

    def gain(
        self,
        metric: Metric,
        c: Float[JaxArray, "K d"],
        v: Float[JaxArray, "K d"],
        widths: Float[JaxArray, " K"],
        load: Float[JaxArray, "K 2 d"],
    ) -> tuple[Scalar, Scalar]:
        """As in `Discretisation`, from the load's own variations."""
        model = around(metric, c[:, None], v[:, None], widths, load)
        shift, smallest_pivot = model.solve(0.0, 0.0)
        return -0.5 * model.slope(shift), smallest_pivot


class KrylovModel(NamedTuple):
    """A `LocalModel` whose steps are numbers: a few orthonormal
    variations are multiplied by them, and among those the energy is known to the second order."""

    energy: Scalar
    gradient: Float[JaxArray, " k"]
    matrix: Float[JaxArray, "k k"]
    """The second variation; the identity beyond the last step made."""
    generic: Float[JaxArray, " k"]
    basis: Float[JaxArray, "k K s d"]
    """Slopes at the Gauss points, scaled."""
    root: Float[JaxArray, "K s d"]
    """What they are scaled with."""
    widths: Float[JaxArray, " K"]

    def wave(self) -> Float[JaxArray, " k"]:
        """The load of a wave of size one that has a share in every slow variation."""
        return self.generic

    def still(self) -> Float[JaxArray, " k"]:
        """The step that moves nothing."""
        return jnp.zeros(MOST)

    def solve(
        self, damping: Number, pull: JaxArray | float
    ) -> tuple[Float[JaxArray, " k"], Scalar]:
        """−(H + damping · B)⁻¹ (gradient − pull) and the smallest pivot; B is the Laplacian, here
        the identity."""
        damped = self.matrix + damping * jnp.eye(MOST)
        return elimination.solve_dense(damped, pull - self.gradient)

    def slope(self, step: Float[JaxArray, " k"]) -> Scalar:
        """The derivative of the energy along a step."""
        return step @ self.gradient

    def stride(self, step: Float[JaxArray, " k"]) -> Scalar:
        """The size of a step."""
        return jnp.linalg.norm(step)

    def nodes(self, step: Float[JaxArray, " k"]) -> Float[JaxArray, "N d"]:
        """A step as nodes of a curve."""
        slopes = jnp.tensordot(step, self.basis, 1) / self.root
        return elements.nodes_of(
            elements.integrate(slopes, self.widths, elements.basis(slopes.shape[1]).to_nodes)
        )


def around(
    metric: Metric,
    c: Float[JaxArray, "K s d"],
    v: Float[JaxArray, "K s d"],
    widths: Float[JaxArray, " K"],
    load: Float[JaxArray, "K corners d"] | None = None,
) -> KrylovModel:
    """The energy around a curve with the positions c and velocities v at the Gauss points of its
    elements.

    With a `load` on the nodes (K, s + 1, d), that takes the place of the gradient.
    """
    K, s, d = c.shape
    rule = elements.basis(s)
    weights = (widths[:, None] * rule.weights)[..., None]
    rise = lambda slopes: elements.integrate(slopes, widths, rule.to_gauss)
    flat = lambda u: u.reshape(-1, d)

    def gradient(slopes: Float[JaxArray, "K s d"]) -> tuple[Float[JaxArray, "K s d"], Scalar]:
        value, by_x, by_v = metric.slope_along(flat(c + rise(slopes)), flat(v + slopes))
        (pulled,) = jax.linear_transpose(rise, slopes)(weights * by_x.reshape(c.shape))
        return pulled + weights * by_v.reshape(c.shape), jnp.sum(
            weights[..., 0] * value.reshape(K, s)
        )

    (by_slopes, energy), second = jax.linearize(gradient, jnp.zeros_like(c))
    if load is not None:
        work = lambda slopes: jnp.sum(load * elements.integrate(slopes, widths, rule.to_nodes))
        by_slopes = jax.grad(work)(jnp.zeros_like(c))

    root = jnp.sqrt(weights * metric.lower_along(flat(c))(jnp.ones((K * s, d))).reshape(c.shape))
    ends = weights / root / jnp.sqrt(jnp.sum((weights / root) ** 2, axis=(0, 1)))
    # slopes whose integral is zero
    admissible = lambda u: u - ends * jnp.sum(ends * u, axis=(0, 1))
    apply = lambda u: admissible(second(admissible(u) / root)[0] / root)

    by_slopes, generic = admissible(by_slopes / root), admissible(_generic_wave(K, s, d))
    generic = generic / jnp.linalg.norm(generic)
    size = jnp.linalg.norm(by_slopes)
    basis, matrix = _lanczos(apply, by_slopes / jnp.where(size > 0, size, 1.0) + GENERIC * generic)
    on_basis = lambda u: jnp.einsum("kabc,abc->k", basis, u)
    return KrylovModel(energy, on_basis(by_slopes), matrix, on_basis(generic), basis, root, widths)


def _generic_wave(K: int, s: int, d: int) -> Array:
    """Slow cosines with random weights, other ones in every coordinate."""
    times = (np.arange(K * s) + 0.5) / (K * s)
    cosines = np.cos(np.pi * np.outer(times, 1 + np.arange(WAVES)))
    return (cosines @ np.random.default_rng(0).standard_normal((WAVES, d))).reshape(K, s, d)


Lanczos = tuple[AnyArray, JaxArray, JaxArray, JaxArray, Scalar, Scalar, Scalar]
"""The step, the basis, the matrix on it, the next vector, its weight, the pivot, the residual."""


def _lanczos(apply: Map, start: Float[JaxArray, "K s d"]) -> tuple[JaxArray, JaxArray]:
    """An orthonormal basis (MOST, ...) of what a symmetric map makes of `start`, and the map's
    matrix on it."""

    def unsolved(carry: Lanczos) -> Flag:
        step, *_, residual = carry
        return (step < MOST) & (residual > RTOL)

    def advance(carry: Lanczos) -> Lanczos:
        step, basis, matrix, vector, below, pivot, residual = carry
        basis = basis.at[step].set(vector)
        image = apply(vector)
        own = jnp.sum(vector * image)
        for _ in range(2):  # against rounding: with one pass alone, old directions come back
            image = image - jnp.tensordot(jnp.einsum("kabc,abc->k", basis, image), basis, 1)
        beyond = jnp.linalg.norm(image)
        matrix = matrix.at[step, step].set(own)
        matrix = matrix.at[step, step - 1].set(below).at[step - 1, step].set(below)
        pivot = own - jnp.where(step > 0, below**2 / pivot, 0.0)
        vector = image / jnp.where(beyond > 0, beyond, 1.0)
        return step + 1, basis, matrix, vector, beyond, pivot, residual * beyond / jnp.abs(pivot)

    nothing, one = jnp.asarray(0.0), jnp.asarray(1.0)
    begin = (
        0,
        jnp.zeros((MOST, *start.shape)),
        jnp.eye(MOST),
        start / jnp.linalg.norm(start),
        nothing,
        one,
        one,
    )
    _, basis, matrix, *_ = jax.lax.while_loop(unsolved, advance, begin)
    return basis, matrix
