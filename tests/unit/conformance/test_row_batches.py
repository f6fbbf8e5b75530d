"""Rows that a ``RowStore`` holds in memory at a time, while it restores them or converts their values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.backends.own_backends import MemoryRows

from sparkstate.backends import canonical
from sparkstate.backends.base import StateKind, TableChanges, TableSpec
from sparkstate.backends.custom.row_store import RowStore
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde.expiring import ExpiringType, Times, TimeToLive
from sparkstate.serde.types import Types
from sparkstate.settings import MIB

SPEC = TableSpec("op", "values", StateKind.VALUE, Types.STRING(), Types.STRING())
EXPIRING = TableSpec(
    "op", "values", StateKind.VALUE, Types.STRING(), ExpiringType(Types.STRING(), TimeToLive(100))
)


class Measured(MemoryRows):
    """Remembers the largest write, in rows and in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.most_rows = self.most_bytes = 0

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        size = sum(len(key) + len(value or b"") for key, value in rows.items())
        self.most_rows, self.most_bytes = max(self.most_rows, len(rows)), max(self.most_bytes, size)
        super().write(rows)


def filled(rows: int, size: int) -> RowStore:
    store = RowStore(0, KeyGroupRange(0, 127), Measured())
    values = {f"key-{number}": "x" * size for number in range(rows)}
    store.commit([TableChanges(SPEC, values)], dict.fromkeys(values, 3))
    return store


ROWS = pytest.mark.parametrize(
    ("rows", "size", "most_rows", "most_bytes"),
    [(40, MIB // 2, 40, 5 * MIB), (12_000, 10, 7_500, 5 * MIB)],
    ids=["large", "many"],
)


@ROWS
def test_a_restore_writes_rows_by_bounded_batches(
    tmp_path: Path, rows: int, size: int, most_rows: int, most_bytes: int
) -> None:
    snapshot = filled(rows, size).prepare_snapshot(1, tmp_path, True)
    (file,) = snapshot.files()
    measured = Measured()
    RowStore(0, KeyGroupRange(0, 127), measured).restore({file.name: file.path}, canonical.FORMAT)
    assert len(measured.rows) == rows
    assert 0 < measured.most_rows <= most_rows
    assert measured.most_bytes <= most_bytes


@ROWS
def test_values_that_are_converted_are_written_by_bounded_batches(
    rows: int, size: int, most_rows: int, most_bytes: int
) -> None:
    store = filled(rows, size)
    measured = store.rows
    assert isinstance(measured, Measured)
    measured.most_rows = measured.most_bytes = 0
    store.adopt(EXPIRING, Times(50, 0))
    assert len(measured.rows) == rows
    assert 0 < measured.most_rows <= most_rows
    assert measured.most_bytes <= most_bytes
