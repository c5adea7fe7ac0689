"""Curves by elements: piecewise polynomials whose energy, gradient and second variation are sums
over elements.

A curve has K elements of degree s, and each of them s Gauss points. With degree 1 that is a
polyline with the midpoint rule. The curve of least energy is then the Gauss collocation solution of
the geodesic equation, of order 2s at the ends of the elements (docs/derivations/energy.md): one
family, from a robust polyline to high order.
"""

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from orthodrome._types import Array, Float, JaxArray, Scalar
from orthodrome.metrics import Jet, Metric


class Basis(NamedTuple):
    """Lagrange polynomials of one degree s on [0, 1], in the order interior, left, right."""

    nodes: Array
    """(s + 1,): where each of them is 1. Gauss–Lobatto points: evenly spaced ones would be ill
    conditioned."""
    weights: Array
    """(s,): of the Gauss points."""
    values: Array
    """(s, s + 1): at the Gauss points."""
    slopes: Array
    """(s, s + 1)"""
    gauss: Array
    """(s,): the Gauss points."""
    to_gauss: Array
    """(s, s): integrals from 0 to each Gauss point of the polynomials that are 1 at one of them and
    0 at the others."""
    to_nodes: Array
    """(s + 1, s): and to the nodes."""


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
    whole = gauss[:, None] ** powers[:-1]
    integrals = lambda x: x[:, None] ** powers[1:] / powers[1:] @ np.linalg.inv(whole)
    return Basis(nodes, w / 2, values, slopes, gauss, integrals(gauss), integrals(nodes))


def node_times(breaks: Array, degree: int) -> Array:
    """When a curve with these breaks (..., K + 1) is at each of its nodes: (..., K s + 1)."""
    inner = basis(degree).nodes[:-2]
    left, width = breaks[..., :-1, None], np.diff(breaks)[..., None]
    each = np.concatenate([left, left + width * inner], axis=-1)
    return np.concatenate([each.reshape(*each.shape[:-2], -1), breaks[..., -1:]], axis=-1)


def at_gauss_points(
    nodes: Float[JaxArray, "N d"], widths: Float[JaxArray, " K"]
) -> tuple[JaxArray, JaxArray]:
    """Position and velocity (K, s, d) of a curve given by its nodes."""
    local = element_nodes(nodes, len(widths))
    rule = basis(local.shape[1] - 1)
    left = local[:, -2:-1]  # relative to it, short elements far from the origin keep their digits
    at_points = lambda f: jnp.einsum("ga,kad->kgd", f, local - left)
    return left + at_points(rule.values), at_points(rule.slopes) / widths[:, None, None]


def by_nodes(
    widths: Float[JaxArray, " K"],
    by_x: Float[JaxArray, "K s d"],
    by_v: Float[JaxArray, "K s d"],
) -> Float[JaxArray, "K corners d"]:
    """The derivative of an energy by the nodes of each element, from the
    density's by c and c'."""
    rule = basis(by_x.shape[1])
    weight = (widths[:, None] * rule.weights)[..., None]
    test = lambda f, load: jnp.einsum("ga,kgi->kai", f, load)
    return test(rule.values, weight * by_x) + test(rule.slopes, rule.weights[:, None] * by_v)


def _flat(points: JaxArray) -> JaxArray:
    return points.reshape(-1, points.shape[-1])


def second_variation(jet: Jet, widths: Float[JaxArray, " K"]) -> Float[JaxArray, "K m m"]:
    """The second variation of the energy along a curve whose jets at the midpoints of K panels are
    known.

    For variations that are linear on each panel, by the midpoint rule; the matrices of the panels
    are to be summed.
    """
    jet = Jet(*(leaf[:, None] for leaf in jet))
    values = jnp.full((len(widths), 1, 2), 0.5)
    slopes = jnp.array([-1.0, 1.0]) / widths[:, None, None]
    return couple(widths[:, None], values, slopes, jet)[0]


def couple(
    weight: Float[JaxArray, "K s"],
    values: Float[JaxArray, "K s corners"],
    slopes: Float[JaxArray, "K s corners"],
    jet: Jet,
) -> tuple[Float[JaxArray, "K m m"], Float[JaxArray, "K m m"]]:
    """Each element's Hessian and Laplacian, from weights, a basis, and jets (K, s, ...)."""
    weight = weight[..., None, None]
    both = lambda f, g, h: jnp.einsum(
        "kgab,kgij->kaibj", weight * f[..., :, None] * g[..., None, :], h
    )
    mixed, laplacian = both(values, slopes, jet.xv), both(slopes, slopes, jet.vv)
    hessian = both(values, values, jet.xx) + mixed + mixed.transpose(0, 3, 4, 1, 2) + laplacian
    K, corners, d = laplacian.shape[:3]
    square = lambda h: h.reshape(K, corners * d, corners * d)
    return square(hessian), square(laplacian)


