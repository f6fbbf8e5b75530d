"""Overlays larger than their share of memory go to disk, and nobody can tell by the results."""

from __future__ import annotations

import gc
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import driven as ops
from support.operators import timer_chunks
from support.operators.spilling import LIMITS, OPERATIONS, SIDES, Everything, Side

from sparkstate.backends.rocksdb import family
from sparkstate.functions import MIN_WATERMARK, KeyedProcessFunction
from sparkstate.operators.epoch import commit_overlays
from sparkstate.operators.rows import sorting
from sparkstate.operators.state.overlay import Overlay
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from sparkstate.state.ttl import StateTtlConfig

USERS = ["ann", "bob", "cleo", "dora", "emil"]
NUMBERS = [-(2**63), -1, 0, 7, 2**63 - 1]
"""The same users by number."""
ERRORS = {"errors": pa.schema([("user", pa.string()), ("amount", pa.int64()), ("error", pa.string())])}

rows = st.tuples(
    st.sampled_from(USERS),
    st.builds(lambda op, arg: arg * OPERATIONS + op, st.integers(0, OPERATIONS - 1), st.integers(0, 30)),
    st.integers(0, 40),
)
epochs = st.lists(
    st.tuples(st.lists(st.lists(rows, min_size=1, max_size=6), max_size=4), st.integers(0, 30)),
    min_size=1,
    max_size=4,
)


def with_numbers(schema: pa.Schema) -> pa.Schema:
    """The same columns, where users are numbers."""
    return pa.schema([each.with_type(pa.int64()) if each.name == "user" else each for each in schema])


def live(side: Side, life: list[Any], users: list[Any]) -> list[Any]:
    """Run all epochs; what came out of each, by output, whatever the order among keys."""
    found = []
    before = MIN_WATERMARK
    for number, (batches, watermark) in enumerate(life):
        overlay = side.operator.begin(number, before, watermark)
        for batch in batches:
            side.operator.process_batch(overlay, ops.make_batch(*batch))
        side.operator.finish(overlay, watermark)
        outputs = {tag: Counter(ops.rows_of(overlay, tag)) for tag in (None, "odd", "errors")}
        counts = (overlay.rows_in, overlay.timers_fired, overlay.max_timestamp)
        assert {tag: overlay.row_count(tag) for tag in outputs} == {t: c.total() for t, c in outputs.items()}
        commit_overlays([(side.operator, overlay)])
        overlay.close()
        found.append((outputs, counts, list(side.state(users)), side.operator.next_timer()))
        before = watermark
    return found


def without_names(found: list[Any]) -> list[Any]:
    """What ``live`` found, without the users: rows in any order, values of state, times of timers."""
    return [
        (
            {tag: Counter(row[1:2] for row in rows.elements()) for tag, rows in outputs.items()},
            counts,
            [each[1:] for each in state if len(each) == 4],
            [sorted(timer[0] for timer in each[1]) for each in state if len(each) == 2],
            next_timer,
        )
        for outputs, counts, state, next_timer in found
    ]


LIFETIMES = {
    "no ttl": None,
    "processing time": StateTtlConfig.new_builder(7).update_ttl_on_read_and_write().build(),
    "event time": StateTtlConfig.new_builder(7).use_event_time().build(),
}


