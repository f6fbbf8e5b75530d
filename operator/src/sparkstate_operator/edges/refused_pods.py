"""Why a command's Job has no pod: its controller says so in Events of the Job, and nowhere else.

Events are in no cache of the API server: a list of those of one Job costs it as much as the namespace has Events. So
only a Job without a pod is asked about, after pauses that double, and one Job at a time. A quota may keep a thousand
commands from their pods.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import errors, observed
from sparkstate_operator.core import pod_refusals
from sparkstate_operator.edges import kube as k

FIRST_S = 10.0
"""Kubernetes makes a pod within a second, if it can."""
PAUSE_S = 60.0
LONGEST_PAUSE_S = 600.0
SILENT_S = 60.0
"""A Job without a pod and without an Event is told after this time."""
BETWEEN_S = 1.0
"""Between two lists of Events, whichever Jobs they are about."""
_KEPT = timedelta(days=2)
"""Longer than a command lives."""
_REASON = "FailedCreate"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Waiting:
    """A Job without a pod, as far as this process knows it."""

    since: datetime
    asked: datetime | None = None
    tries: int = 0
    message: str = ""

    def is_due(self, now: datetime) -> bool:
        if self.asked is None:
            return _has_passed(self.since, FIRST_S, now)
        return _has_passed(self.asked, min(PAUSE_S * 2.0 ** min(self.tries - 1, 10), LONGEST_PAUSE_S), now)


def _has_passed(since: datetime, pause_s: float, now: datetime) -> bool:
    """Whether the pause is over. It is over too if the clock was set back, and the time lies ahead by now."""
    return not since <= now < since + timedelta(seconds=pause_s)


class RefusedPods:
    """Remembers what was told of each Job. If this memory is lost, it is asked for again."""

    def __init__(self, kube: k.Kube) -> None:
        self._kube = kube
        self._waiting: dict[str, _Waiting] = {}
        self._last: datetime | None = None

    async def told(
        self, commands: Iterable[observed.Command], namespace: str, now: datetime
    ) -> tuple[observed.Command, ...]:
        """The same commands, those without a pod with the reason, as far as it is known."""
        return tuple([await self._of(command, namespace, now) for command in commands])

    async def _of(self, command: observed.Command, namespace: str, now: datetime) -> observed.Command:
        if command.had_pod or command.succeeded:
            self._waiting.pop(command.uid, None)
            return command
        waiting = self._waiting.get(command.uid) or _Waiting(now)
        if not command.failed and waiting.is_due(now) and self._may_ask(now):
            waiting = await self._ask(command, namespace, waiting, now)
        self._keep(command.uid, waiting, now)
        return replace(command, refusal=waiting.message) if waiting.message else command

    def _may_ask(self, now: datetime) -> bool:
        return self._last is None or _has_passed(self._last, BETWEEN_S, now)

    def _keep(self, uid: str, waiting: _Waiting, now: datetime) -> None:
        if uid not in self._waiting:
            self._waiting = {
                known: one for known, one in self._waiting.items() if now - _KEPT < one.since <= now
            }
        self._waiting[uid] = waiting

    async def _ask(
        self, command: observed.Command, namespace: str, waiting: _Waiting, now: datetime
    ) -> _Waiting:
        """The knowledge after one list of the Job's Events. Where these are gone by now, their words still hold."""
        self._last = now
        try:
            said = await self._newest(command, namespace)
        except errors.Forbidden as error:
            if waiting.message != pod_refusals.HIDDEN:
                _log.warning("it is not known why a command has no pod: %s", error)
            said = pod_refusals.HIDDEN
        except errors.ApiError as error:
            _log.info("the Events of the Job %s cannot be read: %s", command.name, error)
            said = ""
        silent = pod_refusals.SILENT if _has_passed(waiting.since, SILENT_S, now) else ""
        return _Waiting(waiting.since, now, waiting.tries + 1, said or waiting.message or silent)

    async def _newest(self, command: observed.Command, namespace: str) -> str:
        """The words of the last refusal; empty if there was none."""
        fields = f"involvedObject.uid={command.uid},reason={_REASON}"
        events = await self._kube.list(k.EVENTS, namespace, fields=fields)
        message = str(max(events, key=_time, default={}).get("message") or "")
        return pod_refusals.told(message) if message else ""


def _time(event: dict[str, Any]) -> str:
    """When it was last so, as RFC 3339: texts of one zone, in the order of their times."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), event["metadata"].get("creationTimestamp") or ""))
