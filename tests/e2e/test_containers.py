"""Containers beside the driver, and before it: they end, hang and crash, and the driver alone decides about its job."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from support.nodes.flights import FlightsJob
from support.nodes.node_job import merged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeJob = Callable[..., FlightsJob]
ENDS = "print('done')"
CRASHES = "import sys, time; time.sleep(2); sys.exit('no such bucket')"
HANGS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(36000)"


def running(name: str, code: str, image: str) -> dict[str, Any]:
    """A container under the restricted profile that runs some Python."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }
    command = ["python", "-c", code]
    what = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": command}
    return {**what, "securityContext": security, "terminationMessagePolicy": "FallbackToLogsOnError"}


def add(
    job: FlightsJob, *, beside: dict[str, str] | None = None, before: dict[str, str] | None = None
) -> None:
    """Adds sidecars and init containers, by name and code, to the driver's template."""
    template = job.manifest()["spec"]["driverTemplate"]
    containers = [*template["spec"]["containers"]]
    containers += [running(name, code, job.image) for name, code in (beside or {}).items()]
    inits = [running(name, code, job.image) for name, code in (before or {}).items()]
    added = {"spec": {"containers": containers, "initContainers": inits}}
    job.changes["driverTemplate"] = merged(template, added)


def degraded(status: dict[str, Any]) -> tuple[str, str] | None:
    """Reason and message of the condition, where it holds."""
    for one in status.get("conditions") or ():
        if one["type"] == "Degraded" and one["status"] == "True":
            return one["reason"], one["message"]
    return None


def test_sidecars_that_end_crash_and_hang_leave_the_job_to_its_driver(make_job: MakeJob) -> None:
    job = make_job()
    add(job, beside={"ends": ENDS, "crashes": CRASHES, "hangs": HANGS}, before={"prepares": ENDS})
    # The deletion at the end waits for the one that hangs. The next attempt waits for the driver alone: it would
    # otherwise come 120 s after the deletion, when the fence is over.
    job.changes["driverTemplate"]["spec"]["terminationGracePeriodSeconds"] = 20
    job.apply()
    job.feed(interval_s=5.0)
    first = job.until_checkpoint_after(0, 300)
    assert first["phase"] == "Running"
    told = job.until(degraded, "it is told that a sidecar crashes", 120)
    reason, message = degraded(told) or ("", "")
    assert reason == "CrashLoopBackOff"
    assert "container crashes" in message
    assert "no such bucket" in message

    killed = job.status["lastCheckpoint"]["id"]
    job.kill_driver()
    job.until_checkpoint_after(killed + 1)

    began = time.monotonic()
    job.delete_driver()
    job.until(lambda status: status["attempt"] == 2, "there is another attempt", 60)
    back = job.until(lambda status: status["phase"] == "Running", "it runs", 120)
    print(f"{time.monotonic() - began:6.1f} s from the deletion of the driver's pod until then", flush=True)
    job.until_checkpoint_after(back["lastCheckpoint"]["id"])
    job.finish()
    job.check()


def test_a_job_whose_input_ends_is_finished_although_a_sidecar_hangs(make_job: MakeJob) -> None:
    job = make_job(trigger={"availableNow": True})
    add(job, beside={"hangs": HANGS})
    job.changes["driverTemplate"]["spec"]["terminationGracePeriodSeconds"] = 20
    job.release_first(len(job.files))
    job.apply()
    job.until_phase("Finished")
    job.cluster.until(lambda: not job.pods(), "its pod is asked to end", 60)
    job.cluster.until_gone("pod", f"{job.name}-driver-1", job.namespace, timeout_s=60)
    job.check()
    assert job.status["phase"] == "Finished"
    assert job.status["attempt"] == 1


def test_an_init_container_that_crashes_or_hangs_is_named_and_a_right_one_lets_the_job_run(
    make_job: MakeJob,
) -> None:
    job = make_job()
    job.feed(interval_s=5.0)
    add(job, before={"prepares": CRASHES})
    job.apply()
    # Not the first condition that comes: for a moment the pod has no node, as long as its claim is not bound.
    told = job.until(
        lambda status: "init container prepares" in (degraded(status) or ("", ""))[1],
        "it is told that an init container fails",
        120,
    )
    _, message = degraded(told) or ("", "")
    assert "no such bucket" in message

    job.changes.pop("driverTemplate")
    add(job, before={"prepares": HANGS})
    job.changes["driverTemplate"]["spec"]["terminationGracePeriodSeconds"] = 20
    job.apply()
    told = job.until(
        lambda status: "init container prepares" in status.get("message", ""),
        "it is told what is waited for",
        120,
    )
    assert told["phase"] in ("Starting", "Upgrading")

    job.changes.pop("driverTemplate")
    add(job, before={"prepares": ENDS})
    job.apply()
    job.until_checkpoint_after(0, 300)
    assert degraded(job.status) is None
    job.finish()
    job.check()
