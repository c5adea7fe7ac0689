"""Appendix: how constant the speed of the curves is, for coarser and finer meshes."""

import warnings

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments import contest
from orthodrome.experiments.base import Experiment, Results, Run
from orthodrome.experiments.figures import legend, sheet

TIMES = np.linspace(0, 1, 1001)
PAPER = {  # mean (± standard deviation) for N = 5, 10, 15, 25, 50, 100
    1: [
        "2.52(0.4693)",
        "2.51(0.3296)",
        "2.51(0.1562)",
        "2.49(0.1476)",
        "2.47(0.0043)",
        "2.47(0.0004)",
    ],
    2: [
        "2.36(0.4541)",
        "2.33(0.1800)",
        "2.34(0.2426)",
        "2.32(0.1162)",
        "2.32(0.0011)",
        "2.32(0.0004)",
    ],
    3: [
        "2.20(0.5315)",
        "2.19(0.1653)",
        "2.18(0.0742)",
        "2.17(0.0559)",
        "2.17(0.0017)",
        "2.17(0.0004)",
    ],
    4: [
        "2.17(0.5496)",
        "2.16(0.1972)",
        "2.15(0.1028)",
        "2.15(0.0417)",
        "2.14(0.0020)",
        "2.14(0.0003)",
    ],
}
MESHES = [5, 10, 15, 25, 50, 100]


def compute(run: Run) -> Results:
    """Four curves to points around the top of the half circle, on the manifold of the challenging
    path."""
    data, angle = od.datasets.semicircle(200, random_state=run.seed, return_angle=True)
    metric = od.LocalPCA(data, sigma=0.1, rho=0.01)
    order = np.argsort(angle)
    start, ends = data[order[10]], data[order[[110, 105, 100, 95]]]

    def speeds(mesh: int, tol: float) -> dict[str, object]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", od.ConvergenceWarning)  # it is in the table
            path = od.shortest_path(metric, start, ends, od.FixedPoint(mesh=mesh, tol=tol))
        knots = contest.missed(metric, path.curve, np.linspace(0, 1, mesh))
        between = contest.missed(metric, path.curve, np.linspace(0, 1, contest.LOOKS))
        facts = {"speed": path.speed(TIMES), "length": path.length, "certified": path.certified}
        return facts | {"converged": path.converged, "at_knots": knots, "between": between}

    parts, strict = (
        {mesh: run.part(f"mesh-{mesh}-{tol:g}", speeds, mesh, tol) for mesh in MESHES}
        for tol in (run.settings.tol, run.settings.strict_tol)
    )
    auto = run.part("auto", lambda: {"length": od.shortest_path(metric, start, ends).length})
    return {
        "parts": parts,
        "strict": strict,
        "tols": (run.settings.tol, run.settings.strict_tol),
        "auto": auto,
    }


def draw(results: Results) -> Figure:
    """The spread of the speed, relative to its mean, against N, with the paper's tolerance and with
    a strict one."""
    figure, axes = sheet(2, width=3.8)
    for ax, parts, tol in zip(
        axes, (results["parts"], results["strict"]), results["tols"], strict=True
    ):
        for k, (marker, dash) in enumerate(zip("os^D", ("-", "--", "-.", ":"), strict=True)):
            relative = [part["speed"][k].std() / part["speed"][k].mean() for part in parts.values()]
            style = {"marker": marker, "linestyle": dash, "color": str(0.18 * k), "markersize": 4}
            ax.plot(MESHES, relative, label=f"curve {k + 1}", **style)
        ax.set(
            xscale="log", yscale="log", xlabel="knots N", title=f"tolerance {tol:g}", ylim=(1e-6, 1)
        )
        ax.set_xticks(MESHES, MESHES)
        ax.minorticks_off()
    axes[0].set_ylabel("standard deviation of the speed / mean")
    legend(axes[0], loc="lower left")
    return figure


def measured(results: Results) -> str:
    """For each mesh, with both tolerances."""
    told = []
    for parts, tol in zip((results["parts"], results["strict"]), results["tols"], strict=True):
        spread = ", ".join(f"{part['speed'].std(axis=1).mean():.2g}" for part in parts.values())
        told.append(f"with tolerance {tol:g} {spread}")
    return (
        f"mean standard deviation of the speed for N = {', '.join(map(str, MESHES))}: "
        + "; ".join(told)
    )


def table(results: Results) -> list[list[str]]:
    """Mean (± standard deviation), the paper's beneath."""
    rows = [["curve", *(f"N = {mesh}" for mesh in MESHES), "Auto's length"]]
    for k in range(4):
        cells = []
        for part in results["parts"].values():
            speed, note = part["speed"][k], "" if part["converged"][k] else " not converged"
            cells.append(f"{speed.mean():.2f}({speed.std():.4f}){note}")
        rows += [
            [f"#{k + 1}", *cells, f"{results['auto']['length'][k]:.3f}"],
            [f"paper #{k + 1}", *PAPER[k + 1], ""],
        ]
    for name, test in contest.TESTS.items():
        rows.append([name, *(f"{test(part).sum()} of 4" for part in results["parts"].values()), ""])
    return [
        *rows,
        [
            "certified",
            *(f"{part['certified'].sum()} of 4" for part in results["parts"].values()),
            "",
        ],
    ]


EXPERIMENT = Experiment(
    "constant-speed",
    "Appendix: constant speed",
    "the speed's standard deviation falls from about 0.5 (N = 5) to 0.0004 (N = 100)",
    quick={"tol": 0.1, "strict_tol": 1e-8},
    full={"tol": 0.1, "strict_tol": 1e-8},
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
)
