"""Two drivers on one job, and a storage that goes away."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support.drivers import lives

from sparkstate.control.documents import DriverPhase, JobStatus
from sparkstate.phases import CHECKPOINT_PHASES, ProcessPhase
from sparkstate_tools.drivers import driving, totals
from sparkstate_tools.servers import s3server

pytestmark = [pytest.mark.fault_on("hashmap"), pytest.mark.spark, pytest.mark.timeout(1800)]


SAMPLE = (ProcessPhase.CHECKPOINT_PUBLISH,)
ALL = (
    *CHECKPOINT_PHASES,
    ProcessPhase.COMMIT,
    ProcessPhase.FEED,
    ProcessPhase.RESTORE_BEGIN,
    ProcessPhase.RESTORE_SETTLE,
)


def asleep_in(name: str, moments: tuple[ProcessPhase, ...], *marks: pytest.MarkDecorator) -> Any:
    faults = [
        pytest.mark.fault(
            broken="a driver with its JVM and slots sleeps (SIGSTOP) while another one takes over and checkpoints",
            when=f"from the phase {moment} on",
            expected="woken, it is fenced off and ends with exit code 4; the other one's storage and output stay exact",
        )
        for moment in moments
    ]
    return pytest.param(moments, id=name, marks=[*marks, *faults])


@pytest.mark.parametrize("moments", [asleep_in("sample", SAMPLE), asleep_in("all", ALL, pytest.mark.extra)])
def test_a_driver_that_slept_through_the_others_checkpoints_changes_nothing(
    tmp_path: Path, moments: tuple[ProcessPhase, ...]
) -> None:
    rows = lives.Input(tmp_path / "in")
    rows.ahead_of(-1)
    drivers = contextlib.ExitStack()

    def start(attempt: int, trigger: dict[str, object]) -> driving.Driver:
        document = driving.manifest(tmp_path, "totals.py", fenceTimeout="3s", trigger=trigger)
        return drivers.enter_context(driving.Driver(tmp_path / f"{attempt}", document, attempt=attempt))

    with drivers:
        current = start(1, {"processingTime": "100ms"})
        rows.wait_for_checkpoint("a first checkpoint", current)
        for attempt, moment in enumerate(moments, 2):
            sleeper, asleep = current, put_to_sleep(current, moment, rows)
            current = start(attempt, {"processingTime": "100ms"})
            for _ in range(2):
                rows.wait_for_checkpoint(f"a checkpoint while the driver before sleeps in {moment}", current)
            signal_all(asleep, signal.SIGCONT)
            assert sleeper.wait() == 4, f"woken in {moment}: {sleeper.log()[-2000:]}"
            assert sleeper.end()["reason"] == "Fenced"
            driving.wait_until_nothing_is_left(sleeper.folder)
            rows.wait_for_checkpoint(f"a checkpoint after the other one woke in {moment}", current)
        last = start(len(moments) + 2, {"availableNow": True})
        assert current.wait() == 4
        last.finish()
    totals.check(tmp_path / "out", rows.rows)
    published = {path for folder in (tmp_path / "out").iterdir() for path in folder.glob("part-*")}
    assert {path for path in (tmp_path / "out").rglob("*") if path.is_file()} == published


def put_to_sleep(driver: driving.Driver, moment: ProcessPhase, rows: lives.Input) -> list[int]:
    """Stop every process of a driver when it is in that phase; what it was about to do it does when it wakes."""
    holder = "driver" if "driver" in lives.ENTERED_BY[moment] else "slot-0"
    driver.hold(holder, moment)
    if moment in lives.RESTORES:
        os.kill(driver.pid_of("slot-1"), signal.SIGKILL)
    rows.wait(lambda: driver.is_held(holder, moment), f"{holder} held in {moment}", driver)
    asleep = driving.processes_with(str(driver.folder))
    assert driver.process.pid in asleep
    signal_all(asleep, signal.SIGSTOP)
    driver.release()
    return asleep


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """To each that is still there: Spark's Python workers end by themselves when they have been idle."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.extra
@pytest.mark.fault(
    broken="a second driver of a higher attempt starts beside a running one",
    when="after a checkpoint of the first",
    expected="the newer one wins, the older one stops with exit code 4 and the newer's name; output exact",
)
def test_of_two_drivers_the_newer_wins_and_the_older_stops_itself(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=6)
    document = driving.manifest(tmp_path, "totals.py", fenceTimeout="3s", trigger={"processingTime": "100ms"})
    with driving.Driver(tmp_path, document) as old, old.client() as client:
        driving.wait_for(
            lambda: client.status().checkpoints_completed > 0, driving.PATIENCE_S, "a checkpoint", old.process
        )
        ending = driving.manifest(tmp_path, "totals.py")
        new = driving.Driver(tmp_path / "new", ending, attempt=2)
        with new:
            assert old.wait() == 4
            assert old.end()["reason"] == "Fenced"
            assert "was claimed by" in old.end()["message"]
            new.finish()
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
@pytest.mark.fault(
    broken="a second driver of a lower attempt starts",
    when="after the higher one ran",
    expected="it ends with exit code 4 and the attempts' numbers, and claims nothing",
)
def test_a_lower_attempt_never_takes_the_lineage_from_a_higher_one(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=1)
    document = driving.manifest(tmp_path, "totals.py")
    with driving.Driver(tmp_path, document, attempt=5) as high:
        high.finish()
    with driving.Driver(tmp_path, document, attempt=4) as low:
        assert low.wait() == 4
    assert "attempt 4 may not run" in low.end()["message"]


