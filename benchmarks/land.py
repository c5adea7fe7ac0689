"""The two moons of Sec. 4.1 by mixtures of LANDs: what each solver of the logarithms leads to, beside a linear mixture.

    python benchmarks/land.py --out demo/bench      # some of an hour, most of it SciPy's; finished parts are kept there

The clustering error is that of the better matching of components and moons; the divergence KL(p ‖ q) is from the density
p that the data are drawn from, by new points of it. A solver that finds no logarithm of a point gives it no density: such
points are counted ("lost") and left out of its divergence; `by Auto` is the divergence of the same mixture if `Auto` finds
the logarithms; `flat` is that of exp(−½ uᵀΣ⁻¹u) taken as a density of the coordinates, without √det M, which may be what the
paper measured. Times include compilation. The paper: error 0 (its solver), 15 (bvp5c), 21 % (linear); KL 0.35, 0.65, 0.53.
"""

import argparse
import json
import pathlib
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

import orthodrome as od
from orthodrome.statistics.mixture import responsibilities
from orthodrome.statistics.rays import directions, within_cut
from orthodrome.statistics.tangents import Logarithms

SOLVERS = {
    "Auto()": od.Auto(),
    "FixedPoint()": od.FixedPoint(),
    "FixedPoint(mesh=50)": od.FixedPoint(mesh=50),
    "Collocation()": od.Collocation(),
}
NOISE, SIGMA, RHO = 0.1, 0.1, 0.01
"""The paper's."""
LINEAR = "linear Gaussian mixture"


def log_generating(x, angles=2000):
    """log p (m,): half circles with a Gaussian around every point of theirs."""
    angle = (np.arange(angles) + 0.5) * np.pi / angles
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    places = np.concatenate([upper, [1.0, 0.5] - upper])
    squares = np.sum((x[:, None] - places) ** 2, axis=2)
    return logsumexp(-squares / (2 * NOISE**2), axis=1) - np.log(2 * np.pi * NOISE**2 * len(places))


def clustering_error(found, labels):
    """The share of points in the wrong cluster, under the better matching; a point in none is wrong."""
    return float(min(np.mean(found != labels), np.mean(found != 1 - labels)))


def divergence(mixture, x):
    """KL(p ‖ q) by points x (m, 2) drawn from p, over those that have a density, and the share of those that have none."""
    log_q = mixture.score_samples(x)
    known = np.isfinite(log_q)
    return float(np.mean((log_generating(x) - log_q)[known])) if known.any() else np.inf, float(np.mean(~known))


def flat_divergence(mixture, x, rays=512):
    """KL(p ‖ q) by points x (m, 2), if q is a mixture of exp(−½ uᵀΣ⁻¹u), normalised in coordinates, by `Auto`."""
    parts, metric = mixture.components_, mixture.metric_
    found = within_cut(metric, parts.means, parts.rays(metric, directions(rays, x.shape[1], 0), True), od.Auto())
    volume, seen = np.zeros(found.log_weight.shape), np.isfinite(found.log_weight)
    volume[seen] = metric.log_volume(found.points[seen])
    flat = parts._replace(log_norm=logsumexp(found.log_shares() - volume, axis=(1, 2)))
    u = Logarithms(metric, x, len(parts.means), od.Auto()).at(parts.means).u
    _, log_q = responsibilities(flat.log_density(u), mixture.weights_)
    known = np.isfinite(log_q)
    return float(np.mean((log_generating(x) - log_q)[known]))


def measure(name, data, labels, fresh, seconds):
    """What one mixture comes to."""
    began = time.perf_counter()
    if name == LINEAR:
        mixture = GaussianMixture(2, n_init=10, random_state=0).fit(data)
        history, found = {}, mixture.predict(data)
    else:
        metric = od.LocalPCA(data, SIGMA, RHO)
        mixture = od.LAND(2, metric, solver=SOLVERS[name], random_state=0, max_seconds=seconds, verbose=True).fit(data)
        history, found = {key: list(map(float, value)) for key, value in mixture.history_.items()}, mixture.labels_
    took = time.perf_counter() - began
    out = {"seconds": took, "error": clustering_error(found, labels), "history": history}
    out["likelihood"] = float(mixture.score(data)) if name == LINEAR else mixture.lower_bound_
    out["kl"], out["lost"] = divergence(mixture, fresh)
    if name != LINEAR:
        out["failed"], out["converged"] = float(np.mean(mixture.failed_)), bool(mixture.converged_)
        out["kl by Auto"], _ = divergence(mixture.set_params(solver=None), fresh)
        out["kl flat"] = flat_divergence(mixture, fresh)
    return out


def draw(results, file):
    """Log-likelihood against time, a mark for each iteration."""
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for (name, row), marker in zip(results.items(), "os^Dv", strict=False):
        if row["history"]:
            ax.plot(row["history"]["seconds"], row["history"]["lower_bound"], marker=marker, label=name)
        else:
            ax.axhline(row["likelihood"], color="0.5", ls="--", label=name)
    ax.set(xlabel="seconds, compilation included", ylabel="mean log density of the data", xscale="log")
    ax.legend()
    figure.savefig(file, dpi=130)
    return figure


def main(out, names=(LINEAR, *SOLVERS), points=200, fresh=300, seconds=600.0, seed=0):
    """Prints the table, writes land.json after each row and land.png in the end; rows that are there are not made again."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "land.json"
    settings = {"points": points, "fresh": fresh, "seconds": seconds, "seed": seed}
    kept = json.loads(file.read_text()) if file.exists() else {}
    results = kept["rows"] if kept.get("settings") == settings else {}
    data, labels = od.datasets.land_moons(points, NOISE, seed, return_labels=True)
    new = od.datasets.land_moons(fresh // 2, NOISE, [seed, 1])
    for name in names:
        if name not in results:
            results[name] = measure(name, data, labels, new, seconds)
            file.write_text(json.dumps({"settings": settings, "rows": results}, indent=1))
    print(
        f"{'':26}{'error':>7}{'KL':>7}{'lost':>7}{'by Auto':>9}{'flat':>7}{'log density':>13}{'failed':>8}{'seconds':>9}"
    )
    for name, row in results.items():
        by_auto, flat = row.get("kl by Auto", row["kl"]), row.get("kl flat", row["kl"])
        print(
            f"{name:26}{row['error']:7.1%}{row['kl']:7.2f}{row['lost']:7.1%}{by_auto:9.2f}{flat:7.2f}{row['likelihood']:13.3f}"
            f"{row.get('failed', 0.0):8.1%}{row['seconds']:9.0f}"
            + ("" if row.get("converged", True) else "  (not converged)")
        )
    plt.close(draw(results, out / "land.png"))
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo/bench"))
    parser.add_argument("--seconds", type=float, default=600.0, help="no new iteration after so much time")
    parser.add_argument("--seed", type=int, default=0, help="of the data")
    parser.add_argument("--only", nargs="+", choices=(LINEAR, *SOLVERS), default=(LINEAR, *SOLVERS), help="some rows")
    given = parser.parse_args()
    warnings.simplefilter("ignore", od.ConvergenceWarning)
    main(given.out, given.only, seconds=given.seconds, seed=given.seed)
