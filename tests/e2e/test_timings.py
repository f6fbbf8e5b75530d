"""How long a job is away when its driver or an executor is lost, with 1 GiB of state a slot: ten runs of each kind,
and where the time goes.

A killed process is followed by the same pod's container, a deleted pod by a new attempt, a deleted executor by another
one of the same driver. Each kill meets a fresh pod, so that it is not the kubelet's waiting time between crashes that
is measured. The budgets, to the first committed epoch, are printed beside what was found, not asserted: the figures are
those of the machine, whatever else it does.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.nodes import large
from support.nodes.large import LargeJob
from support.nodes.node_job import IN_THE_CLUSTER, MOUNT, merged
from support.nodes.pod_logs import PodLogs

RUNS = int(os.environ.get("SPARKSTATE_E2E_RUNS", "10"))
STATE_MIB = int(os.environ.get("SPARKSTATE_E2E_STATE_MIB", "2048"))
"""Of two slots."""
RECORDS = int(os.environ.get("SPARKSTATE_E2E_RECORDS", "5000"))
"""Of an epoch, one every two or three seconds. A job that falls behind is never back where it was, and what is timed is
what it was late with: two processors that also run node, control plane and storage barely keep up with 12,500."""
MANAGED = "512Mi"
"""Of a slot: half of its state. With the benchmark's tenth, which is for the figures under pressure, the pod's limit
leaves no room for the page cache, and what is timed is the disk."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 + 240 * RUNS)]
Times = dict[str, float]

STEPS = {
    "the state is claimed": "lineage ",
    "Spark is ready": "Spark is ready",
    "the slots have started": "the slots have started",
    "the state is restored": "their state is restored",
    "an epoch has committed": "is the first to commit",
}
"""What the driver's log says when each is reached."""
OF_THE_SAME_DRIVER = ("the slots have started", "the state is restored", "an epoch has committed")


