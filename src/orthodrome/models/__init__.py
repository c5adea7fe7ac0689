"""Models that learn a latent space, and with it a metric."""

from orthodrome.models.vae import VAE

__all__ = ["VAE"]
