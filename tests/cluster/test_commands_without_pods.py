"""Commands whose Jobs get no pod, as Kubernetes' own Job controller tells it: the job or snapshot says why."""

from __future__ import annotations

import pytest
from support.cluster.quotas import limit

from sparkstate_tools.operating import operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

pytestmark = pytest.mark.slow
URI = "s3://bucket/savepoints/savepoint-1"


def delete_without_room(operated: OperatedNamespace) -> None:
    """A job whose data are to be purged is deleted, and its namespace takes no pod for that."""
    operated.apply(deletion={"policy": "purge", "deadline": "10m"})
    operated.running()
    limit(operated.cluster, operated.namespace, "none", {"pods": "0"})
    operated.delete()
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")


def degraded(operated: OperatedNamespace) -> str:
    """The message of the condition, while the command has no pod."""
    found = operated.conditions().get("Degraded") or {}
    return str(found["message"]) if found.get("reason") == "NoPod" else ""


def test_a_job_says_why_its_purge_has_no_pod_and_is_purged_when_the_cause_is_gone(
    operated: OperatedNamespace,
) -> None:
    operated.start(kubeconfig=operator_account.make(operated.cluster, operated.namespace))
    delete_without_room(operated)
    told = operated.cluster.until(lambda: degraded(operated), "the job says why", 60)
    assert told.startswith("the Job orders-")
    assert "exceeded quota: none" in told
    assert "raise the ResourceQuota" in told
    operated.cluster.kubectl("delete", "resourcequota", "none", "-n", operated.namespace)
    operated.finish_command(operated.until_command("purge"))
    operated.cluster.until_gone("ssj", "orders", operated.namespace)


@pytest.mark.usefixtures("running_operator")
def test_a_snapshot_says_what_its_command_lacks_and_is_read_with_it(operated: OperatedNamespace) -> None:
    limit(operated.cluster, operated.namespace, "none", {"limits.cpu": "1"})
    operated.register("old", URI)

    def told() -> str:
        status = (operated.cluster.get("snap", "old", operated.namespace) or {}).get("status") or {}
        return str(status.get("message") or "")

    operated.cluster.until(lambda: "must specify limits.cpu" in told(), "it says why", 60)
    assert "or `command` of a StateSnapshot's spec.template" in told()
    limited = {"name": "command", "resources": {"limits": {"cpu": "500m"}}}
    operated.register("old", URI, template={"spec": {"containers": [limited]}})
    chosen = "sparkstate.io/role=command"
    operated.cluster.until(
        lambda: operated.cluster.items("pods", operated.namespace, chosen), "it has a pod", 60
    )
    operated.cluster.until(lambda: "has no pod" not in told(), "it says no more", 60)


def test_an_operator_without_the_right_says_that_it_is_missing(operated: OperatedNamespace) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace, without=("list", "events"))
    process = operated.start(kubeconfig=kubeconfig)
    delete_without_room(operated)
    told = operated.cluster.until(lambda: degraded(operated), "the job says so", 60)
    assert "grant it `list` on events" in told
    assert any('cannot list resource "events"' in line["message"] for line in process.lines())
