"""Compiled code that outlives the process: jax keeps the machine code, this room what leads to
it."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from orthodrome.checkpoint import write


def cache_folder() -> str | None:
    """Where jax keeps compiled code, if anywhere."""
    import jax

    return jax.config.values["jax_compilation_cache_dir"]


def kept(program: Callable[..., Any], name: str, *arrays: Any) -> Callable[..., Any]:
    """A function of arrays, compiled; traced by an earlier process if the cache folder has it, else
    for the next one.

    To trace a program and to translate it takes longer than to fetch its machine code. `name` tells
    programs apart that take the same arrays; another version of the library, or of jax, has
    programs of its own.
    """
    import jax
    import jax.export
    import jaxlib

    versions = sources(), jax.__version__, jaxlib.__version__, jax.default_backend()
    shapes = [(array.shape, str(array.dtype)) for array in arrays]
    key = hashlib.sha256(repr((name, shapes, versions)).encode()).hexdigest()
    file = _KEEPING[0] / f"orthodrome-{key}.program"
    exported = None
    if file.exists():
        with contextlib.suppress(Exception):  # a damaged file is as good as none
            exported = jax.export.deserialize(bytearray(file.read_bytes()))
    if exported is None:
        exported = jax.export.export(jax.jit(program))(*arrays)
        with contextlib.suppress(OSError):  # a cache that cannot be written is no reason to stop
            write(file, lambda path: path.write_bytes(exported.serialize()))
    return jax.jit(exported.call)


@lru_cache
def sources() -> str:
    """A digest of the library's own code."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def enable_compilation_cache(folder: Any = None) -> Path:
    """Keep compiled code in a folder, so that the next process need not compile it again; returns
    the folder.

    Without `folder` it is `orthodrome` in the user's cache folder, or the one that jax has been
    told already. This is a setting of jax for the whole process, which is why importing the library
    does not make it; the command line does.
    """
    import jax

    path = Path(folder or cache_folder() or platformdirs.user_cache_path("orthodrome")).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"{path} should be a folder to keep compiled code in; {error}: pass another one."
        ) from None
    if not os.access(path, os.W_OK):
        raise OSError(
            f"{path} should be a folder to keep compiled code in; it cannot be written to: pass "
            "another one."
        )
    jax.config.update("jax_compilation_cache_dir", str(path))
    # many small pieces take long together
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    _KEEPING[:] = [path]
    return path


def keeping() -> bool:
    """Whether programs are kept: after `enable_compilation_cache`."""
    return bool(_KEEPING)


_KEEPING: list[Path] = []
