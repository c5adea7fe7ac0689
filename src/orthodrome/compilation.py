"""Compiled code that outlives the process."""

import os
from pathlib import Path
from typing import Any

import platformdirs


def cache_folder() -> str | None:
    """Where jax keeps compiled code, if anywhere."""
    import jax

    return jax.config.values["jax_compilation_cache_dir"]


def enable_compilation_cache(folder: Any = None) -> Path:
    """Keep compiled code in a folder, so that the next process need not compile it again; returns the folder.

    Without `folder` it is `orthodrome` in the user's cache folder, or the one that jax has been told already. This is a
    setting of jax for the whole process, which is why importing the library does not make it; the command line does.
    """
    import jax

    path = Path(folder or cache_folder() or platformdirs.user_cache_path("orthodrome")).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{path} should be a folder to keep compiled code in; {error}: pass another one.") from None
    if not os.access(path, os.W_OK):
        raise OSError(f"{path} should be a folder to keep compiled code in; it cannot be written to: pass another one.")
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small pieces take long together
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return path
