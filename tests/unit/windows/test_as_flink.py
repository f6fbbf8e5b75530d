"""Windows as real Flink has them: what PyFlink 2.3 put out for the same rows (``support/flink/windows.py``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkstate import windows
from sparkstate.functions import MAX_WATERMARK, AggregateFunction, KeyedProcessFunction, OutputTag
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

GOLDEN = json.loads((Path(__file__).parent / "fixtures" / "flink-2.3-windows.json").read_text())["programs"]
ROW = Types.ROW_NAMED(["number", "key", "numbers"], [Types.LONG(), Types.STRING(), Types.STRING()])
"""``numbers`` is text, in which ``reduce`` keeps the numbers of all rows."""
LATE = OutputTag("late")
TUMBLING = windows.TumblingEventTimeWindows.of(10, 3)
OPERATIONS = {
    "tumbling": windows.over(TUMBLING),
    "sliding": windows.over(windows.SlidingEventTimeWindows.of(12, 5, -2)),
    "session": windows.over(windows.EventTimeSessionWindows.with_gap(4)),
    "dynamic": windows.over(windows.EventTimeSessionWindows.with_dynamic_gap(lambda row: row.number % 5 + 1)),
    "global": windows.over(windows.GlobalWindows.create()).trigger(windows.CountTrigger.of(4)),
    "every": windows.over(TUMBLING).trigger(windows.ContinuousEventTimeTrigger.of(4)),
    "purging": windows.over(TUMBLING).trigger(windows.PurgingTrigger.of(windows.CountTrigger.of(2))),
    "count": windows.over(windows.CountTumblingWindowAssigner.of(3)),
    "slidingcount": windows.over(windows.CountSlidingWindowAssigner.of(3, 2)),
}
WITHOUT_TIME = ("count", "slidingcount", "global")
SESSIONS = ("session", "dynamic")


class Rows(windows.ProcessWindowFunction):
    def process(self, key, context, elements):
        yield result(key, context, [element.number for element in elements])


class Folded(windows.ProcessWindowFunction):
    """The numbers in the one value: an accumulator, or a row."""

    def process(self, key, context, elements):
        (text,) = (element if isinstance(element, str) else element.numbers for element in elements)
        yield result(key, context, list(map(int, text.split())))


class Numbers(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return accumulator + value.numbers

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def result(key: str, context: Any, numbers: list[int]) -> list[Any]:
    window = context.window()
    return [key, [] if isinstance(window, windows.GlobalWindow) else list(window), numbers]


def function(program: dict[str, Any]) -> KeyedProcessFunction:
    operation = OPERATIONS[program["windows"]]
    if program["windows"] not in WITHOUT_TIME:
        operation = operation.allowed_lateness(program["lateness"]).side_output_late_data(LATE)
    match program["by"]:
        case "reduce":
            return operation.reduce(
                lambda one, other: (one.number, one.key, one.numbers + other.numbers),
                Folded(),
                value_type=ROW,
            )
        case "aggregate":
            return operation.aggregate(Numbers(), Folded(), accumulator_type=Types.STRING())
        case _:
            return operation.process(Rows(), element_type=ROW)


@pytest.mark.parametrize("program", GOLDEN, ids=lambda program: f"{program['windows']} by {program['by']}")
def test_windows_put_out_what_flink_put_out(program: dict[str, Any]) -> None:
    with KeyedProcessHarness(function(program), key=lambda row: row.key, key_type=Types.STRING()) as harness:
        latest = -(2**62)
        for number, key, at in program["rows"]:
            latest = max(latest, at)
            row = {"number": number, "key": key, "numbers": f"{number} "}
            harness.process_elements([(row, at)], latest - program["delay"] - 1)
        harness.process_watermark(MAX_WATERMARK)
        late = sorted(row.number for row in harness.side_output(LATE))
        assert late == program["late"]
        put_out, wanted = (
            sorted([key, window, in_order(program, rows)] for key, window, rows in out)
            for out in (harness.output(), program["out"])
        )
        if program["windows"] in SESSIONS and program["by"] != "process":
            # PyFlink forgets rows there (``support/flink/windows.py``).
            assert [each[:2] for each in put_out] == [each[:2] for each in wanted]
            assert all(set(theirs[2]) <= set(ours[2]) for ours, theirs in zip(put_out, wanted, strict=True))
        else:
            assert put_out == wanted


def in_order(program: dict[str, Any], rows: list[int]) -> list[int]:
    """Flink promises no order among the rows of sessions that have merged."""
    return sorted(rows) if program["windows"] in SESSIONS else rows


def test_the_programs_have_late_rows_and_windows_that_fire_again() -> None:
    assert sum(bool(program["late"]) for program in GOLDEN) >= 3
    assert any(
        len({str(row[:2]) for row in program["out"]}) < len(program["out"])
        for program in GOLDEN
        if program["windows"] == "tumbling"
    )
