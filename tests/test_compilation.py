"""Compiled code that outlives the process."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import orthodrome as od
from orthodrome import batching, compilation, elements, programs

SCRIPT = """
import sys
import jax
import orthodrome as od
events, traced = [], []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **details: traced.append(details.get("fun_name")) if "jaxpr_trace" in event else None
)
folder = od.enable_compilation_cache(sys.argv[1])
data = od.datasets.semicircle(50, random_state=0)
metric = od.LocalPCA(data, 0.3, 0.1)
path = od.shortest_path(metric, data[0], data[1], od.FixedPoint())
same = od.MetricTensor(metric.tensor_at, 2)
assert abs(od.distance(same, data[0], data[1], od.FixedPoint()) - path.length) < 1e-6
misses = sum(e.endswith("/cache_misses") for e in events)
hits = sum(e.endswith("/cache_hits") for e in events)
print(hits, misses, traced.count("whole"), path.length)
"""


def run(folder):
    """Cache hits and misses of a process, programs it traced, and the length it found."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, text=True, check=True
    )
    hits, misses, traced, length = found.stdout.split()
    return int(hits), int(misses), int(traced), float(length)


def test_a_second_process_compiles_nothing_and_traces_only_what_is_the_users_own(tmp_path):
    first, second = run(tmp_path), run(tmp_path)
    programs = sorted(tmp_path.glob("*.program"))
    assert first[1] > 0 and second[0] >= first[1] and second[1] == 0
    assert second[2] == first[2] - len(programs) and len(programs) > 2
    assert second[3] == first[3]
    for file in programs:
        file.write_bytes(file.read_bytes()[:100])
    assert run(tmp_path)[3] == first[3]
    assert run(tmp_path)[2] == second[2]


def test_other_code_has_programs_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation, "_KEEPING", [tmp_path])
    array = np.arange(3.0)
    with jax.enable_x64(True):
        for factor, source in ((2.0, "one"), (3.0, "another"), (5.0, "one")):
            monkeypatch.setattr(compilation, "sources", lambda source=source: source)
            found = compilation.kept(lambda x, factor=factor: factor * x, "times", array)(array)
            np.testing.assert_array_equal(found, (3.0 if source == "another" else 2.0) * array)
            other = compilation.kept(lambda x, factor=factor: factor * x, f"times {factor}", array)(
                array
            )
            np.testing.assert_array_equal(other, factor * array)


def test_a_name_tells_programs_apart_and_is_only_for_our_own_code():
    name = lambda function, *rest: programs.lasting_name(batching._tiled, function, rest)
    ours = elements.hermite
    assert (
        len(
            {
                name(ours, 1),
                name(batching.OneByOne(ours), 1),
                name(ours, 2),
                name(elements.gradient, 1),
            }
        )
        == 4
    )
    assert name(lambda x: x) is None
    assert name(ours, len) is None
    assert name(ours, jax.tree_util.Partial(ours)) is None


def test_importing_and_calling_the_library_makes_no_such_setting():
    code = "import jax, orthodrome as od; od.LocalPCA([[0.0], [1.0]]); print(jax.config.jax_compilation_cache_dir)"
    env = {"PATH": "", "HOME": "/nowhere"}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert found.stdout.strip() == "None"


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OSError, match="should be a folder to keep compiled code in"):
        od.enable_compilation_cache(file)
