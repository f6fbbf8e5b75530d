"""An operator that an input of the job and another operator feed: two Spark jobs bring rows to one attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkstate import KeyedCoProcessFunction, errors
from sparkstate.spark import fed_rows, feed, feeding, graph

TIMES = feeding.EpochTimes(epoch=3, follows=2, watermark=0, now=0)
ONE = graph.Input(keys=("k",), upstream=None, event_time=None)


class Rows:
    """A frame that remembers what it is made of."""

    def __init__(self, *parts: str) -> None:
        self.parts = parts

    def union(self, other: Rows) -> Rows:
        return Rows(*self.parts, *other.parts)


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each Spark job was: its rows, its attempt, its first part."""
    monkeypatch.setattr(feeding.Feeding, "__init__", lambda *_: None)
    monkeypatch.setattr(feeding.Feeding, "_in_tasks", lambda _, rows, **__: rows)
    return []


def make(monkeypatch: pytest.MonkeyPatch, brought: list[Any], failures: int) -> feeding.Feeding:
    made = feeding.Feeding(*[None] * 5)  # type: ignore[arg-type]
    made._is_selected = False
    made._shipping = SimpleNamespace(  # type: ignore[assignment]
        of_epoch=lambda frame: Rows("sources"), of_outputs=lambda outputs: Rows("output")
    )
    made.operator = SimpleNamespace(uid="both", combining=None)  # type: ignore[assignment]
    made._tasks = 4
    monkeypatch.setattr(made, "_task", lambda attempt, times, first_part: (attempt, first_part))
    left = [failures]

    def acks(shipment: Any, task: tuple[int, int]) -> list[feed.Ack]:
        parts = shipment.rows.parts
        brought.append((parts, *task))
        if "output" in parts and left[0]:
            left[0] -= 1
            raise errors.FeedBroken("a worker was killed")
        per = 10 if "sources" in parts else 0
        return [feed.Ack(task[0], (per + 1, per), {}, None, None)]

    monkeypatch.setattr(made, "_acks", acks)
    return made


def test_rows_of_an_output_join_the_attempt_that_has_those_of_the_sources(
    monkeypatch: pytest.MonkeyPatch, brought: list[Any]
) -> None:
    made = make(monkeypatch, brought, failures=0)
    frame: Any = Rows("frame")
    before = made.run(frame, TIMES)
    after = made.run_outputs({1: Rows("x")}, TIMES, before, frame)  # type: ignore[dict-item]
    assert brought == [(("sources",), 1, 0), (("output",), 1, 4)]
    assert after.slots == {0: fed_rows.FedSlot(1, 12), 1: fed_rows.FedSlot(1, 10)}


def test_when_that_breaks_all_rows_go_to_another_attempt(
    monkeypatch: pytest.MonkeyPatch, brought: list[Any]
) -> None:
    made = make(monkeypatch, brought, failures=2)
    frame: Any = Rows("frame")
    before = made.run(frame, TIMES)
    after = made.run_outputs({1: Rows("x")}, TIMES, before, frame)  # type: ignore[dict-item]
    assert brought[1:] == [
        (("output",), 1, 4),
        (("sources", "output"), 2, 0),
        (("sources", "output"), 3, 0),
    ]
    assert after.slots == {0: fed_rows.FedSlot(3, 11), 1: fed_rows.FedSlot(3, 10)}


def test_it_does_not_break_for_ever(monkeypatch: pytest.MonkeyPatch, brought: list[Any]) -> None:
    made = make(monkeypatch, brought, failures=99)
    frame: Any = Rows("frame")
    with pytest.raises(errors.FeedBroken):
        made.run_outputs({1: Rows("x")}, TIMES, made.run(frame, TIMES), frame)  # type: ignore[dict-item]
    assert [attempt for _, attempt, _ in brought] == [1, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("second", "mixed"),
    [(None, False), (ONE, False), (graph.Input(keys=("k",), upstream=("a", None), event_time=None), True)],
)
def test_only_an_operator_of_both_is_mixed(
    brought: list[Any], second: graph.Input | None, mixed: bool
) -> None:
    made = graph.Operator(
        uid="both",
        function=KeyedCoProcessFunction(),
        keys=ONE.keys,
        upstream=ONE.upstream,
        event_time=ONE.event_time,
        output_schema="k long",
        second=second,
    )
    assert made.reads_batch
    assert made.is_mixed is mixed


def test_parts_of_two_inputs_are_told_apart_by_the_columns_of_each() -> None:
    import pyarrow as pa

    from sparkstate import columns

    parts = feed.PartsOfInputs((feed.Parts(3, ("p",)), feed.Parts(3)))
    batch = pa.record_batch(
        {
            columns.INPUT: pa.array([0, 0, 1, 1], pa.int32()),
            columns.SOURCE: pa.array([0, 0, 1, 2], pa.int32()),
            columns.TIMESTAMP: pa.array([5, 7, 9, None], pa.int64()),
            columns.of_input(0, "p"): pa.array(["a", "b", None, None]),
        }
    )
    largest: dict[tuple[int, str], int] = {}
    parts.note_largest(batch, largest)
    assert largest == {(0, '{"p":"a"}'): 5, (0, '{"p":"b"}'): 7, (1, ""): 9}
    largest.clear()
    feed.PartsOfInputs((None, feed.Parts(3))).note_largest(batch, largest)
    assert largest == {(1, ""): 9}
