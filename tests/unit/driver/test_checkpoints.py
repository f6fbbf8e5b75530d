"""What the driver does after a checkpoint that committed and could not be published: a real slot, a real storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import slots
from support.running import Running

from sparkstate import errors
from sparkstate.control.documents import SavepointPhase, SavepointRequest
from sparkstate.spark import position
from sparkstate.spark.watermarks import Watermarks


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("waiting", ["nobody", "a savepoint"])
def test_after_output_that_could_not_be_published_no_checkpoint_begins(
    running: Running, waiting: str
) -> None:
    """Its rows are still the slot's: another one would stage them a second time."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.refuse_publication(0)
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.start(0).settle()
    assert len(running.staged()) == 1
    running.slot.epoch(1, slots.rows(("a", 2)))
    if waiting == "a savepoint":
        running.requests.add(SavepointRequest(trigger_id="end", stop=True))
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.checkpoints.settle()
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.start(1)
    assert len(running.staged()) == 1
    assert [c.epoch for c in running.durable.log.state.checkpoints] == [0]
    assert running.checkpoints.stop_requested() == running.requests.next_open()


def test_whose_savepoint_came_with_it_is_told_why_and_who_waits_goes_on_waiting(running: Running) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.refuse_publication(0)
    for name in ("first", "second"):
        running.requests.add(SavepointRequest(trigger_id=name))
    running.checkpoints.after_commit(0, Watermarks(()), position.Captured, changed=True)
    running.checkpoints.wait()
    first = running.requests.find("first")
    assert first is not None and first.status == SavepointPhase.FAILED
    assert "Is a directory" in (first.failure or "")
    with pytest.raises(errors.StorageError, match="Is a directory"):
        running.checkpoints.after_commit(1, Watermarks(()), position.Captured, changed=True)
    second = running.requests.find("second")
    assert second is not None and second.status == SavepointPhase.PENDING
    running.requests.fail_open("the job has ended")
    second = running.requests.find("second")
    assert second is not None and second.failure == "the job has ended"
