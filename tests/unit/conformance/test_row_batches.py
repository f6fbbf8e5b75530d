"""Rows that a ``RowStore`` holds in memory at a time, while it restores them or converts their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.backends.own_backends import MemoryRows

from sparkstate.backends import canonical
from sparkstate.backends.base import DELETED, StateKind, TableChanges, TableSpec
from sparkstate.backends.custom import row_count
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


def test_sizes_are_counted_by_parts_however_many_rows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot tells them within its sign of life: while it counted ten million rows it was taken for lost."""
    looked = 0

    class Counted(MemoryRows):
        def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
            nonlocal looked
            for row in super().scan(first, end):
                looked += 1
                yield row

    store = RowStore(0, KeyGroupRange(0, 127), Counted())
    specs = [TableSpec("op", name, StateKind.VALUE, Types.STRING(), Types.STRING()) for name in "abc"]
    values = {f"key-{number}": "x" for number in range(100)}
    store.commit([TableChanges(spec, dict(values)) for spec in specs], dict.fromkeys(values, 3))
    monkeypatch.setattr(row_count.RowCount.go_on, "__defaults__", (40,))
    seen = []
    for call in range(1, 12):
        seen.append(store.stats().rows)
        assert looked <= 40 * call
    assert seen == [40, 80, 120, 160, 200, 240, 280, 300, 300, 300, 300]
    assert [(each.spec.name, each.rows) for each in store.stats().tables] == [
        ("a", 100),
        ("b", 100),
        ("c", 100),
    ]
    assert looked == 300, "nothing was written since"
    store.commit([TableChanges(specs[0], {"key-1": DELETED})], {"key-1": 3})
    shown = [store.stats().rows for _ in range(8)]
    assert shown[:-1] == [300] * 7
    assert shown[-1] == 299


class Cursor:
    """A scan that a backend knows until it is used up or closed."""

    def __init__(self, rows: Iterator[tuple[bytes, bytes]], held: list[Cursor]) -> None:
        self._rows, self._held = rows, held
        held.append(self)

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        return next(self._rows)

    def close(self) -> None:
        self._held.remove(self)


def test_a_scan_that_is_left_before_its_end_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Cursor] = []

    class Cursors(MemoryRows):
        def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
            return Cursor(super().scan(start, end), held)

        def write(self, rows: Mapping[bytes, bytes | None]) -> None:
            assert held == [], "nothing is written beside a scan"
            super().write(rows)

    store = RowStore(0, KeyGroupRange(0, 127), Cursors())
    values = {f"key-{number}": "x" for number in range(8_000)}
    store.commit([TableChanges(SPEC, values)], dict.fromkeys(values, 3))
    monkeypatch.setattr(row_count.RowCount.go_on, "__defaults__", (40,))
    assert store.stats().rows == 40
    assert held == []
    store.adopt(EXPIRING, Times(50, 0))
    assert held == []
