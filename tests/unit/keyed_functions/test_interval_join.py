"""The interval join against a model that tries every pair, with random bounds, watermarks and restores."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import driven

from sparkstate import OutputTag, ProcessJoinFunction, Types, columns, errors
from sparkstate.functions import MIN_WATERMARK
from sparkstate.keyed_functions.interval_join import IntervalJoin, JoinSide
from sparkstate.testing import KeyedCoProcessHarness

LATE = OutputTag("left-late"), OutputTag("right-late")
LEFT = Types.ROW_NAMED(["k", "id"], [Types.STRING(), Types.LONG()])
RIGHT = Types.ROW_NAMED(["k", "name"], [Types.STRING(), Types.STRING()])
ROWS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 25)), max_size=7)


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left.k, left.id, right.name, ctx.get_timestamp()


def join(least: int, most: int, late: bool = True) -> IntervalJoin:
    left_late, right_late = LATE if late else (None, None)
    return IntervalJoin(
        Pairs(),
        JoinSide(row_type=LEFT, late=left_late, least=least, most=most),
        JoinSide(row_type=RIGHT, late=right_late, least=-most, most=-least),
    )


def harness(function: IntervalJoin, backend: Any = "hashmap") -> KeyedCoProcessHarness:
    return KeyedCoProcessHarness(function, key=lambda row: row.k, key_type=Types.STRING(), backend=backend)


class Model:
    """Every accepted row is tried with every row of the other side that is still kept."""

    def __init__(self, least: int, most: int) -> None:
        self.bounds = least, most
        self.watermark = MIN_WATERMARK
        self.kept: tuple[list[Any], list[Any]] = ([], [])
        self.pairs: Counter[Any] = Counter()
        self.late: Counter[Any] = Counter()

    def push(self, rows: list[tuple[int, str, int, int]], watermark: int) -> None:
        for side, key, time, number in sorted(rows, key=lambda row: row[0]):
            if time < self.watermark:
                self.late[(side, number)] += 1
                continue
            self.kept[side].append((key, time, number))
            for other in self.kept[1 - side]:
                left, right = ((key, time, number), other) if side == 0 else (other, (key, time, number))
                if left[0] == right[0] and self.bounds[0] <= right[1] - left[1] <= self.bounds[1]:
                    self.pairs[(left[0], left[2], str(right[2]), max(left[1], right[1]))] += 1
        if watermark > self.watermark:
            self.watermark = watermark
            ends = max(self.bounds[1], 0), max(-self.bounds[0], 0)
            for kept, end in zip(self.kept, ends, strict=True):
                kept[:] = [row for row in kept if row[1] + end > watermark]


@settings(max_examples=tried(40), deadline=None)
@given(
    bounds=st.tuples(st.integers(-9, 9), st.integers(0, 9)),
    epochs=st.lists(st.tuples(ROWS, st.integers(0, 30)), min_size=1, max_size=6),
    backend=st.sampled_from(["hashmap", "hashmap", "rocksdb"]),
)
def test_pairs_are_those_that_a_model_finds_and_nothing_is_kept_too_long(
    bounds: tuple[int, int], epochs: list[Any], backend: str
) -> None:
    least, most = bounds[0], bounds[0] + bounds[1]
    model = Model(least, most)
    number = 0
    with harness(join(least, most), backend) as job:
        for at, (rows, watermark) in enumerate(epochs):
            numbered = [(side, key, time, number + i) for i, (side, key, time) in enumerate(rows)]
            number += len(rows)
            pushed = [
                (side, {"k": key, "name": str(n)} if side else {"k": key, "id": n}, time)
                for side, key, time, n in numbered
            ]
            job.process_rows_of_both(pushed, watermark)
            model.push(numbered, watermark)
            if at == 1:
                job.restore(job.snapshot())
        assert Counter(stamped[1] for stamped in map(plain, job.output())) == model.pairs
        late = Counter((0, row.id) for row in job.side_output(LATE[0]))
        late += Counter((1, int(row.name)) for row in job.side_output(LATE[1]))
        assert late == model.late
        for side, name in enumerate(("left_buffer", "right_buffer")):
            kept = sum(len(rows) for key in "ab" for rows in (job.state(name, key) or {}).values())
            assert kept == len(model.kept[side])


def plain(row: Any) -> tuple[int, Any]:
    return row[3], tuple(row)


class OneRow(ProcessJoinFunction):
    """Tuples, and from the third pair on always the same list."""

    def __init__(self) -> None:
        self.row: list[Any] = ["", 0]
        self.pairs = 0

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        self.pairs += 1
        self.row[:] = left.k, int(right.name)
        yield self.row if self.pairs > 2 else tuple(self.row)


def test_a_row_that_is_filled_in_again_and_again_is_put_out_as_it_is_each_time() -> None:
    function = join(-5, 5)
    function._given = OneRow()
    with harness(function) as job:
        job.process_rows_of_both([(0, {"k": "a", "id": 1}, 5)], 0)
        for epoch in range(2):
            names = [str(epoch * 3 + number) for number in range(3)]
            job.process_rows_of_both([(1, {"k": "a", "name": name}, 5) for name in names], 0)
        assert [tuple(row) for row in job.output()] == [("a", number) for number in range(6)]


def test_late_rows_without_an_output_are_dropped() -> None:
    with harness(join(-5, 5, late=False)) as job:
        job.process_watermark(10)
        job.process_element1({"k": "a", "id": 1}, 9)
        job.process_element2({"k": "a", "name": "x"}, 10)
        assert job.output() == []
        assert job.state("left_buffer", "a") in (None, {})
        assert list(job.state("right_buffer", "a")) == [10]


def test_a_row_without_event_time_is_refused() -> None:
    with (
        harness(join(0, 1)) as job,
        pytest.raises(errors.UserCodeError, match=r"left stream .* no event time"),
    ):
        job.process_element1({"k": "a", "id": 1})


def test_a_row_at_the_end_of_time_is_refused_with_its_event_time_and_the_greatest_one() -> None:
    last = 2**63 - 1
    with harness(join(0, 5)) as job:
        job.process_element1({"k": "a", "id": 1}, last - 5)
        job.process_element2({"k": "a", "name": "x"}, last)
        assert job.output() == [("a", 1, "x", last)]
        told = rf"left stream .* event time {last - 4} ms .* at most {last - 5}: correct the column of event time"
        with pytest.raises(errors.UserCodeError, match=told):
            job.process_element1({"k": "a", "id": 2}, last - 4)


def test_a_slot_counts_rows_behind_the_watermark_and_sends_each_side_the_columns_that_it_takes() -> None:
    shape: dict[str, Any] = {
        "key_type": Types.STRING(),
        "key_columns": ("key",),
        "row_columns": ("k", "id"),
        "second_columns": ("k", "name"),
        "output_schema": pa.schema(
            [("k", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("at", pa.int64())]
        ),
        "late_tag": LATE[0].tag_id,
        "second_late_tag": LATE[1].tag_id,
        "side_schemas": {
            LATE[0].tag_id: pa.schema([("id", pa.int64())]),
            LATE[1].tag_id: pa.schema([("name", pa.string())]),
        },
    }
    operator = driven.make_operator(join(-5, 5), **shape)  # type: ignore[arg-type]
    overlay = operator.begin(1, 10, 0)
    times = [9, 10, 8, 10]
    operator.process_batch(
        overlay,
        pa.record_batch(
            {
                columns.of_input(0, "k"): pa.array(["a", "a", None, None]),
                columns.of_input(0, "id"): pa.array([1, 2, None, None], pa.int64()),
                columns.of_input(1, "k"): pa.array([None, None, "a", "a"]),
                columns.of_input(1, "name"): pa.array([None, None, "x", "y"]),
                "key": pa.array(["a"] * 4),
                columns.KEY_GROUP: pa.array([driven.key_group("a")] * 4, pa.int32()),
                columns.TIMESTAMP: pa.array(times, pa.int64()),
                columns.INPUT: pa.array([0, 0, 1, 1], pa.int32()),
            }
        ),
    )
    operator.finish(overlay, 10)
    assert overlay.late_rows == 2
    assert [driven.rows_of(overlay, tag.tag_id) for tag in LATE] == [[(1,)], [("x",)]]
    assert driven.rows_of(overlay) == [("a", 2, "y", 10)]
    operator.close()


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ((-5, 10), (-5, 20), "upper bound was 10 ms and is now 20 ms"),
        ((-5, 20), (-5, 0), "upper bound was 20 ms and is now 0 ms or less"),
        ((3, 20), (-5, 20), "lower bound was 0 ms or more and is now -5 ms"),
    ],
)
def test_bounds_that_say_for_how_long_rows_wait_belong_to_the_state(
    before: tuple[int, int], now: tuple[int, int], message: str
) -> None:
    with harness(join(*before)) as first, harness(join(*now)) as second:
        first.process_rows_of_both([(0, {"k": "a", "id": 1}, 0), (1, {"k": "a", "name": "x"}, 0)], -1)
        with pytest.raises(errors.StateMigrationError, match=rf"{message}.*another uid"):
            second.restore(first.snapshot())


def test_a_bound_for_which_no_row_waits_may_change() -> None:
    with harness(join(3, 20)) as first, harness(join(5, 20)) as second:
        first.process_rows_of_both([(0, {"k": "a", "id": 1}, 0), (0, {"k": "a", "id": 2}, 2)], -1)
        second.restore(first.snapshot())
        second.process_rows_of_both([(1, {"k": "a", "name": "x"}, 6)], 30)
        assert [tuple(row) for row in (plain(stamped)[1] for stamped in second.output())] == [
            ("a", 1, "x", 6)
        ]
        assert second.state("left_buffer", "a") is None
