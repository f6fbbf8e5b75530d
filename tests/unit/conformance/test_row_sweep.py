"""The sweep of a backend over ordered rows, beyond the kit: its pace where nobody counts the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.backends.own_backends import MemoryBackend

from sparkstate.backend_api import BackendContext, KeyGroupRange, StateKind, TableChanges, TableSpec
from sparkstate.backends.expiring import ExpiringStore, SweepPace
from sparkstate.serde.expiring import ExpiringType, TimeToLive
from sparkstate.serde.types import Types

SPEC = TableSpec("op", "values", StateKind.VALUE, Types.LONG(), ExpiringType(Types.LONG(), TimeToLive(100)))
QUARTER = SweepPace(0.25, 1, 10_000)
ROWS = 1_000


def new_store(folder: Path) -> Any:
    return MemoryBackend(BackendContext(directory=folder)).create(0, KeyGroupRange(0, 127), folder)


def write(store: Any, keys: range, stamp: int) -> None:
    store.commit(
        [TableChanges(SPEC, values={key: (stamp, key) for key in keys})], {key: key % 128 for key in keys}
    )


def restored(store: Any, folder: Path) -> Any:
    folder.mkdir()
    taken = store.prepare_snapshot(1, folder, True)
    made = new_store(folder / "restored")
    made.restore({file.name: file.path for file in taken.files()}, taken.format)
    taken.release()
    return made


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_quarter_of_the_rows_is_looked_at_in_each_sweep_whatever_wrote_them(
    tmp_path: Path, is_restored: bool
) -> None:
    store = new_store(tmp_path / "store")
    assert isinstance(store, ExpiringStore)
    write(store, range(ROWS), 0)
    if is_restored:
        store = restored(store, tmp_path / "taken")
    removed = [store.expire(SPEC, 0, QUARTER) for _ in range(5)]
    assert removed == [250, 250, 250, 250, 0]
    write(store, range(ROWS, 2 * ROWS), 0)
    assert sum(store.expire(SPEC, 0, QUARTER) for _ in range(5)) == ROWS, (
        "the next pass counts what was added"
    )
    assert store.stats().rows == 0


def test_rows_that_are_written_again_and_again_are_not_counted_for_ever(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    for stamp in range(10):
        write(store, range(ROWS), stamp)
    looked: list[int] = []
    scan = store.rows.scan

    def counted(start: bytes, end: bytes) -> Any:
        looked.append(0)
        for row in scan(start, end):
            looked[-1] += 1
            yield row

    store.rows.scan = counted
    for _ in range(7):
        store.expire(SPEC, -1, QUARTER)
    assert looked == [ROWS, ROWS, 250, 250, 250, 250, 0], "ten times as many were written as there are"
