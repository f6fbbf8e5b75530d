"""Once an epoch's state did not fit in memory, the rows of the next one wait and are processed in the order of their
keys. The results are those of an operator that has all of its state in memory."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import driven as ops
from support.operators.spilling import Side
from support.operators.trails import Trail, TrailOfBatches

from sparkstate import columns, errors
from sparkstate.backends.rocksdb.ordered_rows import OrderedRows
from sparkstate.backends.rocksdb.spill import RocksSpill
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.memory import budget
from sparkstate.operators.rows import key_order, sorting
from sparkstate.operators.rows.files import EpochFiles
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import MapStateDescriptor, ValueStateDescriptor

NAMES = ("trail", "mark")
SMALL = 40_000
"""Bytes for overlays: an epoch of the tests goes to disk many times."""


USERS: dict[str, list[Any]] = {
    "text": [f"user {number}" for number in range(600)],
    "numbers": [number * 7919 - 2_000_000 for number in range(600)],
    "numbers and null": [None, *range(-300, 300)],
}
FUNCTIONS = {"records": Trail, "records and timers": lambda: Trail(timers=True), "batches": TrailOfBatches}


def made(folder: Path, limit: int | None, kind: str, function: Any, **options: Any) -> Side:
    if kind != "text":
        options["key_type"] = Types.LONG()
        options["output_schema"] = pa.schema([("user", pa.int64()), ("amount", pa.int64())])
    return Side(folder, limit, function, **options)


def batches_of(
    users: list[Any], seed: int, count: int, rows: int = 500, hot: float = 0.1
) -> list[pa.RecordBatch]:
    """Random rows; a tenth of them are of one key, or another share, ``hot``."""
    chance = random.Random(seed)
    picked = [(users[1] if chance.random() < hot else chance.choice(users)) for _ in range(count * rows)]
    found = [(user, chance.randrange(1000), None) for user in picked]
    return [ops.make_batch(*found[at : at + rows]) for at in range(0, len(found), rows)]


def epoch(side: Side, number: int, batches: list[pa.RecordBatch]) -> Overlay:
    overlay = side.operator.begin(number, MIN_WATERMARK if number == 1 else number * 10 - 10, 0)
    for batch in batches:
        side.operator.process_batch(overlay, batch)
    side.operator.finish(overlay, number * 10)
    return overlay


def by_user(overlay: Overlay) -> dict[Any, list[int]]:
    """What was put out, in order, for each key: first for its rows, then for its timers."""
    found: dict[Any, list[int]] = defaultdict(list)
    for user, amount in ops.rows_of(overlay):
        found[user].append(amount)
    return found


def state(side: Side, users: list[Any]) -> list[Any]:
    names = [name for name in NAMES if name in side.operator._context.handles]
    return [side.operator.read_value(name, user) for user in users for name in names]


def ordered(overlay: Overlay, side: Side, name: str = "trail") -> OrderedRows | None:
    assert overlay.spill is not None
    found: OrderedRows | None = overlay.spill.table(side.operator._handle(name).spec).ordered
    return found


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Any]:
    opened: list[Side] = []

    def make(kind: str, function: Any, limit: int | None = SMALL, **options: Any) -> Side:
        opened.append(made(tmp_path / str(len(opened)), limit, kind, function, **options))
        return opened[-1]

    yield make
    for side in opened:
        side.close()


@pytest.mark.parametrize("kind", USERS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_an_operator_in_memory(sides, kind, function):
    users = USERS[kind]
    small, large = (sides(kind, FUNCTIONS[function](), limit) for limit in (SMALL, None))
    for number in range(1, 5):
        batches = batches_of(users, number, 8)
        overlays = [epoch(side, number, batches) for side in (small, large)]
        assert by_user(overlays[0]) == by_user(overlays[1])
        assert overlays[0].by_key == (number > 1)
        rows = ordered(overlays[0], small)
        assert (rows is not None) == (number > 1)
        if rows is not None:
            assert rows.is_sealed == (
                function == "records and timers"
            )  # a timer looks for what rows have written
        for side, overlay in zip((small, large), overlays, strict=True):
            commit_overlays([(side.operator, overlay)])
            overlay.close()
        assert state(small, users) == state(large, users)
        assert small.timers("EVENT_TIME") == large.timers("EVENT_TIME")
    assert small.files() == []


def neighbours(user_of: Callable[[int], Any]) -> list[Any]:
    """Users of whom a third have the key group of the second one, which is the hot key. It is in the middle of them."""
    users = [user_of(number) for number in range(1, 30_000)]
    group = ops.key_group(users[1])
    beside = [user for user in users if ops.key_group(user) == group][:200]
    hot = sorted(beside)[100]
    others = [user for user in users if ops.key_group(user) != group][:400]
    return [others[0], hot, *others[1:], *(user for user in beside if user != hot)]


@pytest.mark.parametrize("kind", ["text", "numbers"])
@pytest.mark.parametrize("function", ["records", "batches"])
def test_a_hot_key_leaves_the_other_keys_in_their_order(sides, kind, function):
    """Its rows take many parts. The rest of the epoch was processed without order, as slow as before."""
    users = neighbours(lambda number: f"user {number}" if kind == "text" else number * 7919 - 2_000_000)
    small, large = (sides(kind, FUNCTIONS[function](), limit) for limit in (SMALL, None))
    for number, hot in ((1, 0.1), (2, 0.4)):
        batches = batches_of(users, number, 16, hot=hot)
        overlays = [epoch(side, number, batches) for side in (small, large)]
        assert by_user(overlays[0]) == by_user(overlays[1])
        assert overlays[0].by_key == (number > 1)
        rows = ordered(overlays[0], small)
        assert (rows is not None and not rows.is_sealed) == (number > 1)
        for side, overlay in zip((small, large), overlays, strict=True):
            commit_overlays([(side.operator, overlay)])
            overlay.close()
        assert state(small, users) == state(large, users)
    assert small.files() == []


def test_values_are_written_into_files_of_the_stores_and_nowhere_else(sides):
    side = sides("numbers", Trail())
    for number in (1, 2):
        overlay = epoch(side, number, batches_of(USERS["numbers"], number, 8))
        if number == 2:
            side.budget.move_to_disk(side.operator._tables, overlay)
            rows, handle = ordered(overlay, side), side.operator._handle("trail")
            assert rows is not None
            assert rows.files
            assert overlay.spill is not None
            assert overlay.spill.table(handle.spec).opened is None
        commit_overlays([(side.operator, overlay)])
        overlay.close()
    assert any(value is not None for value in state(side, USERS["numbers"]))


@pytest.mark.parametrize("function", [Trail, TrailOfBatches])
def test_values_by_whole_numbers_go_to_disk_as_arrays(sides, function, monkeypatch):
    """One by one they took a quarter of a slot's processor time."""
    side = sides("numbers", function())
    by_one: list[Any] = []
    add = RocksSpill.add

    def spied(self, changes, kgs):
        by_one.extend(cell for change in changes for cell in change.values)
        add(self, changes, kgs)

    monkeypatch.setattr(RocksSpill, "add", spied)
    for number in (1, 2):
        by_one.clear()
        overlay = epoch(side, number, batches_of(USERS["numbers"], number, 8))
        assert bool(by_one) == (number == 1)
        commit_overlays([(side.operator, overlay)])
        overlay.close()
    assert by_one == []


