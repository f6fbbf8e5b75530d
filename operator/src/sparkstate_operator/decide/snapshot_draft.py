"""A decision about a StateSnapshot in the making."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sparkstate_operator import actions, clock, kept_name, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import naming, placing, shapes, templates
from sparkstate_operator.decide import commanding
from sparkstate_operator.decide.draft import Pending
from sparkstate_operator.model.snapshot import StateSnapshotSpec
from sparkstate_operator.plan import Revision
from sparkstate_spec import units

IN_FLIGHT = ("Triggered", "InProgress")
UNKNOWN = ("Timeout", "JobNotFound")
"""Reasons of failed snapshots whose savepoint may nevertheless exist, or be completed later."""


class SnapshotDraft(Pending):
    """A decision about a snapshot."""

    def __init__(self, seen: observed.ObservedSnapshot, revision: Revision | None, config: Config) -> None:
        super().__init__(seen.snapshot.status)
        self.seen, self.revision, self.config = seen, revision, config
        self.snapshot = seen.snapshot
        self.spec, self.wrong = shapes.fitting(seen.snapshot.spec, StateSnapshotSpec)
        """The readable part of its spec, and the faults of the rest."""

    def fill(self, **fields: Any) -> None:
        """Several fields at once."""
        for name, value in fields.items():
            self.put(name, value)

    def age_s(self, name: str, default: datetime) -> float:
        """Seconds since the time in that field."""
        return (self.seen.now - (clock.parse(self.status.get(name)) or default)).total_seconds()

    def waited_s(self) -> float:
        """Seconds since it was first asked for, or else created."""
        return self.age_s("triggeredTime", self.snapshot.created)

    def timeout_s(self) -> float:
        """How long the savepoint may take, with all tries."""
        told = self.spec.get("timeout")
        if told:
            return units.duration_s(str(told))
        return self.revision.savepoint_s if self.revision else 600.0

    @property
    def failures(self) -> int:
        """How many tries have failed before this one."""
        return int(self.status.get("failures") or 0)

    @property
    def reason(self) -> str:
        """The status' stable word."""
        return str(self.status.get("reason") or "")

    @property
    def job(self) -> observed.Job | None:
        """The job that it is taken from; None if that one is gone."""
        job = self.seen.job
        return job if job is not None and job.uid == self.status.get("jobUid") else None

    @property
    def named(self) -> observed.Job | None:
        """The job that its spec names; None if there is none, or another one has its name by now."""
        job, reference = self.seen.job, self.spec.get("jobRef") or {}
        return job if job is not None and reference.get("uid") in (None, job.uid) else None

    def answer(self) -> observed.Document:
        """The driver's answer about the trigger; empty if it does not answer, or knows nothing of it."""
        report = self.seen.report
        return (report.savepoint or {}) if report is not None else {}

    @property
    def unknown(self) -> bool:
        """Whether the savepoint was asked for, and nobody knows what has become of it."""
        told = self.status.get("triggerId") and not self.status.get("uri")
        return bool(told) and (self.phase in IN_FLIGHT or self.reason in UNKNOWN)

    def access(self, s3: Any, service_account: Any) -> dict[str, Any] | None:
        """How the data is reached, to be written down: the job may be gone when the data has to be deleted."""
        names = ("endpoint", "region", "pathStyle", "secretRef")
        address = {
            name: dict(s3[name]) if name == "secretRef" else s3[name]
            for name in names
            if s3 and s3.get(name) is not None
        }
        found: dict[str, Any] = {"s3": address, "serviceAccountName": service_account, **self._of_job()}
        return {name: value for name, value in found.items() if value} or None

    def _of_job(self) -> dict[str, Any]:
        job, revision = self.seen.job, self.revision
        if job is None or revision is None or not self.spec.get("jobRef"):
            return {}
        urls = (
            *placing.urls_of(revision.resolved),
            self.spec.get("storage"),
            self.status.get("uri"),
        )
        return {
            "template": placing.of_job(revision.resolved, urls),
            "storage": revision.get("checkpointing.storage"),
            "job": f"{kept_name.of_state(self.config, job)}/{job.namespace}/{job.name}",
        }

    def command(self, verb: str) -> observed.Command | None:
        """The command of that verb, if it is there."""
        name = naming.command_job(self.snapshot.name, self.snapshot.uid, verb)
        return next((command for command in self.seen.commands if command.name == name), None)

    def create_command(self, verb: str, *arguments: str, since: datetime) -> None:
        """Make a command about the data. ``since``: when it was first wanted."""
        name = naming.command_job(self.snapshot.name, self.snapshot.uid, verb)
        limit_s = commanding.limit_s((self.seen.now - since).total_seconds())
        self.acts.append(actions.CreateCommand(name, verb, arguments, limit_s, self.template()))

    def template(self) -> dict[str, Any]:
        """The pod template of its commands: as the spec says now, else as was written down."""
        told = self.spec.get("template")
        if isinstance(told, dict) and not self.template_problems():
            return told
        return dict((self.status.get("access") or {}).get("template") or {})

    def template_problems(self) -> str:
        """Why ``spec.template`` cannot be merged; empty if it can."""
        told = self.spec.get("template") or {}
        problems = list(templates.judged(told, "spec.template", placing.CONTAINER))
        return "; ".join(str(problem) for problem in problems)
