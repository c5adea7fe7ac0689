"""The solvers that the paper compares with, as they were: nothing else is built on them."""

from orthodrome.baselines.collocation import Collocation
from orthodrome.baselines.hennig_hauberg import HennigHauberg

__all__ = ["Collocation", "HennigHauberg"]
