"""A snapshot's life by chance: what each look sees is chosen by whoever calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from support.scene.decisions import NOW, job, pod, revision, running_status

from sparkstate_operator import actions, dependants, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.core.transitions import Step
from sparkstate_operator.decide import snapshot, snapshot_registering

Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several."""
URI = "s3://bucket/state/savepoints/savepoint-1"
SAVED: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"status": "PENDING"},
    {"status": "IN_PROGRESS"},
    {"status": "COMPLETED", "location": URI, "epoch": 7},
    {"status": "FAILED", "failure": "disk full"},
)
REFUSALS = tuple(observed.TriggerRefusal("no such folder", for_good) for for_good in (True, False))
VERBS = (snapshot_registering.VERIFY, actions.DELETE, actions.GIVE_UP)
RESULTS: tuple[dict[str, Any], ...] = (
    {"ok": True},
    {"ok": False, "reason": "StorageUnavailable", "message": "away"},
    {"ok": False, "reason": "CorruptData", "message": "damaged"},
)


@dataclass
class Life:
    """One snapshot: of a job that may run, or of a savepoint that is there."""

    pick: Pick
    status: dict[str, Any] = field(default_factory=dict)
    generation: int = 1
    deleted_at: datetime | None = None
    now: datetime = NOW

    def steps(self, looks: int) -> Iterator[Step]:
        """What its phase goes through in so many looks."""
        taken = {"jobRef": {"name": "orders"}, "backoffLimit": self.pick((0, 2))}
        spec = self.pick((taken, {"uri": URI}))
        odd = self.pick(({"template": {"spec": {"containers": "none"}}}, {"s3": "minio"}, *[{}] * 6))
        spec = {**spec, **odd}
        spec = {**spec, "deletionPolicy": self.pick(("Retain", "Delete"))}
        for _ in range(looks):
            self.generation += self.pick((0, 0, 1))
            if self.deleted_at is None and self.pick(range(12)) == 0:
                self.deleted_at = self.now
            decision = snapshot.decide(self.around(spec), self.pick((revision(), revision(), None)), Config())
            yield from decision.steps
            self.status = dict(decision.status)
            self.now += timedelta(seconds=self.pick((0, 1, 30, 900)))

    def around(self, spec: dict[str, Any]) -> observed.ObservedSnapshot:
        one = observed.Snapshot(
            name="savepoint",
            uid="s-1",
            resource_version="1",
            generation=self.generation,
            created=NOW,
            spec=spec,
            status=self.status,
            labels={},
            annotations={},
            finalizers=(labels.FINALIZER,),
            deleting_at=self.deleted_at,
        )
        result = self.pick(RESULTS)
        other = dataclasses.replace(one, name="other", uid="s-2", status={"phase": "InProgress"})
        failed = not result["ok"] and self.pick((True, False))
        ended = self.now - timedelta(seconds=self.pick((0, 3600)))
        commands = tuple(
            observed.Command(
                naming.command_job("savepoint", "s-1", verb),
                "t",
                "1",
                verb,
                result["ok"],
                failed,
                result,
                ended,
            )
            for verb in VERBS
        )
        report = self.pick((None, "RUNNING", "RUNNING", "RESTORING"))
        running = job(self.pick((running_status(), running_status(intent={"action": "upgrade"}))))
        return observed.ObservedSnapshot(
            one,
            self.now,
            self.pick((running, running, running, None)),
            pod(),
            observed.Report({"phase": report}, self.pick(SAVED)) if report else None,
            others=(other,) if self.pick(range(8)) == 0 else (),
            commands=self.pick(((), commands)),
            namespace_terminating=self.pick(range(12)) == 0,
            refusal=self.pick((*REFUSALS, *[None] * 6)),
            needed_by="" if self.status.get("reason") == dependants.GOES else self.pick(("other", *[""] * 7)),
        )
