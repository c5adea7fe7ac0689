"""Paths: what a user gets back, and `shortest_path`, which finds them."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from orthodrome import _boundary, saving, solving
from orthodrome._types import Array, ArrayLike, Index, RandomState
from orthodrome.curves import (
    Curve,
    GPCurve,
    Kernel,
    PiecewiseCurve,
    SquaredExponential,
    uniform_process,
)
from orthodrome.judging import Verdict
from orthodrome.metrics import Metric
from orthodrome.solvers import Problem, Solution, Solver
from orthodrome.solvers.base import moved
from orthodrome.status import Flaw, Status

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

MOVED_POINTS = 129
"""Of a path that is moved to other ends, to begin from."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Path:
    """One path, or an array of paths, from t = 0 to t = 1, with what is known about each.

    Every number has the shape `shape` of the problems: `()` for one path, `(...)` for many.
    `path[i]` takes some.
    """

    metric: Metric | None
    """The metric it was found on; None for a path from a file that does not hold its metric."""
    solution: Solution
    """The P curves, and how the search for each ended, in the order of `shape`."""
    shape: tuple[int, ...]
    solver: str
    """Which solver made it, for people."""

    # --- what was found, and how sure it is ---

    @property
    def curve(self) -> Curve:
        """The curves, flattened to (P, ...)."""
        return self.solution.curve

    @property
    def verdict(self) -> Verdict:
        """What the judge says of them, (P,). If the solver did not ask already, it is asked now,
        once."""
        return self.solution.verdict

    @property
    def length(self) -> Any:
        """The curve's own length, by quadrature on it, whatever its status: an upper bound on the
        distance. NaN where it has no finite length, or none that can be measured."""
        return self._shaped(self.verdict.length)

    @property
    def energy(self) -> Any:
        """½ ∫ c'ᵀ M c' dt. At constant speed, length² = 2 · energy."""
        return self._shaped(self.verdict.energy)

    @property
    def converged(self) -> Any:
        """The solver's own test. It says nothing about the curve between the solver's knots;
        `certified` does."""
        return self._shaped(self.solution.converged)

    @property
    def certified(self) -> Any:
        """The library's judgement, the same for every solver, checked between the knots too.

        Finite; ends exact; small residual; constant speed; second variation positive, so that no
        curve nearby is shorter; `error` below the tolerance. It says "a locally minimising
        geodesic", and `message` of how many starts it was the shortest: that there is no shorter
        path far away is more than anyone has checked.
        """
        return self._shaped(self.verdict.certified)

    @property
    def residual(self) -> Any:
        """max over t of ‖c'' − f(c, c')‖_M / length: how far the curve is from solving the geodesic
        equation."""
        return self._shaped(self.verdict.residual)

    @property
    def error(self) -> Any:
        """The estimated relative error of `length`, as the length of the geodesic near the
        curve."""
        return self._shaped(self.verdict.error)

    @property
    def status(self) -> Any:
        """How the solver ended: a `Status`, or an array of its numbers."""
        status = self.solution.status
        return self._shaped(status) if self.shape else Status(status[0])

    @property
    def message(self) -> Any:
        """What was found, in a sentence: a string, or an array of strings."""
        rows = zip(self.solution.status, self.verdict.flaw, self.solution.tried, strict=True)
        sentences = np.array([_sentence(*row) for row in rows], dtype=object)
        return self._shaped(sentences) if self.shape else sentences[0]

    @property
    def alternatives(self) -> Any:
        """The locally minimising geodesics that were found between the same ends, as a `Path` of
        shape (k,), the shortest first, which is this one. For an array of paths, an array of such.

        Only of `Auto(alternatives=True)`; not kept in files.
        """
        kept = self.solution.alternatives
        if kept is None:
            raise ValueError(
                "the alternatives were not kept: ask for them with solver=Auto(alternatives=True)."
            )
        known = dataclasses.replace(self.solution.forgetful(), alternatives=None)
        out = np.empty(len(self.curve), dtype=object)
        for i in range(len(out)):
            shortest, rest = known.take([i]), kept.of(np.array([i]))
            further = Solution(
                rest.curve,
                rest.status,
                np.full(len(rest.problem), shortest.iterations[0]),
                start_count=np.ones(len(rest.problem), int),
                judged=rest.verdict,
            )
            both = Solution.join([shortest, further])
            out[i] = dataclasses.replace(self, solution=both, shape=(len(both.status),))
        return self._shaped(out) if self.shape else out[0]

    @property
    def iterations(self) -> Any:
        """How many iterations the solver took; for `Auto` and `Energy`, how often they evaluated
        the energy."""
        return self._shaped(self.solution.iterations)

    # --- the curve ---

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.curve.start.shape[-1]

    def __call__(self, t: ArrayLike) -> Array:
        """The points at times `t` in [0, 1]: (..., T, d), or (..., d) for a single time."""
        return self._evaluate(t, 0)

    def velocity(self, t: ArrayLike) -> Array:
        """c'(t): (..., T, d)."""
        return self._evaluate(t, 1)

    def acceleration(self, t: ArrayLike) -> Array:
        """c''(t): (..., T, d)."""
        return self._evaluate(t, 2)

    def speed(self, t: ArrayLike) -> Array:
        """√(c'ᵀ M c') at times `t`: (..., T). Constant on a geodesic."""
        return self._metric.norm(self(t), self.velocity(t))

    # --- the Gaussian process posterior ---

    def covariance(self, t: ArrayLike) -> Array:
        """The posterior covariance of the point at each time: (..., T, d, d), with V =
        [(a−b)ᵀS(a−b)]·S.

        After `FixedPoint(calibrate=True)`, V is scaled to what makes the accelerations likeliest.
        The observations of `HennigHauberg` have noise of their own, which is in it too.
        """
        times = _boundary.as_times(t)
        out = self._posterior_curve.covariance(
            times.ravel(), self._metric.prior_covariance(self.dim)
        )
        return self._shaped(out.reshape(len(self.curve), *times.shape, self.dim, self.dim))

    def std(self, t: ArrayLike) -> Array:
        """The posterior standard deviation of each coordinate: (..., T, d)."""
        return np.sqrt(np.diagonal(self.covariance(t), axis1=-2, axis2=-1))

    def sample(self, t: ArrayLike, n: int = 1, random_state: RandomState = None) -> Array:
        """`n` curves drawn from the posterior, at times `t`: (n, ..., T, d)."""
        times, n = _boundary.as_times(t), _boundary.as_count(n, "n", 1)
        rng = np.random.default_rng(random_state)
        noise = rng.standard_normal((n, len(self.curve), times.size, self.dim))
        S = self._metric.prior_covariance(self.dim)
        spread = self._posterior_curve.deviations(times.ravel(), S, noise)
        mean = self.curve.evaluate(times.ravel())
        return (mean + spread).reshape(n, *self.shape, *times.shape, self.dim)

    def posterior(
        self,
        mesh: int = 10,
        kernel: Kernel | None = None,
        noise: float = 1e-7,
        calibrate: bool = False,
    ) -> "Path":
        """The Gaussian process posterior given this path's ends and its accelerations at `mesh`
        knots.

        Gives paths of solvers without a posterior a `covariance`, `std` and `sample`. Its mean is a
        new curve, close to this one if the mesh is fine enough, and it is judged anew.
        `calibrate=True` scales its spread to what makes the accelerations likeliest; it then goes
        with the units of the coordinates.
        """
        mesh, noise = _boundary.as_count(mesh, "mesh", 2), _boundary.as_positive(noise, "noise")
        kernel = SquaredExponential() if kernel is None else kernel
        _boundary.require_instance(kernel, Kernel, "kernel", "SquaredExponential() or Matern()")
        process = uniform_process(mesh, kernel, noise)
        a, b = self.curve.start, self.curve.end
        curve = GPCurve(process, a, b, self.curve.evaluate(process.knots, 2), calibrate)
        solution = dataclasses.replace(
            self.solution,
            curve=curve,
            judged=None,
            asked=Problem(self._metric, a, b),
            alternatives=None,
        )
        solver = f"the posterior of {self.solver}"
        return dataclasses.replace(self, solution=solution, solver=solver)

    # --- many paths, files, people ---

    def __getitem__(self, index: Index | int | tuple[Index | int, ...]) -> "Path":
        if not self.shape:
            raise IndexError(
                "this is a single path: there is nothing to index. Evaluate it with path(t)."
            )
        chosen = np.arange(len(self.curve)).reshape(self.shape)[index]
        flat = np.atleast_1d(chosen).ravel()
        return dataclasses.replace(self, solution=self.solution.take(flat), shape=chosen.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(
                "a single path has no len(); path.length is its length on the manifold."
            )
        return self.shape[0]

    def __iter__(self) -> Iterator["Path"]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return True  # a path is something, also a single one, which has no len()

    def save(self, file: str | FilePath) -> None:
        """Write a `.npz` file, without pickle. The metric is written with it if it is made of
        arrays, as `LocalPCA` is; a function cannot be."""
        saving.write(file, self.metric, self.solution, self.shape, self.solver)

    @classmethod
    def load(cls, file: str | FilePath, metric: Metric | None = None) -> "Path":
        """Read a path written by `save`; give `metric` if it is not in the file and you need
        `speed` or `posterior`."""
        there, solution, shape, solver = saving.read(file)
        return cls(
            there if metric is None else solving.require_metric(metric), solution, shape, solver
        )

    def plot(self, ax: "Axes | None" = None, **style: Any) -> "list[Artist]":
        """Draw the path on matplotlib axes; returns the artists. See
        `orthodrome.plotting.paths`."""
        from orthodrome import plotting

        return plotting.paths(self, ax=ax, **style)

    def __repr__(self) -> str:
        """What was found and how sure it is, in three lines."""
        v, n = self.verdict, len(self.curve)
        converged, certified = np.sum(self.solution.converged), np.sum(v.certified)
        if not self.shape:
            sure = f"relative error below {at_most(v.error[0])}, residual {v.residual[0]:.0e}"
            return (
                f"Path from {_brief(self.curve.start[0])} to {_brief(self.curve.end[0])}, by "
                f"{self.solver}\n"
                f"  length {v.length[0]:.6g} ({sure})\n"
                f"  {self.message}"
            )
        span = (
            f"{np.nanmin(v.length):.4g} to {np.nanmax(v.length):.4g}"
            if n and not np.all(np.isnan(v.length))
            else "none"
        )
        return (
            f"{n} Paths of shape {self.shape} in {self.dim} dimensions, by {self.solver}\n"
            f"  lengths {span}\n"
            f"  {converged} converged, {certified} certified"
        )

    def _repr_html_(self) -> str:
        from orthodrome import notebook

        return notebook.path_card(self)

    def _shaped(self, values: Array) -> Any:
        return values.reshape((*self.shape, *values.shape[1:]))[()]

    def _evaluate(self, t: ArrayLike, order: int) -> Array:
        times = _boundary.as_times(t)
        return self._shaped(
            self.curve.evaluate(times.ravel(), order).reshape(
                len(self.curve), *times.shape, self.dim
            )
        )

    @property
    def _posterior_curve(self) -> Curve:
        if not self.curve.has_posterior:
            raise TypeError(
                f"a path by {self.solver} has no Gaussian process posterior: path.posterior() "
                "makes one."
            )
        return self.curve

    @property
    def _metric(self) -> Metric:
        if self.metric is None:
            raise ValueError(
                "the metric of this path is not in its file (it was a function, or of a class that "
                "is not imported here): Path.load(file, metric=...)."
            )
        return self.metric


def shortest_path(
    metric: Metric,
    start: ArrayLike,
    end: ArrayLike,
    solver: Solver | None = None,
    init: Path | None = None,
) -> Path:
    """The shortest path from `start` to `end`.

    `start` and `end` are points `(..., d)` whose leading axes broadcast: one call solves many
    problems together. `solver=None` means `Auto()`. `init` is another `Path` to begin from, of a
    shape that broadcasts; if its ends are others, it is moved to these, and what lies between is
    moved along.

    Problems that are not solved are warned about once (`ConvergenceWarning`), and `path.converged`,
    `path.status` and `path.message` say which and why.
    """
    metric, solver = solving.require_metric(metric), solving.require_solver(solver)
    a, b, shape = solving.require_ends(metric, start, end, ("start", "end"))
    begin = _require_init(init, shape, a, b)
    solutions = [solution for _, solution in solving.solve(metric, a, b, solver, begin)]
    solution = Solution.join(solutions)
    _boundary.warn_unconverged(solution.status, "paths")
    return Path(metric, solution, shape, repr(solver))


def _require_init(init: object, shape: tuple[int, ...], start: Array, end: Array) -> Curve | None:
    if init is None:
        return None
    init = _boundary.require_instance(init, Path, "init", "a Path to begin from")
    if init.dim != start.shape[-1]:
        raise ValueError(f"init has {init.dim} coordinates, start and end have {start.shape[-1]}.")
    try:
        index = np.broadcast_to(np.arange(len(init.curve)).reshape(init.shape), shape)
    except ValueError:
        raise ValueError(
            f"init has shape {init.shape}, which does not broadcast to the problems' {shape}."
        ) from None
    curve = init.curve.take(index.ravel())
    if np.array_equal(curve.start, start) and np.array_equal(curve.end, end):
        return curve
    times = np.linspace(0.0, 1.0, MOVED_POINTS)
    return PiecewiseCurve.through(moved(curve.evaluate(times), times, start, end))


def at_most(value: float) -> str:
    """A number with one digit, rounded up: what is said to lie below it does."""
    if not np.isfinite(value) or value <= 0:
        return f"{value:.0e}"
    unit = 10.0 ** np.floor(np.log10(value))
    return f"{np.ceil(value / unit * (1 - 1e-12)) * unit:.0e}"


def _sentence(status: int, flaw: int, starts: int) -> str:
    """How one solve ended and what the judge says of it."""
    shortest = f", the shortest of {starts} starts" if starts > 1 else ""
    if status == Status.CONVERGED and flaw == Flaw.NONE:
        return f"certified: {Flaw.NONE.sentence}{shortest}"
    judgement = "certified" if flaw == Flaw.NONE else f"not certified: {Flaw(flaw).sentence}"
    return f"{Status(status).sentence}; {judgement}"


def _brief(point: Array) -> str:
    return np.array2string(point, precision=4, threshold=6, edgeitems=2)