@pytest.mark.parametrize(
    ("sort", "ttl"),
    [(False, "no ttl"), (True, "no ttl"), (False, "processing time"), (True, "event time")],
    ids=["as it comes", "sorted", "expiring in processing time", "expiring in event time"],
)
@settings(max_examples=tried(10), deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    life=epochs, chunk=st.integers(1, 3), numbers=st.booleans(), limit=LIMITS.filter(lambda x: x is not None)
)
def test_a_life_with_every_batch_and_timer_spilled_is_the_same_as_one_in_memory(
    sort: bool, ttl: str, life: list[Any], chunk: int, numbers: bool, limit: int
) -> None:
    options: dict[str, Any] = {
        "on_error": "side-output",
        "side_schemas": SIDES | ERRORS,
        "sort_by_event_time": sort,
    }
    users: list[Any] = NUMBERS if numbers else USERS
    text, of_text = life, options
    if numbers:
        name = dict(zip(USERS, NUMBERS, strict=True))
        life = [([[(name[u], a, t) for u, a, t in batch] for batch in each], end) for each, end in life]
        options = options | {"key_type": Types.LONG(), "output_schema": with_numbers(ops.ROWS)}
        options["side_schemas"] = {tag: with_numbers(schema) for tag, schema in (SIDES | ERRORS).items()}
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        timer_chunks.patch_records(patch, chunk)
        functions = [Everything(LIFETIMES[ttl]) for _ in range(3)]
        sides = [
            Side(Path(folder) / "a", None, functions[0], **options),
            Side(Path(folder) / "b", limit, functions[1], **options),
            Side(Path(folder) / "c", None, functions[2], **of_text),
        ]
        try:
            in_memory, spilled = (live(side, life, users) for side in sides[:2])
            assert spilled == in_memory
            if numbers:  # keys that are found by an index, beside keys that a dict finds
                assert without_names(live(sides[2], text, USERS)) == without_names(in_memory)
            assert sides[0].budget.spilled == 0
            assert sides[1].budget.spilled > 0 or limit or not any(batches for batches, _ in life)
            assert sides[1].files() == []
        finally:
            for side in sides:
                side.close()


class Count(KeyedProcessFunction):
    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + value.amount)
        self.seen.add(f"{value.amount:0200}")
        yield value.user, self.count.value()


@pytest.fixture
def side(tmp_path):
    made = Side(tmp_path, 200_000, Count())
    yield made
    made.close()


def users(count: int, start: int = 0) -> pa.RecordBatch:
    return ops.make_batch(*[(f"user-{n}", n, 1) for n in range(start, start + count)])


def test_an_epoch_of_many_keys_stays_within_its_share_and_is_committed_whole(side):
    overlay = side.operator.begin(1, MIN_WATERMARK, 0)
    heaviest = 0
    for start in range(0, 20_000, 500):
        side.operator.process_batch(overlay, users(500, start))
        heaviest = max(heaviest, side.budget.used_bytes())
    assert side.budget.spilled > 10
    assert heaviest <= 100_000
    side.operator.finish(overlay, MIN_WATERMARK)
    assert sorted(ops.rows_of(overlay)) == sorted((f"user-{n}", n) for n in range(20_000))
    commit_overlays([(side.operator, overlay)])
    assert [side.operator.read_value("count", f"user-{n}") for n in (0, 9_999, 19_999)] == [0, 9_999, 19_999]
    assert side.operator.read_value("seen", "user-7") == [f"{7:0200}"]


def test_rows_that_waited_until_the_end_count_until_they_are_processed(tmp_path):
    """They were no longer there, and were to go to disk all the same."""
    side = Side(tmp_path, 600_000, Count(), sort_by_event_time=True)
    overlay = side.operator.begin(1, MIN_WATERMARK, 0)
    for start in range(0, 2_000, 500):
        side.operator.process_batch(overlay, users(500, start))
    assert side.budget.spilled == 0
    side.operator.finish(overlay, MIN_WATERMARK)
    assert overlay.spill is not None
    commit_overlays([(side.operator, overlay)])
    assert side.operator.read_value("count", "user-1999") == 1_999
    overlay.forget_state()
    assert overlay.weight == sum(batch.nbytes for batch in overlay.batches.get(None, []))
    side.close()


def test_two_attempts_at_once_do_not_see_each_other_and_the_one_given_up_leaves_no_file(side):
    one, other = (side.operator.begin(1, MIN_WATERMARK, 0) for _ in range(2))
    for start in range(0, 3_000, 500):
        side.operator.process_batch(one, users(500, start))
        side.operator.process_batch(other, users(500, start))
    assert one.spill is not None
    assert other.spill is not None
    other.close()
    side.operator.process_batch(other, users(500))  # a task that was cancelled drains what it has read
    side.operator.finish(one, MIN_WATERMARK)
    commit_overlays([(side.operator, one)])
    one.close()
    assert side.operator.read_value("count", "user-2999") == 2_999
    assert side.operator.read_value("seen", "user-0") == [f"{0:0200}"]
    assert side.files() == []


def test_the_heaviest_overlay_goes_to_disk_first_whichever_is_fed(side):
    heavy, light = (side.operator.begin(1, MIN_WATERMARK, 0) for _ in range(2))
    side.operator.process_batch(heavy, users(90))
    assert side.budget.spilled == 0
    for _ in range(12):
        side.operator.process_batch(light, users(10))
    assert heavy.spill is not None
    assert light.spill is None


