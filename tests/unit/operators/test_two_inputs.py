"""An operator with two inputs, against a plain Python model: however rows are cut, spilled, stored and restored."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import driven as ops
from support.operators.spilling import LIMITS, Side

from sparkstate import columns, errors
from sparkstate.connected_functions import KeyedCoProcessFunction
from sparkstate.functions import MIN_WATERMARK, OutputTag
from sparkstate.operators.epoch import commit_overlays
from sparkstate.serde.types import Types
from sparkstate.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from sparkstate.testing import KeyedCoProcessHarness

OUT = pa.schema([("what", pa.string()), ("k", pa.string()), ("n", pa.int64())])
LATE = {
    "late1": pa.schema([("k", pa.string()), ("v", pa.int64())]),
    "late2": pa.schema([("name", pa.string()), ("w", pa.int64()), ("x", pa.float64())]),
}
ROWS = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 9), st.one_of(st.none(), st.integers(0, 40))
    ),
    max_size=8,
)
EPOCHS = st.lists(st.tuples(ROWS, st.integers(0, 50)), min_size=1, max_size=5)


class Remember(KeyedCoProcessFunction):
    """Lists what came, in its order; tells the list at a timer."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element1(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield from self._note("first", row.v, row.v, ctx)

    def process_element2(self, row: Any, ctx: Any) -> Iterator[Any]:
        yield from self._note("second", row.w, -row.w, ctx)

    def _note(self, what: str, value: int, signed: int, ctx: Any) -> Iterator[Any]:
        self.total.update((self.total.value() or 0) * 3 + signed)
        self.seen.add(signed)
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + value)
        yield what, ctx.get_current_key(), self.total.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield f"timer {timestamp}", ctx.get_current_key(), len(list(self.seen.get()))


class Model:
    """The same in plain Python; output by key."""

    def __init__(self, by_time: bool, late_apart: bool) -> None:
        self.by_time, self.late_apart = by_time, late_apart
        self.total: dict[str, int] = defaultdict(int)
        self.seen: dict[str, int] = defaultdict(int)
        self.timers: set[tuple[int, str]] = set()
        self.out: dict[str, list[Any]] = defaultdict(list)
        self.late: list[Any] = []
        self.watermark = MIN_WATERMARK

    def epoch(self, rows: list[Any], watermark: int) -> None:
        on_time = []
        for row in rows:
            if self.late_apart and row[3] is not None and MIN_WATERMARK < self.watermark >= row[3]:
                self.late.append(row[:3])
            else:
                on_time.append(row)
        if self.by_time:
            on_time.sort(key=lambda row: (MIN_WATERMARK if row[3] is None else row[3], row[0]))
        else:
            on_time.sort(key=lambda row: row[0])
        for of_input, key, value, time in on_time:
            self.total[key] = self.total[key] * 3 + (-value if of_input else value)
            self.seen[key] += 1
            if time is not None:
                self.timers.add((time + value, key))
            self.out[key].append(("second" if of_input else "first", key, self.total[key]))
        if watermark > self.watermark:
            self.watermark = watermark
            for timer in sorted(self.timers):
                if timer[0] <= watermark:
                    self.timers.remove(timer)
                    self.out[timer[1]].append((f"timer {timer[0]}", timer[1], self.seen[timer[1]]))


def by_key(rows: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row[1]].append(tuple(row))
    return found


@pytest.mark.parametrize("by_time", [False, True], ids=["first input first", "by event time"])
@settings(max_examples=tried(25), deadline=None)
@given(
    epochs=EPOCHS,
    backends=st.lists(st.sampled_from(["hashmap", "rocksdb"]), min_size=1, max_size=2),
    late=st.booleans(),
)
def test_the_harness_agrees_with_the_model_over_restores_into_either_backend(
    by_time: bool, epochs: list[Any], backends: list[Any], late: bool
) -> None:
    model = Model(by_time, late)
    options: dict[str, Any] = {"sort_by_event_time": by_time}
    if late:
        options |= {"late_tag": "late1", "second_late_tag": "late2"}
    made = [
        KeyedCoProcessHarness(
            Remember(), key=lambda row: row.k, second_key=lambda row: row.name, key_type=Types.STRING(),
            backend=backend, **options,
        )
        for backend in backends
    ]  # fmt: skip
    out: list[Any] = []
    late_rows: list[Any] = []
    try:
        harness = made[0]
        for number, (rows, watermark) in enumerate(epochs):
            if number:
                snapshot, harness = harness.snapshot(), made[number % len(made)]
                harness.restore(snapshot)
            harness.process_rows_of_both([(i, row_of(i, k, v), t) for i, k, v, t in rows], watermark)
            model.epoch(rows, watermark)
            out += harness.output()
            late_rows += [(0, *row) for row in harness.side_output("late1")]
            late_rows += [(1, *row) for row in harness.side_output("late2")]
            harness.clear_output()
        assert by_key(out) == dict(model.out)
        assert sorted(late_rows) == sorted(model.late)
        assert {(t.timestamp, t.key) for t in harness.event_timers()} == model.timers
    finally:
        for each in made:
            each.close()


def row_of(of_input: int, key: str, value: int) -> dict[str, Any]:
    return {"name": key, "w": value} if of_input else {"k": key, "v": value}


NUMBERS = {"a": -(2**63), "b": 0, "c": 7}
"""Keys that are whole numbers."""


