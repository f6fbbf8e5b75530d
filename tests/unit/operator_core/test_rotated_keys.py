"""A snapshot's data is deleted with the keys by which its job reaches the same storage now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, job, revision, running_status

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import snapshot

S3 = {"endpoint": "https://s3.example.com", "secretRef": {"name": "keys-1"}}
URI = "s3://bucket/state/savepoints/savepoint-1"
STATUS = {
    "phase": "Completed",
    "uri": URI,
    "jobUid": "uid-1",
    "access": {
        "storage": "s3://bucket/state",
        "job": "blue/shop/orders",
        "template": {"spec": {}},
        "s3": S3,
    },
}
ROTATED = {**S3, "secretRef": {"name": "keys-2"}}


def secret_of(status: dict[str, Any], *, there: bool = True, own: Any = None, **spec: Any) -> str:
    """The Secret by which the data of a snapshot in deletion is reached, with what its job says now in ``spec``."""
    one = observed.Snapshot(
        name="one",
        uid="s-1",
        resource_version="1",
        generation=1,
        created=NOW - timedelta(hours=1),
        spec={"jobRef": {"name": "orders"}, "deletionPolicy": "Delete", **({"s3": own} if own else {})},
        status=status,
        labels={},
        annotations={},
        finalizers=(labels.FINALIZER,),
        deleting_at=NOW,
    )
    seen = observed.ObservedSnapshot(one, NOW, job(running_status(), **spec) if there else None)
    found: actions.Decision = snapshot.decide(
        seen, revision(**spec) if there else None, Config(cluster="blue")
    )
    return str(found.status["access"]["s3"]["secretRef"]["name"])


def test_keys_that_were_renamed_since_are_the_jobs_present_ones() -> None:
    assert secret_of(STATUS, s3=ROTATED) == "keys-2"
    assert secret_of({**STATUS, "phase": "Deleting", "reason": "Deleting"}, s3=ROTATED) == "keys-2"


@pytest.mark.parametrize(
    "now",
    [
        {"s3": {**ROTATED, "endpoint": "https://other.example.com"}},
        {"s3": ROTATED, "checkpointing": {"storage": "s3://elsewhere/state"}},
        {"s3": {"endpoint": S3["endpoint"]}},
        {"s3": ROTATED, "there": False},
        {"s3": ROTATED, "own": S3},
    ],
    ids=["another server", "another bucket", "no keys", "the job is gone", "keys of the snapshot's own"],
)
def test_keys_for_other_storage_are_not_taken(now: dict[str, Any]) -> None:
    assert secret_of(STATUS, **now) == "keys-1"
