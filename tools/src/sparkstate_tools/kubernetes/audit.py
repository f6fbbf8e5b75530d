"""The requests to the API server, and who sent them: its audit log.

The log is written before each answer is sent (``--audit-log-mode=blocking``), so a test reads it without waiting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # The cluster's own parts ask a hundred times as much as any test.
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
        {
            "level": "None",
            "users": [
                "system:kube-controller-manager",
                "system:kube-scheduler",
                "system:kube-proxy",
                "system:apiserver",
            ],
        },
        {
            "level": "Metadata",
            "resources": [{"group": "", "resources": ["secrets", "serviceaccounts/token"]}],
        },
        {"level": "RequestResponse", "verbs": sorted(WRITES)},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True)
class Request:
    """One request that was answered."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    uri: str
    user_agent: str
    received: float
    """When it came, as Unix time."""
    sent: Any
    """The object that a write sent; None for reads, Secrets and refused requests."""
    answered: Any
    """The object that a write got back; None like ``sent``."""

    @property
    def writes(self) -> bool:
        """Whether it is one of the verbs that change something (a dry run changes nothing)."""
        return self.verb in WRITES and "dryRun=" not in self.uri

    @property
    def right(self) -> tuple[str, str, str]:
        """Verb, group and resource with subresource, as RBAC grants them; verb and path for other URLs."""
        if not self.resource:
            return self.verb, "", self.uri.partition("?")[0]
        return self.verb, self.group, "/".join(filter(None, (self.resource, self.subresource)))


class AuditLog:
    """Reads the log file. ``position = audit.mark()`` before, ``audit.since(position)`` after."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self) -> int:
        """The present end of the log."""
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, mark: int = 0, user: str | None = None) -> list[Request]:
        """Requests after the mark in the order of their answers; ``user`` as RBAC names it,
        for example ``system:serviceaccount:ns:name``. A watch counts when it was opened."""
        return [request for request in self._read(mark) if user is None or request.user == user]

    def writes(self, mark: int = 0, user: str | None = None) -> list[Request]:
        """Only those that change something."""
        return [request for request in self.since(mark, user) if request.writes]

    def _read(self, mark: int) -> Iterator[Request]:
        if not self.path.exists():
            return
        seen: set[str] = set()
        with self.path.open("rb") as file:
            file.seek(mark)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                event = json.loads(line)
                if event["auditID"] not in seen:
                    seen.add(event["auditID"])
                    yield _request(event)


def write_policy(path: Path) -> Path:
    """The policy file for ``--audit-policy-file``."""
    path.write_text(yaml.safe_dump(POLICY))
    return path


def _request(event: dict[str, Any]) -> Request:
    target = event.get("objectRef", {})
    return Request(
        user=event["user"]["username"],
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        uri=event["requestURI"],
        user_agent=event.get("userAgent", ""),
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
        sent=event.get("requestObject"),
        answered=event.get("responseObject"),
    )
