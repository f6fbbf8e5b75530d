"""Columns that wait in memory before RocksDB: whatever mix of commits, reads and snapshots comes, nobody sees it."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.backends.cells import TIMERS, group_of
from support.faults import tried
from support.storage.stores import ManualClock

from sparkstate.backends import column_cells, value_columns
from sparkstate.backends.base import (
    DELETED,
    NamespacedCell,
    StateKind,
    TableChanges,
    TableSpec,
    Timer,
    key_of,
)
from sparkstate.backends.rocksdb.factory import RocksDBStoreFactory
from sparkstate.backends.timer_columns import TimerColumns
from sparkstate.backends.value_columns import ValueColumns
from sparkstate.keygroups import KeyGroupRange
from sparkstate.serde import composite
from sparkstate.serde.types import Types
from sparkstate.settings import StateBackendSettings

KIB = 1024
LEAST, MOST = -(2**63), 2**63 - 1
KEYS = [LEAST, -1, 0, MOST, *range(1, 57)]
CELLS = [NamespacedCell(key, space) for key in KEYS[:15] for space in (LEAST, 0, 7, MOST)]
SINGLES = [None, NamespacedCell(None, 7), NamespacedCell(0, "w"), 0, 5, MOST, CELLS[1], CELLS[9]]
STAMPS = [LEAST, LEAST + 1, -1, 0, 1, 2, 30, MOST - 1, MOST]
MARKS = [(stamp, key) for stamp in STAMPS for key in KEYS[:7]]
SINGLE_TIMERS = [(0, None, None), (1, None, 7), (2, 0, "w"), (30, 1, 3), (0, 0, None), (MOST, MOST, None)]

INTS = TableSpec("op", "total", StateKind.VALUE, Types.LONG(), Types.INT())
LONGS = TableSpec("op", "total", StateKind.VALUE, Types.LONG(), Types.LONG())
RATIOS = TableSpec("op", "ratio", StateKind.VALUE, Types.LONG(), Types.DOUBLE())
SHARES_BEFORE = TableSpec("op", "share", StateKind.REDUCING, Types.INT(), Types.INT())
SHARES = TableSpec("op", "share", StateKind.REDUCING, Types.INT(), Types.DOUBLE())
NUMBERS: dict[str, list[Any]] = {
    "total": [0, 1, -1, 2**31 - 1, -(2**31)],
    "ratio": [0.0, -0.0, float("nan"), float("inf"), 1.5],
    "share": [0, 1, -1, 2**31 - 1, -(2**31)],
}
NAMES = st.sampled_from(list(NUMBERS))

RUNS = st.tuples(
    st.integers(0, len(KEYS) - 1),
    st.sampled_from([1, 3, 12, 60]),
    st.sampled_from(["write", "write", "remove", "both"]),
)
"""Entries that lie one behind another: from where, how many, and what happens to them."""
SINGLE = st.dictionaries(st.integers(0, 7), st.booleans(), max_size=4)
OF_A_TABLE = st.fixed_dictionaries(
    {
        "columns": st.none() | RUNS,
        "pairs": st.none() | RUNS,
        "single": st.just({}) | SINGLE,
        "apart": st.booleans(),
    }
)
NOTHING = {"columns": None, "pairs": None, "single": {}, "apart": False}
CHANGES = st.fixed_dictionaries(
    {
        "total": OF_A_TABLE,
        "ratio": OF_A_TABLE,
        "share": st.just(NOTHING) | OF_A_TABLE,
        "timers": OF_A_TABLE,
        "is_known": st.booleans(),
        "value": st.integers(0, 4),
    }
)


def entries(run: tuple[int, int, str] | None, of: list[Any], value: Any) -> dict[Any, Any]:
    """The entries of a run, with a value or DELETED."""
    if run is None:
        return {}
    start, count, what = run
    chosen = (of + of)[start : start + count]
    return {
        each: value if what == "write" or (what == "both" and place % 2) else DELETED
        for place, each in enumerate(chosen)
    }


def bits(value: Any) -> Any:
    """Values that compare as their bits do: -0.0 is not 0.0, and NaN is NaN."""
    return np.float64(value).tobytes() if isinstance(value, float) else value


def row_order(cell: Any) -> tuple[int, Any]:
    return group_of(cell), cell


class ColumnBuffers(RuleBasedStateMachine):
    """A store whose buffers are tiny, or not, against plain dicts."""

    @initialize(
        limit=st.sampled_from([2 * KIB, 4 * KIB, 10 * KIB, 20 * KIB, 1000 * KIB]), cache=st.integers(1, 9)
    )
    def open(self, limit, cache):
        self.folder = tempfile.TemporaryDirectory()
        options = {"timer-service.cache-size": str(cache)}
        self.factory = RocksDBStoreFactory(
            StateBackendSettings(type="rocksdb", options=options), Path(self.folder.name), ManualClock()
        )
        self.memory = self.factory._buffer_memory
        self.memory.limit = limit
        self.number = 0
        self.specs = {"total": INTS, "ratio": RATIOS, "share": SHARES_BEFORE}
        self.store = self.new_store()
        self.values: dict[str, dict[Any, Any]] = {name: {} for name in NUMBERS}
        self.timers: set[tuple[int, Any, Any]] = set()

    def new_folder(self):
        self.number += 1
        folder = Path(self.folder.name) / str(self.number)
        folder.mkdir()
        return folder

    def new_store(self):
        return self.factory.create(0, KeyGroupRange(0, 127), self.new_folder())

    # --- changes

    def columns(self, name, written, keys, is_known):
        spec, model = self.specs[name], self.values[name]
        stored = [None if value is DELETED else value for value in written.values()]
        values, present = value_columns.to_columns(stored, value_columns.dtype_of(spec.value_type))
        groups = np.array([group_of(key_of(cell)) for cell in written], np.int32)
        known = np.array([cell in model for cell in written], np.bool_) if is_known else None
        return ValueColumns(keys, groups, values, present, known)

    def of_table(self, name, drawn, value, is_known):
        """The changes of a table, and the same for the model."""
        plain, pairs = entries(drawn["columns"], KEYS, value), entries(drawn["pairs"], CELLS, value)
        single = {
            SINGLES[place]: value if is_set else DELETED
            for place, is_set in drawn["single"].items()
            if SINGLES[place] not in plain and SINGLES[place] not in pairs
        }
        change = TableChanges(self.specs[name])
        if plain:
            change.columns = self.columns(name, plain, np.array(list(plain), np.int64), is_known)
        if pairs:
            change.pairs = self.columns(name, pairs, column_cells.pairs_of(list(pairs)), is_known)
        changes = [change]
        if drawn["apart"]:
            changes.append(TableChanges(change.spec, values=single))
        else:
            change.values = single
        return changes, {**plain, **pairs, **single}

    def of_timers(self, drawn, as_columns=True):
        written = {
            (*mark, None): what is True for mark, what in entries(drawn["columns"], MARKS, True).items()
        }
        single = {
            SINGLE_TIMERS[place]: is_set
            for place, is_set in drawn["single"].items()
            if place < len(SINGLE_TIMERS) and SINGLE_TIMERS[place] not in written
        }
        change = TableChanges(TIMERS)
        if written and as_columns:
            change.timer_columns = TimerColumns(
                np.array([stamp for stamp, _, _ in written], np.int64),
                np.array([key for _, key, _ in written], np.int64),
                np.array([group_of(key) for _, key, _ in written], np.int32),
                np.array(list(written.values()), np.bool_),
            )
        listed = single if as_columns else {**written, **single}
        timers = {timer_of(mark): is_set for mark, is_set in listed.items()}
        changes = [TableChanges(TIMERS, timers=timers), change]
        if not drawn["apart"]:
            change.timers, changes = timers, [change]
        return changes, {**written, **single}

    def apply(self, drawn, as_columns=True):
        """The changes for the store; the model has them already."""
        changes = []
        for name, model in self.values.items():
            value = self.stored(name, NUMBERS[name][drawn["value"]])
            of_table, written = self.of_table(name, drawn[name], value, drawn["is_known"])
            changes += of_table
            model.update(written)
            for cell in [cell for cell, each in model.items() if each is DELETED]:
                del model[cell]
        of_timers, marks = self.of_timers(drawn["timers"], as_columns)
        self.timers |= {mark for mark, is_set in marks.items() if is_set}
        self.timers -= {mark for mark, is_set in marks.items() if not is_set}
        return changes + of_timers

    @rule(drawn=CHANGES)
    def commit(self, drawn):
        self.store.commit(self.apply(drawn), KGS)
        assert self.memory.used <= max(2 * self.memory.limit, SMALLEST)

    @rule(drawn=CHANGES)
    def commit_from_disk(self, drawn):
        """What did not fit in memory comes as rows."""
        spill = self.factory.create_spill({0: self.store}, [0] * 128, self.new_folder())
        spill.add(self.apply(drawn, as_columns=False), KGS)
        spill.commit()
        spill.close()

    def stored(self, name, value):
        return float(value) if self.specs[name] is SHARES else value

    @rule()
    def a_type_becomes_wider(self):
        """The bytes stay as they are."""
        self.specs["total"] = LONGS

    @rule()
    def a_type_becomes_another(self):
        """Rows of both types lie in the table."""
        self.specs["share"] = SHARES
        self.values["share"] = {cell: float(value) for cell, value in self.values["share"].items()}

    # --- reads

    @rule(name=NAMES, place=st.integers(0, len(KEYS) - 1))
    def read(self, name, place):
        table, model = self.store.table(self.specs[name]), self.values[name]
        cells = [*KEYS, *CELLS, *SINGLES]
        wanted = [bits(model.get(cell)) for cell in cells]
        assert [
            bits(each) for each in table.get_many([group_of(key_of(cell)) for cell in cells], cells)
        ] == wanted
        for cell in (KEYS[place], CELLS[place], SINGLES[place % len(SINGLES)]):
            assert bits(table.get(group_of(key_of(cell)), cell)) == bits(model.get(cell))
        for chosen, keys in ((KEYS, np.array(KEYS, np.int64)), (CELLS, column_cells.pairs_of(CELLS))):
            groups = np.array([group_of(key_of(cell)) for cell in chosen], np.int32)
            found = value_columns.to_objects(*table.get_columns(groups, keys))
            assert [bits(each) for each in found] == [bits(model.get(cell)) for cell in chosen]

    @rule(name=NAMES, at_once=st.integers(1, 70))
    def list_keys(self, name, at_once):
        found = list(itertools.chain(*self.store.table(self.specs[name]).keys(at_once)))
        wanted = {(group_of(cell), cell) for cell in self.values[name] if type(cell) is not NamespacedCell}
        assert set(found) == wanted
        assert len(found) == len(wanted)
        listed = [each for each in found if each[1] is not None]
        assert listed == sorted(listed)

    @rule(until=st.sampled_from(STAMPS), at_once=st.integers(1, 70))
    def ask_for_timers(self, until, at_once):
        table = self.store.table(TIMERS)
        found = list(table.due(until))
        wanted = sorted(map(timer_of, (mark for mark in self.timers if mark[0] <= until)), key=timer_row)
        assert found == wanted
        parts = list(table.due_columns(until, at_once))
        if all(part is not None for part in parts):
            assert [len(part) for part in parts if not 0 < len(part) <= at_once] == []
            assert [
                (stamp, key, group, None)
                for part in parts
                for stamp, key, group in zip(
                    part.timestamps.tolist(), part.keys.tolist(), part.key_groups.tolist(), strict=True
                )
            ] == wanted
        else:
            assert any(each.key is None or each.namespace is not None for each in wanted)

    @rule()
    def look_for_timers(self):
        table = self.store.table(TIMERS)
        for mark in [*((*mark, None) for mark in MARKS), *SINGLE_TIMERS]:
            assert table.contains(timer_of(mark)) == (mark in self.timers)
        assert table.next_timestamp() == min((stamp for stamp, _, _ in self.timers), default=None)

    # --- snapshots

    @rule(canonical=st.booleans(), goes_on=st.booleans())
    def snapshot(self, canonical, goes_on):
        """The life goes on in either store."""
        taken = self.store.prepare_snapshot(self.number, self.new_folder(), canonical)
        files = {file.name: file.path for file in taken.files()}
        restored = self.new_store()
        restored.restore(files, taken.format)
        taken.release()
        before, self.store = self.store, restored
        self.check()
        if goes_on:
            self.store = before
        for store in {before, restored} - {self.store}:
            store.close()

    def check(self):
        for name in self.values:
            self.read(name, 0)
            self.list_keys(name, 17)
        self.ask_for_timers(MOST, 5)
        self.look_for_timers()

    def teardown(self):
        if hasattr(self, "factory"):
            try:
                self.check()
                self.store.close()
                assert self.memory.used == 0
            finally:
                self.factory.close()
                self.folder.cleanup()


SMALLEST = 8 * KIB
"""What a few entries take in each of five buffers."""
KGS = {key: group_of(key) for key in [None, *KEYS]}
ROWS = composite.key_codec(TIMERS.key_type)


def timer_of(mark: tuple[int, Any, Any]) -> Timer:
    return Timer(mark[0], mark[1], group_of(mark[1]), mark[2])


def timer_row(timer: Timer) -> tuple[int, int, bytes, bytes]:
    """Timers lie in this order."""
    return (
        timer.timestamp,
        timer.key_group,
        ROWS.encode(timer.key),
        composite.NAMESPACES.encode(timer.namespace),
    )


TestColumnBuffers = ColumnBuffers.TestCase
TestColumnBuffers.settings = settings(
    max_examples=tried(40), stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
