"""Points of a sample that stand for it, its distances measured along roads between nearest
neighbours: quick first guesses, for which no path is computed."""

import numpy as np
from scipy.sparse.csgraph import dijkstra

from orthodrome._types import Array
from orthodrome.metrics import Metric
from orthodrome.roadmap import Roadmap

NEIGHBOURS = 10
"""How many roads each point has to others."""

CANDIDATES = 256
"""So many of the points, at most, may be the medoid of a sample."""

CROSSINGS = 1000
"""So many of the points, drawn at random, are clustered: bounds time and memory."""

STARTS, ROUNDS = 24, 50
"""Clusterings that are tried, and the assignments of each, at most."""


def medoid(metric: Metric, x: Array, w: Array, median: bool = False) -> Array:
    """The point (d,) of the sample (n, d) with weights (n,) that is the best mean, or median."""
    places, member = np.unique(x, axis=0, return_inverse=True)
    if len(places) == 1:
        return places[0]
    mass = np.bincount(member.ravel(), w, minlength=len(places))
    roads = Roadmap.of(metric, places, NEIGHBOURS)
    mass = mass[:: -(-len(places) // len(roads.nodes))]
    some = np.flatnonzero(mass > 0)
    some = some[:: -(-len(some) // CANDIDATES)]
    far = dijkstra(roads.roads, indices=some)
    return roads.nodes[some[np.argmin((far if median else far**2) @ mass)]]


def medoids(metric: Metric, x: Array, count: int, rng: np.random.Generator) -> list[Array]:
    """Sets (count, d) of points of the sample (n, d) with little distance to the others, the best
    first.

    Several beginnings as by k-means++, then Lloyd's algorithm with medoids for means; each set is
    listed once. Distances are not squared, so that points far off do not count more than the rest.
    """
    some = np.sort(rng.permutation(len(x))[: max(CROSSINGS, count)])
    places, mass = np.unique(x[some], axis=0, return_counts=True)
    if len(places) <= count:  # too few different points: some of them stand twice
        return [places[np.arange(count) % len(places)]]
    far = dijkstra(Roadmap.of(metric, places, NEIGHBOURS).roads)
    costs = {}
    for _ in range(STARTS):
        chosen = _lloyd(far, mass, _seeds(far, mass, count, rng))
        costs[tuple(np.sort(chosen))] = np.sum(far[chosen].min(axis=0) * mass)
    return [places[list(chosen)] for chosen in sorted(costs, key=costs.__getitem__)]


def _seeds(far: Array, mass: Array, count: int, rng: np.random.Generator) -> Array:
    """k-means++: each is drawn with a probability like its distance from those before."""
    chosen = [rng.choice(len(mass), p=mass / mass.sum())]
    for _ in range(count - 1):
        share = far[chosen].min(axis=0) * mass
        chosen.append(rng.choice(len(mass), p=share / share.sum()))
    return np.array(chosen)


def _lloyd(far: Array, mass: Array, chosen: Array) -> Array:
    for _ in range(ROUNDS):
        label, before = np.argmin(far[chosen], axis=0), chosen
        label[chosen] = np.arange(len(chosen))  # even where others are no way off
        groups = [np.flatnonzero(label == k) for k in range(len(chosen))]
        chosen = np.array(
            [group[np.argmin(far[np.ix_(group, group)] @ mass[group])] for group in groups]
        )
        if np.array_equal(chosen, before):
            break
    return chosen
