"""A program of the model as sparkstate's windows, and the functions that put out what the model does."""

from __future__ import annotations

from typing import Any

from support.windows.model import EVENT, Program

from sparkstate import windows
from sparkstate.functions import AggregateFunction, KeyedProcessFunction, OutputTag
from sparkstate.serde.types import Types

ROW = Types.ROW_NAMED(["key", "value", "values"], [Types.STRING(), Types.LONG(), Types.STRING()])
LATE = OutputTag("late")


def row(key: str, value: int) -> dict[str, Any]:
    """A row of the model. ``values`` is text, in which ``reduce`` keeps the values of all rows."""
    return {"key": key, "value": value, "values": f"{value} "}


def named(window: Any) -> tuple[Any, ...]:
    """A window as the model names it."""
    if isinstance(window, windows.TimeWindow):
        return ("time", window.start, window.end)
    return ("count", window.id) if isinstance(window, windows.CountWindow) else ("global",)


class Rows(windows.ProcessWindowFunction):
    """Puts out the values of all rows."""

    def process(self, key, context, elements):
        yield key, named(context.window()), tuple(element.value for element in elements)


class ApplyRows(windows.WindowFunction):
    """The same as a ``WindowFunction``."""

    def apply(self, key, window, inputs):
        yield key, named(window), tuple(element.value for element in inputs)


class Values(AggregateFunction):
    """The values of all rows, as an accumulator of text: it grows as the model's rows do."""

    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return accumulator + f"{value.value} "

    def get_result(self, accumulator):
        return tuple(map(int, accumulator.split()))

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def both(one: Any, other: Any) -> tuple[Any, ...]:
    """Of a row and a further one the row that has the values of both."""
    return one.key, one.value, one.values + other.values


class Reduced(windows.WindowFunction):
    """Puts out the values of the one row that is left of a window."""

    def apply(self, key, window, inputs):
        (only,) = inputs
        yield key, named(window), tuple(map(int, only.values.split()))


class Result(windows.ProcessWindowFunction):
    """Puts out the one result of an aggregation."""

    def process(self, key, context, elements):
        (values,) = elements
        yield key, named(context.window()), values


def assigner(program: Program) -> windows.WindowAssigner:
    """The program's windows."""
    in_event_time = program.time == EVENT
    match program.windows:
        case "tumbling":
            kind = (
                windows.TumblingEventTimeWindows if in_event_time else windows.TumblingProcessingTimeWindows
            )
            return kind.of(program.size, program.offset)
        case "sliding":
            sliding = (
                windows.SlidingEventTimeWindows if in_event_time else windows.SlidingProcessingTimeWindows
            )
            return sliding.of(program.size, program.slide, program.offset)
        case "session" | "dynamic":
            sessions: Any = (
                windows.EventTimeSessionWindows if in_event_time else windows.ProcessingTimeSessionWindows
            )
            if program.windows == "session":
                return sessions.with_gap(program.size)
            return sessions.with_dynamic_gap(lambda row: row.value % 7 + 1)
        case "global":
            return windows.GlobalWindows.create()
        case "count":
            return windows.CountTumblingWindowAssigner.of(program.size)
        case _:
            return windows.CountSlidingWindowAssigner.of(program.size, program.slide)


def trigger(program: Program) -> windows.Trigger | None:
    """The program's trigger; None: the windows' own."""
    made: windows.Trigger | None = None
    match program.trigger:
        case ("count", number):
            made = windows.CountTrigger.of(number)
        case ("event every", interval):
            made = windows.ContinuousEventTimeTrigger.of(interval)
        case ("processing every", interval):
            made = windows.ContinuousProcessingTimeTrigger.of(interval)
    if program.purging:
        made = windows.PurgingTrigger.of(made or assigner(program).get_default_trigger())
    return made


def function(program: Program, by: str) -> KeyedProcessFunction:
    """The program as a keyed function; ``by``: process, apply, aggregate or reduce."""
    made = windows.over(assigner(program))
    if (chosen := trigger(program)) is not None:
        made = made.trigger(chosen)
    match program.evictor:
        case ("count", number, afterwards):
            made = made.evictor(windows.CountEvictor.of(number, afterwards))
        case ("time", length, afterwards):
            made = made.evictor(windows.TimeEvictor.of(length, afterwards))
    if program.in_event_time:
        made = made.allowed_lateness(program.lateness).side_output_late_data(LATE)
    if by == "aggregate":
        return made.aggregate(
            Values(), Result(), accumulator_type=Types.STRING(), element_type=ROW if program.evictor else None
        )
    if by == "reduce":
        return made.reduce(both, Reduced(), value_type=ROW)
    return (
        made.apply(ApplyRows(), element_type=ROW) if by == "apply" else made.process(Rows(), element_type=ROW)
    )
