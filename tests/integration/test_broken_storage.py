"""Real drivers on a storage that is damaged, full or closed to them: how they end, and how the next goes on."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from support.machine import volumes

from sparkstate_tools.drivers import driving, totals
from sparkstate_tools.servers import s3server

pytestmark = pytest.mark.spark


@pytest.mark.fault_on("rocksdb, a folder")
@pytest.mark.fault(
    broken="one bit of a state file of the newest checkpoint is changed",
    when="before a driver restores it",
    expected="exit code 3, RestoreBlocked with the file's name; with the file put back the next goes on; output exact",
)
def test_a_driver_that_finds_a_damaged_state_file_stops_and_loses_nothing(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=2)
    document = driving.manifest(tmp_path, "totals.py", stateBackend={"type": "rocksdb"})
    with driving.Driver(tmp_path, document) as first:
        first.finish()
    damaged = max((tmp_path / "checkpoints").glob("*/shared/*"), key=lambda path: path.stat().st_mtime)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    rows += totals.make_input(tmp_path / "in", files=1, first=2, seed=5)
    with driving.Driver(tmp_path, document, attempt=2) as second:
        assert second.wait() == 3
    assert second.end()["reason"] == "RestoreBlocked"
    assert f"shared/{damaged.name}" in second.end()["message"] and "startEmpty" in second.end()["message"]
    damaged.write_bytes(whole)
    with driving.Driver(tmp_path, document, attempt=3) as third:
        third.finish()
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
@pytest.mark.fault(
    broken="the job's new code has keys of another type, or a state of another type",
    when="when a driver restores the state of the old code",
    expected="exit code 3, StateMigrationError with state and both types; with the old code it goes on; output exact",
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_driver_whose_code_declares_other_types_stops_and_loses_nothing(tmp_path: Path, backend) -> None:
    rows = totals.make_input(tmp_path / "in", files=2)

    def document(code, **params):
        return driving.manifest(tmp_path, code, stateBackend={"type": backend}, params=params)

    with driving.Driver(tmp_path, document("totals.py")) as first:
        first.finish()
    rows += totals.make_input(tmp_path / "in", files=1, first=2, seed=5)
    for attempt, (change, says) in enumerate(
        {
            "key": r"key type was STRING.*now LONG",
            "state": r"'total'.*value type was LONG.*now STRING",
        }.items(),
        2,
    ):
        with driving.Driver(tmp_path, document("redeclared.py", change=change), attempt=attempt) as refused:
            assert refused.wait() == 3
        assert refused.end()["reason"] == "StateMigrationError"
        assert re.search(says, refused.end()["message"]), refused.end()
    with driving.Driver(tmp_path, document("totals.py"), attempt=4) as last:
        last.finish()
    totals.check(tmp_path / "out", rows)


@pytest.mark.fault_on("hashmap, a folder")
@pytest.mark.fault(
    broken="the volume of the checkpoints is full",
    when="while a job runs and takes checkpoints",
    expected="no restart, no checkpoint until there is space, then the next one; output exact",
)
def test_a_full_checkpoint_volume_is_waited_for(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=3)
    with volumes.mounted(tmp_path / "volume") as volume:
        document = driving.manifest(
            tmp_path,
            "totals.py",
            trigger={"processingTime": "100ms"},
            checkpointing={"interval": "500ms", "storage": str(volume.path / "checkpoints")},
        )
        with driving.Driver(tmp_path, document) as driver, driver.client() as client:

            def completed() -> int:
                return client.status().checkpoints_completed

            driving.wait_for(
                lambda: client.status().rows_total >= len(rows) and completed() > 0,
                120,
                "rows",
                driver.process,
            )
            volume.fill()
            before = completed()
            rows += totals.make_input(tmp_path / "in", files=2, first=3, seed=3)
            driving.wait_for(lambda: client.status().rows_total >= len(rows), 120, "all rows", driver.process)
            client.trigger_checkpoint()
            time.sleep(2)
            assert completed() <= before + 1, "one may have been on its way"
            stuck = completed()
            volume.free()
            driving.wait_for(lambda: completed() > stuck, 90, "one more", driver.process)
            client.trigger_checkpoint()
            driving.wait_for(lambda: completed() > stuck + 1, 90, "another", driver.process)
            assert client.status().restarts == 0
            client.cancel()
            driver.finish()
    totals.check(tmp_path / "out", rows)


@pytest.mark.extra
@pytest.mark.fault_on("rocksdb, a folder")
@pytest.mark.fault(
    broken="the volume of checkpoints and output is unmounted and its mount point stays; meanwhile a slot is killed, "
    "and the second time the driver",
    when="while a job runs",
    expected="nothing is written to the bare folder, and nobody begins empty there; mounted again, output exact",
)
def test_nobody_goes_on_in_the_bare_folder_of_a_volume(tmp_path: Path) -> None:
    rows = totals.make_input(tmp_path / "in", files=3)
    volume, kept = tmp_path / "volume", tmp_path / "on-its-volume"
    volume.mkdir()
    document = driving.manifest(
        tmp_path,
        "totals.py",
        trigger={"processingTime": "100ms"},
        stateBackend={"type": "rocksdb"},
        params={"output": str(volume / "out")},
        checkpointing={"interval": "300ms", "storage": str(volume / "checkpoints")},
        fenceTimeout="3s",
    )

    def unmount() -> None:
        volume.rename(kept)
        volume.mkdir()

    def mount() -> None:
        assert list(volume.rglob("*")) == [], "somebody went on beside the job's state"
        volume.rmdir()
        kept.rename(volume)

    def all_of(driver: driving.Driver) -> None:
        driving.wait_for(
            lambda: len(totals.read(volume / "out" / "totals")) >= len(rows),
            driving.PATIENCE_S,
            "all rows are published",
            driver.process,
        )

    with driving.Driver(tmp_path, document) as first:
        all_of(first)
        lineage = first.client().status().lineage
        unmount()
        os.kill(first.pid_of("slot-0"), signal.SIGKILL)
        rows += totals.make_input(tmp_path / "in", files=1, first=3, seed=3)
        time.sleep(8)
        mount()
        all_of(first)
        unmount()
        rows += totals.make_input(tmp_path / "in", files=1, first=4, seed=4)
        first.process.kill()
        first.wait()
    told = ["--lineage", str(lineage)]
    with driving.Driver(tmp_path, document, attempt=2, arguments=told) as second:
        driving.wait_for(
            lambda: "waiting for the storage" in second.log(), driving.PATIENCE_S, "it waits", second.process
        )
        time.sleep(3)
        mount()
        all_of(second)
        second.client().cancel()
        second.finish()
    totals.check(volume / "out", rows)


@pytest.mark.s3
@pytest.mark.fault_on("hashmap, S3")
@pytest.mark.fault(
    broken="{what}",
    when="when a driver starts",
    expected="exit code 5 at once, with bucket and remedy in the termination message, and no secret",
)
@pytest.mark.parametrize(
    ("what", "bucket", "secret", "reason", "says"),
    [
        pytest.param(
            "the bucket does not exist",
            "missing",
            None,
            "StorageError",
            "aws s3 mb s3://missing",
            id="bucket",
        ),
        pytest.param(
            "the secret key is wrong",
            "state",
            "wrong-secret",
            "StorageRefused",
            "check that the credentials",
            id="credentials",
        ),
    ],
)
def test_a_driver_without_access_ends_with_the_remedy(
    tmp_path: Path, what, bucket, secret, reason, says
) -> None:
    with s3server.running() as server:
        document = driving.manifest(
            tmp_path,
            "totals.py",
            checkpointing={"interval": "500ms", "storage": f"s3://{bucket}/jobs"},
            s3={"endpoint": server.endpoint, "region": "us-east-1", "pathStyle": True},
        )
        environment = {**server.environment, **({"AWS_SECRET_ACCESS_KEY": secret} if secret else {})}
        with driving.Driver(tmp_path, document, environment=environment) as driver:
            assert driver.wait() == 5
    assert driver.end()["reason"] == reason and driver.end()["exit_code"] == 5
    assert says in driver.end()["message"]
    for hidden in (server.secret_key, "wrong-secret"):
        assert hidden not in driver.log() and hidden not in str(driver.end())
