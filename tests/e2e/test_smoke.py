"""The shortest way through everything: install, apply, run, lose the driver, be exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.kubernetes.flights import FlightsJob
from support.s3server import S3Server

pytestmark = pytest.mark.smoke


def test_an_applied_job_runs_saves_loses_its_driver_and_stays_exact(
    make_job: Callable[..., FlightsJob], storage: S3Server
) -> None:
    job = make_job(savepoints={"interval": "20s"})
    job.apply()
    job.feed(interval_s=1.0)

    first = job.until_checkpoint_after(0, 180)
    assert first["phase"] == "Running"
    later = job.until_checkpoint_after(first["lastCheckpoint"]["id"])
    assert later["lastCheckpoint"]["epoch"] > first["lastCheckpoint"]["epoch"]
    saved = job.until(lambda status: status.get("lastSavepoint"), "a periodic savepoint is completed", 90)
    assert stored(storage, saved["lastSavepoint"]["uri"])
    assert stored(storage, later["lastCheckpoint"]["uri"])

    before, at = job.driver(), job.status["lastCheckpoint"]["id"]
    job.cluster.kubectl("delete", "pod", before["metadata"]["name"], "-n", job.namespace, "--wait=false")
    back = job.until(
        lambda status: status.get("attempt", 0) > 1 and status["lastCheckpoint"]["id"] > at,
        "another attempt has completed a checkpoint",
        180,
    )
    assert back["phase"] == "Running"
    assert job.driver()["metadata"]["uid"] != before["metadata"]["uid"]
    job.finish()
    job.check()


def stored(storage: S3Server, uri: str) -> bool:
    """Whether there is something under that URI; a bucket of this server is a folder."""
    return (storage.folder / "data" / uri.removeprefix("s3://").rstrip("/")).exists()
