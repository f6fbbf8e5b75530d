"""Engine commands as they were observed: each with the last word and the living pod of this try of it.

A command that is tried again has the name of the try before, whose pods may still be ending. So pods belong to a try by
its uid. By name, the word of a failed try was told of the next one, and so was how far it had come.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sparkstate_operator import clock, job_pods, labels, observed

_KEPT = timedelta(days=1)
"""Longer than the longest pause before a command that failed is tried again."""


class FirstLooks:
    """When this process first saw an end that Kubernetes dates later than now, by a clock that is ahead. The pause
    after a failure counts from then. By that clock it was too long by hours, and without it the command was made again
    at each look. If this memory is lost, a pause begins anew."""

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}

    def dated(self, found: Iterable[observed.Command], now: datetime) -> tuple[observed.Command, ...]:
        """The same commands, none of which ended later than now."""
        return tuple([self._dated(command, now) for command in found])

    def _dated(self, command: observed.Command, now: datetime) -> observed.Command:
        ended = command.ended_at
        if ended is None or not clock.is_ahead(ended, now):
            return command
        if command.uid not in self._seen:
            kept = {uid: at for uid, at in self._seen.items() if now - _KEPT < at <= now}
            self._seen = {**kept, command.uid: now}
        return dataclasses.replace(command, ended_at=self._seen[command.uid])


def commands(jobs: Iterable[observed.Child], pods: Iterable[observed.Child]) -> tuple[observed.Command, ...]:
    """``jobs``: Kubernetes Jobs that run commands; ``pods``: whatever pods there are beside them."""
    words: dict[str, observed.Document] = {}
    living: dict[str, observed.Pod] = {}
    for child in sorted(filter(is_command, pods), key=_staying_and_newest):
        uid = next((one["uid"] for one in child.body["metadata"].get("ownerReferences") or ()), "")
        words[uid] = word_of(child.body) or words.get(uid, {})
        pod = job_pods.read(child.body)
        if pod.phase not in ("Succeeded", "Failed"):
            living[uid] = pod
    return tuple(
        observed.command_of(
            child.body, words.get(child.uid, {}), living.get(child.uid), had_pod=child.uid in words
        )
        for child in jobs
    )


def is_command(pod: observed.Child) -> bool:
    """Whether a pod runs an engine command."""
    return (pod.body["metadata"].get("labels") or {}).get(labels.ROLE) == "command"


def _staying_and_newest(pod: observed.Child) -> tuple[bool, str]:
    """The last one counts. Kubernetes makes the next pod of a try while the one before is still ending, on a drained
    node for instance."""
    meta = pod.body["metadata"]
    return not meta.get("deletionTimestamp"), str(meta.get("creationTimestamp") or "")


def word_of(body: Mapping[str, Any]) -> observed.Document:
    """The last word of the command in a pod; empty while it has not ended, or when it said nothing."""
    for status in body.get("status", {}).get("containerStatuses") or ():
        text = ((status.get("state") or {}).get("terminated") or {}).get("message", "")
        try:
            found = json.loads(text.strip().splitlines()[-1]) if text.strip() else {}
        except (ValueError, RecursionError):
            found = {"message": text[-2000:]}
        if isinstance(found, dict) and found:
            return found
    return {}