@pytest.mark.parametrize("way", ["add", "add_longs"])
def test_an_overlay_whose_way_to_disk_failed_half_way_is_never_committed(sides, way, monkeypatch):
    """Its timers, and values that count as written, are in no place any more."""
    side = sides("numbers", Trail(timers=True))
    overlay = epoch(side, 1, batches_of(USERS["numbers"], 1, 8))
    commit_overlays([(side.operator, overlay)])
    overlay.close()
    before = state(side, USERS["numbers"])
    overlay = epoch(side, 2, batches_of(USERS["numbers"], 2, 8))
    with monkeypatch.context() as patch:
        patch.setattr(RocksSpill, way, _refuse)
        with pytest.raises(errors.StorageError, match="for a moment"):
            side.budget.move_to_disk(side.operator._tables, overlay)
    with pytest.raises(errors.SparkstateError):
        commit_overlays([(side.operator, overlay)])
    overlay.close()
    assert state(side, USERS["numbers"]) == before


def test_a_large_group_of_an_overlay_that_was_dropped_is_read_no_further(sides):
    side = sides("numbers", Trail())
    overlay = side.operator.begin(1, MIN_WATERMARK, 0)
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            overlay.dropped = number == 30
            read.append(number)
            yield ops.make_batch(*[(USERS["numbers"][0], amount, None) for amount in range(500)])

    assert list(side.budget.by_key(overlay, batches(), ("user",))) != []
    assert len(read) == 31
    overlay.close()


