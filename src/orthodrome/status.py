"""How a solve ended, and what the judge holds against a curve: numbers for programs, sentences for
people."""

import enum


class Status(enum.IntEnum):
    """How a solver ended. Only `CONVERGED` counts as success; `sentence` says what to try
    otherwise."""

    CONVERGED = 0
    MAX_ITERATIONS = 1
    NON_FINITE = 2
    MAX_NODES = 3
    SINGULAR_JACOBIAN = 4
    MAX_STEPS = 5
    UNRESOLVED = 6
    SADDLE = 7
    NOT_SATISFIED = 8

    @property
    def sentence(self) -> str:
        """What happened and what to do about it."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.CONVERGED: "converged by the solver's own test",
    Status.MAX_ITERATIONS: (
        "out of budget (max_iter): begin from a path nearby (init=), or try another solver"
    ),
    Status.NON_FINITE: (
        "non-finite numbers on the way: it diverged, or the metric is not finite and positive there"
    ),
    Status.MAX_NODES: (
        "the collocation mesh reached max_nodes; raise max_nodes or try solver=Auto()"
    ),
    Status.SINGULAR_JACOBIAN: (
        "a singular Jacobian stopped the collocation; try solver=Auto() or init= a path nearby"
    ),
    Status.MAX_STEPS: "the integrator ran out of steps before t = 1; shorten the velocity",
    Status.UNRESOLVED: (
        "the finest curve allowed does not resolve its length to rtol; raise max_elements or rtol"
    ),
    Status.SADDLE: (
        "a geodesic that is a saddle: curves nearby are shorter; try init= a path on one side of it"
    ),
    Status.NOT_SATISFIED: (
        "the curve does not satisfy the geodesic equation at the knots; try FixedPoint() or Auto()"
    ),
}

RUNNING = -1
"""The status of a problem that is still being worked on; it never leaves the loop in `batching`."""


class Flaw(enum.IntEnum):
    """Why the judge does not certify a curve: the first of its demands that the curve does not
    meet."""

    NONE = 0
    NON_FINITE = 1
    ENDS = 2
    RESIDUAL = 3
    SPEED = 4
    NOT_MINIMISING = 5
    ERROR = 6
    CUT_SHORT = 7
    UNMEASURED = 8

    @property
    def sentence(self) -> str:
        """What is wrong with the curve."""
        return _FLAWS[self]


_FLAWS = {
    Flaw.NONE: "a locally minimising geodesic",
    Flaw.NON_FINITE: "its length is not a finite number",
    Flaw.ENDS: "it does not meet the ends that were asked for",
    Flaw.RESIDUAL: "it does not satisfy the geodesic equation between its knots",
    Flaw.SPEED: "its speed is not constant",
    Flaw.NOT_MINIMISING: "its second variation is not positive: curves nearby are shorter",
    Flaw.ERROR: "the estimated error of its length is above rtol",
    Flaw.CUT_SHORT: "it was not followed to its end",
    Flaw.UNMEASURED: "its speed is so uneven that its length cannot be measured",
}
