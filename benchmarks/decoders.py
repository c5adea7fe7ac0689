"""A convolutional PyTorch decoder, ten latent dimensions, 28 × 28 outputs: a batch of geodesics,
beside stochman's.

    python benchmarks/decoders.py                  # 100 geodesics each (some minutes)
    python benchmarks/decoders.py --pairs 10       # a quick look

The decoder (transposed convolutions, batch norm) is trained here as an autoencoder of MNIST for a
few epochs. Everybody gets the same decoder, the same pairs of codes of images and the same machine;
what compiles has compiled. stochman runs as its documentation says, in float32. All energies are
measured the same way, in float64: ½ Σ ‖chord‖² / Δt on 400 chords. `Energy` is one descent from the
straight line, as stochman is; it is judged afterwards, and that is not in its time. `Auto` tries
several starts where it sees reason to, refines and judges: all of that is in its time.
"""

import argparse
import copy
import time
import warnings

import equinox as eqx
import numpy as np

import orthodrome as od

LATENT, CHORDS = 10, 400
SOLVERS = (
    od.Energy(elements=2, tol=1e-2),
    od.Energy(elements=4, degree=2, tol=1e-2),
    od.Auto(rtol=1e-2),
)


def trained(seed=0, epochs=10):
    """The decoder, in eval mode, and codes of images."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    images, _ = od.datasets.mnist()
    data = torch.tensor(images, dtype=torch.float32)
    encoder = nn.Sequential(nn.Linear(784, 256), nn.ELU(), nn.Linear(256, LATENT))
    decoder = nn.Sequential(
        nn.Linear(LATENT, 32 * 7 * 7), nn.BatchNorm1d(32 * 49), nn.ELU(), nn.Unflatten(1, (32, 7, 7)),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ELU(),
        nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip
    both = nn.Sequential(encoder, decoder)
    optimiser = torch.optim.Adam(both.parameters(), 2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(data)).split(128):
            codes = encoder(data[rows])
            out = decoder(codes + 0.1 * torch.randn_like(codes)).flatten(1)
            loss = ((out - data[rows]) ** 2).sum(1).mean() + 0.05 * (codes**2).sum(1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        return decoder.eval(), encoder.eval()(data).double().numpy()


def disagreement(decoder, points, rng):
    """The largest difference between from_torch and torch itself: value, derivative, second
    derivative."""
    import jax
    import jax.numpy as jnp

    @eqx.filter_jit
    def derivatives(g, x, v):
        slope = lambda y: jax.jvp(g, (y,), (v,))[1]
        return g(x), *jax.jvp(slope, (x,), (v,))

    ours, theirs = (
        od.from_torch(decoder, np.zeros((1, LATENT)), callback=callback)
        for callback in (False, True)
    )
    found = np.zeros(3)
    with jax.enable_x64(True):
        for x in points:
            given = jnp.asarray(x), jnp.asarray(rng.standard_normal(LATENT))
            pairs = zip(derivatives(ours, *given), derivatives(theirs, *given), strict=True)
            found = np.maximum(found, [np.abs(a - b).max() for a, b in pairs])
    return found


def energies(decoder, curves):
    """½ ∫ ‖(g∘c)'‖² of curves given by CHORDS + 1 points each, by chords."""
    import torch

    exact = copy.deepcopy(decoder).double()
    with torch.no_grad():
        images = [exact(torch.tensor(curve)).flatten(1).numpy() for curve in curves]
    return np.array([0.5 * CHORDS * np.sum(np.diff(image, axis=0) ** 2) for image in images])


def by_stochman(decoder, a, b):
    """Curves (P, CHORDS + 1, d) and seconds."""
    import torch
    from stochman.manifold import EmbeddedManifold

    class Surface(EmbeddedManifold):
        def embed(self, c, jacobian=False):
            return decoder(c.reshape(-1, LATENT)).reshape(*c.shape[:-1], -1)

    began = time.perf_counter()
    curve, _ = Surface().connecting_geodesic(
        *(torch.tensor(x, dtype=torch.float32) for x in (a, b))
    )
    seconds = time.perf_counter() - began
    with torch.no_grad():
        points = curve(torch.linspace(0, 1, CHORDS + 1)).double().numpy()
    points[:, 0], points[:, -1] = a, b
    return points, seconds


def by_us(metric, a, b, solver):
    """Curves and seconds, the second time."""
    for _ in range(2):
        began = time.perf_counter()
        path = od.shortest_path(metric, a, b, solver)
        seconds = time.perf_counter() - began
    return path(np.linspace(0, 1, CHORDS + 1)), seconds, path.certified.mean()


def main(pairs=100, epochs=10, peers=True, solvers=SOLVERS):
    """Prints a table and returns its rows: energy, seconds, share certified."""
    decoder, codes = trained(epochs=epochs)
    rng = np.random.default_rng(0)
    i, j = rng.choice(len(codes), (2, pairs), replace=False)
    a, b = codes[i], codes[j]
    value, slope, second = disagreement(decoder, codes[i[:3]], rng)
    print(
        f"from_torch differs from torch by {value:.0e}, its derivatives by {slope:.0e} and "
        f"{second:.0e}"
    )
    metric = od.Pullback(od.from_torch(decoder, np.zeros((1, LATENT))))
    t = np.linspace(0, 1, CHORDS + 1)[:, None]
    found = {"straight lines": (energies(decoder, a[:, None] + t * (b - a)[:, None]), 0.0, 0.0)}
    for solver in solvers:
        curves, seconds, certified = by_us(metric, a, b, solver)
        found[repr(solver)] = energies(decoder, curves), seconds, certified
    if peers:
        curves, seconds = by_stochman(decoder, a, b)
        found["stochman"] = energies(decoder, curves), seconds, 0.0
    print(
        f"{pairs} "
        f"geodesics\n{'':44}{'energy':>10}{'seconds':>10}{'certified':>11}{'speed-up':>10}{'no worse':>10}"
    )
    for name, (energy, seconds, certified) in found.items():
        print(f"{name:44}{energy.mean():10.4f}{seconds:10.2f}{certified:11.0%}", end="")
        if peers and seconds:
            other, took, _ = found["stochman"]
            print(f"{took / seconds:9.1f}x{np.mean(energy <= other):10.0%}", end="")
        print()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    warnings.simplefilter("ignore", od.ConvergenceWarning)
    main(parser.parse_args().pairs)
