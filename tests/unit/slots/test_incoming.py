"""What a task brings, between socket and operator: order, turns, bounds, failures."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.slots import slots

from sparkstate.batches.functions import KeyedBatchFunction
from sparkstate.operators import kinds
from sparkstate.serde.types import Types
from sparkstate.slots.incoming import Incoming


def batch(number: int, rows: int = 1000) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array([number] * rows, pa.int64())})


class Operator:
    """Notes what it is given, when it is its turn."""

    def __init__(self, directory: Path) -> None:
        self.turn = threading.Event()
        self.held = threading.Lock()
        self.seen: list[int] = []
        self.largest = 0
        """Bytes of the largest batch."""
        self.calls: queue.SimpleQueue[int] = queue.SimpleQueue()
        """Rows of each call."""
        self.directory = directory

    def process(self, given: pa.RecordBatch) -> None:
        numbers = pc.unique(given.column(0)).to_pylist()
        if 13 in numbers:
            raise ValueError("13 brings bad luck")
        with self.held:
            self.seen += numbers
            self.largest = max(self.largest, given.nbytes)
        self.calls.put(given.num_rows)

    def incoming(self, limit_bytes: int, *, waits_for_end: bool = False, rows_at_once: int = 0) -> Incoming:
        folder = self.directory / "overflow"
        return Incoming(self.process, self, folder, limit_bytes, rows_at_once, waits_for_end)  # type: ignore[arg-type]

    def has_come(self) -> bool:
        """As of its turn."""
        return self.turn.is_set()

    def wait(self) -> None:
        self.turn.wait()


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path)


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_before_its_turn_everything_is_taken_and_nothing_processed_and_what_does_not_fit_waits_on_disk(
    operator: Operator,
) -> None:
    incoming = operator.incoming(limit_bytes=20_000)
    for number in range(100, 150):
        incoming.put(batch(number))
    incoming.end(incoming.rows)
    assert operator.seen == []
    assert len(list((operator.directory / "overflow").iterdir())) == 1
    operator.turn.set()
    incoming.wait()
    assert operator.seen == list(range(100, 150))
    assert operator.largest == 8000, "two of them together are more than half of what may wait"
    assert not (operator.directory / "overflow").exists()


def test_rows_that_wait_for_the_choice_of_their_attempt_keep_their_order_in_memory_and_on_disk(
    operator: Operator,
) -> None:
    operator.turn.set()
    incoming = operator.incoming(limit_bytes=20_000, waits_for_end=True)
    putting = in_thread(lambda: [incoming.put(batch(number)) for number in range(20, 70)])  # type: ignore[func-returns-value, arg-type, return-value]
    putting.join(10)
    assert not putting.is_alive(), "a task must not wait for a choice that comes after its end"
    assert operator.seen == []
    assert len(list((operator.directory / "overflow").iterdir())) == 1
    incoming.end(incoming.rows)
    incoming.wait()
    assert operator.seen == list(range(20, 70))
    assert not (operator.directory / "overflow").exists()


def test_rows_of_an_attempt_that_is_not_chosen_are_never_processed_and_leave_nothing_on_disk(
    operator: Operator,
) -> None:
    operator.turn.set()
    incoming = operator.incoming(limit_bytes=20_000, waits_for_end=True)
    for number in range(20, 70):
        incoming.put(batch(number))
    incoming.give_up(ValueError("another attempt was taken"))
    with pytest.raises(ValueError, match="another attempt"):
        incoming.wait()
    assert operator.seen == []
    assert not (operator.directory / "overflow").exists()


def test_in_its_turn_the_socket_is_read_later_when_too_much_waits(operator: Operator) -> None:
    operator.turn.set()
    incoming = operator.incoming(limit_bytes=20_000)

    def put_all() -> None:
        for number in range(20, 70):
            incoming.put(batch(number))

    with operator.held:
        putting = in_thread(put_all)
        putting.join(0.3)
        assert putting.is_alive()
    putting.join(10)
    incoming.end(incoming.rows)
    incoming.wait()
    assert operator.seen == list(range(20, 70))
    assert not (operator.directory / "overflow").exists()


def test_rows_wait_until_the_operator_has_as_many_as_it_wants_at_once_or_no_more_come(
    operator: Operator,
) -> None:
    operator.turn.set()
    incoming = operator.incoming(limit_bytes=1 << 20, rows_at_once=100)
    for number in range(20, 29):
        incoming.put(batch(number, rows=10))
    time.sleep(0.05)
    assert operator.calls.empty()
    incoming.put(batch(29, rows=10))
    assert operator.calls.get(timeout=60) == 100
    incoming.put(batch(30, rows=7))
    time.sleep(0.05)
    assert operator.calls.empty()
    incoming.end(incoming.rows)
    incoming.wait()
    assert operator.calls.get_nowait() == 7
    assert operator.calls.empty()
    assert operator.seen == list(range(20, 31))


def test_fewer_rows_come_at_once_where_more_would_not_fit_in_memory(operator: Operator) -> None:
    operator.turn.set()
    incoming = operator.incoming(limit_bytes=20_000, rows_at_once=1 << 18)
    incoming.put(batch(20))
    time.sleep(0.05)
    assert operator.calls.empty()
    incoming.put(batch(21))
    assert operator.calls.get(timeout=60) == 1000
    incoming.end(incoming.rows)
    incoming.wait()
    assert operator.seen == [20, 21]


class Sizes(KeyedBatchFunction):
    """Puts out how many rows each call has."""

    def process_batch(self, given: pa.RecordBatch, keys: Any, ctx: Any) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"k": ["rows"], "total": [given.num_rows]})


def test_a_function_on_batches_is_called_once_for_all_rows_of_an_epoch_that_are_not_too_many(
    tmp_path: Path,
) -> None:
    plan = slots.plan(tmp_path)
    operator = kinds.spec(
        Sizes(),
        uid="sum",
        row_columns=("k", "v"),
        key_columns=("k",),
        key_type=Types.STRING(),
        output_schema=slots.OUT,
    )
    slot = slots.Slot(tmp_path / "slot", dataclasses.replace(plan, operators=(operator,)))
    slot.restore()
    # More than any operator is given at once because its batches are small.
    slot.feed(0, 1, *[slots.rows(*[("a", 1)] * 1000)] * 10)
    slot.finish(0, 1)
    assert slot.output(0) == [{"k": "rows", "total": 10_000}]
    slot.close()


def test_a_failure_comes_at_the_wait_and_later_batches_go_nowhere(operator: Operator) -> None:
    operator.turn.set()
    incoming = operator.incoming(limit_bytes=1 << 20)
    incoming.put(batch(13))
    with pytest.raises(ValueError, match="bad luck"):
        incoming.wait()
    incoming.put(batch(1))
    incoming.end(incoming.rows)
    assert operator.seen == []
    assert incoming.rows == 1000


def test_an_attempt_that_is_given_up_before_its_turn_processes_nothing(operator: Operator) -> None:
    incoming = operator.incoming(limit_bytes=1 << 20)
    incoming.put(batch(1))
    incoming.give_up(ConnectionError("the task is gone"))
    operator.turn.set()
    with pytest.raises(ConnectionError, match="the task is gone"):
        incoming.wait()
    assert operator.seen == []


def test_an_epoch_is_taken_while_the_one_before_is_not_committed_and_sees_its_state_all_the_same(
    tmp_path: Path,
) -> None:
    slot = slots.Slot(tmp_path / "slot", slots.plan(tmp_path))
    slot.restore()
    slot.feed(0, 1, slots.rows(("a", 1)))
    slot.feed(1, 2, slots.rows(("a", 10)))
    slot.finish(0, 1)
    assert slot.output(0) == [{"k": "a", "total": 1}]
    slot.commit(0)
    slot.finish(1, 2)
    assert slot.output(1) == [{"k": "a", "total": 11}]
    slot.commit(1)
    assert slot.value("a") == "11"
    slot.close()


def test_a_late_attempt_of_a_committed_epoch_holds_nothing_back(tmp_path: Path) -> None:
    slot = slots.Slot(tmp_path / "slot", slots.plan(tmp_path))
    slot.restore()
    slot.epoch(0, slots.rows(("a", 1)))
    slot.feed(0, 7, slots.rows(("a", 100)))
    slot.epoch(1, slots.rows(("a", 1)))
    assert slot.value("a") == "2"
    slot.close()
