"""Other libraries' geodesic solvers on our problems: the same metric, each in its own terms.

The extra `bench` brings them (`make peers`). geomstats imports `numpy.trapz`, gone in NumPy 2.4:
lent below.

`installed()[name](metric, start, end)` solves one problem and returns an `Answer`. A peer that is
not installed is left out with a printed line; one that raises, or needs more than `LIMIT` seconds,
answers with no points and the reason.

- finslerax: `GaussNewtonGeodesic`, Newton steps on the energy of a polyline, in `jax.jit`.
  "default": 10 segments, the metric at their first vertices. "fine": 100 segments, the metric at
  their midpoints (`SegmentQuadratureMetric`), up to 200 steps. "graph": as fine, but from its
  shortest path in the neighbour graph of the data. It gives no convergence.
- stochman: the energy of a cubic spline. "default": `connecting_geodesic`, 5 nodes, 20 points, 150
  steps of Adam. "fine": `geodesic_minimizing_energy`, 10 nodes, 50 points, L-BFGS. A pullback is
  its `EmbeddedManifold`, a LocalPCA a diagonal metric (not its `LocalVarMetric`, which normalises
  the weights and loops over points in Python).
- geomstats: a `RiemannianMetric` and three of its solvers, as they come. "bvp": `LogODESolver`
  (SciPy's `solve_bvp`), given exact Jacobians. "straightening": `PathStraightening`, 100 nodes by
  L-BFGS. "shooting": `LogShootingSolver` over 100 Euler steps, as its `PullbackMetric` has it; its
  success is that of the optimiser, even if the end is missed.

All take LocalPCA, Pullback and MetricTensor. PyTorch calls our compiled JAX functions and their
derivatives, for LocalPCA about as fast as the same formula in torch. JAX is in float64 for the
whole process: finslerax asks on import.
"""

import functools
import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import orthodrome as od

jax.config.update("jax_enable_x64", True)
# seconds a path, then a peer is interrupted; points at which a continuous curve is returned
LIMIT, SAMPLES = (
    60.0,
    201,
)


class Answer(NamedTuple):
    """What a peer returned for one problem."""

    # (T, d): the vertices of a polyline, or a curve at uniform parameters; None if it raised
    points: np.ndarray | None
    converged: bool | None  # the peer's own word; None if it gives none
    seconds: float  # without what is prepared once a metric; the first calls on a metric include compilation
    error: str = ""
    skipped: bool = False  # the peer cannot work on this metric at all


class SkippedError(TypeError):
    """This peer cannot work on this metric."""


def interrupt(*_):
    raise TimeoutError(f"no answer in {LIMIT:g} s")


def peer(prepare):
    """The peer whose `prepare(metric, d)` returns a function (start, end) → (points, converged)."""
    latest: dict[str, Any] = {}

    def solve(metric, start, end) -> Answer:
        start, end = np.array(start, dtype=float), np.array(end, dtype=float)
        signal.signal(signal.SIGALRM, interrupt)
        began = time.perf_counter()
        try:
            if latest.get("metric") is not metric:
                latest.update(run=prepare(metric, len(start)), metric=metric)
            # again each second, should a callback swallow it
            signal.setitimer(signal.ITIMER_REAL, LIMIT, 1.0)
            began = time.perf_counter()
            points, converged = latest["run"](start, end)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return Answer(
                None, False, time.perf_counter() - began, reason, isinstance(error, SkippedError)
            )
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        seconds = time.perf_counter() - began
        return Answer(
            np.asarray(points, dtype=float), None if converged is None else bool(converged), seconds
        )

    return solve


def torch_function(f):
    """The JAX function `f` of one point as a PyTorch function of points `(..., d)`, with its
    gradient."""
    import torch

    value = jax.jit(jax.vmap(f))
    pull = jax.jit(jax.vmap(lambda x, y: jax.vjp(f, x)[1](y)[0]))

    def call(compiled, *tensors):
        n = len(tensors[0])
        # powers of two: few shapes, so few compilations
        rows = np.minimum(np.arange(1 << (n - 1).bit_length()), n - 1)
        return torch.from_dlpack(compiled(*(t.detach().numpy()[rows] for t in tensors)))[:n]

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return call(value, x)

        @staticmethod
        def backward(ctx, y):
            return call(pull, *ctx.saved_tensors, y)

    def function(x):
        out = Function.apply(x.reshape(-1, x.shape[-1]))
        return out.reshape(*x.shape[:-1], *out.shape[1:])

    return function


