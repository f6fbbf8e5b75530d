"""What a driver's pod belongs to: its attempt's ConfigMap, and what follows from that."""

from __future__ import annotations

import pytest
from support import kubelet
from support.operated import Operated

pytestmark = pytest.mark.usefixtures("running_operator")


def owners(operated: Operated, attempt: int) -> list[tuple[str, str, str, bool]]:
    """Kind, name, uid of those whose the driver's pod is, and whether each is its controller."""
    found = operated.until_pod(attempt)["metadata"].get("ownerReferences") or []
    return [(one["kind"], one["name"], one["uid"], one.get("controller", False)) for one in found]


def test_the_controller_of_a_driver_is_its_attempt_s_config_map(operated: Operated) -> None:
    operated.apply()
    operated.running()
    uid = (operated.cluster.get("configmap", "orders-1", operated.namespace) or {})["metadata"]["uid"]
    assert owners(operated, 1) == [("ConfigMap", "orders-1", uid, True)]
    drain = ("drain", kubelet.NODE, "--dry-run=server", "--delete-emptydir-data", "--ignore-daemonsets")
    chosen = f"--pod-selector=sparkstate.io/job-uid={operated.job()['metadata']['uid']}"
    assert "orders-driver-1" in operated.cluster.kubectl(*drain, chosen)


def test_a_config_map_deleted_by_hand_ends_its_driver_and_the_next_attempt_follows(
    operated: Operated,
) -> None:
    operated.apply()
    operated.running()
    operated.cluster.kubectl("delete", "configmap", "orders-1", "-n", operated.namespace)
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.running(2)
    assert operated.status()["restarts"]["operator"] == 1


def test_a_driver_of_an_earlier_version_has_no_controller_and_is_followed_by_one_that_has(
    operated: Operated,
) -> None:
    operated.apply()
    operated.running()
    where = ("orders-driver-1", "-n", operated.namespace, "--type=merge")
    operated.cluster.kubectl("patch", "pod", *where, "-p", '{"metadata":{"ownerReferences":null}}')
    assert operated.operator is not None
    operated.operator.stop()
    operated.start()
    assert owners(operated, 1) == []
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone", "exit_code": 1})
    operated.running(2)
    assert [(kind, name) for kind, name, _, _ in owners(operated, 2)] == [("ConfigMap", "orders-2")]
