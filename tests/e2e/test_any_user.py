"""Pods under a user whom the image does not know, as OpenShift gives each namespace one of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.node_job import IN_THE_CLUSTER, merged

pytestmark = pytest.mark.slow
USER = {"runAsUser": 1_000_680_000, "runAsGroup": 0, "fsGroup": 1_000_680_000}


def test_a_job_runs_as_a_user_that_the_image_does_not_know(make_job: Callable[..., FlightsJob]) -> None:
    """Driver, executors, slots and Spark's Python workers; exact, with a checkpoint that an attempt goes on from."""
    job = make_job(**IN_THE_CLUSTER)
    for folder in (job.folder, *job.folder.iterdir()):
        folder.chmod(0o777)  # what a volume's owner does for that user
    for template in ("driverTemplate", "executorTemplate"):
        asked = job.manifest()["spec"][template]
        job.changes[template] = merged(asked, {"spec": {"securityContext": USER}})
    job.apply()
    job.feed(interval_s=2.0)
    first = job.until_checkpoint_after(0, 300)
    words = ("exec", "-n", job.namespace, job.driver()["metadata"]["name"], "-c", "driver", "--", "id")
    assert "uid=1000680000(sparkstate) gid=0" in job.cluster.kubectl(*words)
    job.delete_driver()
    back = job.until(
        lambda status: status["attempt"] > 1 and status["phase"] == "Running", "another attempt runs", 300
    )
    assert back["lastCheckpoint"]["id"] >= first["lastCheckpoint"]["id"]
    job.finish()
    job.check()
