"""A job is killed in every way and place; what it publishes stays exact, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support import driving, totals

pytestmark = pytest.mark.spark


def test_a_job_runs_to_the_end_of_its_input_and_leaves_nothing_behind(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=4)
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py")) as driver:
        driver.finish()
    totals.check(tmp_path / "out", rows)
    quiet = totals.read(tmp_path / "out" / "quiet")
    assert {row["k"] for row in quiet} == {row[0] for row in rows}
    assert driver.end()["reason"] == "Finished"
    driving.wait_until_nothing_is_left(tmp_path)
    assert [p.name for p in (tmp_path / "work").iterdir()] == []


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_slot_killed_in_the_middle_of_a_checkpoint_comes_back_with_its_state(
    tmp_path: Path, backend: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=12)
    document = driving.manifest(tmp_path, "totals.py", stateBackend={"type": backend})
    with driving.Driver(tmp_path, document) as driver:
        driving.wait_for(
            lambda: any(p["phase"] == "checkpoint-complete" for p in driver.phases()),
            90,
            "a checkpoint",
            driver.process,
        )
        driver.kill_in("slot-1", "checkpoint-upload")
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert max(p["incarnation"] for p in driver.phases()) == 2
    driving.wait_until_nothing_is_left(tmp_path)


@pytest.mark.parametrize("phase", ["feed", "commit", "checkpoint-metadata", "checkpoint-publish"])
def test_a_driver_killed_in_a_phase_is_followed_by_one_that_goes_on_exactly(
    tmp_path: Path, phase: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=8)
    document = driving.manifest(tmp_path, "totals.py", stateBackend={"type": "rocksdb"})
    with driving.Driver(tmp_path, document) as first:
        driving.wait_for(
            lambda: any(p["phase"] == "checkpoint-complete" for p in first.phases()),
            90,
            "a checkpoint",
            first.process,
        )
        first.kill_in("driver", phase)
        assert first.wait() == -signal.SIGKILL
        driving.wait_until_nothing_is_left(tmp_path)
    with driving.Driver(tmp_path, document, attempt=2) as second:
        second.finish()
        assert "found by the job's name" in second.log()
        assert "restoring checkpoint" in second.log()
    totals.check(tmp_path / "out", rows)
    driving.wait_until_nothing_is_left(tmp_path)


def test_an_executor_jvm_that_is_killed_takes_its_slots_along(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=8)
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py")) as driver:
        driver.hold("slot-0", "feed")
        slot = driver.held("slot-0", "feed")
        jvm = next(
            pid
            for pid in driving.processes_with(str(tmp_path))
            if Path(f"/proc/{pid}/comm").read_text() == "java\n"
        )
        os.kill(jvm, signal.SIGKILL)
        driving.wait_for(
            lambda: not Path(f"/proc/{slot}").exists() or slot_is_zombie(slot), 20, "the slot's end"
        )
        assert driver.wait(60) != 0
    assert not list((tmp_path / "work" / "slots").glob("1-*"))


def slot_is_zombie(pid: int) -> bool:
    """Ended, and not yet collected by init."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
