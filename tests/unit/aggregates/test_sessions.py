"""Sessions with built-in aggregates give what a plain list of rows for each session gives, and what the session windows
give that are called row by row; however the input is cut, late, stopped and moved."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.windows import keyed_rows
from support.windows.keyed_rows import KEY_TYPES, KEYS, LATE, at, element, keyed

from sparkstate import testing
from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, AggregateFunction
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness
from sparkstate.windows import EventTimeSessionWindows, ProcessWindowFunction, over

AGGREGATES = {
    "rows": "count(*)",
    "total": "sum(v)",
    "greatest": "max(s)",
    "oldest": "first(v)",
    "newest": "last(s, true)",
    "kinds": "approx_count_distinct(s)",
}
"""Numbers in packed rows, text and sketches beside them, and two that depend on the order of rows."""


@dataclass
class Session:
    start: int
    end: int
    rows: list[tuple[int, Any, Any]] = field(default_factory=list)
    has_new: bool = True

    def result(self, key: Any) -> tuple[Any, ...]:
        values = [value for _, value, _ in self.rows if value is not None]
        texts = [text for _, _, text in self.rows if text is not None]
        by_time = sorted(self.rows, key=lambda row: row[0])  # stable: rows of one time as they came
        newest = [text for _, _, text in by_time if text is not None]
        return (
            key,
            at(self.start),
            at(self.end),
            len(self.rows),
            sum(values) if values else None,
            max(texts, default=None, key=lambda text: text.encode()),
            by_time[0][1],
            newest[-1] if newest else None,
            len(set(texts)),
        )


class Model:
    """Rows in lists, by key and session."""

    def __init__(self, gap: int, lateness: int) -> None:
        self.gap, self.lateness, self.watermark = gap, lateness, MIN_WATERMARK
        self.sessions: dict[Any, list[Session]] = {}
        self.late: list[Any] = []

    def push(self, rows: Iterable[tuple[Any, int, Any, Any]]) -> list[Any]:
        """Sessions that have ended and got rows all the same."""
        for key, time, value, text in rows:
            new = Session(time, time + self.gap)
            known = self.sessions.setdefault(key, [])
            touched = [each for each in known if each.start <= new.end and each.end >= new.start]
            if not touched and new.end - 1 + self.lateness <= self.watermark:
                self.late.append((key, value, text))
                continue
            for each in touched:
                new.start, new.end = min(new.start, each.start), max(new.end, each.end)
                new.rows += each.rows
                known.remove(each)
            new.rows.append((time, value, text))
            known.append(new)
        again = [
            each.result(key) for key, each in self.each() if each.has_new and each.end - 1 <= self.watermark
        ]
        for _, each in self.each():
            each.has_new = False
        return again

    def each(self) -> list[tuple[Any, Session]]:
        return [(key, session) for key, sessions in self.sessions.items() for session in sessions]

    def advance(self, watermark: int) -> list[Any]:
        """Sessions that end."""
        before, self.watermark = self.watermark, max(watermark, self.watermark)
        ended = []
        for key, session in self.each():
            if before < session.end - 1 <= self.watermark:
                ended.append(session.result(key))
            if session.end - 1 + self.lateness <= self.watermark:
                self.sessions[key].remove(session)
        return ended


def windows_of(kind: str, gap: int, lateness: int) -> Any:
    row = Types.ROW_NAMED(["k", "v", "s"], [KEY_TYPES[kind], Types.LONG(), Types.STRING()])
    windows = testing.keyed(row, "k").window(EventTimeSessionWindows.with_gap(gap))
    return windows.allowed_lateness(lateness).side_output_late_data(LATE)


def harness(kind: str, gap: int, lateness: int, backend: Any = "hashmap", slots: int = 1) -> Any:
    function = windows_of(kind, gap, lateness).agg(**AGGREGATES)
    return KeyedProcessHarness(
        function,
        key=lambda row: row.k,
        key_type=KEY_TYPES[kind],
        backend=backend,
        parallelism=slots,
        shards=4,
    )


LIVES = st.lists(
    st.tuples(keyed_rows.lists(at_most=14), st.integers(-60, 160), st.sampled_from([None, None, 1, 2, 3])),
    max_size=8,
)
"""Rows, the watermark after them, and into how many slots the job moves after that, if it is stopped."""


def in_step(life: Any) -> Any:
    """The same with a watermark that goes on in small steps, and rows on both sides of it."""
    found, front = [], 0
    for rows, watermark, slots in life:
        front += watermark % 25
        found.append(([(key, front + time // 2, *others) for key, time, *others in rows], front, slots))
    return found


EPOCHS = LIVES | LIVES.map(in_step)
SHAPES = st.tuples(st.integers(1, 30), st.sampled_from([0, 0, 0, 3, 30]))


class Life:
    """A harness that is stopped, and goes on with another backend and other slots."""

    def __init__(self, kind: str, gap: int, lateness: int, backend: str) -> None:
        self._shape, self._backend = (kind, gap, lateness), backend
        self.opened = harness(*self._shape, backend)

    def move(self, slots: int) -> None:
        snapshot = self.opened.snapshot()
        self.opened.close()
        self._backend = "rocksdb" if self._backend == "hashmap" else "hashmap"
        self.opened = harness(*self._shape, self._backend, slots)
        self.opened.restore(snapshot)

    def left(self) -> int:
        """Entries of state and timers."""
        with harness(*self._shape) as opened:
            opened.restore(self.opened.snapshot(), parallelism=1)
            return opened.num_event_timers() + sum(store.stats().rows for store in opened._stores.values())

    def taken(self) -> tuple[Counter[Any], Counter[Any]]:
        """What was put out since the last call, and late rows."""
        found = Counter(map(tuple, self.opened.output())), Counter(map(tuple, self.opened.side_output(LATE)))
        self.opened.clear_output()
        return found


def check(
    kind: str, epochs: Any, shape: tuple[int, int], pieces: int, begins_on: str, has_null: bool
) -> None:
    model, life = Model(*shape), Life(kind, *shape, begins_on)
    try:
        for pushed, watermark, slots in [*epochs, ([], 10_000, None)]:
            rows, wanted = keyed(kind, pushed, has_null), []
            for start in range(0, len(rows), pieces):
                piece = rows[start : start + pieces]
                life.opened.process_elements(map(element, piece))
                wanted += model.push(piece)
            life.opened.process_watermark(watermark)
            wanted += model.advance(watermark)
            assert life.taken() == (Counter(wanted), Counter(model.late))
            model.late.clear()
            if slots is not None:
                life.move(slots)
        assert life.left() == 0
    finally:
        life.opened.close()


TAKEN_IN = [([(0, 10, 1, "b"), (0, 105, 2, "b")], 150, 2), ([(0, 60, 3, "b"), (0, -50, 4, "b")], 151, None)]
"""With a gap of 100: the first slice of a session is over, has a row again, and another row touches both."""
ONE_BY_ONE = [
    ([(0, 35, 1, "b")], 39, None),
    (
        [
            (0, 26, 2, "b"),
            (0, 17, 3, "b"),
            (1, 38, 4, "b"),
            (1, 29, 5, "b"),
            (2, 29, 6, "b"),
            (2, 38, 7, "b"),
        ],
        41,
        2,
    ),
]
"""With a gap of 10: rows whose windows are over touch a session only because of the row before them."""
AGAIN = [([(0, 0, 1, "b")], 40, None), ([(0, 35, 2, "b")], 40, None), ([(0, 20, 3, "b")], 41, 3)]
"""With a gap and a lateness of 30: sessions that have ended become one that has not."""


@pytest.mark.parametrize("kind", list(KEYS))
@settings(max_examples=tried(40), deadline=None)
@given(epochs=EPOCHS, shape=SHAPES, pieces=st.sampled_from([3, 6, 14]), has_null=st.booleans())
@example(TAKEN_IN, (100, 0), 1, False)
@example(AGAIN, (30, 30), 1, True)
@example(ONE_BY_ONE, (10, 0), 14, False)
def test_sessions_are_those_of_lists_of_rows(
    kind: str, epochs: Any, shape: tuple[int, int], pieces: int, has_null: bool
) -> None:
    staying = [(rows, watermark, None) for rows, watermark, _ in epochs]
    check(kind, staying, shape, pieces, "hashmap", has_null)


@settings(max_examples=tried(6), deadline=None)
@given(
    kind=st.sampled_from(list(KEYS)),
    epochs=EPOCHS,
    shape=SHAPES,
    begins_on=st.sampled_from(["hashmap", "rocksdb"]),
    has_null=st.booleans(),
)
@example("numbers", TAKEN_IN, (100, 0), "hashmap", False)
@example("text", AGAIN, (30, 30), "rocksdb", True)
def test_sessions_are_the_same_while_backend_and_slots_change(
    kind: str, epochs: Any, shape: tuple[int, int], begins_on: str, has_null: bool
) -> None:
    check(kind, epochs, shape, 14, begins_on, has_null)


class Folded(AggregateFunction):
    """Rows, and the sum of their values."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.merge(accumulator, (1, value.v or 0))

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithBounds(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        (folded,) = elements
        yield key, at(context.window().start), at(context.window().end), *folded


@settings(max_examples=tried(20), deadline=None)
@given(epochs=EPOCHS, gap=st.integers(1, 30), pieces=st.sampled_from([3, 6, 14]), has_null=st.booleans())
def test_sessions_are_those_of_an_aggregate_function(
    epochs: Any, gap: int, pieces: int, has_null: bool
) -> None:
    windows = over(EventTimeSessionWindows.with_gap(gap)).side_output_late_data(LATE)
    folded = Types.TUPLE([Types.LONG(), Types.LONG()])
    by_record = KeyedProcessHarness(
        windows.aggregate(Folded(), WithBounds(), accumulator_type=folded),
        key=lambda row: row.k,
        key_type=Types.STRING(),
    )
    with by_record, harness("text", gap, 0) as opened:
        for pushed, watermark, _ in [*epochs, ([], MAX_WATERMARK, None)]:
            rows = keyed("text", pushed, has_null)
            by_record.process_elements(map(element, rows), watermark)
            for start in range(0, len(rows), pieces):
                opened.process_elements(map(element, rows[start : start + pieces]))
            opened.process_watermark(watermark)
            found = Counter((*tuple(row)[:4], row.total or 0) for row in opened.output())
            assert found == Counter(map(tuple, by_record.output()))
            assert Counter(map(tuple, opened.side_output(LATE))) == Counter(
                tuple(row) for row in by_record.side_output(LATE)
            )
            opened.clear_output()
            by_record.clear_output()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_long_session_keeps_no_more_than_its_last_slices(backend: Any) -> None:
    life = Life("numbers", 10, 0, backend)
    try:
        for time in range(0, 1_400, 7):
            life.opened.process_elements([element((1, time, 1, None))], time - 1)
        assert life.opened.output() == []
        assert life.opened.num_event_timers() <= 3
        assert life.left() <= 15
        life.opened.process_watermark(MAX_WATERMARK)
        ((_, start, end, count, *_),) = map(tuple, life.opened.output())
        assert (start, end, count) == (at(0), at(1_393 + 10), 200)
        assert life.left() == 0
    finally:
        life.opened.close()


@pytest.mark.parametrize("lateness", [0, 100_000])
def test_a_session_of_many_slices_that_end_in_one_epoch_is_put_out_once(lateness: int) -> None:
    times = list(range(0, 2_700, 9))
    random.Random(4).shuffle(times)
    with harness("numbers", 10, lateness) as opened:
        opened.process_elements([element((1, time, 1, None)) for time in times], 50_000)
        ((_, start, end, count, *_),) = map(tuple, opened.output())
        assert (start, end, count) == (at(0), at(2_691 + 10), 300)
        opened.clear_output()
        # A late row puts it out again, if it is still there.
        opened.process_elements([element((1, 2_695, 1, None))])
        again = [tuple(row)[2:4] for row in opened.output()]
        assert again == ([(at(2_705), 301)] if lateness else [])
        assert len(opened.side_output(LATE)) == (0 if lateness else 1)
        opened.process_watermark(MAX_WATERMARK)
        assert opened.num_event_timers() == 0
