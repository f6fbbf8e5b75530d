"""The test cluster itself: what the other tests of this folder rely on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from kubernetes import client

from sparkstate_tools.kubernetes import cluster as clusters
from sparkstate_tools.kubernetes.api_faults import Loss
from sparkstate_tools.kubernetes.cluster import Cluster, CommandFailed


def config_map(name: str, namespace: str, **data: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def account(cluster: Cluster, namespace: str, *verbs: str) -> Path:
    """A ServiceAccount that may do this with ConfigMaps; its kubeconfig."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": "reader", "namespace": namespace}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [subject],
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        },
    )
    return cluster.kubeconfig_of(namespace, "reader")


def test_a_service_account_may_do_what_its_role_grants_and_nothing_else(
    cluster: Cluster, namespace: str
) -> None:
    kubeconfig = account(cluster, namespace, "list")
    assert "kube-root-ca.crt" in cluster.kubectl("get", "configmaps", kubeconfig=kubeconfig)
    with pytest.raises(CommandFailed, match=r"reader.* cannot get resource .configmaps."):
        cluster.kubectl("get", "configmap", "kube-root-ca.crt", kubeconfig=kubeconfig)


@pytest.mark.own_cluster
def test_the_audit_log_names_each_request_when_its_answer_is_there(cluster: Cluster, namespace: str) -> None:
    kubeconfig = account(cluster, namespace, "create", "list")
    mark = cluster.audit.mark()
    api = client.CoreV1Api(cluster.api(kubeconfig))
    api.create_namespaced_config_map(namespace, config_map("one", namespace, a="1"))
    api.create_namespaced_config_map(namespace, config_map("two", namespace), dry_run="All")
    with pytest.raises(client.ApiException) as refused:
        api.delete_namespaced_config_map("one", namespace)
    assert refused.value.status == 403
    api.list_namespaced_config_map(namespace)

    requests = cluster.audit.since(mark, f"system:serviceaccount:{namespace}:reader")
    assert [(each.verb, each.name, each.code) for each in requests] == [
        ("create", "one", 201),
        ("create", "two", 201),
        ("delete", "one", 403),
        ("list", "", 200),
    ]
    assert requests[0].right == ("create", "", "configmaps")
    assert requests[0].sent["data"] == {"a": "1"}
    assert [each.writes for each in requests] == [True, False, True, False]


@pytest.mark.own_cluster
def test_the_audit_log_keeps_no_secret(cluster: Cluster, namespace: str) -> None:
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": namespace},
            "stringData": {"secretKey": "hush-hush"},
        }
    )
    assert any(each.name == "keys" for each in cluster.audit.since(0))
    assert b"aHVzaC1odXNo" not in cluster.audit.path.read_bytes()
    assert b"hush-hush" not in cluster.audit.path.read_bytes()


def test_children_go_with_their_owner(cluster: Cluster, namespace: str) -> None:
    cluster.apply(config_map("owner", namespace))
    owner = cluster.get("configmap", "owner", namespace)
    assert owner is not None
    child = config_map("child", namespace)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    cluster.apply({**child, "metadata": {**child["metadata"], "ownerReferences": [reference]}})  # type: ignore[dict-item]
    cluster.kubectl("delete", "configmap", "owner", "-n", namespace)
    cluster.until_gone("configmap", "child", namespace)


def test_a_pod_without_a_node_is_scheduled_nowhere_and_deleted_at_once(
    cluster: Cluster, namespace: str
) -> None:
    if cluster.foreign:
        pytest.skip("a foreign cluster has nodes")
    container = {"name": "main", "image": "none.example/none"}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "pod", "namespace": namespace},
            "spec": {"containers": [container]},
        }
    )
    cluster.until(
        lambda: "'Unschedulable'" in str(cluster.get("pod", "pod", namespace)), "the scheduler judged the pod"
    )
    cluster.kubectl("delete", "pod", "pod", "-n", namespace, "--wait=false")
    cluster.until_gone("pod", "pod", namespace, timeout_s=25)  # a grace period would be 30


