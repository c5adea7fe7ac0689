"""Fig. 9: the latent space of a split sphere, whose two halves have a gap of uncertainty between
them."""

import numpy as np
from matplotlib.figure import Figure

import orthodrome as od
from orthodrome.experiments import contest, latent
from orthodrome.experiments.base import Experiment, Part, Results, Run
from orthodrome.experiments.contest import AUTO, BVP4, BVP5, HH, OURS
from orthodrome.experiments.figures import STYLE, legend, line, scene, sheet


def compute(run: Run) -> Results:
    """From one code to others, each alone."""
    model, data, codes = latent.space(run, od.datasets.split_sphere, "tanh")
    metric = model.metric()
    chosen = np.random.default_rng([run.seed, 1]).choice(
        len(codes), run.settings.targets + 1, replace=False
    )
    upper = data[:, 2] > 0  # the gap is in the middle
    base, ends = codes[chosen[0]], codes[chosen[1:]]
    everybody = contest.solvers(latent.MESH)
    contestants = {who: everybody[who] for who in run.settings.solvers}
    start = np.broadcast_to(base, ends.shape)
    rows = contest.contest(run, "", metric, start, ends, contestants, latent.MESH, alone=True)
    same = upper[chosen[1:]] == upper[chosen[0]]
    return {
        "metric": metric,
        "codes": codes,
        "upper": upper,
        "base": base,
        "ends": ends,
        "same": same,
        "rows": rows,
    }


def draw(results: Results) -> Figure:
    """Latent space; times with failures marked."""
    figure, (left, right) = sheet(2, width=4.6)
    scene(left, results["metric"], results["codes"], s=0)
    for half, marker in ((results["upper"], "^"), (~results["upper"], "v")):
        left.scatter(
            *results["codes"][half].T,
            s=12,
            marker=marker,
            linewidths=0,
            color="#0b5c7a" if marker == "^" else "#e59a3c",
            zorder=3,
        )
    left.scatter(*results["base"], s=60, color="black", zorder=4)
    left.set_title("codes of the upper (▲) and lower (▼) half")
    order = np.argsort(~results["same"], kind="stable")
    index = np.arange(len(order))
    for who, row in results["rows"].items():
        seconds, lost = 1e3 * row["seconds"][order], contest.unconverged(row)[order]
        line(right, who, index, seconds, linestyle="", markersize=3)
        right.scatter(
            index[lost],
            seconds[lost],
            s=34,
            facecolors="none",
            edgecolors=STYLE[who]["color"],
            linewidths=0.8,
        )
    right.axvline(results["same"].sum() - 0.5, color="0.5", linewidth=0.8)
    right.set(
        yscale="log",
        ylabel="milliseconds",
        xlabel="points of the same half | of the other one",
        title="run time (ringed: not converged)",
    )
    legend(right, ncols=3, loc="upper left", fontsize=7)
    right.set_ylim(top=right.get_ylim()[1] * 8)
    return figure


def _sides(results: Results) -> dict[str, dict[str, Part]]:
    """The rows within the half and across."""
    return {
        side: {
            who: {key: value[where] for key, value in row.items()}
            for who, row in results["rows"].items()
        }
        for side, where in (("within a half", results["same"]), ("across", ~results["same"]))
    }


def measured(results: Results) -> str:
    """Times and failures on both sides."""
    told = []
    for side, rows in _sides(results).items():
        times = ", ".join(latent.spread(who, row["seconds"]) for who, row in rows.items())
        told.append(f"{side}: {contest.FAILURES} {contest.failures(rows)}; median {times}")
    return "; ".join(told)


def table(results: Results) -> list[list[str]]:
    """Both sides."""
    tables = {side: contest.table(rows) for side, rows in _sides(results).items()}
    return [["", *tables["across"][0]]] + [
        [side, *row] for side, rows in tables.items() for row in rows[1:]
    ]


EXPERIMENT = Experiment(
    "split-sphere",
    "Fig. 9: the latent space of a split sphere",
    "within a half, Algorithm 1 and bvp5c take about as long; across, both take much longer and "
    "often fail, "
    "Algorithm 1 less often",
    quick={"points": 300, "epochs": 100, "targets": 6, "solvers": [OURS, BVP4, BVP5, HH]},
    full={"points": 1000, "epochs": 1000, "targets": 100, "solvers": [OURS, BVP4, BVP5, HH, AUTO]},
    compute=compute,
    draw=draw,
    measured=measured,
    table=table,
)
