"""Long work that survives: its parts in a folder, each whole or not there at all, for one job and no other."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Part = dict[str, Array]
"""Arrays by name, as they are in a part's file."""

JOB = "settings.json"
"""The file that says whose parts a folder holds."""

DRAFT = ".draft-"
"""How the name of a file begins that is not finished; its process' number comes next."""


class Checkpoint:
    """The finished parts of a job.

    Whoever is killed loses the part under way; who makes the same checkpoint again finds the others.
    """

    def __init__(self, folder: str | Path, job: Mapping[str, Any]) -> None:
        """`job` is what the results depend on, as JSON: a folder with another one's parts is refused, and kept."""
        self.folder = Path(folder)
        described = json.loads(json.dumps(job))
        file = self.folder / JOB
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{folder} should be a folder; it is a file: choose another one.")
        if file.exists():
            self._require_same(json.loads(file.read_text()), described)
            _sweep(self.folder)
        elif self.folder.exists() and any(not there.name.startswith(DRAFT) for there in self.folder.iterdir()):
            raise ValueError(f"{folder} holds other files and no {JOB}: choose an empty or a new folder.")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write(file, lambda path: path.write_text(json.dumps(described, indent=1)))

    def _require_same(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        changed = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        if changed:
            told = "; ".join(f"{key} was {_brief(there.get(key))} and is {_brief(here.get(key))}" for key in changed)
            raise ValueError(
                f"{self.folder} holds results made with other settings ({told}): choose another folder, or remove it."
            )

    def has(self, name: str) -> bool:
        """Whether a part is there."""
        return self._file(name).exists()

    def keep(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write a part."""
        held: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
        write(self._file(name), lambda path: np.savez(path, **held))

    def read(self, name: str) -> Part:
        """A part that is there."""
        with np.load(self._file(name), allow_pickle=False) as stored:
            return dict(stored)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.npz"


def write(file: Path, put: Callable[[Path], Any]) -> None:
    """Write a file all at once: whoever is killed meanwhile, or loses power, leaves the old one or the new."""
    draft = file.with_name(f"{DRAFT}{os.getpid()}-{file.name}")
    try:
        put(draft)
        with draft.open("rb+") as stream:
            os.fsync(stream.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove the drafts of processes that were killed."""
    for draft in folder.glob(f"{DRAFT}*"):
        owner = draft.name.removeprefix(DRAFT).partition("-")[0]
        if owner.isdigit() and not _running(int(owner)):
            draft.unlink(missing_ok=True)


def _running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
