"""Other operators in the cluster: which jobs are theirs, and whether they are still there,
by their Leases (RFC 0023)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sparkstate_operator import clock, custom_resources, errors, labels, managing, observed
from sparkstate_operator.core import deadlines
from sparkstate_operator.edges import kube as k

GONE_S = 600.0
"""If a Lease is missing, or has not been renewed for this long, its operator is gone. An upgrade, a lost node, or the
pauses of the kubelet between two starts of a pod (300 s alone) keep an operator away for less."""
HELD_TIMES = 3
"""The operator counts as gone after this many times the duration of its Lease at the earliest."""
ASK_S = 15.0
"""Another operator's Lease is read this often at most, however many jobs bear its mark."""


@dataclass
class _SeenLease:
    version: str
    """Of its Lease; empty: there is none."""
    since_s: float
    """When it was first seen in that version."""
    asked_s: float
    notes: dict[str, str]
    gone_s: float = GONE_S
    """How long it may stay as it is."""
    hidden: bool = False
    """Whether it may not be read."""


@dataclass(frozen=True)
class Others:
    """A job or a snapshot that is not ours."""

    about: observed.Job | observed.Snapshot
    manager: managing.Manager | None
    """Its manager; None: it is of another class."""
    waits: bool = False
    """Whether its class is not certain yet, because its job's class counts and the job does not exist yet."""


class Neighbours:
    """Reads Leases, and remembers when each last changed, by this process's own clock: other clocks may be skewed."""

    def __init__(self, kube: k.Kube, own: managing.Manager, clock_: clock.Clock) -> None:
        self._kube = kube
        self._own = own
        self._clock = clock_
        self._seen: dict[tuple[str, str], _SeenLease] = {}

    async def is_there(self, other: managing.Manager, namespace: str, *, ending: bool = False) -> bool:
        """Whether it looks after objects of its mark in that namespace; ``ending``: after those that are being deleted.
        An operator whose Lease we may not read counts as there, because a person can tell us otherwise."""
        now_s = self._clock.monotonic()
        seen = self._seen.get((other.namespace, other.name))
        if seen is None or now_s - seen.asked_s >= ASK_S:
            seen = self._seen[other.namespace, other.name] = await self._read(other, seen, now_s)
        if seen.hidden:
            return True
        if now_s - seen.since_s >= seen.gone_s:
            return False
        return managing.looks_after(seen.notes, other, namespace, ending=ending)

    async def _read(self, other: managing.Manager, seen: _SeenLease | None, now_s: float) -> _SeenLease:
        try:
            return _updated(seen, await self._kube.get(k.LEASES, other.namespace, other.name), now_s)
        except errors.Forbidden:
            return _SeenLease("", now_s, now_s, {}, hidden=True)

    async def of_job(self, job: observed.Job) -> Others | None:
        """Why a job is not ours; None if it is."""
        if (holder := await self._ends(job, job.namespace)) is not None:
            return self._unless_own(job, holder)
        return await self._others(job, job.namespace)

    async def of_snapshot(self, namespace: str, snapshot: observed.Snapshot) -> Others | None:
        """Why a snapshot is not ours; None if it is. It belongs to its job's operator, and without a job it
        goes by its own labels. A complete snapshot of our own costs no request until it is deleted, because
        there is nothing to do."""
        if (holder := await self._ends(snapshot, namespace)) is not None:
            return self._unless_own(snapshot, holder)
        own = snapshot.annotations.get(labels.MANAGER) == self._own.text
        if own and snapshot.phase == "Completed" and snapshot.deleting_at is None:
            return None
        reference = custom_resources.told(snapshot.spec, "jobRef.name")
        body = await self._kube.get(k.JOBS, namespace, reference) if reference else None
        if body is None:
            alone = await self._others(snapshot, namespace)
            if alone is None or alone.manager is not None or not reference:
                return alone
            return dataclasses.replace(alone, waits=snapshot.phase in ("", "Pending"))
        found = await self.of_job(custom_resources.job_of(body))
        if found is None:
            return None
        left = found.manager is None or await self._holds(found.manager, snapshot, namespace)
        return Others(snapshot, found.manager) if left else None

    async def _ends(self, about: observed.Job | observed.Snapshot, namespace: str) -> managing.Manager | None:
        """The operator that ends its deletion: the one that marked it, whatever class it, or its job, was given since.
        If nobody serves the new class, the finalizer would otherwise stay for ever. None: it is not being deleted, or
        its class decides."""
        holder = managing.marked(about) if about.deleting_at is not None else None
        if holder is None or holder.is_same(self._own):
            return holder
        return holder if await self._holds(holder, about, namespace) else None

    async def _holds(
        self, other: managing.Manager, about: observed.Job | observed.Snapshot, namespace: str
    ) -> bool:
        """Whether an object of its mark, or the end of it, is left to that operator. If its Lease may not be read, a
        deletion is not left to it for ever: the operator may be gone together with its namespace, and a deletion has to
        end without a person."""
        begun = about.deleting_at
        if not await self.is_there(other, namespace, ending=begun is not None):
            return False
        hidden = self._seen[other.namespace, other.name].hidden
        return begun is None or not hidden or self._clock.now() < begun + _longest(about)

    def _unless_own(self, about: observed.Job | observed.Snapshot, holder: managing.Manager) -> Others | None:
        return None if holder.is_same(self._own) else Others(about, holder)

    async def _others(self, about: observed.Job | observed.Snapshot, namespace: str) -> Others | None:
        operator_class = about.labels.get(labels.OPERATOR_CLASS, "")
        if operator_class != self._own.operator_class:
            return Others(about, None)
        other = managing.other_manager(about, operator_class, self._own)
        if other is None or not await self._holds(other, about, namespace):
            return None
        return Others(about, other)


def _longest(about: observed.Job | observed.Snapshot) -> timedelta:
    """The longest time that a deletion takes if its holder is there, which ends it by the deadline."""
    path = "deadline" if isinstance(about, observed.Snapshot) else "deletion.deadline"
    return deadlines.of_deletion(custom_resources.told(about.spec, path)) + timedelta(seconds=GONE_S)


def _updated(seen: _SeenLease | None, lease: dict[str, Any] | None, now_s: float) -> _SeenLease:
    """Every operator that marks jobs notes the cluster's name on its Lease, so a Lease without
    that note counts as none."""
    meta = lease["metadata"] if lease is not None else {}
    notes = meta.get("annotations") or {}
    version = str(meta.get("resourceVersion", "")) if labels.CLUSTER in notes else ""
    if not version:
        notes = {}
    since_s = seen.since_s if seen is not None and not seen.hidden and seen.version == version else now_s
    gone_s = seen.gone_s if seen is not None else GONE_S
    spec = (lease or {}).get("spec") or {}
    # Only with a holder: a leader that ends leaves a duration of 1 s behind, which says nothing about the next one.
    if version and spec.get("holderIdentity"):
        gone_s = max(GONE_S, HELD_TIMES * float(spec.get("leaseDurationSeconds") or 0))
    return _SeenLease(version, since_s, now_s, notes, gone_s)
