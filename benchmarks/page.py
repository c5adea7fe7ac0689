"""How long the page waits for a path: from scratch, and while an end is dragged, through the real
server.

    python benchmarks/page.py

On 1,000 points of the two moons: fifty random pairs, and forty small moves of an end, each answer
with its certificate, spread and everything else that the page shows, over HTTP on this machine.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import orthodrome as od

FIRST = 10
"""Pairs that are not counted: whatever is compiled when it is first needed."""


def main(points: int = 1000, pairs: int = 50, moves: int = 40) -> None:
    data = od.datasets.two_moons(points, random_state=0)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "moons.npy", data)
        command = [
            sys.executable,
            "-m",
            "orthodrome",
            "explore",
            "moons.npy",
            "--no-browser",
            "--port",
            "0",
        ]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            address = process.stdout.readline().strip().removeprefix("http://").rstrip("/")
            line = http.client.HTTPConnection(address, timeout=600)

            def ask(request):
                began = time.perf_counter()
                line.request(
                    "POST", "/api/path", json.dumps(request), {"Content-Type": "application/json"}
                )
                answer = json.loads(line.getresponse().read())
                return 1e3 * (time.perf_counter() - began), answer

            def shown(what, times, answers):
                certified = sum(answer["certified"] for answer in answers)
                print(
                    f"{what:<22} median {np.median(times):5.1f} ms, nine of ten below "
                    f"{np.quantile(times, 0.9):5.1f}, "
                    f"slowest {max(times):6.1f}; {certified} of {len(answers)} certified",
                    flush=True,
                )

            ends = [
                {"start": int(a), "end": int(b)} for a, b in rng.integers(0, points, (pairs, 2))
            ]
            for pair in ends[:FIRST]:
                ask(pair)
            shown("from scratch", *zip(*map(ask, ends[FIRST:]), strict=True))
            times, answers = [], []
            for pair in ends[:4]:
                _, last = ask(pair)
                place = data[pair["end"]]
                for _ in range(moves // 4):
                    place = place + rng.normal(0, 0.02, 2)
                    took, last = ask(pair | {"end": place.tolist(), "near": last["number"]})
                    times.append(took)
                    answers.append(last)
            shown("while an end is dragged", times, answers)
            line.close()
            process.terminate()


if __name__ == "__main__":
    main()
