"""Makes Events: their reasons are stable, and the same words are not repeated within ten minutes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.core import naming, shortening
from sparkstate_operator.edges.kube import Kind

QUIET_S = 600.0
KEPT = 65_536
"""Events of the last ten minutes that are remembered at most, 15 MB of them. With fewer than there are jobs, one note
about all of them was an Event again each time: the oldest were forgotten just before they were asked for."""

LONGEST_MESSAGE = 1024
"""Characters of an Event's message."""


class Recorder:
    """Decides which notes become Events. Remembers those of the last ten minutes, in memory only."""

    def __init__(self, clock_: clock.Clock, identity: str) -> None:
        self._clock = clock_
        self._identity = identity
        self._told: OrderedDict[str, float] = OrderedDict()
        """When each was told, by its digest: messages are long. The oldest come first."""

    def body(
        self, kind: Kind, about: observed.Job | observed.Snapshot, namespace: str, note: actions.Note
    ) -> dict[str, Any] | None:
        """The Event to create; None if the same was told a moment ago."""
        now_s = self._clock.monotonic()
        digest = naming.digest(f"{about.uid}/{note.reason}/{note.message}", 32)
        while self._told and (len(self._told) > KEPT or now_s - next(iter(self._told.values())) >= QUIET_S):
            self._told.popitem(last=False)
        if digest in self._told:
            return None
        self._told[digest] = now_s
        moment = self._clock.now()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name[:200]}.{int(moment.timestamp() * 1e6):x}{digest[:8]}",
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
            "message": shortening.shortened(note.message, LONGEST_MESSAGE),
            "type": "Warning" if note.warning else "Normal",
            "firstTimestamp": clock.text(moment),
            "lastTimestamp": clock.text(moment),
            "count": 1,
            "source": {"component": "sparkstate-operator"},
            "reportingComponent": "sparkstate.io/operator",
            "reportingInstance": self._identity,
        }
