"""The consumer of the job's output: it checks each published file against the model and then deletes it.

Each row must come exactly once. A key's largest total among the rows of one file must be the key's total after that
file, because an epoch reads one file and all values are positive; so the check sees every epoch's state, not only the
last one's. The result is on the disk before the files go, so that a new part of the soak goes on there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sparkstate_tools.soak.supply import Input


class WrongOutput(AssertionError):
    """The job's output is not what its input must give: a row twice, or a wrong total."""


class Reader:
    """``delete`` removes the published files of these names. Not thread-safe."""

    def __init__(
        self, input_: Input, published: Path, memory: Path, delete: Callable[[Sequence[str]], None]
    ) -> None:
        self._input = input_
        self._published = published
        self._memory = memory
        self._delete = delete
        saved: dict[str, Any] = json.loads(memory.read_text()) if memory.exists() else {}
        self.complete: int = saved.get("complete", 0)
        """So many files of the input have all their rows in the output, and were right."""
        self._totals = np.array(saved.get("totals", [0] * input_.keys), dtype=np.int64)
        self._open = {int(n): np.array(row, dtype=np.int64) for n, row in saved.get("open", {}).items()}
        """By number of the input's file: the total of each of its rows, 0 where none was seen."""
        self._deleting: list[str] = saved.get("deleting", [])

    def step(self) -> int:
        """Check what was published since the last step; the number of files that it took."""
        self._delete_checked()
        names = sorted(path.name for path in self._published.glob("part-*.parquet"))
        for name in names:
            table = pq.read_table(self._published / name, columns=["id", "total"])
            self._take(name, table["id"].to_numpy(), table["total"].to_numpy())
        self._complete()
        self._deleting = names
        self._save()
        self._delete_checked()
        return len(names)

    def _take(self, name: str, ids: np.ndarray, totals: np.ndarray) -> None:
        files = ids // self._input.rows
        for number in np.unique(files).tolist():
            chosen = files == number
            if number < self.complete:
                raise WrongOutput(
                    f"{name} has rows of input file {number}, all of which were published before"
                )
            row = self._open.setdefault(number, np.zeros(self._input.rows, dtype=np.int64))
            places = ids[chosen] % self._input.rows
            if len(np.unique(places)) != len(places) or row[places].any():
                raise WrongOutput(f"{name} has rows of input file {number} that were published before")
            row[places] = totals[chosen]

    def _complete(self) -> None:
        while (row := self._open.get(self.complete)) is not None and row.all():
            rows = self._input.file(self.complete)
            largest = np.zeros_like(self._totals)
            np.maximum.at(largest, rows.keys, row)
            np.add.at(self._totals, rows.keys, rows.values)
            touched = np.unique(rows.keys)
            wrong = touched[largest[touched] != self._totals[touched]]
            if len(wrong):
                key = int(wrong[0])
                raise WrongOutput(
                    f"after input file {self.complete} key {key} has the total {largest[key]}, "
                    f"its values add up to {self._totals[key]} ({len(wrong)} keys are wrong)"
                )
            del self._open[self.complete]
            self.complete += 1

    def _save(self) -> None:
        document = {
            "complete": self.complete,
            "totals": self._totals.tolist(),
            "open": {str(number): row.tolist() for number, row in self._open.items()},
            "deleting": self._deleting,
        }
        temporary = self._memory.with_suffix(".new")
        temporary.write_text(json.dumps(document))
        temporary.replace(self._memory)

    def _delete_checked(self) -> None:
        names = [name for name in self._deleting if (self._published / name).exists()]
        if names:
            self._delete(names)
        self._deleting = []
