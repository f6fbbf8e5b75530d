"""The state of a pod's containers, as the pod tells it: the one that the operator put there, and those beside it.

The pod's phase is about all containers together: while a sidecar runs, a pod whose driver has ended is ``Running``.
Judged by the phase, such a job stayed Starting for ever. So the driver's own container decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sparkstate_operator import clock

Document = Mapping[str, Any]
BEGINNING = ("", "PodInitializing", "ContainerCreating")
"""Reasons to wait that are not a trouble."""
INIT_FAILED = "InitContainerFailed"


@dataclass(frozen=True)
class Termination:
    """How a container ended."""

    exit_code: int
    reason: str
    """The kubelet's word, e.g. ``OOMKilled``, ``Error``."""
    message: str
    """The engine's last word (its termination message), JSON as far as the engine got to write it."""
    at: datetime | None = None

    @property
    def word(self) -> Document:
        """The engine's last word; empty if it left none."""
        try:
            found = json.loads(self.message)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Containers:
    """The container that is called like the pod's role, and whatever is wrong beside it."""

    ready: bool
    restarts: int
    waiting: str
    waiting_message: str
    ended: Termination | None
    last_ended: Termination | None
    stays_ended: bool
    trouble: tuple[str, str] | None
    preparing: str


def read(body: Document, role: str) -> Containers:
    """From a pod's document."""
    status = body.get("status", {})
    statuses = status.get("containerStatuses") or []
    own: Document = next((one for one in statuses if one["name"] == role), {})
    inits = status.get("initContainerStatuses") or []
    state, waiting = _state(own), _state(own).get("waiting") or {}
    ended = _ended(state.get("terminated"))
    policy = body.get("spec", {}).get("restartPolicy", "Always")
    if ended is None and status.get("phase") == "Failed" and not state.get("running"):
        ended = next(_failed(inits), None)
    return Containers(
        ready=bool(own.get("ready")),
        restarts=int(own.get("restartCount", 0)),
        waiting=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        ended=ended,
        last_ended=_ended((own.get("lastState") or {}).get("terminated")),
        stays_ended=ended is not None
        and (policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0)),
        trouble=next(_troubles(inits, [one for one in statuses if one["name"] != role]), None),
        preparing=next(_preparing(inits, body.get("spec", {}).get("initContainers") or []), ""),
    )


def _preparing(inits: list[Document], specs: list[Document]) -> Iterator[str]:
    """Init containers that the others wait for: one that runs, or a sidecar among them that has not started yet."""
    sidecars = {one["name"] for one in specs if one.get("restartPolicy") == "Always"}
    for one in inits:
        if _state(one).get("running") and not (one["name"] in sidecars and one.get("started")):
            yield one["name"]


def _failed(inits: list[Document]) -> Iterator[Termination]:
    """The end of an init container as that of the driver, which it kept from starting. Its exit code means nothing
    among the engine's, so only the message names it."""
    for one in inits:
        ended = _ended(_state(one).get("terminated"))
        if ended is not None and ended.exit_code != 0:
            yield Termination(1, INIT_FAILED, f"init container {one['name']} {_how(ended)}", ended.at)


def _troubles(inits: list[Document], sidecars: list[Document]) -> Iterator[tuple[str, str]]:
    for what, statuses in (("init container", inits), ("container", sidecars)):
        for one in statuses:
            waiting = _state(one).get("waiting") or {}
            if waiting.get("reason", "") not in BEGINNING:
                last = _ended((one.get("lastState") or {}).get("terminated"))
                why = f"{what} {one['name']} waits: {waiting.get('message') or waiting['reason']}"
                yield waiting["reason"], f"{why}; before, it {_how(last)}" if last is not None else why
    for one in inits:
        ended = _ended(_state(one).get("terminated"))
        if ended is not None and ended.exit_code != 0:
            yield INIT_FAILED, f"init container {one['name']} {_how(ended)}"


def _how(ended: Termination) -> str:
    told = f": {ended.message[-1000:]}" if ended.message else ""
    return f"ended with exit code {ended.exit_code} ({ended.reason or 'no reason'}){told}"


def _state(one: Document) -> Document:
    found: Document = one.get("state") or {}
    return found


def _ended(terminated: Document | None) -> Termination | None:
    if terminated is None:
        return None
    return Termination(
        exit_code=int(terminated.get("exitCode", 0)),
        reason=terminated.get("reason", ""),
        message=terminated.get("message", ""),
        at=clock.parse(terminated.get("finishedAt")),
    )
