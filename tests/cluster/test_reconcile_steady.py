"""What the operator does when nothing happens, when the API server has a bad day, and when two of it run."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from support.faults import extras

from sparkstate_operator import lease, rbac
from sparkstate_tools.kubernetes.api_faults import Loss
from sparkstate_tools.operating import operator_account
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

QUICK = ["--resync-seconds", "2"]
SHORT = ["--lease-seconds", "8"]


@pytest.mark.own_cluster
def test_further_reconciles_write_nothing(operated: OperatedNamespace) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    operated.start(kubeconfig=kubeconfig, options=QUICK)
    operated.apply(deployment="cluster")
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(1)
        operated.running()
        time.sleep(3)
        mark = operated.cluster.audit.mark()
        time.sleep(10)
        requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
    reads = [request for request in requests if request.resource == "statefulsparkjobs"]
    assert reads, "it did not look again"
    writes = [
        (r.verb, r.resource, r.subresource, r.name) for r in requests if r.writes and r.resource != "leases"
    ]
    assert writes == []


@pytest.mark.own_cluster
def test_progress_costs_one_write_and_no_look(operated: OperatedNamespace) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    operated.start(kubeconfig=kubeconfig, options=["--resync-seconds", "180"])
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(1)
        operated.running()
        operated.until_checkpoint(1)
        time.sleep(3)
        mark = operated.cluster.audit.mark()
        driver.checkpoints_done(2)
        operated.until_checkpoint(2)
        time.sleep(3)
        requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
    asked = [(one.verb, one.resource, one.subresource) for one in requests if one.resource != "leases"]
    assert asked == [("update", "statefulsparkjobs", "status")]


@pytest.mark.own_cluster
def test_a_look_lists_what_a_job_has_without_a_limit(operated: OperatedNamespace) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    operated.start(kubeconfig=kubeconfig, options=QUICK)
    operated.apply()
    operated.until_pod(1)
    mark = operated.cluster.audit.mark()
    time.sleep(3)
    requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
    listed = [one.uri for one in requests if one.verb == "list"]
    assert listed
    assert [uri for uri in listed if "limit=" in uri] == [], "a limit leads past the watch cache"


@pytest.mark.own_cluster
def test_an_operator_that_starts_looks_at_no_job_whose_driver_says_nothing_new(
    operated: OperatedNamespace,
) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    first = operated.start(kubeconfig=kubeconfig)
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(1)
        operated.running()
        operated.until_checkpoint(1)
        time.sleep(2)
        first.stop()
        mark = operated.cluster.audit.mark()
        driver.checkpoints_done(2)
        operated.start(kubeconfig=kubeconfig, options=["--resync-seconds", "100000"])
        operated.until_checkpoint(2)
        requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
    of_one = [
        (one.verb, one.resource) for one in requests if one.name == "orders" or "job%3Dorders" in one.uri
    ]
    assert of_one == [("update", "statefulsparkjobs")]
    writes = [(one.verb, one.resource) for one in requests if one.writes and one.resource != "leases"]
    assert writes == of_one


@pytest.mark.own_cluster
def test_a_restarted_operator_writes_nothing_either(operated: OperatedNamespace) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    first = operated.start(kubeconfig=kubeconfig)
    operated.apply()
    operated.running()
    time.sleep(2)
    first.stop()
    mark = operated.cluster.audit.mark()
    operated.start(kubeconfig=kubeconfig, options=QUICK)

    def looked() -> bool:
        requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
        return any(one.resource == "statefulsparkjobs" and one.verb == "get" for one in requests)

    operated.cluster.until(looked, "it looks at the job", 40)
    time.sleep(5)
    requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
    assert [(r.verb, r.resource, r.name) for r in requests if r.writes and r.resource != "leases"] == []


@pytest.mark.own_cluster
def test_the_table_of_rights_is_what_a_life_uses(operated: OperatedNamespace) -> None:
    """Every request is allowed, and no verb of the table is never used by a job's whole life."""
    kubeconfig = operator_account.make(operated.cluster, operated.namespace)
    mark = operated.cluster.audit.mark()
    operated.start(kubeconfig=kubeconfig, options=["--resync-seconds", "3"])
    operated.apply(deployment="cluster", savepoints={"interval": "3s", "maxCount": 1})
    operated.until_pod(1)
    with operated.driver() as driver:
        operated.kubelet.run("orders-driver-1")

        def a_savepoint_went() -> bool:
            for request in driver.requests():
                driver.complete(request, f"s3://bucket/savepoint-{request.trigger_id}")
            for command in operated.cluster.items("jobs", operated.namespace):
                if not command.get("status", {}).get("conditions"):
                    operated.finish_command(command["metadata"]["name"])
            return "DataDeleted" in operated.reasons()

        operated.cluster.until(a_savepoint_went, "a savepoint came and went", 60)
    operated.cluster.kubectl("delete", "service", "orders-driver", "-n", operated.namespace)
    operated.cluster.until(
        lambda: operated.cluster.get("service", "orders-driver", operated.namespace),
        "the Service comes back",
        60,
    )
    operated.delete()
    operated.until_deleting("orders-driver-1")
    operated.kubelet.finish_deletion("orders-driver-1")
    operated.cluster.until_gone("ssj", "orders", operated.namespace)
    requests = operated.cluster.audit.since(mark, operator_account.user(operated.namespace))
    refused = sorted({request.right for request in requests if request.code == 403})
    assert refused == []
    used = {request.right for request in requests}
    granted = {
        (verb, rule["apiGroups"][0], rule["resources"][0])
        for rule in [rbac._rule(*row) for row in rbac.VERBS] + rbac.lease_rules()
        for verb in rule["verbs"]
    }
    assert sorted(granted - used - NOT_IN_EVERY_LIFE) == []


