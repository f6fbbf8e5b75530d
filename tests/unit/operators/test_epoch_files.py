"""Outputs that lie on disk and have several readers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkstate import errors
from sparkstate.operators.rows.files import EpochFiles

BATCHES = 5
ALL = list(range(BATCHES))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[EpochFiles]:
    made = EpochFiles(tmp_path / "overlay")
    made.append(None, [pa.record_batch({"n": [number]}) for number in range(BATCHES)])
    yield made
    made.close()


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["n"].to_pylist()]


def test_readers_by_turns_have_a_position_each_and_one_that_stops_half_way_ends_alone(
    files: EpochFiles,
) -> None:
    one, other, third = (files.read(None) for _ in range(3))
    found: list[tuple[int, int]] = []
    for _ in range(2):
        found += zip(numbers(iter([next(one)])), numbers(iter([next(other)])), strict=True)
    assert found == [(0, 0), (1, 1)]
    assert numbers(third) == ALL
    one.close()  # type: ignore[attr-defined]  # as when the connection of a task breaks
    assert numbers(other) == ALL[2:]
    assert numbers(files.read(None)) == ALL


class _Slow:
    """A writer that is long in closing, as on a disk that is busy."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._again = threading.Event()
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        if self.closed > 1:
            self._again.set()
        self._again.wait(0.5)
        self._writer.close()


def test_two_readers_that_come_first_at_the_same_time_end_the_file_once(files: EpochFiles) -> None:
    """Two tasks of Spark read one output where a sink's plan has it twice."""
    output = files._outputs[None]
    writer: Any = _Slow(output._writer)
    output._writer = writer
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: numbers(files.read(None)), range(2)))
    assert found == [ALL, ALL]
    assert writer.closed == 1


def test_a_reader_that_begins_after_the_end_is_told_so_and_one_that_reads_already_goes_on(
    files: EpochFiles,
) -> None:
    """A task that came too late was sent an output without rows, and the end of it."""
    late, reading = files.read(None), files.read(None)
    first = next(reading)
    files.close()
    assert numbers(iter([first, *reading])) == ALL
    with pytest.raises(errors.StateError, match="were removed"):
        next(late)
