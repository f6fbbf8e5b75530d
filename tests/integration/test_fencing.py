"""Two drivers on one job, and a storage that goes away."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import driving, s3server, totals

from sparkstate.control.documents import Phase

pytestmark = pytest.mark.spark


def test_of_two_drivers_the_newer_wins_and_the_older_stops_itself(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=6)
    document = driving.manifest(tmp_path, "totals.py", fenceTimeout="3s", trigger={"processingTime": "100ms"})
    with driving.Driver(tmp_path, document) as old, old.client() as client:
        driving.wait_for(lambda: client.status().checkpoints_completed > 0, 120, "a checkpoint", old.process)
        ending = driving.manifest(tmp_path, "totals.py")
        new = driving.Driver(tmp_path / "new", ending, attempt=2)
        with new:
            assert old.wait(90) == 4
            assert old.end()["reason"] == "Fenced"
            assert "was claimed by" in old.end()["message"]
            new.finish()
    totals.check(tmp_path / "out", rows)


def test_a_lower_attempt_never_takes_the_lineage_from_a_higher_one(tmp_path: Path) -> None:
    totals.make_input(tmp_path / "in", files=1)
    document = driving.manifest(tmp_path, "totals.py")
    with driving.Driver(tmp_path, document, attempt=5) as high:
        high.finish()
    with driving.Driver(tmp_path, document, attempt=4) as low:
        assert low.wait() == 4
    assert "attempt 4 may not run" in low.end()["message"]


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
                lambda: client.status().checkpoints_completed > 0, 120, "a checkpoint", driver.process
            )
            server.stop()
            driving.wait_for(lambda: client.status().phase == Phase.PAUSED, 60, "PAUSED", driver.process)
            before = client.status().rows_total
            rows += totals.make_input(tmp_path / "in", files=2, first=3, seed=3)
            assert client.status().rows_total == before
            server.start()
            driving.wait_for(lambda: client.status().rows_total >= len(rows), 120, "all rows", driver.process)
            completed = client.status().checkpoints_completed
            client.trigger_checkpoint()
            driving.wait_for(
                lambda: client.status().checkpoints_completed > completed, 90, "one more", driver.process
            )
            assert client.status().restarts == 0
            client.cancel()
            driver.finish()
        assert server.access_key not in driver.log() and server.secret_key not in driver.log()
    totals.check(tmp_path / "out", rows)
