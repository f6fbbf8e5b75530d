"""The chart on a real API server: installed, upgraded, taken away, with jobs that live on."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.repository import tree

from sparkstate_operator import labels
from sparkstate_tools.kubernetes.cluster import Cluster, CommandFailed
from sparkstate_tools.operating import operator_process
from sparkstate_tools.operating.kubelet import Kubelet
from sparkstate_tools.operating.operated_namespace import job
from sparkstate_tools.operating.operator_process import Operator
from sparkstate_tools.processes import free_port

CHART = tree.ROOT / "charts" / "sparkstate-operator"
NAME = "ours-sparkstate-operator"
HOOK = f"{NAME}-release"
pytestmark = pytest.mark.own_cluster


@dataclass
class Release:
    """A release ``ours`` in a namespace of Pod Security "restricted"; its operator is run by the test."""

    cluster: Cluster
    namespace: str
    folder: Path
    operators: list[Operator] = field(default_factory=list)

    def install(self, chart: Path = CHART, **values: Any) -> None:
        """helm install, taking over definitions that other tests have applied."""
        self._helm("install", "--take-ownership", chart=chart, **values)

    def upgrade(self, chart: Path = CHART, **values: Any) -> None:
        self._helm("upgrade", chart=chart, **values)

    def _helm(self, verb: str, *more: str, chart: Path, **values: Any) -> None:
        path = self.folder / "values.yaml"
        path.write_text(yaml.safe_dump({"watchNamespaces": [self.namespace], **values}))
        self.cluster.helm(verb, "ours", chart, "-n", self.namespace, "-f", path, *more)

    def get(self, kind: str, name: str = NAME) -> dict[str, Any]:
        found = self.cluster.get(kind, name, self.namespace)
        assert found is not None, f"{kind} {name} is gone"
        return found

    def grant(self, name: str, rules: list[dict[str, Any]]) -> None:
        """Rights for the operator that somebody gives by hand."""
        group = "rbac.authorization.k8s.io"
        meta = {"name": name, "namespace": self.namespace}
        role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules}
        binding = {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": self.namespace}],
        }
        self.cluster.apply(role, binding)

    def start(self, *more: str) -> Operator:
        """The operator as a process, under the ServiceAccount and the Lease of the chart."""
        kubeconfig = self.cluster.kubeconfig_of(self.namespace, NAME)
        options = ["--lease-name", NAME, "--lease-namespace", self.namespace, *more]
        options += ["--driver-role", f"Role/{NAME}-driver"]
        started = operator_process.start(
            kubeconfig, self.folder, [self.namespace], options=options, key_secret=f"{NAME}-key"
        )
        self.operators.append(started)
        return started

    def begin_uninstall(self) -> tuple[threading.Thread, subprocess.Popen[str]]:
        """helm uninstall, which waits for its Job, and the process that the Job's container would be."""
        uninstall = threading.Thread(
            target=self.cluster.helm, args=("uninstall", "ours", "-n", self.namespace)
        )
        uninstall.start()
        body = self.cluster.until(
            lambda: self.cluster.get("job", HOOK, self.namespace), "the hook's Job is there", 60
        )
        pod = body["spec"]["template"]["spec"]
        kubeconfig = self.cluster.kubeconfig_of(self.namespace, pod["serviceAccountName"])
        arguments = [*pod["containers"][0]["args"], "--kubeconfig", str(kubeconfig)]
        command = [sys.executable, "-m", "sparkstate_operator", *arguments]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return uninstall, running

    def end_uninstall(self, uninstall: threading.Thread) -> None:
        """The test plays the kubelet of the Job."""
        pod = self.cluster.items("pods", self.namespace, f"job-name={HOOK}")[0]["metadata"]["name"]
        Kubelet(self.cluster, self.namespace).end(pod, 0)
        uninstall.join(60)
        assert not uninstall.is_alive()

    def create(self, name: str = "orders", **spec: Any) -> dict[str, Any]:
        """A job, once it has its driver pod."""
        self.cluster.apply(job(self.namespace, name, **spec))
        pod = f"{name}-driver-1"
        self.cluster.until(lambda: self.cluster.get("pod", pod, self.namespace), f"pod {pod} is there", 60)
        return self.get("ssj", name)