def _refuse(*_: Any) -> None:
    raise errors.StorageError("the disk is full for a moment")


def test_an_epoch_that_fits_in_memory_ends_the_order(sides):
    side = sides("text", Trail())
    many, few = batches_of(USERS["text"], 1, 8), batches_of(USERS["text"], 2, 1, rows=3)
    by_key = []
    for number, batches in enumerate((many, few, few, many, many), 1):
        overlay = epoch(side, number, batches)
        by_key.append(overlay.by_key)
        commit_overlays([(side.operator, overlay)])
        overlay.close()
    assert by_key == [False, True, False, False, True]


def test_rows_that_have_more_bytes_than_the_state_do_not_wait(sides):
    """They would be written and read again for little."""
    side = sides("text", Trail())
    for number in (1, 2):
        batches = [
            batch.append_column("wide", pa.array([b"w" * 5_000] * batch.num_rows))
            for batch in batches_of(USERS["text"], number, 8)
        ]
        overlay = epoch(side, number, batches)
        assert overlay.spill is not None
        assert not overlay.by_key
        commit_overlays([(side.operator, overlay)])
        overlay.close()


def test_rows_that_take_too_many_runs_are_processed_before_the_epoch_ends(sides, monkeypatch):
    """One batch of each run is in memory while they are merged, so their number has a bound."""
    monkeypatch.setattr(budget, "_MOST_RUNS", 2)
    users = USERS["text"]
    small, large = sides("text", Trail()), sides("text", Trail(), None)
    for number in (1, 2):
        batches = batches_of(users, number, 16)
        overlays = [epoch(side, number, batches) for side in (small, large)]
        assert by_user(overlays[0]) == by_user(overlays[1])
        for side, overlay in zip((small, large), overlays, strict=True):
            commit_overlays([(side.operator, overlay)])
    assert not overlays[0].by_key
    assert state(small, users) == state(large, users)


class Entries(KeyedProcessFunction):
    """Has a map alone: values are not read ahead."""

    def open(self, ctx):
        self.entries = ctx.get_map_state(MapStateDescriptor("entries", Types.LONG(), Types.STRING()))

    def process_element(self, row, ctx):
        self.entries.put(row.amount, "e" * 60)


class Total(KeyedProcessFunction):
    """Has a number by a number, which lies in sorted arrays on disk."""

    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, row, ctx):
        self.total.update((self.total.value() or 0) + row.amount)


@pytest.mark.parametrize(
    ("kind", "function", "options"),
    [
        ("text", Trail(), {"sort_by_event_time": True}),
        ("text", Entries(), {}),
        ("numbers", Total(), {}),
    ],
)
def test_the_order_is_kept_where_it_is_promised_or_of_no_use(sides, kind, function, options):
    side = sides(kind, function, 2_000, **options)
    for number in (1, 2):
        overlay = epoch(side, number, batches_of(USERS[kind], number, 8))
        assert not overlay.by_key
        assert overlay.spill is not None
        commit_overlays([(side.operator, overlay)])


