"""From one image to another: along the straight line of the latent space, and along shortest paths.

    python examples/interpolation.py --out demo      # demo/interpolation.png (some minutes)

Encode both images, find the shortest path between their codes, decode along it: three lines. The
pairs are those whose straight lines blur most, of many at random; where the line decodes to two
digits at once, a shortest path walks around.
It does so on two metrics: that of the decoder, which avoids places without codes, and that of the
decoder among images, which also avoids images unlike those it makes of the data (`ambient=`).
"""

import matplotlib.pyplot as plt
import numpy as np
from mnist_model import arguments, digits, model

import orthodrome as od

SETTINGS = {
    "hidden": (128, 256),
    "activation": "softplus",
    "likelihood": "bernoulli",
    "epochs": 200,
    "patience": 40,
}
STEPS = 13
CANDIDATES = 3000
KNOWN = 500
"""Images that say what images look like."""


def lines(a, b):
    """Straight lines between points (P, d), at STEPS times: (P, STEPS, d)."""
    return a[:, None] + np.linspace(0, 1, STEPS)[:, None] * (b - a)[:, None]


def grey(images):
    """How much of the ink of images (..., pixels) is neither black nor white."""
    return np.sum(images * (1 - images), axis=-1)


def blurred_pairs(vae, codes, labels, count, rng):
    """Of many random pairs of different digits, those whose straight lines are greyest compared
    with their ends."""
    i, j = rng.integers(len(codes), size=(2, CANDIDATES))
    blur = grey(vae.decode(lines(codes[i], codes[j])))
    chosen = {}
    for k in np.argsort(blur[:, [0, -1]].max(axis=1) - blur.max(axis=1)):
        kinds = frozenset(labels[[i[k], j[k]]])
        if len(kinds) == 2:
            chosen.setdefault(kinds, k)  # one of each two digits
    best = list(chosen.values())[:count]
    return i[best], j[best]


def metrics_of(vae, codes, rng):
    """By name: the decoder's metric, and that of its mean among the images it makes of some of the
    codes."""
    known = vae.decode(codes[rng.choice(len(codes), min(KNOWN, len(codes)), replace=False)])
    return {
        "shortest path": vae.metric(),
        "among images": od.Pullback(vae.mean_, ambient=od.LocalPCA(known)),
    }


def main(out, images, labels, vae, pairs=3, seed=0, solver=None):
    """Writes the picture and returns it with the paths, and how grey each way is on average, by
    name."""
    rng = np.random.default_rng(seed)
    codes = vae.encode(images)
    i, j = blurred_pairs(vae, codes, labels, pairs, rng)
    a, b = codes[i], codes[j]

    paths = {
        name: od.shortest_path(metric, a, b, solver)
        for name, metric in metrics_of(vae, codes, rng).items()
    }
    ways = {"straight line": lines(a, b)} | {
        name: path(np.linspace(0, 1, STEPS)) for name, path in paths.items()
    }
    decoded = {name: vae.decode(way) for name, way in ways.items()}

    figure, (left, right) = plt.subplots(
        1,
        2,
        figsize=(12, 0.52 * len(ways) * pairs + 0.6),
        width_ratios=[1, 2.2],
        layout="constrained",
    )
    left.scatter(*codes.T, s=1.5, color="0.75", lw=0)
    for name, style in zip(ways, (":", "--", "-"), strict=True):
        curves = lines(a, b) if name == "straight line" else paths[name](np.linspace(0, 1, 200))
        for k, curve in enumerate(curves):
            left.plot(
                *curve.T, style, color=od.plotting.COLORS[k % 5], lw=1.5, label=None if k else name
            )
    left.plot(*np.concatenate([a, b]).T, "o", color="k", ms=4)
    left.legend(loc="best", fontsize="small")
    left.set(title="latent space", xticks=[], yticks=[])
    rows = np.stack(list(decoded.values()), axis=1).reshape(-1, STEPS, images.shape[1])
    od.plotting.strip(rows, labels=list(ways) * pairs, ax=right, vmin=0, vmax=1)
    right.set_title("decoded on the way")
    for k in range(1, pairs):
        right.axhline(len(ways) * k * 28 - 0.5, color="0.6", lw=0.8)
    figure.savefig(out / "interpolation.png", dpi=130)
    return figure, paths, {name: grey(images).mean() for name, images in decoded.items()}


if __name__ == "__main__":
    given = arguments(__doc__)
    pictures, kinds = digits(given.mnist, range(10))
    trained = model(given.out, pictures, "mnist-all.safetensors", **SETTINGS)
    _, found, greys = main(given.out, pictures, kinds, trained)
    for title, path in found.items():
        print(f"{title}: {path}")
    print("grey ink:", ", ".join(f"{title} {amount:.1f}" for title, amount in greys.items()))
    print(f"picture: {given.out / 'interpolation.png'}")
