"""A job that ends, or whose JVM is killed, leaves nothing behind. Kills in every phase: ``test_kills.py``."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from sparkstate_tools.drivers import driving, totals

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
    assert not [path for path in (tmp_path / "work" / "slots").glob("1-*") if path.suffix != ".left"]


def found_on_disk(log: str) -> float:
    """MiB that the last restore of this driver took from its own disk."""
    return float(
        re.findall(r"their state is restored \(.* MiB, ([0-9.]+) MiB of them from this disk\)", log)[-1]
    )


def test_the_next_slots_find_the_state_on_the_disk(tmp_path: Path) -> None:
    """Of a slot that was killed, and then of a driver that was: what the checkpoint names and the disk has."""
    rows = totals.make_input(tmp_path / "in", files=12)
    document = driving.manifest(
        tmp_path,
        "totals.py",
        stateBackend={"type": "rocksdb"},
        checkpointing={
            "interval": "500ms",
            "storage": str(tmp_path / "checkpoints"),
            "inlineThreshold": "0",
        },
    )

    def a_checkpoint_after(driver: driving.Driver, incarnation: int) -> None:
        driving.wait_for(
            lambda: any(
                p["phase"] == "checkpoint-complete" and p["incarnation"] > incarnation
                for p in driver.phases()
            ),
            driving.PATIENCE_S,
            f"a checkpoint of an incarnation after {incarnation}",
            driver.process,
        )

    with driving.Driver(tmp_path, document) as driver:
        a_checkpoint_after(driver, 0)
        driver.kill_in("slot-0", "feed")
        a_checkpoint_after(driver, 1)
        driver.kill_in("driver", "commit")
        driver.wait()
        assert found_on_disk(driver.log()) > 0
    with driving.Driver(tmp_path, document, attempt=2) as second:
        second.finish()
    assert found_on_disk(second.log()) > 0
    totals.check(tmp_path / "out", rows)
    assert list((tmp_path / "work").iterdir()) == []


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
