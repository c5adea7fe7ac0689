"""How much the decoder stretches the latent space: the magnification factor √det M, over a
two-dimensional one.

    python examples/magnification.py --out demo      # demo/magnification.png

Dark: a small step in the latent space changes the image, or the decoder's certainty, a lot. The
borders between the digits and the edge of the data show.
"""

import matplotlib.pyplot as plt
import numpy as np
from mnist_model import arguments, digits, model

import orthodrome as od


def main(out, images, labels, vae):
    """Writes the picture and returns it."""
    codes = vae.encode(images)
    low, high = np.quantile(codes, [0.002, 0.998], axis=0)
    room = 0.15 * (high - low).max()

    figure, ax = plt.subplots(figsize=(6.4, 5.6), layout="constrained")
    image = od.plotting.background(vae.metric(), (low - room, high + room), ax=ax)
    for k, digit in enumerate(np.unique(labels)):
        ax.scatter(
            *codes[labels == digit].T,
            s=7,
            lw=0,
            color=od.plotting.COLORS[k % 5],
            label=f"digit {digit}",
        )
    ax.legend(markerscale=3, loc="best")
    ax.set(xlabel="$z_1$", ylabel="$z_2$", title="magnification factor of the decoder")
    figure.colorbar(image, label=r"log $\sqrt{\det\,M}$")
    figure.savefig(out / "magnification.png", dpi=130)
    return figure


if __name__ == "__main__":
    given = arguments(__doc__)
    pictures, kinds = digits(given.mnist)
    main(given.out, pictures, kinds, model(given.out, pictures))
    print(f"picture: {given.out / 'magnification.png'}")