def load_finslerax():
    from finslerax.geometry import EuclideanSpace, Riemannian, SegmentQuadratureMetric
    from finslerax.solvers import GaussNewtonGeodesic, build_knn_graph, geodesic_graph_init

    def prepare(metric, d, n, graph=False, fine=True):
        if graph and not isinstance(metric, od.LocalPCA):
            raise SkippedError("its graph needs data, and this metric has none")
        theirs = SegmentQuadratureMetric(
            Riemannian(EuclideanSpace(d), metric.tensor_at), nquad=2 if fine else 1
        )
        solver = GaussNewtonGeodesic(iterations=200) if fine else GaussNewtonGeodesic()
        solve = jax.jit(lambda a, b, init: solver.solve(theirs, a, b, n, init, train_mode=False).xs)
        neighbours = build_knn_graph(metric.data) if graph else None

        def run(*ends):
            init = geodesic_graph_init(metric.data, *ends, n, graph=neighbours) if graph else None
            return solve(*ends, init).block_until_ready(), None

        return run

    return {
        "finslerax, default": lambda *a: prepare(*a, 10, fine=False),
        "finslerax, fine": lambda *a: prepare(*a, 100),
        "finslerax, graph": lambda *a: prepare(*a, 100, graph=True),
    }


def load_stochman():
    import torch
    from stochman.curves import CubicSpline
    from stochman.geodesic import geodesic_minimizing_energy
    from stochman.manifold import EmbeddedManifold, Manifold

    torch.set_default_dtype(torch.float64)

    class Given(Manifold):
        def __init__(self, metric):
            diagonal = lambda x: 1 / metric.variance_at(x)
            self.tensor = torch_function(
                diagonal if isinstance(metric, od.LocalPCA) else metric.tensor_at
            )

        def metric(self, points):
            return self.tensor(points)

    class Embedded(EmbeddedManifold):
        def __init__(self, metric):
            self.map, self.jacobian = (
                torch_function(metric.embed_at),
                torch_function(jax.jacfwd(metric.embed_at)),
            )

        def embed(self, points, jacobian=False):
            return (self.map(points), self.jacobian(points)) if jacobian else self.map(points)

    def prepare(metric, _, fine=False):
        lbfgs = lambda parameters, lr: torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe")
        manifold = Embedded(metric) if isinstance(metric, od.Pullback) else Given(metric)

        def run(*ends):
            ends = [torch.from_numpy(x)[None] for x in ends]
            if fine:
                curve = CubicSpline(*ends, num_nodes=10)
                success = geodesic_minimizing_energy(curve, manifold, lbfgs, eval_grid=50)
            else:
                curve, success = manifold.connecting_geodesic(*ends)
            return curve(torch.linspace(0, 1, SAMPLES)).detach().numpy(), success

        return run

    return {"stochman, default": prepare, "stochman, fine": lambda *a: prepare(*a, fine=True)}


