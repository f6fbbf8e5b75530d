"""What a revision holds, and what the difference of two asks of a running job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkstate_operator.core import revisions, settings
from sparkstate_operator.model.base import ChangeKind

BASE: dict[str, Any] = {
    "image": "shop:1",
    "pythonFile": "/job.py",
    "checkpointing": {"storage": "s3://bucket/prefix"},
}


def resolve(defaults: dict[str, Any] | None = None, **spec: Any) -> settings.Resolved:
    return settings.resolve({**BASE, **spec}, defaults)


def test_a_revision_is_read_back_as_it_was_written() -> None:
    resolved = resolve(
        {"slots": 5}, sparkConf={"spark.a": "1"}, driverTemplate={"spec": {"x": [1, {"y": 2}]}}
    )
    stored = json.loads(json.dumps(revisions.data(resolved)))
    back = revisions.read(stored)
    assert back.spec == resolved.spec
    assert back.origins == resolved.origins
    assert revisions.digest(back) == revisions.digest(resolved)


def test_a_revision_of_a_later_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 2"):
        revisions.read({"format": 2, "spec": {}, "origins": {}})


def test_the_digest_is_of_values_not_of_who_gave_them() -> None:
    assert (
        revisions.digest(resolve(slots=2))
        == revisions.digest(resolve())
        == revisions.digest(resolve({"slots": 2}))
    )
    assert revisions.digest(resolve(slots=3)) != revisions.digest(resolve())
    by_key = resolve(configuration={"parallelism.default": "3"})
    assert revisions.digest(by_key) == revisions.digest(resolve(slots=3))


@pytest.mark.parametrize(
    ("spec", "kind", "paths"),
    [
        ({}, None, ()),
        ({"slots": 2}, None, ()),
        ({"slots": 3}, ChangeKind.SCALE, ("slots",)),
        ({"upgradeMode": "savepoint"}, ChangeKind.IGNORE, ("upgradeMode",)),
        ({"savepoints": {"interval": "1h"}}, ChangeKind.IGNORE, ("savepoints.interval",)),
        ({"deletion": {"policy": "purge"}, "slots": 3}, ChangeKind.SCALE, ("deletion.policy", "slots")),
        ({"image": "shop:2", "slots": 3}, ChangeKind.UPGRADE, ("image", "slots")),
        ({"params": {"date.from": "x"}}, ChangeKind.UPGRADE, ("params['date.from']",)),
        ({"sparkConf": {"spark.a": "1"}}, ChangeKind.UPGRADE, ("sparkConf['spark.a']",)),
        ({"driverTemplate": {"spec": {}}}, ChangeKind.UPGRADE, ("driverTemplate",)),
        ({"restartNonce": 1}, ChangeKind.UPGRADE, ("restartNonce",)),
        ({"restoreFrom": {"uri": "s3://b/x"}}, ChangeKind.SAVEPOINT, ("restoreFrom.uri",)),
        (
            {"restoreFrom": {"snapshotRef": {"name": "a"}}},
            ChangeKind.SAVEPOINT,
            ("restoreFrom.snapshotRef.name",),
        ),
        ({"shards": 32, "image": "shop:2"}, ChangeKind.IMMUTABLE, ("image", "shards")),
    ],
    ids=str,
)
def test_the_strongest_change_counts(
    spec: dict[str, Any], kind: ChangeKind | None, paths: tuple[str, ...]
) -> None:
    assert revisions.change(resolve(), resolve(**spec)) == revisions.Change(kind, paths)
    assert revisions.change(resolve(**spec), resolve()) == revisions.Change(kind, paths)


def test_a_new_default_of_the_chart_is_a_change_like_any_other() -> None:
    found = revisions.change(resolve(), resolve({"checkpointing": {"interval": "10s"}}))
    assert found == revisions.Change(ChangeKind.UPGRADE, ("checkpointing.interval",))


def test_every_field_that_can_be_resolved_has_a_kind() -> None:
    for path in resolve(
        {"s3": {"region": "eu"}}, stateBackend={"type": "rocksdb"}, deployment="cluster"
    ).origins:
        assert revisions.kind_of(path)
    with pytest.raises(KeyError, match="not a field"):
        revisions.kind_of("nothing.there")
