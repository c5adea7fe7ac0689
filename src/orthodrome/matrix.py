"""A matrix of answers, in memory or in files that are mapped into it, and where it breaks the
triangle inequality."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from orthodrome._types import Array
from orthodrome.checkpoint import draft_of
from orthodrome.solving import Outcome
from orthodrome.status import Status

TILE = 512
"""Rows and columns that are handled at once: what is in files is read in pieces of this size."""

SUMS = 2**19
"""Ways through a third point that are compared at once."""

KINDS = {"length": np.float64, "status": np.int8, "error": np.float64, "certified": np.bool_}
"""Of the fields of an `Outcome`, in files."""


@dataclasses.dataclass(frozen=True, eq=False)
class Matrix(Outcome):
    """What became of every problem: arrays (n, m) each."""

    @staticmethod
    def zeros(shape: tuple[int, int], folder: Path | None) -> "Matrix":
        """From every point to itself, as it were: length 0, certified.

        With a folder the arrays are `.npy` files there, mapped into memory, so that they may be
        larger than it; they have their names once they are `finished`.
        """

        def zeros(name: str, kind: type) -> Array:
            if folder is None or 0 in shape:  # nothing cannot be mapped
                return np.zeros(shape, kind)
            file = draft_of(folder / f"{name}.npy")
            array = np.lib.format.open_memmap(file, mode="w+", dtype=kind, shape=shape)
            if hasattr(os, "posix_fallocate"):  # a full disk is an error now, and not a crash later
                with file.open("rb+") as stream:
                    os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
            return array

        matrix = Matrix(**{name: zeros(name, kind) for name, kind in KINDS.items()})
        matrix.certified[:] = True
        return matrix

    @staticmethod
    def lies_in(folder: Path) -> bool:
        """Whether all files of a finished one are there."""
        return all((folder / f"{name}.npy").exists() for name in KINDS)

    @staticmethod
    def opened(folder: Path) -> "Matrix":
        """The files of a finished one: whoever writes into the arrays changes their own copy."""
        return Matrix(**{name: np.load(folder / f"{name}.npy", mmap_mode="c") for name in KINDS})

    def finished(self) -> None:
        """Give files their names. Whoever has older ones open keeps those."""
        for name, array in zip(KINDS, self.columns, strict=True):
            if isinstance(array, np.memmap):
                array.flush()
                draft = Path(str(array.filename))
                draft.replace(draft.with_name(f"{name}.npy"))

    def put(self, at: tuple[Array, Array], some: Outcome) -> None:
        """Write what became of P problems at rows and columns (P,) each."""
        for array, values in zip(self.columns, some.columns, strict=True):
            array[at] = values

    def mirror(self) -> None:
        """Copy the half above the diagonal to the one below."""
        for first, second in _tiles(len(self.length)):
            for array in self.columns:
                if first == second:
                    corner = array[first, first]
                    i, j = np.triu_indices(len(corner), 1)
                    corner[j, i] = corner[i, j]
                else:
                    array[second, first] = array[first, second].T

    def unsolved(self, symmetric: bool) -> tuple[Array, Array]:
        """The rows and columns (Q,) of the problems that were not solved, each pair once."""
        n = len(self.length)
        pairs = [np.zeros((2, 0), dtype=int)]
        for first in range(0, n, TILE):
            i, j = np.nonzero(np.asarray(self.status[first : first + TILE]) != Status.CONVERGED)
            pairs.append(
                np.stack([first + i, j])[:, first + i < j]
                if symmetric
                else np.stack([first + i, j])
            )
        i, j = np.concatenate(pairs, axis=1)
        return i, j

    def usable(self, rows: slice) -> Array:
        """Lengths of some rows with their errors on top, (r, n): infinite where there is none, and
        on the diagonal."""
        length = np.asarray(self.length[rows])
        out: Array = np.where(np.isfinite(length), length + self.slack(rows), np.inf)
        out[np.arange(len(out)), np.arange(len(self.length))[rows]] = np.inf
        return out

    def slack(self, rows: slice) -> Array:
        """How much the lengths of some rows may be wrong by, (r, n): nothing where nothing is known
        about it."""
        length = np.asarray(self.length[rows])
        sure = self.certified[rows] & np.isfinite(length)
        return np.where(sure, np.asarray(self.error[rows]) * length, 0.0)

    def detours(self, first: int) -> tuple[Array, Array, Array]:
        """Pairs i < k and points j by way of which they are nearer than by their own paths, by more
        than the errors.

        (i, j, k), (Q,) each, with i in the tile of rows that begins at `first`.
        """
        n = len(self.length)
        rows = slice(first, min(first + TILE, n))
        reached = self.usable(rows)
        best, via = np.full(reached.shape, np.inf), np.zeros(reached.shape, dtype=int)
        size = max(1, SUMS // n)
        for begin in range(0, n, size):
            between = slice(begin, begin + size)
            onward = self.usable(between)
            for row, legs in enumerate(reached[:, between]):
                above = slice(first + row + 1, n)
                ways = legs[:, None] + onward[:, above]
                j = np.argmin(ways, axis=0)
                least = ways[j, np.arange(len(j))]
                nearer = least < best[row, above]
                best[row, above][nearer], via[row, above][nearer] = least[nearer], begin + j[nearer]
        own = np.asarray(self.length[rows])
        i, k = np.nonzero(best < np.where(np.isfinite(own), own - self.slack(rows), np.inf))
        return first + i, via[i, k], k


def _tiles(n: int) -> Iterator[tuple[slice, slice]]:
    """Squares that cover the half above the diagonal."""
    for first in range(0, n, TILE):
        for second in range(first, n, TILE):
            yield slice(first, min(first + TILE, n)), slice(second, min(second + TILE, n))
