"""Why the constants of `Auto` have the values they have: each is changed alone, and what is lost?

    python benchmarks/constants.py                    # every constant of the table
    python benchmarks/constants.py search.WIDER       # only some

Half of the pairs on data in the plane of the reference set (benchmarks/reference). A row says how
many paths are within 0.1 % of the reference, how many are more than 1 % longer, how many are
certified, and the time a path beside that of the values as they are, in the same run.
"""

import argparse
import importlib
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import orthodrome as od
from orthodrome import programs

sys.path.insert(0, str(Path(__file__).parent))
from auto import cases

EVERY = 2
"""So many pairs are one: half of them tell values apart that differ by a percent of the pairs."""

ROUNDS = 2
"""Times are the least of so many."""

CHANGES = {
    "search.TOL": (1e-1, 1e-3),
    "search.DAMPING": (1e-3, 1.0),
    "search.SHORT": (1.0, 16.0),
    "search.QUICK": (2, 8),
    "search.BOWS": ((), ((0, 0.25), (1, 0.5), (5, 1.0))),
    "search.MORE_BOWS": ((), ((2, 0.12), (3, 0.25), (4, 0.5), (6, 0.75), (7, 1.0))),
    "search.DETOURS": (0, 4),
    "search.WIDER": (1.4, 4.0),
    "search.SAME_CURVE": (0.01, 0.2),
    "search.WORSE": (0.001, 0.05),
    "starts.NEIGHBOURS": (1, 4),
    "starts.NOVEL": (0.02, 0.4),
    "Discretisation.search_elements": (8, 32),
    "Discretisation.polish_elements": (16, 64),
    "polishing.TOL": (1e-1, 1e-4),
    "polishing.BY_DISTANCE": (0.0, 0.9),
    "polishing.BEATEN": (0.0, 0.03),
    "descent.BEND": (0.003, 0.3),
    "descent.LEAST_DAMPING": (1e-4, 1e-1),
    "descent.DAMPING_GROWTH": (2.0, 16.0),
    "descent.REACH": (0.2, 5.0),
    "graph.NEIGHBOURS": (5, 20),
}
"""Other values of each constant: one that is cheaper or bolder, one that is dearer or shyer."""


def place(name):
    """Where a constant lives: the object and the attribute."""
    room, attribute = name.split(".")
    if room == "Discretisation":
        return importlib.import_module("orthodrome.discretisation").Discretisation, attribute
    return importlib.import_module(f"orthodrome.solvers.{room}"), attribute


def planar():
    """Metrics of 400 points in the plane, of one shape, with their pairs and reference lengths."""
    for family, reference in cases():
        if np.shape(family.metric.data) == (400, 2):
            yield family.metric, family.start[::EVERY], family.end[::EVERY], reference[::EVERY]


def run():
    """Shares of good, bad and certified paths, and milliseconds a path."""
    programs._PROGRAMS = programs.Programs()  # constants are compiled in
    jax.clear_caches()
    longer, certified, seconds = [], [], 0.0
    for metric, start, end, reference in planar():
        times = []
        for _ in range(1 + ROUNDS):
            began = time.perf_counter()
            length, info = od.distance(metric, start, end, return_info=True)
            times.append(time.perf_counter() - began)
        seconds += min(times[1:])
        longer.append(length / reference - 1)
        certified.append(info.certified)
    longer, certified = np.concatenate(longer), np.concatenate(certified)
    shares = np.mean(longer <= 1e-3), np.mean(~(longer <= 1e-2)), np.mean(certified)
    return (*shares, 1e3 * seconds / len(longer))


def show(name, value, result, usual=None):
    good, bad, certified, ms = result
    ratio = "" if usual is None else f"{ms / usual[-1]:.2f} x"
    print(
        f"{name:32} {str(value)[:34]:34} {good:7.2%} {bad:8.2%} {certified:9.2%} {ms:7.2f} {ratio:>7}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(CHANGES), help="room.CONSTANT")
    names = parser.parse_args().names
    warnings.simplefilter("ignore", od.ConvergenceWarning)
    print(f"{'constant':32} {'value':34} {'0.1 %':>7} {'> 1 %':>8} {'certified':>9} {'ms':>7}")
    usual = run()
    show("as they are", "", usual)
    for name in names:
        home, attribute = place(name)
        kept = getattr(home, attribute)
        for value in CHANGES[name]:
            setattr(home, attribute, value)
            try:
                show(f"{name} ({kept})"[:32], value, run(), usual)
            except Exception as error:  # a value that cannot be is an answer too
                print(f"{name:32} {value!s:34} {type(error).__name__}: {error}"[:100], flush=True)
        setattr(home, attribute, kept)
    show("as they are, again", "", run(), usual)


if __name__ == "__main__":
    main()