class Total(KeyedProcessFunction):
    def open(self, ctx):
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.amount)
        yield value.user, self.total.value()


def test_output_goes_to_disk_first_and_state_stays_where_that_is_enough(tmp_path):
    side = Side(tmp_path, 60_000, Total())
    overlay = side.operator.begin(1, MIN_WATERMARK, 0)
    for _ in range(60):
        side.operator.process_batch(overlay, users(60))
    assert side.budget.spilled > 1
    assert overlay.files is not None
    assert overlay.spill is None
    side.operator.finish(overlay, MIN_WATERMARK)
    assert overlay.row_count() == 3_600
    commit_overlays([(side.operator, overlay)])
    assert side.operator.read_value("total", "user-59") == 59 * 60
    overlay.close()
    side.close()


def test_an_overlay_that_nobody_knows_any_more_leaves_no_file(side):
    overlay: Overlay | None = side.operator.begin(1, MIN_WATERMARK, 0)
    for start in range(0, 2_000, 500):
        side.operator.process_batch(overlay, users(500, start))
    assert side.files() != []
    del overlay
    gc.collect()
    assert side.files() == []


def test_what_an_overlay_weighs_is_near_what_it_takes(tmp_path):
    """Measured by Python's own allocator."""
    import tracemalloc

    side = Side(tmp_path, None, Count())
    overlay = side.operator.begin(1, MIN_WATERMARK, 0)
    side.operator.process_batch(overlay, users(10))
    gc.collect()
    tracemalloc.start()
    try:
        for start in range(10, 20_010, 500):
            side.operator.process_batch(overlay, users(500, start))
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        side.close()
    weight = side.budget.used_bytes() - sum(b.nbytes for b in overlay.batches[None])
    assert 0.7 * taken < weight < 1.5 * taken


@settings(max_examples=tried(50), deadline=None)
@given(
    runs=st.lists(
        st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=12), min_size=1, max_size=5
    ),
    run_rows=st.integers(1, 4),
)
def test_merged_runs_are_one_stable_sort(runs: list[list[int | None]], run_rows: int) -> None:
    batches, at = [], 0
    for run in runs:
        batches.append(
            pa.record_batch(
                {"t": pa.array(run, pa.int64()), "n": pa.array(range(at, at + len(run)), pa.int64())}
            )
        )
        at += len(run)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_RUN_ROWS", run_rows)
        files = sorting.files.EpochFiles(Path(folder) / "x")
        for batch in batches[:-1]:
            files.add_run(sorting.sort_run([batch], "t"))
        merged = [n for b in sorting.merge(files.take_runs(), batches[-1:], "t") for n in b["n"].to_pylist()]
    expected = [n for b in sorting.sort(batches, "t") for n in b["n"].to_pylist()]
    assert merged == expected


class Alarm(KeyedProcessFunction):
    """A timer for each row, at its amount."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value.amount)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def test_a_pass_over_many_timers_does_not_read_what_has_fired_again(tmp_path, monkeypatch):
    """Each spill would cost as much as all timers before it, and 960,000 windows took 20 s of such reads."""
    read = 0
    iterate = family.Family.iterate

    def counting(self, start=b""):
        nonlocal read
        for row in iterate(self, start):
            read += 1
            yield row

    timer_chunks.patch_records(monkeypatch, 20)
    side = Side(tmp_path, 0, Alarm())
    try:
        overlay = side.operator.begin(1, MIN_WATERMARK, 0)
        side.operator.process_batch(overlay, users(2_000))
        side.operator.finish(overlay, MIN_WATERMARK)
        commit_overlays([(side.operator, overlay)])
        overlay = side.operator.begin(2, MIN_WATERMARK, 0)
        before = side.budget.spilled
        monkeypatch.setattr(family.Family, "iterate", counting)
        side.operator.finish(overlay, 2_000)
        assert side.budget.spilled - before >= 50
        assert ops.rows_of(overlay) == [(f"user-{n}", n) for n in range(2_000)]
        commit_overlays([(side.operator, overlay)])
        assert read <= 6_000
    finally:
        side.close()
