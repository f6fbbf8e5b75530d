"""Spilled numbers in sorted runs: a dict, however often they are merged and whatever is read between."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.backends import cells
from support.backends.small_runs import small_runs
from support.backends.spilled import SPEC, Spilled, columns, groups, listed, row_order
from support.faults import tried

from sparkstate import errors
from sparkstate.backends import base, column_cells
from sparkstate.backends.base import DELETED, NamespacedCell, TableChanges
from sparkstate.backends.rocksdb import native, sorted_run
from sparkstate.backends.rocksdb.sorted_runs import SortedRuns
from sparkstate.local_state import inheritance

KEYS = [0, 1, 2, 129, -1, -2, 2**63 - 1, -(2**63)]
SPACES = [0, 5, -(2**63)]

pairs = st.builds(NamespacedCell, st.sampled_from(KEYS), st.sampled_from(SPACES))
values = st.one_of(st.just(DELETED), st.floats(allow_nan=False))


@pytest.fixture(autouse=True, scope="module")
def _few_rows_at_once() -> Iterator[None]:
    """So that some keys need several steps, reads and merges."""
    with small_runs():
        yield


@pytest.mark.parametrize("cell", [st.sampled_from(KEYS), pairs], ids=["keys", "with namespaces"])
@settings(max_examples=tried(100), deadline=None)
@given(data=st.data())
def test_runs_are_a_dict(cell: Any, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs, expected = SortedRuns(Path(folder) / "run", np.dtype(np.float64)), {}
        for added in data.draw(st.lists(st.dictionaries(cell, values, min_size=1), min_size=1, max_size=9)):
            runs.add(columns(added))
            expected.update(added)
            asked = dict.fromkeys(sorted(data.draw(st.sets(cell, min_size=1)), key=row_order), 0.0)
            wanted = columns(asked)
            found, present, known = (each.tolist() for each in runs.get(wanted.key_groups, wanted.keys))
            assert known == [each in expected for each in asked]
            assert present == [expected.get(each, DELETED) is not DELETED for each in asked]
            assert [v for v, p in zip(found, present, strict=True) if p] == [
                expected[each] for each in asked if expected.get(each, DELETED) is not DELETED
            ]
        in_order = sorted(expected.items(), key=lambda item: row_order(item[0]))
        assert listed(runs.parts()) == in_order
        assert len(os.listdir(folder)) <= 4
        runs.close()
        assert os.listdir(folder) == []


def stored_of(state: dict[Any, Any], asked: list[Any]) -> list[Any]:
    """What a table answers: None for what is not there."""
    return [None if state.get(cell) is DELETED else state.get(cell) for cell in asked]


CELLS = [None, *KEYS, *(NamespacedCell(key, space) for key in (None, 1, -1) for space in (0, 5, "n"))]
some = st.dictionaries(st.sampled_from(CELLS), values, min_size=1, max_size=8)


@settings(max_examples=tried(25), deadline=None)
@given(
    stored=st.dictionaries(st.sampled_from(CELLS), st.floats(allow_nan=False)),
    steps=st.lists(st.tuples(st.sampled_from(["values", "columns"]), some), min_size=1, max_size=6),
    is_committed=st.booleans(),
    at_once=st.integers(1, 3),
    until=st.integers(0, 7),
)
def test_a_spill_is_a_dict_whichever_way_changes_come(
    stored: dict[Any, Any], steps: list[Any], is_committed: bool, at_once: int, until: int
) -> None:
    """``until``: from this step on there is no memory for more runs."""
    with tempfile.TemporaryDirectory() as folder:
        side = Spilled(Path(folder))
        side.commit_first(stored)
        spilled = set()
        table = side.spill.table(SPEC)
        for number, (kind, added) in enumerate(steps):
            side.has_room = number < until
            side.add(kind, added)
            spilled |= {cell for cell in added if not isinstance(cell, NamespacedCell)}
            expected = stored_of(side.state, CELLS)
            kgs = [cells.group_of(base.key_of(cell)) for cell in CELLS]
            assert side.read(lambda _: table, CELLS) == table.get_many(kgs, CELLS) == expected
            pair_cells = [cell for cell in CELLS if column_cells.is_pair(cell)]
            read, present = table.get_columns(
                np.array([cells.group_of(c.key) for c in pair_cells], np.int32),
                column_cells.pairs_of(pair_cells),
            )
            found = [v if p else None for v, p in zip(read.tolist(), present.tolist(), strict=True)]
            assert found == stored_of(side.state, pair_cells)
        parts = list(table.keys(at_once))
        assert all(0 < len(part) <= at_once for part in parts)
        found_keys = [key for part in parts for _, key in part]
        assert sorted(map(repr, found_keys)) == sorted(map(repr, spilled))
        plain = [cell for cell in CELLS if not isinstance(cell, NamespacedCell)]
        assert table.mentions(list(map(cells.group_of, plain)), plain) == [key in spilled for key in plain]
        if is_committed:
            side.spill.commit()
        side.spill.close()
        assert not side.folder.exists()
        state = side.state if is_committed else side.committed
        read = side.read(lambda kg: side.stores[side.shard_of[kg]].table(SPEC), CELLS)
        assert read == stored_of(state, CELLS)
        side.close()


@pytest.mark.parametrize("until", [0, 3, 100], ids=["rows", "runs at first", "runs"])
def test_keys_that_are_listed_while_more_are_spilled_come_once(until: int, tmp_path: Path) -> None:
    side = Spilled(tmp_path)
    side.has_room = until > 0
    side.add("columns", {None: 0.0, **dict.fromkeys(range(0, 100, 2), 1.0)})
    found = []
    for number, part in enumerate(side.spill.table(SPEC).keys(7)):
        found += [key for _, key in part]
        side.has_room = number < until
        side.add("columns", {None: 0.0, **dict.fromkeys(range(100), 2.0)})
    assert len(found) == len(set(found))
    assert {None, *range(0, 100, 2)} <= set(found)
    side.close()


def test_filters_of_all_overlays_have_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_run, "STEP", 4096)
    monkeypatch.setattr(sorted_run, "CHECKED", 512)
    side = Spilled(tmp_path)
    most = side.factory.plan.filters
    spills = [side.factory.create_spill(side.stores, side.shard_of, tmp_path / name) for name in ("a", "b")]
    for start in range(0, 100_000, 10_000):
        added = columns(dict.fromkeys(range(start, start + 10_000), 1.0))
        for spill in spills:
            spill.add([TableChanges(SPEC, columns=added)], {})
        taken = sum(spill.nbytes for spill in spills)
        assert taken <= most
        assert taken > 0 or start > 0
    assert [spill.nbytes for spill in spills] == [0, 0]
    assert spills[0].table(SPEC).get_many([cells.group_of(99_999)], [99_999]) == [1.0]
    for spill in spills:
        spill.close()
    side.close()


def test_numbers_open_no_database(tmp_path: Path) -> None:
    side = Spilled(tmp_path)
    side.add("columns", {1: 1.0, NamespacedCell(1, 5): 2.0})
    assert side.spill.due(cells.TIMERS, b"", 5, 1) == ([], b"")
    assert side.spill.standing(cells.TIMERS, [cells.timer(1, 1)]) == [None]
    assert side.spill.database() is None
    side.add("values", {None: 1.0})
    assert side.spill.database() is not None
    side.close()


def test_a_spill_that_was_given_up_answers_nothing(tmp_path: Path) -> None:
    side = Spilled(tmp_path)
    side.add("columns", {1: 1.0})
    table = side.spill.table(SPEC)
    side.spill.close()
    for cell in (1, None):
        with pytest.raises(errors.StateError, match="closed"):
            table.get(cells.group_of(cell), cell)
    with pytest.raises(errors.StateError, match="it was given up"):
        side.spill.table(SPEC)
    side.close()


def forget(spill: Any) -> None:
    """The spill of an overlay that only the garbage collector finds."""
    overlay = type("Overlay", (), {})()
    overlay.itself = overlay
    weakref.finalize(overlay, spill.close)


def test_the_garbage_collector_closes_a_spill_wherever_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = Spilled(tmp_path)
    other = side.factory.create_spill(side.stores, side.shard_of, tmp_path / "other")
    other.add([TableChanges(SPEC, values={None: 1.0})], groups({None: 1.0}))
    database = other.database()
    monkeypatch.setattr(native.SlotMemory, "pressing", lambda _: True)
    monkeypatch.setattr(side.spill, "database", lambda: gc.collect() and None)
    gc.disable()
    try:
        forget(other)
        done = threading.Thread(target=side.factory._make_room, daemon=True)
        done.start()
        done.join(10)
        assert not done.is_alive()
    finally:
        gc.enable()
    assert other.database() is None
    with pytest.raises(errors.StateError, match="closed"):
        database.flush()
    side.close()


def test_a_spill_closed_while_room_is_made_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = Spilled(tmp_path)
    side.add("values", {None: 1.0})
    database = side.spill.database()
    monkeypatch.setattr(native.SlotMemory, "pressing", lambda _: True)

    def closed_meanwhile() -> int:
        side.spill.close()
        return 0

    monkeypatch.setattr(database, "memtable_bytes", closed_meanwhile)
    side.factory._make_room()
    side.factory.create_spill(side.stores, side.shard_of, tmp_path / "next").close()
    assert side.spill not in side.factory._spills
    side.close()


SPILLS = """
import sys, time
from pathlib import Path
import numpy as np
from sparkstate.backends.rocksdb.sorted_runs import SortedRuns
from sparkstate.backends.value_columns import ValueColumns

keys = np.arange(10_000)
runs = SortedRuns(Path(sys.argv[1]) / "run", np.dtype(np.int64))
runs.add(ValueColumns(keys, (keys % 128).astype(np.int32), keys, np.ones(len(keys), np.bool_)))
print("spilled", flush=True)
time.sleep(60)
"""


def test_runs_of_a_slot_that_was_killed_go_with_its_folder(tmp_path: Path) -> None:
    overlay = tmp_path / "slot" / "overlays" / "overlay-0"
    overlay.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", SPILLS, str(overlay)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "spilled\n"
        finally:
            process.kill()
    assert [path.name for path in overlay.iterdir()] == ["run-0"]
    inheritance.retire(tmp_path / "slot")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
