"""The shape of the package: imports point one way, public names are where they should be, importing
is cheap."""

import ast
import importlib
import pathlib
import subprocess
import sys
import time

import pytest

import orthodrome as od

PACKAGE = pathlib.Path(od.__file__).parent

ORDER = [
    "_types", "status", "progress", "_boundary", "checkpoint", "memo", "records", "compilation", "programs", "batching",
    "datasets", "io", "elimination", "metrics", "torch", "models", "curves", "elements", "discretisation", "measuring",
    "judging", "roadmap", "solvers", "baselines", "solving", "saving", "path", "maps", "workers", "matrix", "distances",
    "gradients", "statistics", "plotting", "notebook", "__init__", "demo", "experiments", "explore", "options", "output", "cli", "__main__",
]  # fmt: skip
"""The rooms in the order of the flow (docs/architecture.md): a room imports only from rooms before
it."""


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree):
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("orthodrome"):
            inner = node.module.split(".")[1:]
            yield from inner[:1] or [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ["__init__" for alias in node.names if alias.name == "orthodrome"]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_point_one_way(path):
    here = ORDER.index(room(path))
    if room(path) == "__init__":
        return  # it imports nothing until asked
    for there in imported_rooms(ast.parse(path.read_text())):
        assert ORDER.index(there) <= here, f"{path.name} imports {there}"


def test_public_names_exist_and_are_listed_in_one_order_everywhere():
    assert sorted(od._HOME) == sorted(od.__all__)
    for name, home in od._HOME.items():
        assert getattr(od, name) is (
            importlib.import_module(f"orthodrome.{name}")
            if home is None
            else getattr(importlib.import_module(f"orthodrome.{home}"), name)
        )
    typed = {
        alias.name
        for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("orthodrome")
        for alias in node.names
    }
    assert typed == set(od._HOME)
    assert set(od.__all__) <= set(dir(od))


def test_importing_costs_little_more_than_importing_jax():
    def seconds(module):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        return time.perf_counter() - began

    rounds = [(seconds("jax"), seconds("orthodrome")) for _ in range(3)]
    jax_takes, ours_takes = map(min, zip(*rounds, strict=True))
    assert ours_takes <= 1.3 * jax_takes


def test_every_public_name_has_a_docstring():
    for name in od.__all__:
        assert getattr(od, name).__doc__, name