def load_geomstats():
    import torch

    os.environ.setdefault("GEOMSTATS_BACKEND", "pytorch")
    # it logs what SciPy says, and switches on the messages of others
    logging.disable(logging.WARNING)
    vars(np).setdefault("trapz", np.trapezoid)
    from geomstats.geometry.euclidean import Euclidean
    from geomstats.geometry.riemannian_metric import RiemannianMetric
    from geomstats.numerics.bvp import ScipySolveBVP
    from geomstats.numerics.geodesic import (
        ExpODESolver,
        LogODESolver,
        LogShootingSolver,
        PathStraightening,
    )
    from geomstats.numerics.ivp import GSIVPIntegrator
    from geomstats.numerics.optimization import ScipyMinimize

    def prepare(metric, d, kind, name, keeper):
        def christoffels_at(x):
            dM = jax.jacfwd(metric.tensor_at)(x)
            lower = 0.5 * (jnp.moveaxis(dM, 2, 1) + dM - jnp.moveaxis(dM, 2, 0))
            return jnp.tensordot(jnp.linalg.inv(metric.tensor_at(x)), lower, 1)

        space = Euclidean(d, equip=False)
        theirs = space.metric = RiemannianMetric(space)
        theirs.metric_matrix = torch_function(metric.tensor_at)
        theirs.christoffels = torch_function(christoffels_at)
        theirs.jacobian_christoffels = torch_function(jax.jacfwd(christoffels_at))
        theirs.exp_solver = ExpODESolver(space, GSIVPIntegrator(n_steps=100))
        theirs.log_solver = kind(space, **{name: keeper})

        def run(start, end):
            curve = theirs.geodesic(torch.from_numpy(start), end_point=torch.from_numpy(end))
            return curve(
                torch.linspace(0, 1, SAMPLES, dtype=torch.float64)
            ).detach().numpy(), keeper.result_.success

        return run

    lbfgs = lambda: ScipyMinimize(autodiff_jac=True, save_result=True)
    return {
        "geomstats, bvp": lambda *a: prepare(
            *a, LogODESolver, "integrator", ScipySolveBVP(save_result=True)
        ),
        "geomstats, straightening": lambda *a: prepare(*a, PathStraightening, "optimizer", lbfgs()),
        "geomstats, shooting": lambda *a: prepare(*a, LogShootingSolver, "optimizer", lbfgs()),
    }


@functools.cache
def installed() -> dict[str, Callable[[od.Metric, Any, Any], Answer]]:
    """Imported only now: some of them change settings of jax and torch for the whole process."""
    found = {}
    for load in (load_finslerax, load_stochman, load_geomstats):
        try:
            found |= {name: peer(prepare) for name, prepare in load().items()}
        except ImportError as error:
            print(f"{load.__name__.removeprefix('load_')} is left out: {error}")
    return found


def length(metric, points):
    """The length of the polyline through `points`, by five Gauss nodes a segment."""
    nodes, weights = np.polynomial.legendre.leggauss(5)
    step = np.diff(points, axis=0)[:, None]
    between = points[:-1, None] + (nodes[:, None] + 1) / 2 * step
    return float(np.sum(metric.norm(between, np.broadcast_to(step, between.shape)) * weights / 2))


def main():
    data = od.datasets.semicircle(200, random_state=0)
    metric = od.LocalPCA(data, sigma=0.15, rho=0.01)
    pairs = data[np.random.default_rng(0).choice(200, (10, 2), replace=False)]
    ours = od.shortest_path(metric, *pairs.swapaxes(0, 1), od.FixedPoint(mesh=50, tol=1e-6)).length
    print(
        f"{'peer':26s} converged  median length  worst / ours  end missed by  s a path (median, "
        "worst)"
    )
    for name, solve in installed().items():
        solve(metric, *pairs[0])  # compile
        answers = [solve(metric, *pair) for pair in pairs]
        found = [i for i, a in enumerate(answers) if a.points is not None]
        lengths = np.array([length(metric, answers[i].points) for i in found])
        worst = max(lengths / ours[found], default=np.nan)
        missed = max(
            (np.abs(answers[i].points[-1] - pairs[i, 1]).max() for i in found), default=np.nan
        )
        says = (
            "not said"
            if answers[0].converged is None
            else f"{np.mean([bool(a.converged) for a in answers]):.0%}"
        )
        half, most = np.quantile([a.seconds for a in answers], [0.5, 1])
        print(
            f"{name:26s} {says:>9s} {np.median(lengths):14.4f} {worst:13.4f} {missed:14.0e} "
            f"{half:9.3f} {most:7.2f}"
        )
        print(*sorted({f"    {a.error}\n" for a in answers if a.error}), sep="", end="")
    print(f"{'orthodrome, FixedPoint':36s} {np.median(ours):14.4f}")


if __name__ == "__main__":
    main()