@pytest.fixture
def release(cluster: Cluster, tmp_path: Path) -> Iterator[Release]:
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    with cluster.namespace("chart", restricted) as namespace:
        found = Release(cluster, namespace, tmp_path)
        yield found
        for operator in found.operators:
            operator.stop()
        for kind in ("ssj", "snap"):
            for each in cluster.items(kind, namespace):
                name = each["metadata"]["name"]
                cluster.kubectl(
                    "patch",
                    kind,
                    name,
                    "-n",
                    namespace,
                    "--type=merge",
                    "-p",
                    '{"metadata":{"finalizers":[]}}',
                )


def test_an_installed_operator_gets_its_pods_its_key_and_all_its_rights(release: Release) -> None:
    release.install()
    selector = "app.kubernetes.io/instance=ours,!job-name"
    pods = release.cluster.until(
        lambda: release.cluster.items("pods", release.namespace, selector), "the Deployment has a pod", 30
    )
    assert pods[0]["spec"]["containers"][0]["args"][0] == "run"
    assert release.cluster.get("secret", f"{NAME}-key", release.namespace) is None
    operator = release.start()
    created = release.create(deployment="cluster", slots=4)
    key = release.get("secret", f"{NAME}-key")["data"]["key"]
    assert len(base64.b64decode(key)) == 64
    assert created["metadata"]["finalizers"] == [labels.FINALIZER]
    release.upgrade(replicas=2)
    assert release.get("secret", f"{NAME}-key")["data"]["key"] == key
    assert release.get("deployment")["spec"]["replicas"] == 2
    assert operator.errors() == []
    # Another process finds the key, and may read no other Secret.
    operator.stop()
    again = release.start()
    release.create("invoices")
    assert release.get("secret", f"{NAME}-key")["data"]["key"] == key
    assert again.errors() == []
    kubeconfig = release.cluster.kubeconfig_of(release.namespace, NAME)
    with pytest.raises(CommandFailed, match="forbidden"):
        release.cluster.kubectl("get", "secrets", "-n", release.namespace, kubeconfig=kubeconfig)


def test_an_operator_that_may_not_make_its_key_waits_for_the_right_and_keeps_its_lease(
    release: Release,
) -> None:
    rules = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
    release.install(rbac={"create": False})
    release.grant("jobs", rules["jobs"])
    release.grant("lease", rules["lease"])
    operator = release.start("--lease-seconds", "8")  # lost after 5 s without a renewal
    release.cluster.until(
        lambda: [one for one in operator.lines() if "existingSecret" in one["message"]], "it says why", 60
    )
    times = {release.get("lease")["spec"]["renewTime"]}

    def renewed() -> bool:
        times.add(release.get("lease")["spec"]["renewTime"])
        return len(times) > 5

    release.cluster.until(renewed, "the Lease is renewed again and again", 60)
    assert operator.process.poll() is None
    assert release.get("lease")["spec"]["leaseTransitions"] == 0
    for rule in rules["key"]:
        if "resourceNames" in rule:
            rule["resourceNames"] = [f"{NAME}-key"]
    release.grant("key", rules["key"])
    release.create()
    assert len(base64.b64decode(release.get("secret", f"{NAME}-key")["data"]["key"])) == 64


def test_an_operator_that_may_not_use_its_lease_is_not_ready_and_says_why(release: Release) -> None:
    rules = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
    release.install(rbac={"create": False}, operatorKey={"existingSecret": "their-key"})
    release.grant("jobs", rules["jobs"])
    release.grant("key", [{**rules["key"][0], "resourceNames": [f"{NAME}-key"]}, rules["key"][1]])
    port = free_port()
    operator = release.start("--listen", f"127.0.0.1:{port}")

    def said() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as found:
                return str(found.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.read().decode())
        except OSError:
            return ""

    release.cluster.until(lambda: "`lease` in the chart's files/rules.yaml" in said(), "it says why", 60)
    release.grant("lease", rules["lease"])
    release.cluster.until(lambda: said() == "ok", "it is ready", 60)
    assert operator.errors() == []


