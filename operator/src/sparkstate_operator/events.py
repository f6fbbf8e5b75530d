"""Makes Events: their reasons are stable, and the same words are not repeated within ten minutes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.core import naming
from sparkstate_operator.edges.kube import Kind

QUIET_S = 600.0
KEPT = 4096


class Recorder:
    """Decides which notes become Events. Remembers the newest in memory only."""

    def __init__(self, clock_: clock.Clock, identity: str) -> None:
        self._clock = clock_
        self._identity = identity
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def body(
        self, kind: Kind, about: observed.Job | observed.Snapshot, namespace: str, note: actions.Note
    ) -> dict[str, Any] | None:
        """The Event to create; None if the same was told a moment ago."""
        now_s = self._clock.monotonic()
        key = (about.uid, note.reason, note.message)
        if now_s - self._told.get(key, -QUIET_S) < QUIET_S:
            return None
        self._told[key] = now_s
        self._told.move_to_end(key)
        while len(self._told) > KEPT:
            self._told.popitem(last=False)
        moment = self._clock.now()
        digest = naming.digest("/".join(key), 8)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name[:200]}.{int(moment.timestamp() * 1e6):x}{digest}",
                "namespace": namespace,
            },
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": about.name,
                "namespace": namespace,
                "uid": about.uid,
                "resourceVersion": about.resource_version,
            },
            "reason": note.reason,
            "message": note.message[:1024],
            "type": "Warning" if note.warning else "Normal",
            "firstTimestamp": clock.text(moment),
            "lastTimestamp": clock.text(moment),
            "count": 1,
            "source": {"component": "sparkstate-operator"},
            "reportingComponent": "sparkstate.io/operator",
            "reportingInstance": self._identity,
        }
