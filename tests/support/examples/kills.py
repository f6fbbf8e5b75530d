"""Where an example's job is when a test kills it, and when it is back."""

from __future__ import annotations

from typing import Any

from sparkstate_tools.demo import job_process


def in_the_middle(job: job_process.JobProcess) -> dict[str, Any] | None:
    """The status and the driver's ``pid``, once there is a checkpoint and some epochs have passed."""
    status, driver = job.status(), job.driver()
    if status is None or driver is None or status["last_checkpoint"] is None or status["epoch"] < 6:
        return None
    return {**status, "pid": driver[0]}


def restored(job: job_process.JobProcess, killed_pid: int) -> dict[str, Any] | None:
    """The status, once another driver than the killed one runs."""
    status, driver = job.status(), job.driver()
    if status is None or driver is None or driver[0] == killed_pid or status["phase"] != "RUNNING":
        return None
    return status