def test_the_kubeconfig_of_the_environment_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert os.environ["KUBECONFIG"] == os.devnull
    monkeypatch.delenv(clusters.FOREIGN, raising=False)
    assert clusters.foreign(tmp_path) is None


# --- faults ------------------------------------------------------------------------------------------------


@pytest.mark.own_cluster
def test_the_proxy_answers_the_chosen_requests_with_an_error_so_often(
    cluster: Cluster, namespace: str
) -> None:
    account(cluster, namespace, "create", "get")
    with cluster.faults() as proxy:
        api = client.CoreV1Api(cluster.api(cluster.kubeconfig_of(namespace, "reader", proxy.server)))
        rule = proxy.answer(409, r"/configmaps", "POST", times=2)
        for _ in range(2):
            with pytest.raises(client.ApiException) as refused:
                api.create_namespaced_config_map(namespace, config_map("one", namespace))
            assert refused.value.status == 409
        assert cluster.get("configmap", "one", namespace) is None
        api.create_namespaced_config_map(namespace, config_map("one", namespace))
        assert rule.hits == 2
        assert api.read_namespaced_config_map("one", namespace).metadata.name == "one"


@pytest.mark.own_cluster
@pytest.mark.parametrize(
    ("loss", "made"), [(Loss.BEFORE, False), (Loss.AFTER, True)], ids=["before", "after"]
)
def test_the_proxy_loses_a_request_before_or_after_it_was_carried_out(
    cluster: Cluster, namespace: str, loss: Loss, made: bool
) -> None:
    account(cluster, namespace, "create")
    with cluster.faults() as proxy:
        kubeconfig = cluster.kubeconfig_of(namespace, "reader", proxy.server)
        proxy.lose(loss, r"/configmaps", "POST")
        with pytest.raises(CommandFailed, match="EOF"):
            cluster.kubectl("create", "configmap", "lost", kubeconfig=kubeconfig)
    assert (cluster.get("configmap", "lost", namespace) is not None) is made


@pytest.mark.own_cluster
def test_the_proxy_drops_a_watch_and_the_next_one_goes_through(cluster: Cluster, namespace: str) -> None:
    account(cluster, namespace, "list", "watch")
    with cluster.faults() as proxy:
        api = client.CoreV1Api(cluster.api(cluster.kubeconfig_of(namespace, "reader", proxy.server)))
        version = api.list_namespaced_config_map(namespace).metadata.resource_version
        opened = api.list_namespaced_config_map(
            namespace, watch=True, resource_version=version, _preload_content=False
        )
        cluster.apply(config_map("seen", namespace))
        assert b'"seen"' in next(iter(opened.stream()))
        assert proxy.drop_watches() == 1
        assert b"".join(opened.stream()) == b""
        again = api.list_namespaced_config_map(
            namespace, watch=True, resource_version=version, _preload_content=False
        )
        assert b'"seen"' in next(iter(again.stream()))
        again.close()


@pytest.mark.own_cluster
def test_the_proxy_calls_the_test_while_a_request_waits(cluster: Cluster, namespace: str) -> None:
    account(cluster, namespace, "create")
    with cluster.faults() as proxy:
        kubeconfig = cluster.kubeconfig_of(namespace, "reader", proxy.server)
        found: list[object] = []
        proxy.call(lambda: found.append(cluster.get("configmap", "held", namespace)), r"/configmaps", "POST")
        cluster.kubectl("create", "configmap", "held", kubeconfig=kubeconfig)
    assert found == [None]
    assert cluster.get("configmap", "held", namespace) is not None


@pytest.mark.own_cluster
def test_a_paused_api_server_answers_again_when_it_is_resumed(cluster: Cluster) -> None:
    assert cluster.plane is not None
    server = cluster.plane.processes.running["kube-apiserver"]
    server.pause()
    try:
        started = time.monotonic()
        assert not cluster.plane.answers("/readyz")
        assert time.monotonic() - started > 4
    finally:
        server.resume()
    cluster.until(lambda: cluster.plane and cluster.plane.answers("/readyz"), "the API server answers again")
