"""A key group that is larger than memory, such as that of a hot key, comes in the order of its keys as any other."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried

from sparkstate import columns
from sparkstate.operators.rows import key_order, large_groups
from sparkstate.operators.rows.files import EpochFiles

Row = tuple[int, Any, Any]
"""Key group, and two parts of a key."""
KEYS = st.tuples(st.sampled_from([None, "", "a", "b", "\u00e4"]), st.sampled_from([None, -3, 0, 2**40]))
SCHEMA = pa.schema(
    {columns.KEY_GROUP: pa.int32(), "text": pa.string(), "number": pa.int64(), "came": pa.int64()}
)


def table_of(rows: Sequence[Row]) -> pa.Table:
    groups, texts, numbers = ([row[at] for row in rows] for at in range(3))
    return pa.table([groups, texts, numbers, range(len(rows))], schema=SCHEMA)


def batches_of(table: pa.Table, sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    start = 0
    for size in sizes:
        yield from table.slice(start, size).to_batches()
        start += size


def place(row: Row) -> tuple[Any, ...]:
    """A null is before all others of its group."""
    return row[0], row[1] is not None, (row[1] or "").encode(), row[2] is not None, row[2] or 0


def expected(rows: Sequence[Row]) -> list[int]:
    return sorted(range(len(rows)), key=lambda at: place(rows[at]))


def came(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column("came").to_pylist()]


@settings(max_examples=tried(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), KEYS, st.integers(1, 60)), max_size=8),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.sampled_from([1, 400, 2_000]),
    st.randoms(use_true_random=False),
)
def test_every_group_comes_in_the_order_of_its_keys(
    tmp_path_factory: Any, lists: Any, sizes: list[int], part_bytes: int, chance: random.Random
) -> None:
    rows = [(group, *key) for group, key, count in lists for _ in range(count)]
    chance.shuffle(rows)
    rows.sort(key=lambda row: row[0])
    folder = tmp_path_factory.mktemp("rows")
    files = EpochFiles(folder)
    with mock.patch.object(large_groups, "LEAST_ROWS", 2):
        batches = batches_of(table_of(rows), sizes * (len(rows) // sum(sizes) + 1))
        found = came(key_order.by_key(batches, ["text", "number"], part_bytes, files.new_rows))
    assert found == expected(rows)
    assert list(folder.iterdir()) == []


PART = 1 << 18
POOLS: list[pa.MemoryPool] = []
"""Whatever was allocated from a pool must not outlive it."""


def hot(group: int, count: int) -> Row:
    """Most rows are of one key, in the middle of the others."""
    return (group, "k", None) if count % 10 else (group, chr(97 + count % 26) + str(count % 301), None)


LIKE: dict[str, Any] = {
    "a hot key": hot,
    "keys that rise": lambda group, count: (group, f"{count // 3:09}", None),
    "keys that fall": lambda group, count: (group, f"{-count // 3 + 2**29:09}", None),
    "keys that come again": lambda group, count: (group, f"{count * 7919 % 50_021:09}", None),
}


@pytest.mark.parametrize("kind", LIKE)
def test_a_large_group_takes_the_memory_of_a_few_parts(tmp_path: Path, kind: str) -> None:
    """Four of them for rows that are sorted, and the rest for their order and for the part that is given out. A fourth
    of that group took fifteen parts when groups were split."""
    count = 200_000
    rows = [LIKE[kind](1, number) for number in range(count)]
    rows = [(0, "a", 1), *rows, (2, "a", 1)]
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "rows"
    table = table_of(rows)
    assert table.nbytes > 15 * PART
    with pa.OSFile(str(source), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_table(table, max_chunksize=1000)
    del table
    gc.collect()
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        with pa.OSFile(str(source), "rb") as opened, pa.ipc.open_stream(opened) as stream:
            files = EpochFiles(tmp_path / "out")
            parts = key_order.by_key(iter(stream), ["text", "number"], PART, files.new_rows)
            found, largest = [], 0
            for part in parts:
                largest = max(largest, part.nbytes)
                found += part.column("came").to_pylist()
    finally:
        pa.set_memory_pool(before)
    assert found == expected(rows)
    assert largest < 2 * PART
    assert pool.max_memory() < 7 * PART
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_too_large_after_all_divisions_comes_part_by_part(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(large_groups, "_MOST_DIVISIONS", 0)
    rows = [LIKE["keys that fall"](0, number) for number in range(40_000)]
    files = EpochFiles(tmp_path)
    found = came(
        key_order.by_key(
            batches_of(table_of(rows), [1000] * 40), ["text", "number"], PART // 4, files.new_rows
        )
    )
    assert sorted(found) == list(range(40_000))
    by_key: dict[Any, list[int]] = {}
    for number in found:
        by_key.setdefault(rows[number], []).append(number)
    assert all(numbers == sorted(numbers) for numbers in by_key.values()), "the order of a key's own rows"


def test_files_go_with_a_reader_that_stops_half_way(tmp_path: Path) -> None:
    files = EpochFiles(tmp_path)
    batches = batches_of(table_of([hot(0, number) for number in range(40_000)]), [1000] * 40)
    parts = key_order.by_key(batches, ["text", "number"], PART // 4, files.new_rows)
    next(parts)
    assert list(tmp_path.iterdir())
    parts.close()
    assert list(tmp_path.iterdir()) == []
