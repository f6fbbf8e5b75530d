"""Rows of operators with two inputs that fail and are put aside: nothing of them is left, and all else goes on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.backends import own_backends
from support.faults import tried
from support.operators import driven as ops
from support.operators.spilling import Side

from sparkstate import columns, errors
from sparkstate.checkpointed import CheckpointedFunction
from sparkstate.connected_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from sparkstate.functions import MIN_WATERMARK
from sparkstate.operators import kinds
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from sparkstate.testing import BroadcastHarness, KeyedBroadcastHarness, KeyedCoProcessHarness

BAD = 13
OUT = pa.schema([("what", pa.string()), ("k", pa.string()), ("n", pa.int64())])
ERRORS = {
    "errors": pa.schema([("k", pa.string()), ("v", pa.int64()), ("error", pa.string())]),
    "errors2": pa.schema([("name", pa.string()), ("w", pa.int64()), ("error", pa.string())]),
}
SHAPE: dict[str, Any] = {
    "row_columns": ("k", "v"),
    "second_columns": ("name", "w"),
    "key_columns": ("key",),
    "output_schema": OUT,
    "side_schemas": ERRORS,
    "on_error": "side-output",
}
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb", own_backends.MemoryBackend])


class Picky(KeyedCoProcessFunction):
    """Fails for the value 13 of either input, after it has changed all that it has."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element1(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield from self._note("first", row.v, ctx)

    def process_element2(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield from self._note("second", row.w, ctx)

    def _note(self, what: str, value: int, ctx: Any) -> Iterator[Any]:
        self.total.update((self.total.value() or 0) * 3 + value)
        self.seen.add(value)
        self.counts.put(value, (self.counts.get(value) or 0) + 1)
        ctx.timer_service().register_event_time_timer(100 + value)
        yield what, ctx.get_current_key(), self.total.value()
        if value == BAD:
            raise ValueError("brings bad luck")
        yield what, ctx.get_current_key(), len(self.seen.get())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == 100:
            self.total.clear()
            raise RuntimeError("a timer fails too")
        yield f"timer {timestamp}", ctx.get_current_key(), self.total.value()


def make_batch(rows: list[tuple[int, str, int]]) -> pa.RecordBatch:
    """Rows (input, key, value) as a task ships them."""

    def column(of_input: int, place: int, kind: pa.DataType) -> pa.Array:
        return pa.array([row[place] if row[0] == of_input else None for row in rows], kind)

    return pa.record_batch(
        {
            columns.of_input(0, "k"): column(0, 1, pa.string()),
            columns.of_input(0, "v"): column(0, 2, pa.int64()),
            columns.of_input(1, "name"): column(1, 1, pa.string()),
            columns.of_input(1, "w"): column(1, 2, pa.int64()),
            "key": pa.array([row[1] for row in rows], pa.string()),
            columns.KEY_GROUP: pa.array([ops.key_group(row[1]) for row in rows], pa.int32()),
            columns.TIMESTAMP: pa.nulls(len(rows), pa.int64()),
            columns.INPUT: pa.array([row[0] for row in rows], pa.int32()),
        }
    )


def run(
    epochs: list[list[Any]], cut: int, spills: bool, **options: Any
) -> tuple[list[Any], list[Any], list[Any]]:
    """The outputs of all epochs: the main one, and the rejected rows of each input."""
    with tempfile.TemporaryDirectory() as folder:
        side = Side(Path(folder), 0 if spills else None, Picky(), **{**SHAPE, **options})  # type: ignore[arg-type]
        operator: Any = side.operator
        found: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for number, rows in enumerate(epochs):
            overlay = operator.begin(number, MIN_WATERMARK, 0)
            for start in range(0, len(rows), cut):
                operator.process_batch(overlay, make_batch(rows[start : start + cut]))
            operator.finish(overlay, 1000 if number == len(epochs) - 1 else MIN_WATERMARK)
            for rows_of_one, tag in zip(found, (None, "errors", "errors2"), strict=True):
                rows_of_one.extend(ops.rows_of(overlay, tag))
            commit_overlays([(operator, overlay)])
            overlay.close()
        operator.close()
        side.close()
    return found


VALUES = st.sampled_from([1, 2, 5, BAD])
ROWS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc"), VALUES), max_size=8)


@settings(max_examples=tried(30), deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(epochs=st.lists(ROWS, min_size=1, max_size=4), cut=st.integers(1, 4), spills=st.booleans())
def test_the_rest_goes_on_as_if_rejected_rows_had_not_been_there(
    epochs: list[Any], cut: int, spills: bool
) -> None:
    out, first, second = run(epochs, cut, spills)
    good = [[row for row in rows if row[2] != BAD] for rows in epochs]
    wanted, *_ = run(good, cut, spills=False, on_error="fail")
    assert sorted(out) == sorted(wanted)
    bad = [[(of, key) for of, key, value in rows if value == BAD] for rows in epochs]
    for of_input, rejected in enumerate((first, second)):
        wanted_keys = [key for rows in bad for of, key in rows if of == of_input]
        assert sorted(row[0] for row in rejected) == sorted(wanted_keys)
        assert {row[1] for row in rejected} <= {BAD}
        for key, _, error in rejected:
            assert f"operator 'op', key {key!r}" in error
            assert "ValueError: brings bad luck" in error


@BACKENDS
def test_the_harness_puts_a_rejected_row_to_the_output_of_its_input(backend: Any) -> None:
    with KeyedCoProcessHarness(
        Picky(),
        key=lambda row: row.k,
        key_type=Types.STRING(),
        backend=backend,
        on_error="side-output",
        error_tag="errors1",
    ) as harness:
        harness.process_element1({"k": "a", "v": 2})
        harness.process_rows_of_both([(0, {"k": "a", "v": BAD}, None), (1, {"k": "a", "w": BAD}, None)])
        assert harness.output() == [("first", "a", 2), ("first", "a", 1)]
        assert [row[:2] for row in harness.side_output("errors1")] == [("a", BAD)]
        assert [row[:2] for row in harness.side_output("errors2")] == [("a", BAD)]
        assert harness.state("total", "a") == 2
        assert harness.state("seen", "a") == [2]
        assert harness.state("counts", "a") == {2: 1}
        assert [timer.timestamp for timer in harness.event_timers()] == [102]


class Unreadable(Exception):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("half of \ud83d"), "ValueError: half of \\ud83d"),
        (Unreadable(), "Unreadable: (its text cannot be read: RuntimeError)"),
        (ValueError("x" * 1_000_000), "ValueError: " + "x" * 10_000 + "…"),
    ],
    ids=["half-a-character", "unreadable", "large"],
)
def test_whatever_the_text_of_an_error_its_row_is_rejected(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Picky, row: Any, ctx: Any) -> None:
        raise error

    monkeypatch.setattr(Picky, "process_element1", fail)
    out, first, second = run([[(0, "a", 1), (1, "b", 2)]], 4, spills=False)
    assert [row[:2] for row in first] == [("a", 1)]
    assert f"row Row(k='a', v=1): {told} (" in first[0][2]
    assert first[0][2].endswith(" in fail)")
    assert second == []
    assert {row[0] for row in out} == {"second", "timer 102"}


