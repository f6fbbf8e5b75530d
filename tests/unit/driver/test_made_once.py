"""Who makes a folder, and when: beside the epochs, after the claim, and never where something else is."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.slots import slots
from support.slots.running import Running, settings

from sparkstate import clock, errors, storage
from sparkstate.control.documents import JobIdentity, SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import long_savepoint
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.current_parts import CurrentParts
from sparkstate.driver.parts import Parts
from sparkstate.driver.preparing import PreparedJob
from sparkstate.driver.savepoint_targets import Targets
from sparkstate.driver.view import JobView
from sparkstate.log.fence import FenceGuard
from sparkstate.settings import S3Settings
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks
from sparkstate.storage.local import LocalStore

pytestmark = pytest.mark.fault_on("a folder")


@pytest.mark.fault(
    broken="the storage of the savepoints hangs ({where})",
    when="when a savepoint is asked for",
    expected="no epoch waits for it; the request fails by name; the checkpoint that came with it is complete",
)
@pytest.mark.parametrize("where", ["on its own", "while it is opened"])
def test_an_epoch_does_not_wait_for_the_folder_of_a_savepoint(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(long_savepoint, "SLOW_S", 0.5)
    hangs, target = threading.Event(), f"file://{tmp_path}/hangs"
    plain = LocalStore.__init__

    def opened(store: LocalStore, url: str, *arguments: Any, **named: Any) -> None:
        if "/hangs" in url:
            hangs.wait(60.0)
        plain(store, url, *arguments, **named)

    monkeypatch.setattr(LocalStore, "__init__", opened)
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.requests.add(SavepointTrigger(trigger_id="one", target_directory=target))
    began = time.monotonic()
    try:
        running.checkpoints.after_commit(0, Watermarks(()), CapturedPosition, changed=True)
        assert time.monotonic() - began < 10.0
        current = running.checkpoints._current
        assert current is not None
        if where == "while it is opened":
            running.job_storage.open_target(f"file://{tmp_path}/another")
        current.wait(lambda: False)
    finally:
        hangs.set()
    assert current.failure is None and current.committed
    found = running.requests.find("one")
    assert found is not None and found.status == SavepointPhase.FAILED
    assert "has not answered for 0.5 s" in found.failure
    assert len(list(running.out.glob("part-*"))) == 1


def test_a_file_where_a_folder_was_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of somebody")
    for opened in (storage.open_made, storage.open_store):
        with pytest.raises(errors.StorageError, match="must be a folder") as refused:
            opened(f"{tmp_path}/file")
        assert not isinstance(refused.value, errors.StorageUnavailable)


def test_a_request_makes_no_folder_before_the_log_is_read(tmp_path: Path) -> None:
    identity = JobIdentity(job_uid="u")
    time = clock.SystemClock()
    unclaimed = CurrentParts(JobView(identity, "job", "default", "hashmap", time), time)
    Targets(S3Settings(), lambda: "", made=unclaimed.may_make_target).require(f"file://{tmp_path}/kept/below")
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_waits_hears_of_a_newer_driver(running: Running) -> None:
    job_storage = running.job_storage
    guard = FenceGuard(job_storage.log, 10.0, clock.SystemClock())
    context: Any = SimpleNamespace(requests=running.requests)
    parts = Parts(context=context, prepared=cast("PreparedJob", None), job_storage=job_storage, guard=guard)
    assert not parts.given_up()
    claim(settings(running.out.parent), clock.SystemClock(), 2, "the next")
    with pytest.raises(errors.Fenced):
        guard.read()
    assert parts.given_up()
