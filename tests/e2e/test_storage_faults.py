"""Storage that breaks at the worst moment of a checkpoint; the output is exact afterwards."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.nodes import bad_code
from support.nodes.flights import FlightsJob
from support.nodes.node_job import KINDS

from sparkstate_tools.operating.cluster_jobs import Bucket
from sparkstate_tools.servers.fault_proxy import FaultProxy, Schedule
from sparkstate_tools.servers.http_wire import Message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BOTH_KINDS = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
MakeJob = Callable[..., FlightsJob]
METADATA = r"^PUT \S*_metadata"
PART = r"^PUT \S*partNumber="
IN_PARTS: dict[str, Any] = {"code": bad_code.padded(), "shards": 2, "managedMemoryPerSlot": "256Mi"}
"""The padding of a slot comes in one epoch, fits into its overlay, and is one file of RocksDB: above 16 MiB, so that S3
gets it in parts. With the 128 MiB of the example, it may become several files, all of them too small for that."""


@dataclass(frozen=True)
class Aimed(Schedule):
    """The first ``times`` requests like this break in this way, everything else passes."""

    pattern: str = ""
    how: str = ""
    times: int = 1
    hit: list[str] = field(default_factory=list)

    def fault(self, request: Message, nth: int) -> str | None:
        """See ``Schedule``."""
        said = f"{request.words[0]} {request.words[1]}"
        if len(self.hit) >= self.times or not re.search(self.pattern, said):
            return None
        self.hit.append(said)
        return self.how


@BOTH_KINDS
@pytest.mark.parametrize("how", ["cut-request", "cut-after"])
@pytest.mark.parametrize(
    ("pattern", "times"), [pytest.param(PART, 12, id="multipart"), pytest.param(METADATA, 6, id="metadata")]
)
def test_an_upload_that_is_cut_again_and_again_costs_a_checkpoint_at_most(
    make_job: MakeJob,
    proxy: FaultProxy,
    proxied: Bucket,
    pattern: str,
    times: int,
    how: str,
    kind: dict[str, Any],
) -> None:
    aimed = Aimed(pattern=pattern, how=how, times=times)
    proxy.use(aimed)
    job = make_job(through=proxied, **(IN_PARTS if pattern == PART else {}), **kind)
    job.apply()
    job.feed(interval_s=5.0)
    job.until(
        lambda status: len(aimed.hit) == times and status.get("lastCheckpoint"), "it was cut so often", 240
    )
    newest = job.status["lastCheckpoint"]["id"]
    job.until_checkpoint_after(newest + 1, 240)
    job.finish()
    job.check()
    assert proxy.happened != []


@BOTH_KINDS
def test_a_driver_that_is_killed_in_a_checkpoint_is_followed_by_another(
    make_job: MakeJob, proxy: FaultProxy, proxied: Bucket, kind: dict[str, Any]
) -> None:
    armed, uploading, killed = threading.Event(), threading.Event(), threading.Event()

    def watch(request: Message) -> None:
        if armed.is_set() and re.search(METADATA, f"{request.words[0]} {request.words[1]}"):
            armed.clear()
            uploading.set()
            killed.wait(60)
            raise ConnectionError("its client is dead")

    proxy.watch = watch
    job = make_job(through=proxied, **kind)
    job.apply()
    job.feed(interval_s=5.0)
    newest = int(job.until_checkpoint_after(1, 300)["lastCheckpoint"]["id"])
    armed.set()
    assert uploading.wait(120)
    job.kill_driver()
    killed.set()
    job.until(
        lambda now: now["phase"] == "Running" and now["lastCheckpoint"]["id"] > newest + 1,
        f"it runs and completed checkpoints after {newest}",
        240,
    )
    assert job.status["restarts"]["kubelet"] + job.status["restarts"].get("operator", 0) > 0
    job.finish()
    job.check()