def test_people_of_a_namespace_see_and_edit_its_jobs(cluster: Cluster, namespace: str) -> None:
    """By Kubernetes' own roles, into which the chart's are aggregated."""
    cluster.helm("install", "ours", CHART, "-n", namespace, "--take-ownership")
    for role in ("view", "edit"):
        who = ("--clusterrole", role, "--user", f"{role}er")
        cluster.kubectl("create", "rolebinding", role, "-n", namespace, *who)

    def may(role: str, verb: str, resource: str, *more: str) -> bool:
        asked = ("auth", "can-i", verb, resource, "-n", namespace, "--as", f"{role}er", *more)
        try:
            said = cluster.kubectl(*asked)
        except CommandFailed as error:  # of "no"
            said = error.printed
        return {"yes": True, "no": False}[said.split()[0]]

    kinds = ("statefulsparkjobs.sparkstate.io", "statesnapshots.sparkstate.io")
    try:
        cluster.until(lambda: may("edit", "create", kinds[0]), "the roles are aggregated", 30)
        for kind in kinds:
            assert [may("view", verb, kind) for verb in ("get", "list", "watch")] == [True] * 3
            assert [may("view", verb, kind) for verb in ("create", "patch", "delete")] == [False] * 3
            assert [may("edit", verb, kind) for verb in ("get", "create", "patch", "delete")] == [True] * 4
            assert not may("edit", "update", kind, "--subresource=status")
        assert may("edit", "patch", kinds[0], "--subresource=scale")
        assert not may("view", "patch", kinds[0], "--subresource=scale")
    finally:
        cluster.helm("uninstall", "ours", "-n", namespace, "--no-hooks")


def test_the_pods_that_helm_runs_later_are_let_in_too(release: Release) -> None:
    release.install()
    text = release.cluster.helm("get", "hooks", "ours", "-n", release.namespace)
    hooks = [document for document in yaml.safe_load_all(text) if document]
    kinds = sorted(each["kind"] for each in hooks)
    assert kinds == ["Job", "Pod", *["Role"] * 2, *["RoleBinding"] * 2, "ServiceAccount"]
    for hook in hooks:
        body = (
            hook if hook["kind"] != "Job" else {"kind": "Pod", "apiVersion": "v1", **hook["spec"]["template"]}
        )
        if body["kind"] == "Pod":
            body["metadata"] = {"name": "tried", "namespace": release.namespace}
            body["spec"].pop("serviceAccountName", None)
            text = yaml.safe_dump(body)
            release.cluster.kubectl("create", "--dry-run=server", "-f", "-", text=text)


