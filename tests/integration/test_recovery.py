"""A job that ends, or whose JVM is killed, leaves nothing behind. Kills in every phase: ``test_kills.py``."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support import driving, totals

pytestmark = [pytest.mark.fault_on("hashmap"), pytest.mark.spark]


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


@pytest.mark.fault(
    broken="the JVM that holds driver and slots is killed (SIGKILL)",
    when="in the phase feed",
    expected="its slots end, the driver ends with an error, and nothing is left behind",
)
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
        driving.wait_for(lambda: not driving.is_alive(slot), 60, "the slot's end")
        assert driver.wait() != 0
    assert not list((tmp_path / "work" / "slots").glob("1-*"))


@pytest.mark.extra
@pytest.mark.fault(
    broken="a slot hangs (SIGSTOP): it lives, and answers nobody",
    when="in the middle of the commit of an epoch",
    expected="after 30 s it is given up and killed; a new incarnation goes on from the last checkpoint; output exact",
)
def test_a_slot_that_hangs_is_given_up(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=4)
    with driving.Driver(tmp_path, driving.manifest(tmp_path, "totals.py")) as driver:
        driver.hold("slot-1", "commit")
        slot = driver.held("slot-1", "commit")
        os.kill(slot, signal.SIGSTOP)
        driver.release()
        driving.wait_for(
            lambda: not driving.is_alive(slot),
            driving.PATIENCE_S,
            "the end of the slot that hangs",
            driver.process,
        )
        driver.finish()
    totals.check(tmp_path / "out", rows)
    assert max(p["incarnation"] for p in driver.phases()) == 2
