"""User code that takes more than it was given: of memory, of the disk. Somebody ends it, and the output is exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.kubernetes import bad_code
from support.kubernetes.flights import FlightsJob

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MakeJob = Callable[..., FlightsJob]


def test_a_leaking_function_is_killed_by_the_kernel_seen_and_restored(make_job: MakeJob) -> None:
    job = make_job(code=bad_code.leaking())
    job.apply()
    job.feed(interval_s=5.0)
    newest = int(job.until_checkpoint_after(1, 300)["lastCheckpoint"]["id"])
    bad_code.let(job, "leak")
    job.until(lambda _: bad_code.done(job, "leak"), "the function leaks", 60)
    # Where the kernel ends one process of the container, the engine sees it; where all of them, the operator.
    seen = job.until(
        lambda now: (
            now["phase"] == "Running"
            and (now.get("restarts") or {}).get("total", 0) > 0
            and now["lastCheckpoint"]["id"] > newest + 1
        ),
        "it was killed and goes on",
        300,
    )
    assert (
        seen.get("lastFailure", {}).get("reason") == "OOMKilled"
        or "out of memory" in job.driver_log().lower()
    )
    job.finish()
    job.check()


def test_a_job_that_fills_its_disk_is_evicted_and_restored(make_job: MakeJob) -> None:
    job = make_job(code=bad_code.filling(), localStorage={"sizeLimit": "512Mi"})
    job.apply()
    job.feed(interval_s=5.0)
    newest = int(job.until_checkpoint_after(1, 300)["lastCheckpoint"]["id"])
    bad_code.let(job, "fill")
    job.until(lambda _: bad_code.done(job, "fill"), "the function writes", 60)
    seen = job.until(
        lambda now: (
            now["phase"] == "Running" and now["attempt"] > 1 and now["lastCheckpoint"]["id"] > newest + 1
        ),
        "another attempt runs",
        400,
    )
    assert seen["lastFailure"]["reason"] == "Evicted"
    job.finish()
    job.check()
