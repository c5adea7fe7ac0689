"""Compiled code that outlives the process."""

import subprocess
import sys

import pytest

import orthodrome as od

SCRIPT = """
import sys
import jax
import orthodrome as od
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
folder = od.enable_compilation_cache(sys.argv[1])
data = od.datasets.semicircle(50, random_state=0)
od.shortest_path(od.LocalPCA(data, 0.3, 0.1), data[0], data[1], od.FixedPoint())
print(sum(e.endswith("/cache_hits") for e in hits), sum(e.endswith("/cache_misses") for e in hits))
"""


def test_a_second_process_compiles_nothing(tmp_path):
    run = lambda: subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "cache")], capture_output=True, text=True, check=True
    )
    first, second = (tuple(map(int, run().stdout.split())) for _ in range(2))
    assert first[1] > 0 and second[0] >= first[1] and second[1] == 0


def test_importing_and_calling_the_library_makes_no_such_setting():
    code = "import jax, orthodrome as od; od.LocalPCA([[0.0], [1.0]]); print(jax.config.jax_compilation_cache_dir)"
    env = {"PATH": "", "HOME": "/nowhere"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert found.stdout.strip() == "None"


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OSError, match="should be a folder to keep compiled code in"):
        od.enable_compilation_cache(file)