@pytest.mark.parametrize("resource", ["services", "serviceaccounts", "rolebindings"])
def test_an_apply_needs_the_right_to_create_too(operated: OperatedNamespace, resource: str) -> None:
    kubeconfig = operator_account.make(operated.cluster, operated.namespace, without=("create", resource))
    process = operated.start(kubeconfig=kubeconfig)
    operated.apply(deployment="cluster")
    refused = f'cannot create resource "{resource}"'
    operated.cluster.until(
        lambda: any(refused in line["message"] for line in process.lines()), "the apply is refused", 40
    )
    process.stop()


NOT_IN_EVERY_LIFE = {
    (
        "get",
        "apps",
        "controllerrevisions",
    ),  # after a restart: test_a_restarted_operator_goes_on_with_what_runs
    (
        "get",
        "rbac.authorization.k8s.io",
        "roles",
    ),  # for the operator of before, which leads during an upgrade
    ("get", "", "resourcequotas"),  # of one that refuses a new pod: test_quotas
    ("get", "batch", "jobs"),  # "exists already": test_reconcile_crashes, after create-command
    ("get", "", "configmaps"),  # "exists already": test_reconcile_crashes, after create-config-map
    # An apply that creates is a patch in the audit log: test_an_apply_needs_the_right_to_create_too
    ("create", "", "services"),
    ("create", "", "serviceaccounts"),
    (
        "delete",
        "sparkstate.io",
        "statefulsparkjobs",
    ),  # test_a_finished_job_is_deleted_after_the_time_of_its_spec
    ("delete", "rbac.authorization.k8s.io", "roles"),  # of older operators: test_driver_rights
    ("create", "rbac.authorization.k8s.io", "rolebindings"),
    ("list", "", "events"),  # of a command without a pod: test_commands_without_pods
}
"""Rights that only other tests use; each is named there."""


def test_a_restarted_operator_goes_on_with_what_runs(operated: OperatedNamespace) -> None:
    first = operated.start()
    operated.apply()
    operated.running()
    first.kill()
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    operated.start()
    operated.running(2)
    assert operated.status()["restarts"]["operator"] == 1


