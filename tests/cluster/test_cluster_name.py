"""What a cluster is called in storage: two never alike by default, and an installation never otherwise than before."""

from __future__ import annotations

import json

import pytest

from sparkstate_tools.operating.operated_namespace import OperatedNamespace

pytestmark = pytest.mark.usefixtures("crds")


def name_of(operated: OperatedNamespace, attempt: int = 1) -> str:
    """The name that the attempt's driver is given."""
    (container,) = operated.until_pod(attempt)["spec"]["containers"]
    return str(next(one["value"] for one in container["env"] if one["name"] == "SPARKSTATE_CLUSTER"))


def lease(operated: OperatedNamespace) -> str:
    """The note on the operator's Lease, which the tests name like the namespace."""
    found = operated.cluster.get("lease", operated.namespace, "default") or {"metadata": {}}
    return str((found["metadata"].get("annotations") or {}).get("sparkstate.io/cluster", ""))


def uid(operated: OperatedNamespace, namespace: str) -> str:
    return str((operated.cluster.get("namespace", namespace) or {})["metadata"]["uid"])


def begin(operated: OperatedNamespace, cluster: str = "") -> None:
    operated.start(options=[f"--cluster={cluster}"])


def test_a_new_installation_is_called_by_a_uid_and_keeps_it(operated: OperatedNamespace) -> None:
    begin(operated)
    operated.apply()
    name = name_of(operated)
    assert name == uid(operated, operated.namespace)
    assert lease(operated) == name
    operated.cluster.until(lambda: operated.status().get("cluster") == name, "the job's status says it")
    assert operated.operator
    operated.operator.stop()
    operated.cluster.kubectl("delete", "lease", operated.namespace, "-n", "default")
    operated.cluster.kubectl("delete", "ssj", "orders", "-n", operated.namespace, "--wait=false")
    operated.apply("second")
    begin(operated)
    operated.cluster.until(lambda: lease(operated), "the name is noted")
    assert lease(operated) == name


@pytest.mark.parametrize("known_by", ["lease", "job"])
def test_an_installation_of_before_keeps_the_name_that_every_cluster_had(
    operated: OperatedNamespace, known_by: str
) -> None:
    if known_by == "lease":
        old = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": operated.namespace, "namespace": "default"},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
        }
        operated.cluster.apply(old)
        operated.apply()
    else:
        operated.apply()
        patch = json.dumps({"status": {"phase": "Suspended", "attempt": 3}})
        where = ("-n", operated.namespace, "--subresource=status", "--type=merge", "-p", patch)
        operated.cluster.kubectl("patch", "ssj", "orders", *where)
        operated.apply("second")
    begin(operated)
    operated.cluster.until(lambda: lease(operated), "the name is noted")
    assert lease(operated) == "default"


def test_a_name_that_was_told_stays_when_it_is_told_no_more(operated: OperatedNamespace) -> None:
    begin(operated, "blue")
    operated.apply()
    assert name_of(operated) == "blue"
    assert operated.operator
    operated.operator.stop()
    begin(operated)
    operated.apply("second")
    (container,) = operated.until_pod(1, "second")["spec"]["containers"]
    assert {"name": "SPARKSTATE_CLUSTER", "value": "blue"} in container["env"]
