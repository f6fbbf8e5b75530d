"""A job's life by chance: what each look sees is chosen by whoever calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from support.scene.decisions import NOW, ended, job, pod, revision, trace

from sparkstate_operator import actions, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming
from sparkstate_operator.core.transitions import Step
from sparkstate_operator.decide import decide

Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several."""

SPECS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"image": "example/job:2"},
    {"image": "example/job:2", "upgradeMode": "savepoint"},
    {"state": "suspended"},
    {"state": "suspended"},
    {"restoreFrom": {"snapshotRef": {"name": "s-1"}}},
    {"restoreFrom": {"snapshotRef": {"name": "s-1"}}, "state": "suspended"},
)
WANTED = [(spec, revision(**spec)) for spec in SPECS]
REVISIONS = {found.name: found for _, found in WANTED}
DEAD = {"phase": "Failed", "ready": False}
PODS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"phase": "Pending", "ready": False, "node": ""},
    {"phase": "Pending", "ready": False, "waiting": "ImagePullBackOff"},
    {"waiting": "CrashLoopBackOff", "ready": False, "last_ended": ended(1, "SlotLost"), "restarts": 9},
    {"phase": "Succeeded", "ready": False, "ended": ended(0, "Finished")},
    {"phase": "Succeeded", "ready": False, "ended": ended(0, "Suspended")},
    {**DEAD, "ended": ended(1, "SlotLost")},
    {**DEAD, "ended": ended(1, "UserCodeError")},
    {**DEAD, "ended": ended(3, "RestoreBlocked")},
    {**DEAD, "ended": ended(4, "Fenced")},
    {**DEAD, "reason": "NodeLost"},
    {"deleting_at": NOW + timedelta(seconds=30)},
    {"deleting_at": NOW - timedelta(hours=1), "ready": False},
)
REPORTS = (None, "RUNNING", "RUNNING", "PAUSED", "RECOVERING", "RESTORING", "STARTING")
STORED = {"ok": True, "found": True, "lineage": "00aa", "attempt": 5, "problem": None, "restore_point": None}
POINT = {"kind": "checkpoint", "url": "s3://b/9", "id": 9, "epoch": 9, "timestamp_ms": 1_767_268_800_000}
ANSWERS = (
    {"ok": True, "found": False},
    STORED,
    {**STORED, "restore_point": POINT},
    {**STORED, "restore_point": {**POINT, "drained": True}},
)


@dataclass
class Life:
    """One job. ``forgets``: its status may be lost, or come from a backup; then pods are newer than it."""

    pick: Pick
    forgets: bool
    status: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    accepts: plan.Revision = WANTED[0][1]
    generation: int = 1
    deleted: bool = False
    now: datetime = NOW
    backups: list[dict[str, Any]] = field(default_factory=lambda: [{}])

    def steps(self, looks: int) -> Iterator[Step]:
        """What its phase goes through. ``looks``: at most so many."""
        for number in range(looks):
            if self.pick(range(4)) == 0:
                (self.spec, self.accepts), self.generation = self.pick(WANTED), self.generation + 1
            self.deleted = self.deleted or self.pick(range(25)) == 0
            if self.forgets and self.pick(range(6)) == 0:
                self.status = self.pick(self.backups)
            decision = self.decided(first=number == 0 and self.pick((True, True, False)))
            yield from decision.steps
            self.status = dict(decision.status)
            self.backups.append(self.status)
            self.now += timedelta(seconds=self.pick((0, 1, 1, 300)))

    def decided(self, *, first: bool) -> actions.Decision:
        attempt = self.status.get("attempt") or 0
        number = attempt + (self.pick((0, 0, 1)) if self.forgets else 0)
        drivers = (pod(number, **self.pick(PODS)),) if number and self.pick(range(3)) else ()
        gone = pod(attempt, **self.pick(PODS))
        snapshot = observed.Snapshot(
            "s-1", "s", "1", 1, NOW, {}, {"phase": "Completed", "uri": "s3://b/1"}, {}, {}, ()
        )
        asked = observed.Command(
            naming.command_job("orders", "uid-1", "restore-info"),
            "t",
            "1",
            "",
            True,
            False,
            self.pick(ANSWERS),
        )
        report = self.pick(REPORTS)
        wanted = self.pick((True, True, True, True, False))
        seen = observed.ObservedState(
            job(
                self.status,
                generation=self.generation,
                deleting=self.deleted,
                **({"finalizers": ()} if first and not self.deleted else {}),
                **self.spec,
            ),
            self.now,
            drivers=drivers,
            config_maps=(trace(number),) if number and self.pick((True, False)) else (),
            sightings={attempt: gone} if self.pick((True, False)) else {},
            snapshots=(snapshot,) if self.pick((True, False)) else (),
            commands=(asked,) if self.pick((True, False)) else (),
            report=observed.Report({"phase": report}) if report and drivers else None,
            never_made=self.pick((0, number)),
            unwritten=first or not self.forgets or self.pick((False, False, True)),
        )
        return decide(
            seen, REVISIONS, self.accepts if wanted else None, "" if wanted else "the spec is wrong", Config()
        )