@pytest.mark.own_cluster
@pytest.mark.parametrize("status", [409, *extras(429, 500)])
def test_errors_of_the_api_server_delay_and_change_nothing(operated: OperatedNamespace, status: int) -> None:
    operator_account.make(operated.cluster, operated.namespace)
    with operated.cluster.faults() as proxy:
        kubeconfig = operated.cluster.kubeconfig_of(
            operated.namespace, operator_account.NAME, server=proxy.server
        )
        operated.start(kubeconfig=kubeconfig, options=QUICK)
        for method in ("POST", "PUT", "PATCH"):
            proxy.answer(status, pattern="statefulsparkjobs|pods|configmaps|services", method=method, times=1)
        operated.apply()
        operated.running()
        proxy.answer(status, pattern="pods", method="GET", times=1)
        operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
        operated.running(2)
        assert operated.status()["attempt"] == 2
        assert operated.operator
        operated.operator.stop()


@pytest.mark.own_cluster
def test_lost_answers_make_nothing_twice(operated: OperatedNamespace) -> None:
    operator_account.make(operated.cluster, operated.namespace)
    with operated.cluster.faults() as proxy:
        kubeconfig = operated.cluster.kubeconfig_of(
            operated.namespace, operator_account.NAME, server=proxy.server
        )
        operated.start(kubeconfig=kubeconfig, options=QUICK)
        for loss in (Loss.BEFORE, Loss.AFTER):
            proxy.lose(loss, pattern="statefulsparkjobs/orders/status", method="PUT", times=1)
            proxy.lose(loss, pattern="/configmaps|/services|/secrets", method="POST", times=1)
        operated.apply()
        operated.cluster.until(
            lambda: operated.cluster.items("pods", operated.namespace, "sparkstate.io/role=driver"),
            "a pod is there",
            60,
        )
        pods = operated.cluster.items("pods", operated.namespace, "sparkstate.io/role=driver")
        assert len(pods) == 1
        assert operated.operator
        operated.operator.stop()


@pytest.mark.own_cluster
def test_dropped_watches_miss_nothing(operated: OperatedNamespace) -> None:
    operator_account.make(operated.cluster, operated.namespace)
    with operated.cluster.faults() as proxy:
        kubeconfig = operated.cluster.kubeconfig_of(
            operated.namespace, operator_account.NAME, server=proxy.server
        )
        operated.start(kubeconfig=kubeconfig)
        operated.apply()
        operated.running()
        assert proxy.drop_watches() >= 3
        operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
        operated.running(2)
        assert operated.operator
        operated.operator.stop()


def test_a_paused_leader_is_followed_and_ends_when_it_wakes(operated: OperatedNamespace) -> None:
    operated.apply()
    first = operated.start(name="first", options=SHORT)
    operated.running()
    first.pause()
    second = operated.start(name="second", options=SHORT)
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    operated.running(2)
    first.resume()
    assert first.wait() == lease.EXIT_CODE
    assert second.alive
    holder: dict[str, Any] = yaml.safe_load(
        operated.cluster.kubectl("get", "lease", operated.namespace, "-n", "default", "-o", "yaml")
    )
    assert holder["spec"]["holderIdentity"] == "second"


def test_a_leader_that_ends_hands_over_at_once(operated: OperatedNamespace) -> None:
    operated.apply()
    long = ["--lease-seconds", "90"]
    first = operated.start(name="first", options=long)
    operated.running()
    second = operated.start(name="second", options=long)
    time.sleep(3)
    first.stop()
    started = time.monotonic()
    operated.kubelet.end("orders-driver-1", 1, {"reason": "SlotLost", "message": "gone"})
    operated.until_pod(2)
    assert time.monotonic() - started < 80, "the Lease was waited for"
    assert second.alive
