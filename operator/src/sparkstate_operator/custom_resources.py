"""Our custom resources, StatefulSparkJob and StateSnapshot, as they were observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sparkstate_operator import clock, labels
from sparkstate_spec.rules.rule import View

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A StatefulSparkJob."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    created: datetime
    spec: Document
    status: Document
    finalizers: tuple[str, ...]
    deleting_at: datetime | None = None
    """When its deletion was asked for."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """A StateSnapshot."""

    name: str
    uid: str
    resource_version: str
    generation: int
    created: datetime
    spec: Document
    status: Document
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    deleting_at: datetime | None = None

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    @property
    def periodic(self) -> bool:
        """Whether the operator made it by the clock."""
        return self.labels.get(labels.SNAPSHOT_TYPE) == labels.PERIODIC

    @property
    def changed(self) -> bool:
        """Whether it is a registration whose spec has changed since the engine was asked: what kept the engine from the
        data may be mended."""
        return bool(self.spec.get("uri")) and self.status.get("observedGeneration") not in (
            None,
            self.generation,
        )

    @property
    def late(self) -> bool:
        """Whether it was not complete in time, and may still complete. It is not settled: an operator that passed over
        it left a savepoint that no object owned."""
        return self.phase == "Failed" and self.status.get("reason") == "Timeout"

    @property
    def settled(self) -> bool:
        """Whether there is nothing to do about it until it is deleted."""
        return self.phase == "Completed" or (self.phase == "Failed" and not self.late and not self.changed)


def told(spec: Document, path: str) -> str:
    """The text at a dotted path of a spec; empty where there is none. For what is asked before the spec is judged, and
    for deletions, which nobody judges: the CRD of another version may have let any shape through."""
    found = View(spec)[path]
    return found if isinstance(found, str) else ""


def job_of(body: Document) -> Job:
    """From the API server's document."""
    return Job(namespace=body["metadata"]["namespace"], **_resource(body))


def snapshot_of(body: Document) -> Snapshot:
    """From the API server's document."""
    return Snapshot(**_resource(body))


def _resource(body: Document) -> dict[str, Any]:
    """The fields that both of our resources have."""
    meta = body["metadata"]
    return {
        "name": meta["name"],
        "uid": meta["uid"],
        "resource_version": meta["resourceVersion"],
        "generation": int(meta.get("generation", 1)),
        "created": _time(meta["creationTimestamp"]),
        "spec": body.get("spec", {}),
        # It can also be null. A deletion that trips over that holds its object for ever, as one of Flink's operator did
        # (flink-kubernetes-operator#1079).
        "status": body.get("status") or {},
        "labels": meta.get("labels") or {},
        "annotations": meta.get("annotations") or {},
        "finalizers": tuple(meta.get("finalizers", ())),
        "deleting_at": clock.parse(meta.get("deletionTimestamp")),
    }


def _time(value: str) -> datetime:
    return datetime.fromisoformat(value)
