"""What slots hold back makes a checkpoint due once, also while nothing comes: a real slot, and epochs without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.slots import slots
from support.slots.running import Running

from sparkstate import clock, phases
from sparkstate.spark import capture
from sparkstate.spark.epochs import EpochRunner
from sparkstate.spark.watermarks import Watermarks


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, max_held_bytes=1)
    yield made
    made.close()


def test_an_idle_job_takes_no_further_checkpoint_for_the_output_of_the_last_one(running: Running) -> None:
    nothing: Any = SimpleNamespace(operators={}, sinks=(), sources=())
    session: Any = None
    time = clock.SystemClock()
    runner = EpochRunner(
        session,
        nothing,
        slots.KEY_SPACE,
        running.group,
        Watermarks(()),
        time,
        phases.Phases("driver", time, {}),
        lambda: None,
        60.0,
    )
    checkpoints, unsaved = running.checkpoints, running.checkpoints.unsaved
    running.slot.feed(0, 1, slots.rows(("a", 1)))
    running.slot.finish(0, 1)
    for epoch in range(4):
        unsaved.note_held(runner.run(None, epoch).held_bytes)
        assert (unsaved.held_bytes > 0) == (epoch == 0)
        checkpoints.after_commit(epoch, Watermarks(()), capture.CapturedPosition, changed=True)
        checkpoints.wait()
    runner.close()
    assert running.job_storage.log.state.last_checkpoint_id == 1
