"""Windows as real Flink has them: what PyFlink 2.3 put out for the same rows (``support/flink/windows.py``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkstate import windows
from sparkstate.functions import MAX_WATERMARK, OutputTag
from sparkstate.serde.types import Types
from sparkstate.testing import KeyedProcessHarness

GOLDEN = json.loads((Path(__file__).parent / "fixtures" / "flink-2.3-windows.json").read_text())["programs"]
ROW = Types.ROW_NAMED(["number", "key"], [Types.LONG(), Types.STRING()])
LATE = OutputTag("late")
TUMBLING = windows.TumblingEventTimeWindows.of(10, 3)
OPERATIONS = {
    "tumbling": windows.over(TUMBLING),
    "sliding": windows.over(windows.SlidingEventTimeWindows.of(12, 5, -2)),
    "session": windows.over(windows.EventTimeSessionWindows.with_gap(4)),
    "every": windows.over(TUMBLING).trigger(windows.ContinuousEventTimeTrigger.of(4)),
    "purging": windows.over(TUMBLING).trigger(windows.PurgingTrigger.of(windows.CountTrigger.of(2))),
    "count": windows.over(windows.CountTumblingWindowAssigner.of(3)),
    "slidingcount": windows.over(windows.CountSlidingWindowAssigner.of(3, 2)),
}


class Rows(windows.ProcessWindowFunction):
    def process(self, key, context, elements):
        yield [key, list(context.window()), [element.number for element in elements]]


@pytest.mark.parametrize("program", GOLDEN, ids=lambda program: program["windows"])
def test_windows_put_out_what_flink_put_out(program: dict[str, Any]) -> None:
    operation = OPERATIONS[program["windows"]]
    if "count" not in program["windows"]:
        operation = operation.allowed_lateness(program["lateness"]).side_output_late_data(LATE)
    function = operation.process(Rows(), element_type=ROW)
    with KeyedProcessHarness(function, key=lambda row: row.key, key_type=Types.STRING()) as harness:
        latest = -(2**62)
        for number, key, at in program["rows"]:
            latest = max(latest, at)
            row = {"number": number, "key": key}
            harness.process_elements([(row, at)], latest - program["delay"] - 1)
        harness.process_watermark(MAX_WATERMARK)
        late = sorted(row.number for row in harness.side_output(LATE))
        assert late == program["late"]
        # Flink promises no order among the rows of sessions that have merged.
        put_out, wanted = (
            sorted(
                [key, window, sorted(rows) if program["windows"] == "session" else rows]
                for key, window, rows in out
            )
            for out in (harness.output(), program["out"])
        )
        assert put_out == wanted


def test_the_programs_have_late_rows_and_windows_that_fire_again() -> None:
    assert sum(bool(program["late"]) for program in GOLDEN) >= 3
    assert any(
        len({str(row[:2]) for row in program["out"]}) < len(program["out"])
        for program in GOLDEN
        if program["windows"] == "tumbling"
    )