@pytest.mark.parametrize(
    ("key_type", "known"),
    [
        (Types.LONG(), True),
        (Types.STRING(), True),
        (Types.TUPLE([Types.STRING(), Types.INT()]), True),
        (Types.DOUBLE(), False),
        (Types.TUPLE([Types.STRING(), Types.SQL_DATE()]), False),
    ],
)
def test_keys_are_ordered_where_arrow_has_the_order_of_the_stores(key_type, known):
    assert key_order.is_known(key_type) == known


@settings(max_examples=tried(100), deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, -3, 0, 2])), min_size=1, max_size=9),
        max_size=9,
    ),
    st.sampled_from([1, 200, 1_000_000]),
)
def test_batches_in_the_order_of_groups_become_batches_in_the_order_of_keys(lists, part_bytes):
    rows = sorted((row for batch in lists for row in batch), key=lambda row: row[0])
    table = pa.table(
        {
            columns.KEY_GROUP: pa.array([group for group, _ in rows], pa.int32()),
            "key": pa.array([key for _, key in rows], pa.int64()),
            "came": pa.array(range(len(rows)), pa.int64()),
        }
    )
    sizes = [len(each) for each in lists]
    batches = [table.slice(sum(sizes[:at]), size).to_batches()[0] for at, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as folder:
        files = EpochFiles(Path(folder) / "rows")
        found = pa.Table.from_batches(
            list(key_order.by_key(batches, ["key"], part_bytes, files.new_rows)), table.schema
        )
    expected = sorted(
        range(len(rows)), key=lambda at: (rows[at][0], rows[at][1] is not None, rows[at][1] or 0)
    )
    assert found.column("came").to_pylist() == expected
    assert found.column(columns.KEY_GROUP).to_pylist() == [group for group, _ in rows]


def test_batches_of_a_run_are_small_where_only_the_first_rows_are_narrow():
    """One of each run is in memory while they are merged, so a run whose first batch is empty, or has narrow rows, may
    not have batches of thousands of wide ones."""

    def batch(rows: int, width: int) -> pa.RecordBatch:
        groups, wide = pa.array([0] * rows, pa.int32()), pa.array([b"w" * width] * rows, pa.binary())
        return pa.record_batch({columns.KEY_GROUP: groups, "wide": wide})

    run = sorting.sort_run([batch(0, 0), batch(10, 1), batch(5000, 1000)], columns.KEY_GROUP, 50_000)
    assert max(each.nbytes for each in run) < 2 * 50_000


def test_rows_of_an_attempt_that_was_given_up_are_not_merged_to_their_end(sides, monkeypatch):
    seen: list[int] = []
    given_up: list[Overlay] = []

    class GivenUp(Trail):
        def process_element(self, row, ctx):
            for each in given_up:
                each.dropped = True
            yield from super().process_element(row, ctx)

    def counted(batches: Iterator[pa.RecordBatch], *arguments: Any) -> Iterator[pa.RecordBatch]:
        for each in by_key(batches, *arguments):
            seen.append(each.num_rows)
            yield each

    by_key = key_order.by_key
    monkeypatch.setattr(key_order, "by_key", counted)
    side = sides("text", GivenUp())
    commit_overlays([(side.operator, epoch(side, 1, batches_of(USERS["text"], 1, 8)))])
    overlay = side.operator.begin(2, 10, 0)
    given_up.append(overlay)
    for batch in batches_of(USERS["text"], 2, 16):
        side.operator.process_batch(overlay, batch)
    side.operator.finish(overlay, 20)
    assert overlay.by_key
    assert 0 < sum(seen) < 16 * 500 / 4
