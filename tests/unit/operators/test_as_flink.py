"""Event time as real Flink has it: what PyFlink 2.3 put out for the same rows (``support/flink/golden.py``), and one
epoch or many, as a job or as the harness has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import tried
from support.operators import driven as ops

from sparkstate.functions import MAX_WATERMARK, MIN_WATERMARK, KeyedProcessFunction
from sparkstate.serde.types import Types
from sparkstate.spark.watermarks import WHOLE, SourceTime, Watermarks
from sparkstate.testing import KeyedProcessHarness

GOLDEN = json.loads((Path(__file__).parent / "fixtures" / "flink-2.3-event-time.json").read_text())[
    "programs"
]


class Probe(KeyedProcessFunction):
    """The function of ``golden_of_flink.py``, word for word."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        if value.timer is not None:
            timers.register_event_time_timer(ctx.timestamp() + value.timer)
        yield ["row", value.number, ctx.timestamp(), timers.current_watermark()]

    def on_timer(self, timestamp, ctx):
        if timestamp % 5 == 0:
            ctx.timer_service().register_event_time_timer(timestamp - 3)
            ctx.timer_service().register_event_time_timer(timestamp + 4)
        yield ["timer", timestamp, ctx.get_current_key(), ctx.timer_service().current_watermark()]


def made(backend="hashmap", **options):
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    return KeyedProcessHarness(
        Probe(), key=lambda row: row.key, key_type=Types.STRING(), backend=backend, **options
    )


def element(row):
    number, key, at, timer = row
    return {"number": number, "key": key, "timer": timer}, at


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("program", GOLDEN, ids=lambda program: f"seed{program['seed']}")
def test_rows_watermarks_and_timers_are_those_that_flink_put_out(
    program: dict[str, Any], backend: str
) -> None:
    told = Watermarks((SourceTime(program["delay"], None, 0),))
    with made(backend) as harness:
        for row in program["rows"]:
            told = told.advance({(0, WHOLE): row[2]}, 0)
            harness.process_elements([element(row)], told.current)
        harness.process_watermark(told.ended().current)
        events = harness.output()
    assert len(events) == len(program["events"])
    assert without_ties(events) == without_ties(program["events"])


def without_ties(events):
    """Rows in order, and the timers of each key between two rows in order: Flink fires timers of one time in the
    order of its heap, which is nobody's promise."""
    parts: list[dict[Any, list[Any]]] = [{}]
    for event in events:
        if event[0] == "row":
            parts.append({"row": [event]})
        else:
            parts[-1].setdefault(event[2], []).append(event)
    return parts


@pytest.mark.parametrize("program", GOLDEN, ids=lambda program: f"seed{program['seed']}")
def test_late_rows_are_those_that_flink_finds_late(program: dict[str, Any]) -> None:
    told = Watermarks((SourceTime(program["delay"], None, 0),))
    with made(late_tag="late") as harness:
        for row in program["rows"]:
            harness.process_elements([element(row)], told.current)
            told = told.advance({(0, WHOLE): row[2]}, 0)
            harness.process_watermark(told.current)
        late = sorted(row.number for row in harness.side_output("late"))
    assert late == program["late"]
    assert late, "a program without late rows shows nothing"


class Passed(KeyedProcessFunction):
    """What comes in, by its number."""

    def process_element(self, value, ctx):
        yield value.user, value.amount


@pytest.mark.parametrize("program", GOLDEN, ids=lambda program: f"seed{program['seed']}")
def test_a_slot_finds_the_rows_late_that_flink_finds_late(program: dict[str, Any]) -> None:
    operator = ops.make_operator(Passed(), late_tag="late", side_schemas={"late": ops.ROWS})
    told, late = Watermarks((SourceTime(program["delay"], None, 0),)), []
    for number, key, at, _ in program["rows"]:
        overlay = ops.run(operator, (key, number, at), before=told.current, epoch=number + 1)
        late += [amount for _, amount in ops.rows_of(overlay, "late")]
        told = told.advance({(0, WHOLE): at}, 0)
    assert sorted(late) == program["late"]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from("ab"),
        st.integers(0, 30),
        st.one_of(st.none(), st.integers(-12, 12)),
    ),
    max_size=6,
)


@settings(max_examples=tried(60), deadline=None)
@given(st.lists(st.tuples(ROWS, st.integers(0, 40)), max_size=6))
def test_elements_pushed_one_by_one_give_what_the_epochs_of_a_job_give(epochs) -> None:
    with made(late_tag="late") as as_job, made(late_tag="late") as by_hand:
        for rows, watermark in epochs:
            as_job.process_elements([element(row) for row in rows], watermark)
            for row in rows:
                by_hand.process_element(*element(row))
            by_hand.process_watermark(watermark)
        for harness in (as_job, by_hand):
            harness.process_watermark(MAX_WATERMARK)
        assert without_ties(by_hand.output()) == without_ties(as_job.output())
        assert by_hand.side_output("late") == as_job.side_output("late")


def test_before_the_first_watermark_nothing_is_late() -> None:
    with made(late_tag="late") as harness:
        harness.process_element(*element([0, "a", MIN_WATERMARK, None]))
        assert harness.side_output("late") == []
