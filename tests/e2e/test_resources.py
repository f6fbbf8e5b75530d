"""User code that takes more than it was given, of memory, of the disk: somebody ends it, and the output is exact. And
a job that has far more state than memory, and takes no more than it was given."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.nodes import bad_code, large
from support.nodes.flights import FlightsJob
from support.nodes.large import LargeJob

MINUTES = int(os.environ.get("SPARKSTATE_E2E_MINUTES", "15"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 + 60 * MINUTES)]
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


def test_state_of_ten_times_the_managed_memory_stays_within_the_computed_limit(
    make_large: Callable[..., LargeJob], tmp_path: Path
) -> None:
    data = large.prepared(tmp_path, 1280, passes=2 + MINUTES // 2, rows_per_file=60_000)
    job = make_large(
        data,
        managedMemoryPerSlot="64Mi",
        checkpointing={"interval": "15s"},
        localStorage={"sizeLimit": "8Gi"},
    )
    job.apply()
    job.feed(interval_s=MINUTES * 60 / len(data.files))
    job.until_rows(data.rows, MINUTES * 60 + 300)
    status = job.status
    memory = job.driver_memory()
    mib = f"{memory.peak >> 20} MiB, page cache included, of {memory.limit >> 20} MiB"
    print(f"{MINUTES} minutes: at most {mib}", flush=True)
    assert (status["attempt"], (status.get("restarts") or {}).get("total", 0)) == (1, 0)
    assert memory.oom_kills == 0
    job.check()
