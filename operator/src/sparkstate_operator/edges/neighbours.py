"""Other operators in the cluster: whether one that has marked a job is still there, by its Lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkstate_operator import clock, errors, managing
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


class Neighbours:
    """Reads Leases. Remembers when each last changed, by this process's own clock: others' may be skewed."""

    def __init__(self, kube: k.Kube, clock_: clock.Clock) -> None:
        self._kube = kube
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


def _updated(seen: _Seen | None, lease: dict[str, Any] | None, now_s: float) -> _Seen:
    meta = lease["metadata"] if lease is not None else {}
    version = str(meta.get("resourceVersion", ""))
    since_s = seen.since_s if seen is not None and seen.version == version else now_s
    return _Seen(version, since_s, now_s, meta.get("annotations") or {})