def with_keys(schema: pa.Schema, kind: pa.DataType) -> pa.Schema:
    """The same columns, those of the key of another type."""
    return pa.schema([each.with_type(kind) if each.name in ("k", "name") else each for each in schema])


def make_batch(rows: list[Any], kind: pa.DataType = pa.string()) -> pa.RecordBatch:  # noqa: B008 - a constant
    """As a task ships them: the columns of both inputs."""

    def column(of_input: int, place: int, kind: pa.DataType) -> pa.Array:
        return pa.array([row[place] if row[0] == of_input else None for row in rows], kind)

    return pa.record_batch(
        {
            columns.of_input(0, "k"): column(0, 1, kind),
            columns.of_input(0, "v"): column(0, 2, pa.int64()),
            columns.of_input(1, "name"): column(1, 1, kind),
            columns.of_input(1, "w"): column(1, 2, pa.int64()),
            columns.of_input(1, "x"): pa.nulls(len(rows), pa.float64()),
            "key": pa.array([row[1] for row in rows], kind),
            columns.KEY_GROUP: pa.array([ops.key_group(row[1]) for row in rows], pa.int32()),
            columns.TIMESTAMP: pa.array([row[3] for row in rows], pa.int64()),
            columns.INPUT: pa.array([row[0] for row in rows], pa.int32()),
        }
    )


SHAPE: dict[str, Any] = {
    "row_columns": ("k", "v"),
    "second_columns": ("name", "w", "x"),
    "key_columns": ("key",),
    "output_schema": OUT,
}


def make_operator(**options: Any) -> Any:
    return ops.make_operator(Remember(), **SHAPE, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("by_time", [False, True], ids=["first input first", "by event time"])
@settings(max_examples=tried(20), deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(epochs=EPOCHS, cut=st.integers(1, 4), limit=LIMITS, late=st.booleans(), numbers=st.booleans())
def test_batches_of_both_inputs_agree_with_the_model_however_they_are_cut_and_spilled(
    by_time: bool, epochs: list[Any], cut: int, limit: int | None, late: bool, numbers: bool
) -> None:
    model, kind = Model(by_time, late), pa.int64() if numbers else pa.string()
    options: dict[str, Any] = {"sort_by_event_time": by_time, "output_schema": with_keys(OUT, kind)}
    if numbers:
        options["key_type"] = Types.LONG()
        epochs = [([(i, NUMBERS[k], v, t) for i, k, v, t in rows], end) for rows, end in epochs]
    if late:
        sides = {tag: with_keys(schema, kind) for tag, schema in LATE.items()}
        options |= {"late_tag": "late1", "second_late_tag": "late2", "side_schemas": sides}
    with tempfile.TemporaryDirectory() as folder:
        side = Side(Path(folder), limit, Remember(), **{**SHAPE, **options})  # type: ignore[arg-type]
        operator = side.operator
        before, out, late_rows = MIN_WATERMARK, [], []
        for number, (rows, watermark) in enumerate(epochs):
            overlay = operator.begin(number, before, 0)
            for start in range(0, len(rows), cut):
                operator.process_batch(overlay, make_batch(rows[start : start + cut], kind))
            before = max(before, watermark)
            operator.finish(overlay, before)
            out += ops.rows_of(overlay)
            late_rows += [(0, *row) for row in ops.rows_of(overlay, "late1")]
            late_rows += [(1, *row[:2]) for row in ops.rows_of(overlay, "late2")]
            assert overlay.rows_in == len(rows)
            commit_overlays([(operator, overlay)])
            overlay.close()
            model.epoch(rows, watermark)
        assert limit is not None or side.budget.spilled == 0
        assert side.budget.spilled > 0 or limit != 0 or not any(rows for rows, _ in epochs)
        operator.close()
        side.close()
    assert by_key(out) == dict(model.out)
    assert sorted(late_rows) == sorted(model.late)


def test_rows_for_a_next_operator_have_the_time_of_the_row_that_made_them() -> None:
    operator = make_operator(emit_timestamps=True)
    overlay = operator.begin(0, MIN_WATERMARK, 0)
    operator.process_batch(overlay, make_batch([(1, "a", 1, 7), (0, "a", 2, 5)]))
    operator.finish(overlay, MIN_WATERMARK)
    assert [row[-1] for row in ops.rows_of(overlay)] == [5, 7]


def test_an_error_names_the_row_and_its_key() -> None:
    operator = make_operator()
    overlay = operator.begin(0, MIN_WATERMARK, 0)
    operator.process_batch(overlay, make_batch([(1, "a", None, 7)]))
    with pytest.raises(
        errors.UserCodeError, match=r"operator 'op', key 'a', epoch 0, row Row\(name='a', w=None"
    ):
        operator.finish(overlay, MIN_WATERMARK)


def test_a_batch_that_tells_no_input_is_refused() -> None:
    operator = make_operator()
    overlay = operator.begin(0, MIN_WATERMARK, 0)
    with pytest.raises(errors.StateError, match=r"lacks the columns \['__sparkstate_input'\]"):
        operator.process_batch(overlay, make_batch([(0, "a", 1, 1)]).drop_columns([columns.INPUT]))


def test_a_harness_of_two_inputs_asks_which_one() -> None:
    with KeyedCoProcessHarness(Remember(), key=lambda row: row.k, key_type=Types.STRING()) as harness:
        with pytest.raises(TypeError, match="process_element1 or process_element2"):
            harness.process_element({"k": "a"})
        assert harness.side_output(OutputTag("late1")) == []
