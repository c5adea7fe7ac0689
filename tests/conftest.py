"""What several test files share: learned metrics, a counter of compilations, drawing without a
screen."""

import contextlib
import gc
import os
import tempfile

# Most of the tests' time goes into compiling: do it quickly rather than well, and once for all
# files and processes.
if "PYTEST_XDIST_WORKER" not in os.environ:
    compiled = tempfile.TemporaryDirectory()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled.name
os.environ |= {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import orthodrome as od

pytest_plugins = ["exploring"]
"""Its fixtures are for the files whose names begin with `test_explore`."""

matplotlib.use("Agg")


@pytest.fixture(scope="session")
def semicircle():
    """The semicircle of Sec. 4.1 with its metric: (data, angles, metric)."""
    data, angle = od.datasets.semicircle(200, random_state=0, return_angle=True)
    return data, angle, od.LocalPCA(data, sigma=0.15, rho=0.01)


@pytest.fixture(autouse=True, scope="module")
def start_afresh():
    """Compiled code takes memory maps, of which a process may have only so many: start each file
    without any, and without the figures that another one left open."""
    yield
    plt.close("all")
    jax.clear_caches()
    gc.collect()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


_compilations = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: _compilations.append(event) if "backend_compile" in event else None
)


@contextlib.contextmanager
def compilations():
    """The compilations inside the block, as a list that grows while it runs."""
    found, before = [], len(_compilations)
    yield found
    found += _compilations[before:]


@pytest.fixture
def count_compilations():
    return compilations