@pytest.fixture(scope="module")
def large_input(tmp_path_factory: pytest.TempPathFactory) -> large.Prepared:
    """The state's keys, then as many passes over a quarter of them as the runs may take: files, and so epochs, of
    ``RECORDS`` each."""
    return large.prepared(
        tmp_path_factory.mktemp("large"), STATE_MIB, passes=3 + -(-RUNS // 3), rows_per_file=4 * RECORDS
    )


def measured(
    job: LargeJob,
    logs: PodLogs,
    on_its_disk: bool,
    lose: Callable[[], float],
    steps: Iterable[str] = tuple(STEPS),
) -> Times:
    """Loses a pod or process, and returns the seconds from then to each step of the job's return. ``on_its_disk``: the
    state has to be found there. ``lose`` returns the Unix time of the loss."""
    newest = int(job.status["lastCheckpoint"]["id"])
    began = lose()
    last = STEPS["an epoch has committed"]
    lines = job.cluster.until(
        lambda: logs.since(began, job.namespace, "driver", last), f"the driver says {last!r}", 240, 1.0
    )
    found = {step: next(seconds for line, seconds in lines.items() if STEPS[step] in line) for step in steps}
    print("  ".join(f"{step} {seconds:.1f} s" for step, seconds in found.items()), flush=True)
    restored = next(line for line in lines if STEPS["the state is restored"] in line)
    print(restored, flush=True)
    assert not on_its_disk or " 0.0 MiB of them" not in restored
    # Of two, one may have been under way when the driver was lost.
    job.until(
        lambda now: int(now["lastCheckpoint"]["id"]) > newest + 1, "there is a checkpoint", 240, every_s=1.0
    )
    return found


def deleting(job: LargeJob, role: str) -> Callable[[], float]:
    """The loss of the newest pod of that role, which begins when the API server is asked for it: kubectl itself takes
    seconds on a busy machine. A foreign cluster does not tell; there it begins with the command."""

    def lost() -> float:
        pod = job.pods(role)[-1]
        if job.cluster.foreign:
            began = time.time()
            job.delete(pod)
            return began
        mark = job.cluster.audit.mark()
        job.delete(pod)
        name = pod["metadata"]["name"]
        deletions = (one for one in job.cluster.audit.writes(mark) if one.verb == "delete")
        return next(one.received for one in deletions if one.name == name)

    return lost


def told(what: str, budget_s: int, runs: Sequence[Mapping[str, float]]) -> None:
    """Prints median and maximum of each step, from the loss on."""
    for step in runs[0]:
        seconds = [run[step] for run in runs]
        print(
            f"{what}: until {step:<24} median {statistics.median(seconds):5.1f} s, maximum {max(seconds):5.1f} s",
            flush=True,
        )
    reached = max(run["an epoch has committed"] for run in runs) <= budget_s
    print(f"{what}: budget {budget_s} s {'kept' if reached else 'missed'} in {len(runs)} runs", flush=True)


TIMED_CLUSTER = merged(IN_THE_CLUSTER, {"sparkConf": {"spark.kubernetes.executor.request.cores": "400m"}})


@dataclass(frozen=True)
class Losses:
    """What a job loses, by turns, and what a run of it looks like."""

    what: tuple[str, ...]
    budget_s: int
    spec: Mapping[str, Any] = field(default_factory=dict)
    cpu: str = "900m"
    interval_s: float = 3.0
    """Between two files, so that they last as long as the runs."""
    storage: Mapping[str, Any] = field(default_factory=lambda: {"sizeLimit": "12Gi"})

    @property
    def on_its_disk(self) -> bool:
        """Whether what slots left outlives every loss: those of the other executor at least."""
        return self.storage is A_VOLUME or EXECUTOR in self.what


AT_ONCE = {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 1000, "delay": "1s"}}}
"""The default waits longer after every loss of the same driver."""
KILLED, DELETED, EXECUTOR = "driver process killed", "driver pod deleted", "executor pod deleted"
A_VOLUME = {"paths": [f"{MOUNT}/disk"]}
"""Of a claim that outlives the pods."""
LOSSES = (
    pytest.param(Losses((KILLED, DELETED), 15, interval_s=2.0), id="local"),
    pytest.param(Losses((KILLED, DELETED), 15, interval_s=2.0, storage=A_VOLUME), id="volume"),
    pytest.param(Losses((KILLED, DELETED), 35, TIMED_CLUSTER, "400m"), id="cluster"),
    pytest.param(Losses((EXECUTOR,), 35, merged(TIMED_CLUSTER, AT_ONCE), "400m"), id="executors"),
)


@pytest.mark.parametrize("losses", LOSSES)
def test_how_long_a_job_is_away_when_a_part_of_it_is_lost(
    make_large: Callable[..., LargeJob], large_input: large.Prepared, logs: PodLogs, losses: Losses
) -> None:
    job = make_large(
        large_input,
        losses.cpu,
        **losses.spec,
        checkpointing={"interval": "5s"},
        localStorage=losses.storage,
        managedMemoryPerSlot=MANAGED,
    )
    job.release_first(large_input.files_of_a_pass)
    job.apply()
    job.until_rows(large_input.plan.keys, 600)
    # With little state all rows are out before the first checkpoint is in the status.
    job.until_checkpoint_after(int((job.status.get("lastCheckpoint") or {}).get("id", 0)))
    job.feed(losses.interval_s)
    how: dict[str, tuple[Callable[[], float], tuple[str, ...]]] = {
        KILLED: (job.kill_driver, tuple(STEPS)),
        DELETED: (deleting(job, "driver"), tuple(STEPS)),
        EXECUTOR: (deleting(job, "executor"), OF_THE_SAME_DRIVER),
    }
    found: dict[str, list[Times]] = {}
    for _ in range(RUNS):
        for what in losses.what:
            found.setdefault(what, []).append(measured(job, logs, losses.on_its_disk, *how[what]))
    for what, runs in found.items():
        told(what, losses.budget_s, runs)
    assert job.status["attempt"] == 1 + len(found.get(DELETED, ()))
    job.finish(600 + 60 * RUNS)
    job.check()
