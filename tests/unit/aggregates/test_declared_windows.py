"""Which function ``agg(…)`` runs, and with which slices, by the windows that a job declares."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate import errors
from sparkstate.aggregates.declared_windows import function_over
from sparkstate.aggregates.session_aggregation import SessionAggregation
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.window_aggregation import WindowAggregation
from sparkstate.windows import (
    CountEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    over,
)

SESSIONS = over(EventTimeSessionWindows.with_gap(20))


@pytest.mark.parametrize(
    ("windows", "kind", "slices"),
    [
        (over(TumblingEventTimeWindows.of(10, 3)), WindowAggregation, Slices(10, 10, 3)),
        (
            over(SlidingEventTimeWindows.of(60, 10)).allowed_lateness(5),
            WindowAggregation,
            Slices(60, 10, lateness=5),
        ),
        (SESSIONS, SessionAggregation, Slices(20, 20)),
        (SESSIONS.allowed_lateness(7), SessionAggregation, Slices(20, 20, lateness=7)),
    ],
    ids=["tumbling", "sliding", "sessions", "sessions with lateness"],
)
def test_sessions_have_a_function_of_their_own(windows: Any, kind: type, slices: Slices) -> None:
    assert function_over(windows, "agg(…)") == (kind, slices)


@pytest.mark.parametrize(
    ("windows", "told"),
    [
        (over(TumblingProcessingTimeWindows.of(10)), "the windows are"),
        (over(EventTimeSessionWindows.with_dynamic_gap(len)), "the windows are"),
        (SESSIONS.trigger(EventTimeTrigger.create()), "trigger.* is not possible with it"),
        (SESSIONS.evictor(CountEvictor.of(1)), "evictor.* is not possible with it"),
        (over(TumblingEventTimeWindows.of(10)).evictor(CountEvictor.of(1)), "evictor.* is not possible"),
    ],
    ids=["by the clock", "a gap for each row", "trigger", "evictor", "evictor of fixed windows"],
)
def test_windows_that_keep_their_rows_are_refused(windows: Any, told: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=rf"^here: {told}"):
        function_over(windows, "here")


def test_sessions_have_a_gap_and_no_fixed_lengths() -> None:
    assert SESSIONS.session_gap("here") == 20
    assert over(TumblingEventTimeWindows.of(10)).session_gap("here") is None
    with pytest.raises(errors.SpecInvalid, match=r"^here: the windows are"):
        SESSIONS.fixed_lengths("here")