def test_a_row_that_writes_half_of_a_character_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(self: Picky, row: Any, ctx: Any) -> None:
        self.name.update("\ud83d" if row.v == BAD else "whole")

    def open_(self: Picky, ctx: Any) -> None:
        opened(self, ctx)
        self.name = ctx.get_state(ValueStateDescriptor("name", Types.STRING()))

    opened = Picky.open
    monkeypatch.setattr(Picky, "open", open_)
    monkeypatch.setattr(Picky, "process_element1", keep)
    _, first, _ = run([[(0, "a", BAD), (0, "a", 1)]], 4, spills=False)
    assert [row[:2] for row in first] == [("a", BAD)]
    assert "half of a character" in first[0][2]


def test_a_timer_that_fails_goes_to_the_output_of_the_first_input_with_null_columns() -> None:
    out, first, second = run([[(0, "a", 5), (1, "b", 0), (1, "a", 0)]], 4, False)
    assert [row[:2] for row in first] == [(None, None), (None, None)]
    assert all("event-time timer 100" in row[2] for row in first)
    assert second == []
    assert sorted(row for row in out if row[0].startswith("timer")) == [("timer 105", "a", 15)]


class Judge(KeyedBroadcastProcessFunction):
    """Counts rows of a key up to the limit among the rules, and fails above it; a rule of 13 fails."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.journals: list[Any] = []

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield row.k, self.count.value()
        if row.v > (ctx.get_broadcast_state(RULES).get("limit") or 0):
            raise ValueError("above the limit")

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put("limit", rule.limit)
        ctx.apply_to_keyed_state(ValueStateDescriptor("count", Types.LONG()), self._double)
        if rule.limit == BAD:
            raise ValueError("brings bad luck")

    def _double(self, key: Any, count: Any) -> None:
        count.update(count.value() * 2)
        self.journals.append(count._cursor.journal)


def judged(**options: Any) -> KeyedBroadcastHarness:
    return KeyedBroadcastHarness(
        Judge(), RULES, key=lambda row: row.k, key_type=Types.STRING(), on_error="side-output", **options
    )


@BACKENDS
def test_a_keyed_row_beside_a_broadcast_stream_is_undone_and_put_aside(backend: Any) -> None:
    with judged(backend=backend, parallelism=2, shards=4) as harness:
        harness.process_broadcast_element({"limit": 5})
        harness.process_elements([({"k": "a", "v": 5}, None), ({"k": "a", "v": 6}, None)])
        harness.process_element({"k": "a", "v": 1})
        assert harness.output() == [("a", 1), ("a", 2)]
        ((key, value, error),) = harness.side_output("errors")
        assert (key, value) == ("a", 6)
        assert "key 'a'" in error
        assert "above the limit" in error
        assert harness.state("count", "a") == 2


def test_a_broadcast_row_that_fails_is_not_rejected_because_slots_would_differ() -> None:
    with judged(parallelism=2, shards=4) as harness:
        harness.process_broadcast_element({"limit": 5})
        harness.process_element({"k": "a", "v": 1})
        with pytest.raises(
            errors.UserCodeError, match=r"bad luck.*other broadcast state than the others.*catch"
        ):
            harness.process_broadcast_element({"limit": BAD})
        assert harness.side_output("errors") == []
        assert [harness.operator_state("rules", number) for number in range(2)] == [{"limit": 5}] * 2
        assert harness.state("count", "a") == 1


def test_a_pass_over_all_keys_keeps_nothing_to_undo() -> None:
    with judged() as harness:
        harness.process_broadcast_element({"limit": 5})
        harness.process_elements([({"k": key, "v": 1}, None) for key in "abcdef"])
        harness.process_broadcast_element({"limit": 6})
        assert harness.function().journals == [None] * 6
        harness.process_element({"k": "a", "v": 7})  # from now on there is again
        assert harness.state("count", "a") == 2
        assert len(harness.side_output("errors")) == 1


class Above(BroadcastProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield (row.v,)
        if row.v > (ctx.get_broadcast_state(RULES).get("limit") or 0):
            raise ValueError("above the limit")

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put("limit", rule.limit)
        if rule.limit == BAD:
            raise ValueError("brings bad luck")


def test_rows_without_a_key_are_rejected_by_themselves_and_their_rules_never() -> None:
    with BroadcastHarness(Above(), RULES, parallelism=2, on_error="side-output") as harness:
        harness.process_broadcast_element({"limit": 5})
        harness.process_elements([({"v": value}, None) for value in (1, 6, 2, 7)])
        assert harness.output() == [(1,), (2,)]
        assert [row[0] for row in harness.side_output("errors")] == [6, 7]
        with pytest.raises(errors.UserCodeError, match="other broadcast state than the others"):
            harness.process_broadcast_element({"limit": BAD})


class Counting(Picky, CheckpointedFunction):
    def initialize_state(self, ctx: Any) -> None: ...

    def snapshot_state(self, ctx: Any) -> None: ...


def test_variables_of_a_function_of_two_inputs_cannot_be_undone_either() -> None:
    with pytest.raises(errors.SpecInvalid, match="CheckpointedFunction has variables of its own"):
        kinds.check(Counting(), "op", "side-output")
