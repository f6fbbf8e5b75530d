"""The epoch that each epoch's rows follow: a real slot, and epochs without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.slots import slots
from support.slots.running import Running

from sparkstate import clock, phases
from sparkstate.spark.epochs import EpochRunner
from sparkstate.spark.watermarks import Watermarks


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.close()


def test_rows_follow_the_last_epoch_that_is_committed_before_them(running: Running) -> None:
    nothing: Any = SimpleNamespace(operators={}, sinks=(), sources=())
    without: Any = None
    time = clock.SystemClock()
    recorder = phases.Phases("driver", time, {})
    space, group = slots.KEY_SPACE, running.group
    runner = EpochRunner(without, nothing, space, group, Watermarks(()), time, recorder, lambda: None, 60.0)
    some_rows: Any = SimpleNamespace()
    first = runner.begin(some_rows, 5)
    assert first.follows == -1, "no epoch of an earlier incarnation is waited for"
    runner.complete(first)
    idle = runner.begin(None, 6)
    assert idle.nothing
    runner.complete(idle)
    assert runner.begin(some_rows, 7).follows == 5, "nobody commits an epoch in which nothing happens"
    assert runner.begin(some_rows, 8).follows == 7
    runner.close()
