"""Two threads that call batched LAPACK routines in compiled code: do they come to an end?

    python benchmarks/lapack_in_threads.py            # prints a row for each routine and dimension

A metric that is not `concurrent` works in one thread, because with some versions of jaxlib two such
calls at the same time wait for each other for good. Each case runs in a process of its own, first in
one thread and then in two, and is given ten times as long in two as in one, and ten seconds more.
"""

import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

MATRICES, CALLS = 64, 30
"""In a batch, and calls of each thread."""

ROUTINES = {
    "cholesky": jnp.linalg.cholesky,
    "eigvalsh": jnp.linalg.eigvalsh,
    "solve": lambda A: jnp.linalg.solve(A, A[..., :1]),
}


def work(routine: str, dim: int, looped: bool) -> tuple[float, float]:
    """Seconds in one thread, and in two; infinite if those did not end."""
    jax.config.update("jax_enable_x64", True)
    call = ROUTINES[routine]
    definite = lambda A: A @ A.swapaxes(-1, -2) + dim * jnp.eye(dim)
    once = lambda A: jnp.sum(call(definite(A)))
    # as the library calls it: tile by tile, in a loop of compiled code
    program = jax.jit(
        (lambda A: jax.lax.fori_loop(0, 4, lambda i, s: s + once(A + i), 0.0)) if looped else once
    )
    A = np.random.default_rng(0).standard_normal((MATRICES, dim, dim))
    program(A).block_until_ready()

    def run() -> None:
        for _ in range(CALLS):
            program(A).block_until_ready()

    began = time.perf_counter()
    run()
    alone = time.perf_counter() - began
    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, 10 * alone + 10 - (time.perf_counter() - began)))
    together = time.perf_counter() - began
    return alone, float("inf") if any(thread.is_alive() for thread in threads) else together


def main() -> None:
    if len(sys.argv) > 1:
        alone, together = work(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "looped")
        print(f"{alone:8.2f} s {together:8.2f} s", flush=True)
        sys.stdout.flush()
        import os

        os._exit(0)  # threads that wait for each other would not let it end
    print(f"jax {jax.__version__}: {CALLS} calls in one thread, and in each of two")
    for routine in ROUTINES:
        for dim in (8, 16, 32, 64, 128):
            for how in ("plain", "looped"):
                command = [sys.executable, __file__, routine, str(dim), how]
                row = subprocess.run(command, capture_output=True, text=True).stdout.rstrip()
                print(
                    f"{routine:10} d = {dim:3} {how:7} {row or 'ended by the system'}", flush=True
                )


if __name__ == "__main__":
    main()
