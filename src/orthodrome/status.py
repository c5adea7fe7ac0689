"""How a solve ended: a number for programs, a sentence for people."""

import enum


class Status(enum.IntEnum):
    """How a solver ended. Only `CONVERGED` counts as success; `sentence` says what to try otherwise."""

    CONVERGED = 0
    MAX_ITERATIONS = 1
    NON_FINITE = 2
    MAX_NODES = 3
    SINGULAR_JACOBIAN = 4
    MAX_STEPS = 5
    UNRESOLVED = 6
    SADDLE = 7

    @property
    def sentence(self) -> str:
        """What happened and what to do about it."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.CONVERGED: "converged by the solver's own test",
    Status.MAX_ITERATIONS: "no fixed point in max_iter iterations; try a finer mesh, a larger max_iter or init=",
    Status.NON_FINITE: "non-finite numbers on the way: it diverged, or the metric is not finite and positive there",
    Status.MAX_NODES: "the collocation mesh reached max_nodes; raise max_nodes or try solver=FixedPoint()",
    Status.SINGULAR_JACOBIAN: "a singular Jacobian stopped the collocation; try FixedPoint() or init= a path nearby",
    Status.MAX_STEPS: "the integrator ran out of steps before t = 1; shorten the velocity",
    Status.UNRESOLVED: "a locally minimising geodesic whose length is not resolved to rtol; raise max_elements or rtol",
    Status.SADDLE: "a geodesic that is not minimising: nearby curves are shorter; try more starts or another init=",
}

RUNNING = -1
"""The status of a problem that is still being worked on; it never leaves the loop in `batching`."""
