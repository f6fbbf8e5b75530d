"""The memory that this process has of all jobs, and which of the events that it hears are news."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from sparkstate_operator import clock, inventory, job_pods, labels, observed
from sparkstate_operator.memory import Memory

SHOWN_S = 120.0
"""If the watch has not shown a pod of the inventory for this long, the pod may have gone between the two, and the
operator looks at its job."""
UNHEARD = observed.News(state=("never heard",))
"""Of a driver that this process has not asked yet: any answer is news, and so is silence."""


def is_first(memory: Memory, report: observed.Report | None) -> bool:
    """Whether a driver that this process has not asked before says that it runs, as the job's status has it. That is no
    more than progress, and waits for its turn; a driver that pauses or recovers does not."""
    return memory.driver.news is UNHEARD and report is not None and report.phase == "RUNNING"


class Key(NamedTuple):
    """An entry of the queue."""

    kind: Literal["job", "snapshot"]
    namespace: str
    name: str


class Memories:
    """One memory for each job. All of them can be lost."""

    def __init__(self, clock_: clock.Clock) -> None:
        self._clock = clock_
        self._of: dict[Key, Memory] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, key: Key) -> Memory:
        """Of the job with this key; an empty one where there is none yet."""
        return self._of.setdefault(key, Memory())

    def forget(self, key: Key) -> None:
        """The job is gone, or another operator's."""
        self._of.pop(key, None)

    def phases(self) -> list[str]:
        """Of all jobs that were looked at."""
        return [memory.phase for memory in list(self._of.values()) if memory.phase]

    def adopt(self, one: inventory.FoundJob, look_s: float) -> Key:
        """Takes over a job that was found running when the process began, as if it had been looked at. The first real
        look comes in ``look_s`` seconds, and compares its children for the first time."""
        key = Key("job", one.namespace, one.name)
        memory = self.of(key)
        memory.is_about(one.uid)
        memory.last.kept, memory.driver.endpoint, memory.stirred, memory.phase = (
            one.packed,
            one.endpoint,
            False,
            "Running",
        )
        memory.driver.news = UNHEARD
        memory.attempts.sightings[one.driver.attempt] = one.driver
        memory.echo.end(one.version)
        now_s = self._clock.monotonic()
        memory.dues.after_look(now_s, None, look_s)
        memory.last.snapshots = one.snapshots
        memory.last.listed, memory.last.listed_s = dict(one.pods), now_s
        return key

    def saw_pod(self, key: Key, body: Mapping[str, Any]) -> bool:
        """Notes a pod as the watch showed it: once a driver's pod is gone, this is all that anybody knows. False if the
        inventory had it in this same version."""
        meta = body["metadata"]
        if meta["labels"].get(labels.ROLE) == "driver":
            pod = job_pods.read(body)
            memory = self.of(key)
            memory.attempts.sightings[pod.attempt] = pod
            for attempt in sorted(memory.attempts.sightings)[:-3]:
                del memory.attempts.sightings[attempt]
        known = self._of.get(key)
        return known is None or known.last.listed.pop(meta["uid"], "") != str(meta["resourceVersion"])

    def listed_snapshot(self, key: Key, body: Mapping[str, Any]) -> bool:
        """Whether a snapshot in the list that a watch begins with is news to this job: its changes before
        the list came as no event. It is not news to a job that was never looked at, or if it belongs to an
        earlier job of that name."""
        meta, known = body["metadata"], self._of.get(key)
        uid = (meta.get("labels") or {}).get(labels.JOB_UID)
        if known is None or not known.uid or uid not in (None, known.uid):
            return False
        return str(meta["resourceVersion"]) not in known.last.snapshots

    def stir(self, key: Key, version: str = "") -> bool:
        """An event came, with the object itself in ``version``: the next step is a look at the whole job. False for the
        echo of our own write."""
        memory = self._of.get(key)
        if memory is None:
            return True
        if version and not memory.echo.is_news(version):
            return False
        memory.stirred, memory.last.kept = True, None
        return True

    def unshown(self, memory: Memory) -> bool:
        """Whether the watch should by now have shown all pods that the inventory had, but has left some out."""
        return bool(memory.last.listed) and self._clock.monotonic() - memory.last.listed_s >= SHOWN_S
