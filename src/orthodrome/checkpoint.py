"""Long work that survives: its parts in a folder, each whole or not there at all, for one job and
no other."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from orthodrome._types import Array

Part = dict[str, Array]
"""Arrays by name, as they are in a part's file."""

JOB = "settings.json"
"""The file that says whose parts a folder holds."""

LOCK = "lock"
"""The file that is locked while somebody works in the folder."""

OWNER = "part of"
"""The name under which a part says which one it is, and of which job."""

DRAFT = ".draft-"
"""How the name of a file begins that is not finished."""


class Checkpoint(contextlib.AbstractContextManager["Checkpoint"]):
    """The finished parts of a job.

    Whoever is killed loses the part under way; who makes the same checkpoint again finds the
    others. One at a time.
    """

    def __init__(self, folder: str | Path, job: Mapping[str, Any]) -> None:
        """`job` is what the results depend on, as JSON: a folder with another one's parts is
        refused, and kept."""
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{folder} should be a folder; it is a file: choose another one.")
        self.folder.mkdir(parents=True, exist_ok=True)
        names = {there.name for there in self.folder.iterdir() if not there.name.startswith(DRAFT)}
        if JOB not in names and names - {LOCK}:
            raise ValueError(
                f"{folder} holds other files and no {JOB}: choose an empty or a new folder."
            )
        self._lock = _locked(self.folder)
        self._job = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:16]
        try:
            self._require_same(json.loads(json.dumps(job)))
        except BaseException:
            self.close()
            raise
        for draft in self.folder.glob(f"{DRAFT}*"):  # of processes that were killed
            draft.unlink(missing_ok=True)

    def _require_same(self, here: dict[str, Any]) -> None:
        file = self.folder / JOB
        if not file.exists():
            write(file, lambda path: path.write_text(json.dumps(here, indent=1)))
            return
        try:
            there = dict(json.loads(file.read_text()))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{file} is damaged ({error}): choose another folder, or remove this one."
            ) from None
        changed = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        if changed:
            told = "; ".join(
                f"{key} was {there.get(key)!r} and is {here.get(key)!r}" for key in changed
            )
            raise ValueError(
                f"{self.folder} holds results made with other settings ({told}): choose another "
                "folder, or remove it."
            )

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Let others work in the folder."""
        self._lock.close()

    def has(self, name: str) -> bool:
        """Whether a part is there."""
        return self._file(name).exists()

    def keep(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write a part."""
        self.require_mine()
        held: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()} | {
            OWNER: self._owner(name)
        }
        write(self._file(name), lambda path: np.savez(path, **held))

    def read(self, name: str) -> Part:
        """A part that is there."""
        try:
            with np.load(self._file(name), allow_pickle=False) as stored:
                part = dict(stored)
            if str(part.pop(OWNER, "nothing")) != self._owner(name):
                raise ValueError("it is a part of something else")
            return part
        except Exception as error:
            raise ValueError(
                f"{self._file(name)} is damaged ({error}): remove it, and it is made anew."
            ) from None

    def require_mine(self) -> None:
        """Refuse to go on where the folder was removed meanwhile: another job may have it by
        now."""
        try:
            mine = os.path.samestat(os.fstat(self._lock.fileno()), (self.folder / LOCK).stat())
        except FileNotFoundError:
            mine = False
        if not mine:
            raise ValueError(
                f"{self.folder} was removed while this was working in it: begin again."
            )

    def _owner(self, name: str) -> str:
        return f"{self._job} {name}"

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.npz"


def _locked(folder: Path) -> Any:
    """A file that is locked until it is closed, or its process ends, however it does; refused if
    another one has it."""
    stream = (folder / LOCK).open("w")
    with contextlib.suppress(
        ImportError, OSError
    ):  # there is no such lock on Windows, nor on some file systems
        import fcntl

        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            raise ValueError(
                f"another process works in {folder}: wait for it, or choose another folder."
            ) from None
    return stream


def write(file: Path, put: Callable[[Path], Any]) -> None:
    """Write a file all at once: whoever is killed meanwhile, or loses power, leaves the old one or
    the new."""
    draft = draft_of(file)
    try:
        put(draft)
        with draft.open("rb+") as stream:
            os.fsync(stream.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def draft_of(file: Path) -> Path:
    """A name for a file that is not finished, which nobody else has."""
    return file.with_name(f"{DRAFT}{secrets.token_hex(4)}-{file.name}")
