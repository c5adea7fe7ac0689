"""Decoders from PyTorch: a module, or a file of one, as a function of one point that JAX can
differentiate."""

from orthodrome.torch.decoder import Decoder, from_torch

__all__ = ["Decoder", "from_torch"]