def older_chart(folder: Path) -> Path:
    """The chart as a version before might have been: its definition lacks a field."""
    chart = folder / "older"
    shutil.copytree(CHART, chart)
    path = chart / "files" / "crds" / "statefulsparkjobs.yaml"
    crd = yaml.safe_load(path.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["restartNonce"]
    path.write_text(yaml.safe_dump(crd, sort_keys=False))
    return chart


def test_an_upgrade_reaches_the_definitions_and_leaves_pods_as_they_are(
    release: Release, tmp_path: Path
) -> None:
    def has_nonce() -> bool:
        crd = release.cluster.get("crd", "statefulsparkjobs.sparkstate.io")
        assert crd is not None
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return "restartNonce" in schema["properties"]["spec"]["properties"]

    release.install(older_chart(tmp_path))
    assert not has_nonce()
    first = release.start()
    created = release.create()
    pod = release.get("pod", "orders-driver-1")
    Kubelet(release.cluster, release.namespace).run("orders-driver-1")
    release.upgrade()
    first.stop()
    second = release.start()
    release.cluster.until(has_nonce, "the definition is the new one")
    release.cluster.kubectl("label", "ssj", "orders", "-n", release.namespace, "touched=yes")
    release.cluster.until(
        lambda: any("leading" in line["message"] for line in second.lines()), "it leads", 40
    )
    assert release.get("pod", "orders-driver-1")["metadata"]["uid"] == pod["metadata"]["uid"]
    assert release.get("ssj", "orders")["metadata"]["uid"] == created["metadata"]["uid"]
    pods = release.cluster.items("pods", release.namespace, "sparkstate.io/job")
    assert [each["metadata"]["name"] for each in pods] == ["orders-driver-1"]
    assert first.errors() == second.errors() == []


def test_an_uninstall_keeps_jobs_and_leaves_none_stuck(release: Release) -> None:
    release.install()
    operator = release.start()
    created = release.create()
    uninstall, running = release.begin_uninstall()
    # The Deployment is gone, its pod takes its time: nothing is let go while it leads.
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(3)
    assert release.get("ssj", "orders")["metadata"]["finalizers"] == [labels.FINALIZER]
    operator.stop()
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert "1 objects were let go" in said
    release.end_uninstall(uninstall)
    kept = release.get("ssj", "orders")
    assert kept["metadata"]["uid"] == created["metadata"]["uid"]
    assert "finalizers" not in kept["metadata"]
    assert release.get("pod", "orders-driver-1")
    assert release.get("secret", f"{NAME}-key")
    assert release.cluster.get("deployment", NAME, release.namespace) is None
    # A driver that lives on without an operator may still make executors.
    roles = [each["metadata"]["name"] for each in release.cluster.items("roles", release.namespace)]
    assert roles == [f"{NAME}-driver"]
    release.cluster.kubectl("delete", "ssj", "orders", "-n", release.namespace, "--timeout=20s")
    release.install()


@pytest.fixture
def left(cluster: Cluster, release: Release) -> Iterator[str]:
    """A namespace that the release is going to watch no more, with a snapshot that its operator holds."""
    with cluster.namespace("left") as namespace:
        release.install(watchNamespaces=[release.namespace, namespace])
        meta = {"name": "held", "namespace": namespace, "finalizers": [labels.FINALIZER]}
        mark = {labels.MANAGER: f"{release.namespace}/{NAME}"}
        snapshot = {"apiVersion": "sparkstate.io/v1alpha1", "kind": "StateSnapshot"}
        cluster.apply({**snapshot, "metadata": {**meta, "annotations": mark}, "spec": {"uri": "s3://b/s"}})
        yield namespace


def test_an_uninstall_lets_go_what_the_release_has_left_behind(release: Release, left: str) -> None:
    release.upgrade(uninstall={"namespaces": [left]})
    uninstall, running = release.begin_uninstall()
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert "1 objects were let go" in said
    release.end_uninstall(uninstall)
    found = release.cluster.get("snap", "held", left)
    assert found is not None
    assert "finalizers" not in found["metadata"]
    assert not [one for one in release.cluster.items("roles", left) if one["metadata"]["name"] == HOOK]


def test_a_namespace_that_was_deleted_is_taken_out_before_the_uninstall(release: Release, left: str) -> None:
    """Helm would make no Role in it, and so no Job."""
    nothing = '{"metadata":{"finalizers":[]}}'
    release.cluster.kubectl("patch", "snap", "held", "-n", left, "--type=merge", "-p", nothing)
    release.cluster.kubectl("delete", "namespace", left, "--wait=false")
    release.cluster.until(lambda: release.cluster.get("namespace", left) is None, "the namespace is gone", 90)
    release.upgrade()
    uninstall, running = release.begin_uninstall()
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said
    release.end_uninstall(uninstall)


def test_people_are_told_of_the_namespaces_that_they_leave(cluster: Cluster, namespace: str) -> None:
    def notes(*more: str) -> str:
        said = cluster.helm(
            "install", "ours", CHART, "-n", namespace, "--dry-run=server", "--no-hooks", *more
        )
        return said.partition("NOTES:")[2]

    there = ("--set", "crds.install=false")
    assert "uninstall.namespaces" in notes(*there, "--set", f"watchNamespaces={{{namespace}}}")
    assert "uninstall.namespaces" not in notes(*there)
