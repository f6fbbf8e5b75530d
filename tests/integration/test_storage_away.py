"""The sink's bucket goes away while the checkpoints' storage works: told, bounded, heard, and exact afterwards."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkstate.control.documents import DriverPhase, JobStatus
from sparkstate_tools.drivers import driving, totals
from sparkstate_tools.servers import s3server

pytestmark = [pytest.mark.fault_on("hashmap, S3"), pytest.mark.spark, pytest.mark.s3]
HEARD_S = 20.0
"""A call that hangs would take more than 90 s to fail by itself."""


@pytest.fixture
def server() -> Iterator[s3server.S3Server]:
    with s3server.running() as started:
        yield started


def manifest(folder: Path, server: s3server.S3Server, **checkpointing: str) -> dict[str, Any]:
    """Checkpoints in a folder, output in a bucket."""
    return driving.manifest(
        folder,
        "totals.py",
        params={"output": "s3://state/out", "pause": "0.01"},
        s3={"endpoint": server.endpoint, "region": "us-east-1", "pathStyle": True},
        checkpointing={"interval": "500ms", "storage": str(folder / "checkpoints"), **checkpointing},
    )


def output(server: s3server.S3Server) -> Path:
    """The bucket of this server is a folder."""
    return server.folder / "data" / "state" / "out"


def status(driver: driving.Driver) -> JobStatus:
    return driver.client().status()


def wait_for_pause(driver: driving.Driver) -> JobStatus:
    driving.wait_for(
        lambda: status(driver).phase is DriverPhase.PAUSED, driving.PATIENCE_S, "PAUSED", driver.process
    )
    return status(driver)


@pytest.mark.fault(
    broken="the sink's bucket goes away ({moment}) while the checkpoints' storage works; it returns",
    when="in the phase {moment}",
    expected="status, metrics and page name the place; nothing more is taken in when the limit of {limit} is reached; "
    "the job goes on without a restart; output exact",
)
@pytest.mark.parametrize(
    ("moment", "limit"),
    [
        ("checkpoint-publish", "time"),
        pytest.param("checkpoint-upload", "held output", marks=pytest.mark.extra),
    ],
)
def test_a_job_whose_sink_is_away_pauses_at_its_limit_and_goes_on_exactly(
    tmp_path: Path, server: s3server.S3Server, moment: str, limit: str
) -> None:
    rows = totals.make_input(tmp_path / "in", files=14)
    limits = {"maxTimeWithoutCheckpoint": "1s"} if limit == "time" else {"maxHeldOutput": "20k"}
    document = manifest(tmp_path, server, **limits)
    who = "driver" if moment == "checkpoint-publish" else "slot-0"
    with driving.Driver(tmp_path, document, environment=server.environment) as driver:
        driver.hold(who, moment)
        driver.held(who, moment)
        server.stop()
        driver.release()
        paused = wait_for_pause(driver)
        place = paused.storage_away[0]  # output of several sinks is published side by side
        assert place.url.startswith("s3://state/out/") and place.failures
        assert "checkpoint" in place.doing and "s3://state/out/" in place.message
        assert f'sparkstate_storage_away_seconds{{url="{place.url}"}}' in driver.client().metrics()
        time.sleep(2)
        later = status(driver)
        assert later.phase is DriverPhase.PAUSED and later.epoch == paused.epoch
        assert later.storage_failures_total > paused.storage_failures_total
        server.start()
        driver.finish()
    assert "restarting in" not in driver.log()
    assert driver.log().count("nothing is taken in until a checkpoint completes") == 1
    totals.check(output(server), rows)


@pytest.mark.fault(
    broken="the sink's bucket takes requests and answers none (SIGSTOP of the server)",
    when="while output is published, and while a restore publishes it; the job is asked to end each time",
    expected="the end is heard at once; the next attempt publishes what was committed; output exact",
)
def test_an_end_is_heard_while_a_bucket_hangs(tmp_path: Path, server: s3server.S3Server) -> None:
    rows = totals.make_input(tmp_path / "in", files=6)
    document = manifest(tmp_path, server)
    with driving.Driver(tmp_path, document, environment=server.environment) as first:
        first.hold("driver", "checkpoint-publish")
        first.held("driver", "checkpoint-publish")
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        first.release()
        first.client().cancel()
        first.finish(HEARD_S)
    assert first.end()["reason"] == "Cancelled"
    with driving.Driver(tmp_path, document, attempt=2, environment=server.environment) as second:
        driving.wait_for(
            lambda: bool(status(second).storage_away), driving.PATIENCE_S, "it is told", second.process
        )
        place = status(second).storage_away[0]
        assert place.url.startswith("s3://state/out/") and place.doing.startswith("publish")
        second.process.send_signal(signal.SIGTERM)
        second.finish(HEARD_S)
    assert second.end()["reason"] == "Cancelled"
    server.process.send_signal(signal.SIGCONT)
    with driving.Driver(tmp_path, document, attempt=3, environment=server.environment) as third:
        third.finish()
    totals.check(output(server), rows)
