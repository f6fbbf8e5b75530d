"""An action that the API server does not let pass is told by an Event of the job, with the server's own words."""

from __future__ import annotations

from typing import Any

import pytest
from support.cluster.quotas import limit

from sparkstate_tools.operating.operated_namespace import OperatedNamespace

pytestmark = pytest.mark.usefixtures("running_operator")


def events(operated: OperatedNamespace, reason: str) -> list[dict[str, Any]]:
    found = operated.cluster.items("events", operated.namespace)
    return [event for event in found if event["reason"] == reason]


def quota(operated: OperatedNamespace) -> dict[str, Any]:
    limit(operated.cluster, operated.namespace, "none", {"pods": "0"})
    return {}


def stranger(operated: OperatedNamespace) -> dict[str, Any]:
    operated.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "orders-1", "namespace": operated.namespace},
            "data": {},
        }
    )
    return {}


def wrong(_operated: OperatedNamespace) -> dict[str, Any]:
    return {"driverTemplate": {"spec": {"nodeSelector": {"a": "not a label value"}}}}


@pytest.mark.parametrize(
    ("reason", "prepare", "words"),
    [
        ("Forbidden", quota, "exceeded quota"),
        ("Foreign", stranger, "somebody else"),
        ("Invalid", wrong, "nodeSelector"),
    ],
    ids=["a quota", "a name that is taken", "a field that the API server refuses"],
)
def test_what_the_api_server_does_not_take_is_told(
    operated: OperatedNamespace, reason: str, prepare: Any, words: str
) -> None:
    operated.apply(**prepare(operated))
    (event, *_) = operated.cluster.until(lambda: events(operated, reason), f"{reason} is told", 60)
    assert words in event["message"]
    assert event["type"] == "Warning"
    assert event["involvedObject"]["name"] == "orders"
    assert event["involvedObject"]["uid"] == operated.job()["metadata"]["uid"]
    assert operated.cluster.get("pod", "orders-driver-1", operated.namespace) is None
