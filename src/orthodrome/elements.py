"""Curves by elements: piecewise polynomials whose energy, gradient and second variation are sums over elements.

A curve has K elements of degree s, and each of them s Gauss points. With degree 1 that is a polyline with the midpoint
rule. The curve of least energy is then the Gauss collocation solution of the geodesic equation, of order 2s at the ends
of the elements (docs/derivations/energy.md): one family, from a robust polyline to high order.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from orthodrome import elimination
from orthodrome.metrics import Jet, Metric

HostArray = np.ndarray[Any, Any]


class Basis(NamedTuple):
    """Lagrange polynomials of one degree s on [0, 1], in the order interior, left, right."""

    nodes: HostArray
    """(s + 1,): where each of them is 1. Gauss–Lobatto points: evenly spaced ones would be ill conditioned."""
    weights: HostArray
    """(s,): of the Gauss points."""
    values: HostArray
    """(s, s + 1): at the Gauss points."""
    slopes: HostArray
    """(s, s + 1)"""


@lru_cache
def basis(degree: int) -> Basis:
    """The basis of this degree."""
    x, w = np.polynomial.legendre.leggauss(degree)
    inner = np.polynomial.Legendre.basis(degree).deriv().roots()
    nodes = (np.concatenate([np.sort(inner), [-1.0, 1.0]]) + 1) / 2
    gauss = (x + 1) / 2
    powers = np.arange(degree + 1)
    coefficients = np.linalg.inv(nodes[:, None] ** powers)  # a column for each polynomial
    values = gauss[:, None] ** powers @ coefficients
    slopes = powers[1:] * gauss[:, None] ** (powers[1:] - 1) @ coefficients[1:]
    return Basis(nodes, w / 2, values, slopes)


def node_times(breaks: HostArray, degree: int) -> HostArray:
    """When a curve with these breaks (..., K + 1) is at each of its nodes: (..., K s + 1)."""
    inner = basis(degree).nodes[:-2]
    left, width = breaks[..., :-1, None], np.diff(breaks)[..., None]
    each = np.concatenate([left, left + width * inner], axis=-1)
    return np.concatenate([each.reshape(*each.shape[:-2], -1), breaks[..., -1:]], axis=-1)


class Sum(NamedTuple):
    """The energy of a curve and what Newton's method needs of it; the last three are (K, ...), element by element."""

    energy: Float[Array, ""]
    gradient: Float[Array, "K m"]
    hessian: Float[Array, "K m m"]
    laplacian: Float[Array, "K m m"]
    """The part of the Hessian that is always positive: η ↦ ∫ η'ᵀ M η'."""


def assemble(metric: Metric, nodes: Float[Array, "N d"], widths: Float[Array, " K"]) -> Sum:
    """The energy ½ ∫ c'ᵀ M c' of a curve given by its nodes, with its derivatives."""
    local = element_nodes(nodes, len(widths))
    K, corners, _ = local.shape
    rule = basis(corners - 1)
    weight = widths[:, None] * rule.weights
    slopes = rule.slopes / widths[:, None, None]
    values = jnp.broadcast_to(rule.values, slopes.shape)
    left = local[:, -2:-1]  # relative to it, short elements far from the origin keep their digits
    at_points = lambda f: jnp.einsum("kga,kad->kgd", f, local - left)
    flat = lambda points: points.reshape(-1, points.shape[-1])
    jet = metric.jet_along(flat(left + at_points(values)), flat(at_points(slopes)))
    jet = Jet(*(leaf.reshape(K, corners - 1, *leaf.shape[1:]) for leaf in jet))
    test = lambda f, load: jnp.einsum("kga,kgi->kai", weight[..., None] * f, load)
    gradient = test(values, jet.x) + test(slopes, jet.v)
    hessian, laplacian = _couple(weight, values, slopes, jet)
    return Sum(jnp.sum(weight * jet.value), gradient.reshape(K, -1), hessian, laplacian)