def newest_epoch_of(status: JobStatus) -> int:
    """The last epoch of the newest completed checkpoint."""
    return status.last_checkpoint.epoch if status.last_checkpoint is not None else -1


@pytest.mark.fault_on("rocksdb, S3")
@pytest.mark.fault(
    broken="the S3 server is stopped and started again",
    when="while a job runs and takes checkpoints",
    expected="the job pauses, reads nothing new, and goes on without a restart; output exact; no secret in the log",
)
@pytest.mark.s3
def test_while_the_storage_is_away_the_job_pauses_and_then_goes_on(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=3)
    with s3server.running() as server:
        document = driving.manifest(
            tmp_path,
            "totals.py",
            fenceTimeout="3s",
            trigger={"processingTime": "100ms"},
            checkpointing={"interval": "500ms", "storage": "s3://state/jobs"},
            s3={"endpoint": server.endpoint, "region": "us-east-1", "pathStyle": True},
            stateBackend={"type": "rocksdb"},
        )
        with (
            driving.Driver(tmp_path, document, environment=server.environment) as driver,
            driver.client() as client,
        ):
            driving.wait_for(
                lambda: client.status().checkpoints_completed > 0,
                driving.PATIENCE_S,
                "a checkpoint",
                driver.process,
            )
            server.stop()
            driving.wait_for(
                lambda: client.status().phase == DriverPhase.PAUSED,
                driving.PATIENCE_S,
                "PAUSED",
                driver.process,
            )
            before = len(rows)
            rows += totals.make_input(tmp_path / "in", files=2, first=3, seed=3)
            assert client.status().rows_total <= before, "nothing new is read while it pauses"
            server.start()
            driving.wait_for(
                lambda: client.status().rows_total >= len(rows),
                driving.PATIENCE_S,
                "all rows",
                driver.process,
            )
            # Not just one more: the checkpoint in progress may be of an earlier epoch, and what comes after it is
            # not published when the job is cancelled.
            epoch = client.status().epoch or 0
            client.trigger_checkpoint()
            driving.wait_for(
                lambda: newest_epoch_of(client.status()) >= epoch,
                driving.PATIENCE_S,
                f"a checkpoint of epoch {epoch}",
                driver.process,
            )
            assert client.status().restarts == 0
            client.cancel()
            driver.finish()
        assert server.access_key not in driver.log() and server.secret_key not in driver.log()
    totals.check(tmp_path / "out", rows)
