"""Other operators in the cluster: which jobs are theirs, and whether they are still there, by their Leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkstate_operator import clock, errors, labels, managing, observed
from sparkstate_operator.edges import kube as k

GONE_S = 300.0
"""A Lease that is not renewed for this long, or not there, is that of an operator that is gone. Far longer than an
upgrade, or a node that is lost, keeps an operator away."""
ASK_S = 15.0
"""Its Lease is read this often at most, however many jobs bear its mark."""


@dataclass
class _Seen:
    version: str
    """Of its Lease; empty: there is none."""
    since_s: float
    """When it was first seen in that version."""
    asked_s: float
    notes: dict[str, str]


@dataclass(frozen=True)
class Others:
    """A job or a snapshot that is not ours."""

    about: observed.Job | observed.Snapshot
    manager: managing.Manager | None
    """Whose it is; None: it is of another class."""


class Neighbours:
    """Reads Leases. Remembers when each last changed, by this process's own clock: others' may be skewed."""

    def __init__(self, kube: k.Kube, own: managing.Manager, clock_: clock.Clock) -> None:
        self._kube = kube
        self._own = own
        self._clock = clock_
        self._seen: dict[tuple[str, str], _Seen] = {}

    async def is_there(self, other: managing.Manager, namespace: str) -> bool:
        """Whether it looks after objects of its mark in that namespace. Where its Lease may not be read it counts as
        there: a person can tell."""
        now_s = self._clock.monotonic()
        seen = self._seen.get((other.namespace, other.name))
        if seen is None or now_s - seen.asked_s >= ASK_S:
            try:
                lease = await self._kube.get(k.LEASES, other.namespace, other.name)
            except errors.Forbidden:
                return True
            seen = self._seen[other.namespace, other.name] = _updated(seen, lease, now_s)
        return now_s - seen.since_s < GONE_S and managing.looks_after(seen.notes, other, namespace)

    async def of_job(self, job: observed.Job) -> Others | None:
        """Why a job is not ours; None if it is."""
        return await self._others(job, job.namespace)

    async def of_snapshot(self, namespace: str, snapshot: observed.Snapshot) -> Others | None:
        """Why a snapshot is not ours: it goes with its job, and by itself where there is none. None if it is."""
        if snapshot.annotations.get(labels.MANAGER) == self._own.text:
            return None
        reference = (snapshot.spec.get("jobRef") or {}).get("name")
        body = await self._kube.get(k.JOBS, namespace, reference) if reference else None
        if body is None:
            return await self._others(snapshot, namespace)
        found = await self.of_job(observed.job_of(body))
        return None if found is None else Others(snapshot, found.manager)

    async def _others(self, about: observed.Job | observed.Snapshot, namespace: str) -> Others | None:
        operator_class = about.labels.get(labels.OPERATOR_CLASS, "")
        if operator_class != self._own.operator_class:
            return Others(about, None)
        other = managing.other_manager(about, operator_class, self._own)
        if other is None or not await self.is_there(other, namespace):
            return None
        return Others(about, other)


def _updated(seen: _Seen | None, lease: dict[str, Any] | None, now_s: float) -> _Seen:
    meta = lease["metadata"] if lease is not None else {}
    version = str(meta.get("resourceVersion", ""))
    since_s = seen.since_s if seen is not None and seen.version == version else now_s
    return _Seen(version, since_s, now_s, meta.get("annotations") or {})
