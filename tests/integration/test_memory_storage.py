"""Checkpoints in the driver's memory: what survives what, and what is too large."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sparkstate.control import documents
from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def in_memory(folder: Path, backend: str, **spec: Any) -> dict[str, Any]:
    document = driving.manifest(folder, "totals.py", stateBackend={"type": backend}, **spec)
    document["spec"]["checkpointing"] = {"storageType": "jobmanager", "interval": "300ms"}
    return document


def until(driver: driving.Driver, client: Any, condition: Any, what: str) -> None:
    driving.wait_for(lambda: condition(client.status()), driving.PATIENCE_S, what, driver.process)


@pytest.mark.fault(
    broken="a slot is killed (SIGKILL)",
    when="checkpoints lie in the driver's memory",
    expected="all slots go back to the last checkpoint; a savepoint moves the state to a folder; output exact",
)
@pytest.mark.parametrize(
    ("backend", "other"),
    [pytest.param("hashmap", "rocksdb", marks=pytest.mark.extra), ("rocksdb", "hashmap")],
    ids=["hashmap", "rocksdb"],
)
def test_a_lost_slot_comes_back_and_a_savepoint_moves_the_state_to_files(
    tmp_path: Path, backend: str, other: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=4)
    document = in_memory(tmp_path, backend, trigger={"processingTime": "100ms"})
    with driving.Driver(tmp_path, document) as driver, driver.client() as client:
        until(driver, client, lambda s: s.rows_total >= len(rows) and s.last_checkpoint, "a checkpoint")
        os.kill(driver.pid_of("slot-0"), signal.SIGKILL)
        until(driver, client, lambda s: s.incarnation == 2 and s.phase == "RUNNING", "the next incarnation")
        rows += totals.make_input(tmp_path / "in", files=2, first=4, seed=8)
        until(driver, client, lambda s: s.last_checkpoint and s.incarnation == 2 and s.rows_total > 0, "rows")
        client.trigger_savepoint(documents.SavepointRequest(trigger_id="nowhere"))
        nowhere = client.wait_for_savepoint("nowhere", 60)
        assert nowhere.status == documents.SavepointPhase.FAILED
        assert "a savepoint in the driver's memory would end with the driver" in str(nowhere)
        request = documents.SavepointRequest(
            trigger_id="s", stop=True, drain=True, target_directory=str(tmp_path / "saved")
        )
        client.trigger_savepoint(request)
        driver.finish()
    said = driver.log()
    assert "restoring checkpoint" in said
    assert not (tmp_path / "checkpoints").exists()
    saved = driver.end()["savepoint"]["location"]

    rows += totals.make_input(tmp_path / "in", files=2, first=6, seed=9)
    files = driving.manifest(
        tmp_path, "totals.py", stateBackend={"type": other}, slots=3, restoreFrom={"uri": saved}
    )
    with driving.Driver(tmp_path / "second", files) as second:
        second.finish()
    totals.check(tmp_path / "out", rows)


def test_after_the_end_of_the_driver_nothing_is_left_and_the_job_says_so(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=2)
    document = in_memory(tmp_path, "hashmap")
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
    document["spec"]["params"]["output"] = str(tmp_path / "again")
    with driving.Driver(tmp_path, document, attempt=2, arguments=["--lineage", "0" * 16]) as driver:
        driver.finish()
        assert "restoring" not in driver.log()
        assert "When the driver's process ends, state and source position are lost" in driver.log()
    rows = totals.make_input(tmp_path / "in", files=2)
    totals.check(tmp_path / "again", rows)


@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.extra)])
def test_a_state_that_is_too_large_fails_the_checkpoint_by_its_name_size_and_remedy(
    tmp_path: Path, backend: str
) -> None:
    totals.make_input(tmp_path / "in", files=2)
    document = in_memory(tmp_path, backend, restart={"strategy": "none"})
    document["spec"]["checkpointing"]["maxStateSize"] = "500"
    with driving.Driver(tmp_path, document) as driver:
        assert driver.wait() != 0
    said = driver.end()["message"]
    assert "the state totals/seen of this slot has at least" in said
    assert (
        "take at most 500 of a state (spec.checkpointing.maxStateSize); keep checkpoints in a folder" in said
    )