def times(
    matrices: Float[JaxArray, "K m m"], nodes: Float[JaxArray, "N d"]
) -> Float[JaxArray, "K corners d"]:
    """The elements' matrices times a curve."""
    local = element_nodes(nodes, len(matrices))
    return jnp.einsum("kij,kj->ki", matrices, local.reshape(len(matrices), -1)).reshape(local.shape)


def inner(loads: Float[JaxArray, "K corners d"], nodes: Float[JaxArray, "N d"]) -> Scalar:
    """The sum of the elements' loads times a curve."""
    return jnp.sum(loads * element_nodes(nodes, len(loads)))


def integrate(
    slopes: Float[JaxArray, "K s d"], widths: Float[JaxArray, " K"], to: Array
) -> Float[JaxArray, "K p d"]:
    """The curve from zero that has these slopes at the Gauss points, at p points of each element
    (`Basis.to_...`)."""
    rise = widths[:, None] * jnp.einsum("g,kgd->kd", basis(slopes.shape[1]).weights, slopes)
    left = jnp.cumsum(rise, axis=0) - rise
    return left[:, None] + widths[:, None, None] * jnp.einsum("pg,kgd->kpd", to, slopes)


def nodes_of(local: Float[JaxArray, "K corners d"]) -> Float[JaxArray, "N d"]:
    """A curve's nodes from those of each element."""
    each = jnp.concatenate([local[:, -2:-1], local[:, :-2]], axis=1)
    return jnp.concatenate([each.reshape(-1, local.shape[-1]), local[-1, -1:]])


def element_nodes(nodes: Float[JaxArray, "N d"], elements: int) -> Float[JaxArray, "K corners d"]:
    """The nodes of each element, in the basis' order; `nodes_of` is the way back."""
    d = nodes.shape[-1]
    each = nodes[:-1].reshape(elements, -1, d)
    right = jnp.concatenate([each[1:, :1], nodes[None, -1:]])
    return jnp.concatenate([each[:, 1:], each[:, :1], right], axis=1)


def gather(loads: Float[JaxArray, "K corners d"]) -> Float[JaxArray, "N d"]:
    """The loads of all elements on each node, together."""
    degree = loads.shape[1] - 1
    return nodes_of(loads).at[degree:-1:degree].add(loads[:-1, -1])


def deal(loads: Float[JaxArray, "N d"], elements: int) -> Float[JaxArray, "K corners d"]:
    """Loads on the nodes, each given to one element: `gather` is the way back."""
    return element_nodes(loads, elements).at[:-1, -1].set(0.0)


def gradient(
    metric: Metric, nodes: Float[JaxArray, "N d"], widths: Float[JaxArray, " K"]
) -> Float[JaxArray, "K corners d"]:
    """The derivative of the energy by the nodes of each element."""
    c, v = at_gauss_points(nodes, widths)
    _, by_x, by_v = metric.slope_along(_flat(c), _flat(v))
    return by_nodes(widths, by_x.reshape(c.shape), by_v.reshape(c.shape))


def hermite(
    metric: Metric,
    nodes: Float[JaxArray, "N d"],
    widths: Float[JaxArray, " K"],
    gradient: Float[JaxArray, "K corners d"],
) -> tuple[JaxArray, JaxArray, JaxArray]:
    """Position, velocity and acceleration at the K + 1 ends of the elements of a curve of least
    energy.

    The momentum M c' at an end is the derivative of an element's energy by that end: as accurate as
    the nodes, while the slope of the element's polynomial is not. Velocity and acceleration follow
    from it. The last two rows of each element's `gradient` are those of its ends.
    """
    from_right, from_left = -gradient[:, -2], gradient[:, -1]
    momentum = jnp.concatenate(
        [from_right[:1], 0.5 * (from_right[1:] + from_left[:-1]), from_left[-1:]]
    )
    ends = nodes[:: (len(nodes) - 1) // len(widths)]
    return ends, *metric.launch_along(ends, momentum)
