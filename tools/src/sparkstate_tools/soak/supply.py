"""The input: small files whose rows follow from a seed and the file's number, and the model of what they must give."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILE_MS = 500
"""How far event time goes on with each file."""
_FIRST_MTIME_S = 1_700_000_000
"""The source takes files in the order of their modification times, so each file gets the next second."""


@dataclass(frozen=True)
class Rows:
    """The columns of one file. ``id`` is the row's number in the whole input."""

    keys: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    at: np.ndarray


@dataclass(frozen=True)
class Input:
    """All files there will ever be, each computed from ``seed`` and its number."""

    seed: int
    keys: int
    rows: int
    """In each file."""

    def file(self, number: int) -> Rows:
        """The rows of one file."""
        rng = np.random.default_rng([self.seed, number])
        return Rows(
            keys=rng.integers(0, self.keys, self.rows),
            ids=np.arange(number * self.rows, (number + 1) * self.rows),
            values=rng.integers(1, 10, self.rows),
            at=number * FILE_MS + rng.integers(0, FILE_MS, self.rows),
        )


class Supply:
    """Keeps the watched folder a few files ahead of the reader, and removes files that nobody needs any more."""

    def __init__(self, input_: Input, folder: Path, *, ahead: int, kept: int) -> None:
        self._input = input_
        self._folder = folder
        self._ahead = ahead
        self._kept = kept
        folder.mkdir(parents=True, exist_ok=True)
        present = sorted(int(path.stem) for path in folder.glob("*.parquet"))
        self._oldest = present[0] if present else 0
        self.files = present[-1] + 1 if present else 0
        """How many there were so far."""

    def follow(self, complete: int, limit: int) -> None:
        """``complete`` files have their whole output published; ``limit`` files is all that there will be."""
        while self.files < min(complete + self._ahead, limit):
            self._write(self.files)
            self.files += 1
        while self._oldest < complete - self._kept:
            self._path(self._oldest).unlink(missing_ok=True)
            self._oldest += 1

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.parquet"

    def _write(self, number: int) -> None:
        rows = self._input.file(number)
        table = pa.table({"k": rows.keys, "id": rows.ids, "v": rows.values, "at": rows.at})
        hidden = self._path(number).with_name(f".{number:08d}")
        pq.write_table(table, hidden)
        os.utime(hidden, (_FIRST_MTIME_S + number, _FIRST_MTIME_S + number))
        hidden.rename(self._path(number))
