"""The shortest way through everything: install, apply, run, lose the driver, be exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.node_job import IN_THE_CLUSTER

from sparkstate_tools.servers.s3server import S3Server


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({}, id="local", marks=pytest.mark.smoke),
        pytest.param(IN_THE_CLUSTER, id="cluster", marks=pytest.mark.slow),
    ],
)
def test_an_applied_job_runs_saves_loses_its_driver_and_stays_exact(
    make_job: Callable[..., FlightsJob], storage: S3Server, kind: dict[str, Any]
) -> None:
    job = make_job(savepoints={"interval": "30s"}, **kind)
    job.apply()
    job.feed(interval_s=2.0)

    first = job.until_checkpoint_after(0, 300)
    assert first["phase"] == "Running"
    later = job.until_checkpoint_after(first["lastCheckpoint"]["id"])
    assert later["lastCheckpoint"]["epoch"] > first["lastCheckpoint"]["epoch"]
    saved = job.until(lambda status: status.get("lastSavepoint"), "a periodic savepoint is completed", 180)
    assert stored(storage, saved["lastSavepoint"]["uri"])
    # The newest one, whichever that is by now: of checkpoints only the last three are kept.
    job.until(lambda status: stored(storage, status["lastCheckpoint"]["uri"]), "the checkpoint is in storage")

    gone = job.delete_driver()
    back = job.until(
        lambda status: status["attempt"] > 1 and status["phase"] == "Running", "another attempt runs", 300
    )
    # The deleted one may have completed a last checkpoint of its own within its grace period.
    job.until_checkpoint_after(back["lastCheckpoint"]["id"])
    assert job.driver()["metadata"]["uid"] != gone
    job.finish()
    job.check()


def stored(storage: S3Server, uri: str) -> bool:
    """Whether there is something under that URI; a bucket of this server is a folder."""
    return (storage.folder / "data" / uri.removeprefix("s3://").rstrip("/")).exists()
