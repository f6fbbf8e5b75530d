"""Example 01 as a job in a cluster with nodes: its input, its manifest, what it wrote against the oracle.

``finish`` ends its stream so that every row of the output can be counted: two last flights of an aircraft that does
not exist, so much later that all of the others count as grounded, and that wait for a watermark themselves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from support.examples import example
from support.nodes.node_job import MOUNT, NodeJob

from sparkstate_tools.demo import oracle, pacer, prepare

EXAMPLE = example.EXAMPLES / "01-flight-rotations"
CODE = EXAMPLE / "job.py"
HOURS = 24
Output = Mapping[str, Counter[oracle.Record]]


@dataclass(frozen=True)
class Prepared:
    """An input and what must come of it."""

    files: Sequence[Path]
    expected: Mapping[str, Counter[oracle.Record]]


def prepared(folder: Path, rows: int = 7_000, files: int = 24) -> Prepared:
    """The first rows of the year (7,000 are eight days) in so many files, and the batch calculation of them."""
    written = prepare.write_files(prepare.in_disorder(prepare.read_flights(rows)), folder, files)
    return Prepared(written, oracle.expected(written, HOURS))


@dataclass
class FlightsJob(NodeJob):
    """One job of the example; ``finish`` and ``check`` at its end."""

    data: Prepared

    @property
    def own_code(self) -> Path:
        """The example's script."""
        return CODE

    @property
    def files(self) -> Sequence[Path]:
        """The prepared flights."""
        return self.data.files

    def example(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The example's manifest."""
        params = {"input": f"{MOUNT}/input", "output": f"file://{MOUNT}/output", "hours": str(HOURS)}
        return yaml.safe_load((EXAMPLE / "job.yaml").read_text()), params

    def take_over(self, other: FlightsJob) -> None:
        """Shows this job the input that another one has had, under the same names, and the rest in ``finish``."""
        other.stop_feeding()
        for path in self.data.files[: other.released]:
            pacer.release(path, self.folder / "input")
        self._pacer, self._at_once = other._pacer, other._at_once

    def finish(self, timeout_s: float = 300, before: Output | None = None) -> None:
        """Releases what is left and the end, and waits until as many records are out as there must be.

        ``before`` is what another job has written of this input already.
        """
        self.release_rest()
        had = before or {}
        wanted = {
            name: (all_ - had.get(name, Counter())).total() for name, all_ in self.data.expected.items()
        }
        began = time.monotonic()
        deadline = began + timeout_s
        for number in (1, 2):
            self._release_end(number)
            # The second one carries the watermark of the first to whoever waits for it; in epochs of their own.
            time.sleep(2)
        while (found := {name: records.total() for name, records in self.written().items()}) != wanted:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"after {timeout_s:.0f} s the output has {found} records; it must have {wanted}"
                )
            time.sleep(0.5)
        print(f"{time.monotonic() - began:6.1f} s until all records are out", flush=True)

    def written(self) -> dict[str, Counter[oracle.Record]]:
        """All records of the published files."""
        return {
            output: oracle.written(oracle.committed_files(self.folder / "output" / output), columns)
            for output, columns in oracle.COLUMNS.items()
        }

    def check(self, before: Output | None = None) -> None:
        """Raises unless every output equals the batch calculation, record for record; with what was ``before``."""
        found = {
            name: records + (before or {}).get(name, Counter()) for name, records in self.written().items()
        }
        differences = {name: oracle.compare(self.data.expected[name], found[name]) for name in found}
        wrong = [f"{name}: {each.describe()}" for name, each in differences.items() if not each.equal]
        assert wrong == []

    def _release_end(self, number: int) -> None:
        last = pq.read_table(self.data.files[-1]).to_pylist()[-1]
        # Both at one instant: a later one would let the first depart.
        later = last["time_hour"] + timedelta(hours=10 * HOURS)
        row = {**last, "tailnum": "NONE", "time_hour": later, "dep_time": 1, "arr_delay": 0}
        path = self.folder / f"flights-9{number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist([row], schema=prepare.SCHEMA), path)
        self._date(path)
        pacer.release(path, self.folder / "input")
