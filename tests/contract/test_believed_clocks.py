"""A savepoint of a clock that was ahead: the runner and the operator believe it up to the same bound."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sparkstate.runner import schedule as runner
from sparkstate_operator.core import schedule as operator
from sparkstate_spec import periodic

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("beyond_s", [0, 1], ids=["believed", "not believed"])
def test_both_sides_believe_a_clock_as_far(beyond_s: int) -> None:
    moment = NOW + timedelta(seconds=periodic.SOON_S + beyond_s)
    now_ms, moment_ms = (round(time.timestamp() * 1000) for time in (NOW, moment))
    by_runner = runner.since([moment_ms], first_start_ms=0, now_ms=now_ms) == moment_ms
    assert by_runner == bool(operator.believed([moment], NOW)) == (beyond_s == 0)
