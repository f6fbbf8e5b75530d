"""What a driver has as soon as a lineage is claimed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.slots import slots
from support.slots.running import Running, settings

from sparkstate import clock, errors
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.claimed_lineage import ClaimedLineage, claim
from sparkstate.spark import capture
from sparkstate.spark.watermarks import Watermarks


def next_driver(folder: Path, attempt: int) -> ClaimedLineage:
    return claim(settings(folder), clock.SystemClock(), attempt, "the next")


def test_numbers_are_never_used_twice_also_after_a_failure_and_by_the_next_driver(
    running: Running, tmp_path: Path
) -> None:
    ids = running.claimed.ids
    assert (ids.peek(), ids.new(), ids.peek(), ids.new()) == (1, 1, 2, 2)
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.refuse_publication(0)
    with pytest.raises(errors.StorageError):
        running.start(0).settle()
    assert ids.peek() == 4
    assert next_driver(tmp_path, 2).ids.new() == 4


def test_a_savepoint_is_found_by_the_next_driver_before_its_job_is_known(
    running: Running, tmp_path: Path
) -> None:
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.requests.add(SavepointTrigger(trigger_id="one"))
    running.checkpoints.after_commit(0, Watermarks(()), capture.CapturedPosition, changed=True)
    running.checkpoints.settle()
    claimed = next_driver(tmp_path, 2)
    found = claimed.find_savepoint("one")
    assert found is not None and found.epoch == 0
    assert claimed.find_savepoint("another") is None
