"""The paper's formulas written out as they are printed: dense, slow, and independent of the
library's own forms."""

import jax
import jax.numpy as jnp
import numpy as np

from orthodrome.status import Status


def kronecker_acceleration(tensor, x, v):
    """Eq. (2): −½ M⁻¹ [2 (I ⊗ vᵀ) ∂vec M/∂x v − ∂vec M/∂xᵀ (v ⊗ v)]."""
    d = x.shape[0]
    dvec = jax.jacfwd(lambda y: tensor(y).T.ravel())(x)
    bracket = 2 * jnp.kron(jnp.eye(d), v[None, :]) @ dvec @ v - dvec.T @ jnp.kron(v, v)
    return -0.5 * jnp.linalg.solve(tensor(x), bracket)


def squared_exponential(t, s, i, j, lengthscale):
    """∂ⁱ/∂tⁱ ∂ʲ/∂sʲ exp(−(t − s)²/2λ²), by automatic differentiation."""
    k = lambda t, s: jnp.exp(-((t - s) ** 2) / (2 * lengthscale**2))
    for _ in range(i):
        k = jax.grad(k, 0)
    for _ in range(j):
        k = jax.grad(k, 1)
    with jax.enable_x64(True):
        return np.asarray(
            jax.jit(jax.vmap(jax.vmap(k, (None, 0)), (0, None)))(
                np.asarray(t, float), np.asarray(s, float)
            )
        )


class Posterior:
    """Eq. (5): the Gaussian process posterior with the full Kronecker matrix G."""

    def __init__(self, knots, noise, V):
        self.knots, self.V, self.ends = knots, V, np.array([0.0, 1.0])
        self.lengthscale = np.sqrt(0.5 * (knots[1] - knots[0]))
        k = lambda t, s, i, j: squared_exponential(t, s, i, j, self.lengthscale)
        K = np.block(
            [
                [k(self.ends, self.ends, 0, 0), k(self.ends, knots, 0, 2)],
                [k(knots, self.ends, 2, 0), k(knots, knots, 2, 2)],
            ]
        )
        K += np.diag([0, 0] + [noise] * len(knots))
        self.G = np.kron(V, K)
        self._at_knots = {
            order: self.cross(knots, order) for order in (0, 1)
        }  # asked for in every iteration

    def cross(self, t, order):
        """cov of the curve's derivative at t with the observations, (d T, d (N + 2))."""
        k = lambda s, j: squared_exponential(t, s, order, j, self.lengthscale)
        return np.kron(self.V, np.concatenate([k(self.ends, 0), k(self.knots, 2)], axis=1))

    def mean(self, t, order, a, b, z):
        line = [a + t[:, None] * (b - a), np.tile(b - a, (len(t), 1)), np.zeros((len(t), len(a)))][
            order
        ]
        observed = np.concatenate([np.zeros((2, len(a))), z]).T.ravel()
        cross = self._at_knots[order] if t is self.knots else self.cross(t, order)
        return line + (cross @ np.linalg.solve(self.G, observed)).reshape(len(a), len(t)).T

    def covariance(self, t):
        prior = np.kron(self.V, squared_exponential(t, t, 0, 0, self.lengthscale))
        cross = self.cross(t, 0)
        d, T = len(self.V), len(t)
        return (prior - cross @ np.linalg.solve(self.G, cross.T)).reshape(d, T, d, T)


def algorithm_1(f, posterior, a, b, tol, max_iter):
    """Algorithm 1, line by line, for one problem: z, iterations, status."""
    knots = posterior.knots

    def evaluate(z):
        c, v = (posterior.mean(knots, order, a, b, z) for order in (0, 1))
        target = f(c, v)
        return target, np.sum((z - target) ** 2, axis=1)

    z, i = np.zeros((len(knots), len(a))), 0
    target, e = evaluate(z)
    while np.any(e > tol):
        if i == max_iter:
            return z, i, Status.MAX_ITERATIONS
        for j in range(4):
            alpha = 3.0**-j
            trial = alpha * target + (1 - alpha) * z
            trial_target, trial_e = evaluate(trial)
            if trial_e.sum() <= e.sum():
                break
        z, target, e = trial, trial_target, trial_e
        i += 1
    return z, i, Status.CONVERGED