def second_variation(jet: Jet, widths: Float[Array, " K"]) -> Float[Array, "K m m"]:
    """The second variation of the energy along a curve whose jets at the midpoints of K panels are known.

    For variations that are linear on each panel, by the midpoint rule; the matrices of the panels are to be summed.
    """
    jet = Jet(*(leaf[:, None] for leaf in jet))
    values, slopes = jnp.full((len(widths), 1, 2), 0.5), jnp.array([-1.0, 1.0]) / widths[:, None, None]
    return _couple(widths[:, None], values, slopes, jet)[0]


def _couple(weight: Any, values: Any, slopes: Any, jet: Jet) -> tuple[Any, Any]:
    """Each element's Hessian and Laplacian (K, m, m), from weights (K, s), basis (K, s, s + 1) and jets (K, s, ...)."""
    weight = weight[..., None, None]
    both = lambda f, g, h: jnp.einsum("kgab,kgij->kaibj", weight * f[..., :, None] * g[..., None, :], h)
    mixed, laplacian = both(values, slopes, jet.xv), both(slopes, slopes, jet.vv)
    hessian = both(values, values, jet.xx) + mixed + mixed.transpose(0, 3, 4, 1, 2) + laplacian
    K, corners, d = laplacian.shape[:3]
    square = lambda h: h.reshape(K, corners * d, corners * d)
    return square(hessian), square(laplacian)


def newton_step(total: Sum, damping: Any, dim: int) -> tuple[Any, Any]:
    """−(H + damping · B)⁻¹ g as nodes, zero at both ends, and the smallest pivot; B is the Laplacian."""
    inner, nodes, pivot = elimination.solve(total.hessian + damping * total.laplacian, -total.gradient, dim)
    K = len(inner)
    each = jnp.concatenate([nodes[:-1, None], inner.reshape(K, -1, dim)], axis=1)
    return jnp.concatenate([each.reshape(-1, dim), nodes[-1:]]), pivot


def times(matrices: Float[Array, "K m m"], nodes: Float[Array, "N d"]) -> Float[Array, "K m"]:
    """The elements' matrices times a curve."""
    return jnp.einsum("kij,kj->ki", matrices, element_nodes(nodes, len(matrices)).reshape(len(matrices), -1))


def inner(loads: Float[Array, "K m"], nodes: Float[Array, "N d"]) -> Float[Array, ""]:
    """The sum of the elements' loads times a curve."""
    return jnp.sum(loads * element_nodes(nodes, len(loads)).reshape(loads.shape))


def element_nodes(nodes: Float[Array, "N d"], elements: int) -> Float[Array, "K corners d"]:
    """The nodes of each element, in the basis' order."""
    d = nodes.shape[-1]
    each = nodes[:-1].reshape(elements, -1, d)
    right = jnp.concatenate([each[1:, :1], nodes[None, -1:]])
    return jnp.concatenate([each[:, 1:], each[:, :1], right], axis=1)


def hermite(metric: Metric, nodes: Any, widths: Any) -> tuple[Any, Any, Any]:
    """Position, velocity and acceleration at the K + 1 ends of the elements of a curve of least energy.

    The momentum M c' at an end is the derivative of an element's energy by that end: as accurate as the nodes, while
    the slope of the element's polynomial is not. Velocity and acceleration follow from it.
    """
    d = nodes.shape[-1]
    gradient = assemble(metric, nodes, widths).gradient
    from_right, from_left = -gradient[:, -2 * d : -d], gradient[:, -d:]
    momentum = jnp.concatenate([from_right[:1], 0.5 * (from_right[1:] + from_left[:-1]), from_left[-1:]])
    ends = nodes[:: (len(nodes) - 1) // len(widths)]
    velocity = metric.raise_along(ends, momentum)
    return ends, velocity, metric.motion_along(ends, velocity)[0]
