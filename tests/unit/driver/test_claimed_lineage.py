"""What a driver has as soon as a lineage is claimed."""

from __future__ import annotations

import dataclasses
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


@pytest.mark.fault(
    broken="the first driver of `sparkstate run` with `startEmpty: true` dies",
    when="{moment} it has claimed the job's lineage",
    expected="the next attempt begins empty if none has yet, and never a second time",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_begins_empty_once_whichever_of_its_attempts_does(tmp_path: Path, moment: str) -> None:
    def attempt(number: int) -> ClaimedLineage:
        told = dataclasses.replace(settings(tmp_path), start_empty=True, start_since=8)
        return claim(told, clock.SystemClock(), number, "of the run")

    old = next_driver(tmp_path, 7)
    first = attempt(8) if moment == "after" else None
    second = attempt(9)
    assert second.lineage.id != old.lineage.id
    assert first is None or second.lineage.id == first.lineage.id
    assert attempt(10).lineage.id == second.lineage.id
