"""How long a job is away when its driver is lost: ten runs of each kind, and where the time goes.

A killed process is followed by the same pod's container, a deleted pod by a new attempt. Each kill meets a fresh pod,
so that it is not the kubelet's waiting time between crashes that is measured.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.kubernetes.flights import IN_THE_CLUSTER, FlightsJob

RUNS = int(os.environ.get("SPARKSTATE_E2E_RUNS", "10"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 + 240 * RUNS)]
MakeJob = Callable[..., FlightsJob]
Times = dict[str, float]


def container(job: FlightsJob) -> dict[str, Any]:
    """Status of the newest driver's container; empty while there is none."""
    pods = job.pods()
    statuses = pods[-1].get("status", {}).get("containerStatuses", []) if pods else []
    return dict(statuses[0]) if statuses else {}


def measured(job: FlightsJob, lose: Callable[[], object]) -> Times:
    """Loses the driver, and returns the seconds from then to each step of its return."""
    before, newest = container(job), int(job.status["lastCheckpoint"]["id"])
    lose()
    began = time.monotonic()
    steps: dict[str, Callable[[], object]] = {
        "a container runs": lambda: (
            (now := container(job)).get("containerID") not in (None, before.get("containerID"))
            and "running" in now["state"]
        ),
        "the job runs": lambda: container(job).get("ready"),
        # Of two, one may have been under way when the driver was lost.
        "a checkpoint": lambda: int(job.status["lastCheckpoint"]["id"]) > newest + 1,
    }
    found = {}
    for name, over in steps.items():
        job.cluster.until(over, name, 240)
        found[name] = time.monotonic() - began
    return found


def told(what: str, runs: list[Times]) -> None:
    """Prints median and maximum of each step, from the loss on."""
    for name in runs[0]:
        seconds = [run[name] for run in runs]
        print(
            f"{what}: until {name:<16} median {statistics.median(seconds):5.1f} s, maximum {max(seconds):5.1f} s"
            f" of {len(seconds)}",
            flush=True,
        )


@pytest.mark.parametrize("kind", [pytest.param({}, id="local"), pytest.param(IN_THE_CLUSTER, id="cluster")])
def test_how_long_a_job_is_away_when_its_driver_is_lost(make_job: MakeJob, kind: dict[str, Any]) -> None:
    job = make_job(**kind)
    job.apply()
    job.feed(interval_s=20.0)
    job.until_checkpoint_after(1)
    killed: list[Times] = []
    deleted: list[Times] = []
    for _ in range(RUNS):
        killed.append(measured(job, job.kill_driver))
        deleted.append(measured(job, job.delete_driver))
    told("driver process killed", killed)
    told("driver pod deleted", deleted)
    assert job.status["attempt"] == 1 + RUNS
    job.finish()
    job.check()
