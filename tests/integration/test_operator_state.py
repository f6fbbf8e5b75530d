"""Operator state and a function's own variables in whole jobs: kills, savepoints, other numbers of slots."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sparkstate.checkpoint import Downloader, operator_parts
from sparkstate.checkpoint import metadata as codec
from sparkstate.control import documents
from sparkstate.serde.types import Types
from sparkstate.settings import SavepointFormat
from sparkstate.storage import open_store
from sparkstate_tools.drivers import driving, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def counted_in(location: str) -> list[list[tuple[int, int]]]:
    """What each slot has stored in a savepoint: rows and their sum, in as many elements as were dealt to it."""
    store = open_store(location, create=False)
    data = store.get("_metadata")
    assert data[5] == 3
    metadata = codec.decode(data, "_metadata")
    assert ("counted", "operator list") in {(state.name, state.kind) for state in metadata.states}
    downloader = Downloader(store)
    parts = [operator_parts.decode(downloader.read(file), file.name) for file in metadata.operator_state]
    downloader.close()
    return [
        [PAIR.thaw(PAIR.decode(value)) for value in state.values]
        for part in parts
        for state in part.states
        if state.name == "counted"
    ]


def stop_when_read(
    driver: driving.Driver,
    client: Any,
    rows: int,
    name: str,
    format_type: SavepointFormat = "canonical",
) -> str:
    """Stop with a savepoint once this driver has taken so many rows; where it is."""
    driving.wait_for(
        lambda: client.status().rows_total >= rows, driving.PATIENCE_S, "all rows", driver.process
    )
    client.trigger_savepoint(documents.SavepointRequest(trigger_id=name, stop=True, format_type=format_type))
    driver.finish()
    return str(driver.end()["savepoint"]["location"])


def wait_for_checkpoint(driver: driving.Driver, client: Any) -> None:
    driving.wait_for(
        lambda: client.status().checkpoints_completed > 0, driving.PATIENCE_S, "a checkpoint", driver.process
    )


@pytest.mark.fault(
    broken="a slot whose function has variables of its own is killed (SIGKILL)",
    when="after a checkpoint",
    expected="the variables go back to the checkpoint with the state, and count every row once",
)
@pytest.mark.fault_on("hashmap, then rocksdb")
def test_variables_are_exact_through_a_kill_and_from_two_slots_to_three_to_one(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=4)
    often = {"trigger": {"processingTime": "100ms"}}
    document = driving.manifest(tmp_path, "counted.py", **often)
    with driving.Driver(tmp_path, document) as first, first.client() as client:
        wait_for_checkpoint(first, client)
        os.kill(first.pid_of("slot-1"), signal.SIGKILL)
        rows += totals.make_input(tmp_path / "in", files=3, first=4, seed=8)
        two = counted_in(stop_when_read(first, client, len(rows), "two"))
    assert "restoring checkpoint" in first.log()
    assert [len(elements) for elements in two] == [1, 1]
    assert sum(count for [(count, _)] in two) == len(rows)

    rows += totals.make_input(tmp_path / "in", files=3, first=7, seed=9)
    document = driving.manifest(tmp_path, "counted.py", slots=3, stateBackend={"type": "rocksdb"}, **often)
    with driving.Driver(tmp_path, document, attempt=2) as second, second.client() as client:
        wait_for_checkpoint(second, client)
        saved = stop_when_read(second, client, 600, "three", "native")
    three = counted_in(saved)
    assert len(three) == 3 and sum(count for [(count, _)] in three) == len(rows)

    rows += totals.make_input(tmp_path / "in", files=2, first=10, seed=10)
    document = driving.manifest(
        tmp_path,
        "counted.py",
        name="copy",
        slots=1,
        stateBackend={"type": "rocksdb"},
        restoreFrom={"uri": saved},
    )
    with driving.Driver(tmp_path / "copy", document) as third:
        third.finish()
    totals.check(tmp_path / "out", rows)
    totals.check_counted(tmp_path / "out", rows)
    (told,) = totals.read(tmp_path / "out" / "counted")
    assert told["told"] > 0


@pytest.mark.fault(
    broken="a function raises in each step of its life: {steps}",
    when="in the phase of that step",
    expected="the job restarts from its last checkpoint; results and the function's own variables are exact",
)
@pytest.mark.parametrize(
    "steps",
    [
        "initialize_state, open, process_element, on_timer, snapshot_state, notify_checkpoint_aborted, "
        "notify_checkpoint_complete, finish"
    ],
    ids=["each"],
)
@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=pytest.mark.extra)])
def test_a_function_that_raises_once_in_each_step_of_its_life_counts_every_row_once(
    tmp_path: Path, steps: str, backend: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=6)
    trips = tmp_path / "trips"
    trips.mkdir()
    document = driving.manifest(
        tmp_path,
        "counted.py",
        slots=1,
        stateBackend={"type": backend},
        params={"trips": str(trips)},
        checkpointing={"interval": "100ms", "storage": str(tmp_path / "checkpoints")},
        restart={"strategy": "fixed-delay", "fixedDelay": {"attempts": 20, "delay": "100ms"}},
    )
    with driving.Driver(tmp_path, document) as driver:
        driver.finish()
    assert sorted(path.name for path in trips.iterdir()) == sorted(steps.split(", "))
    # One incarnation may end by the failures of a snapshot and of the notification that it has failed, and the
    # job by a notification that comes after the last epoch.
    assert driver.log().count("the slots have started") >= len(steps.split(", ")) - 1
    totals.check(tmp_path / "out", rows)
    totals.check_counted(tmp_path / "out", rows)
