"""The ServiceAccount under which tests run the operator: with the rights of the chart's table and no others."""

from __future__ import annotations

from pathlib import Path

from sparkstate_operator import rbac
from sparkstate_operator.config import DriverRole
from sparkstate_tools.kubernetes.cluster import Cluster

NAME = "operator"
ROLE = DriverRole("Role", "driver")
"""Of drivers: a Role of that name in each test's namespace, which tests make that need what it grants."""


def make(cluster: Cluster, namespace: str, without: tuple[str, str] | None = None) -> Path:
    """A ServiceAccount with the rights of the chart's table and no others; its kubeconfig. ``without``: a verb of a
    resource that it does not have."""
    rules = [dict(rule) for rule in [*rbac.rules(), *rbac.bind_rules(ROLE)]]
    for rule in rules:
        if without is not None and rule["resources"] == [without[1]]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != without[0]]
    meta = {"name": NAME, "namespace": namespace}
    leases = {"name": f"{namespace}-leases", "namespace": "default"}
    group = "rbac.authorization.k8s.io"
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": rules,
        },
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": leases, "rules": rbac.lease_rules()},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": leases,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": leases["name"]},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
    )
    return cluster.kubeconfig_of(namespace, NAME)


def user(namespace: str) -> str:
    """As the audit log calls it."""
    return f"system:serviceaccount:{namespace}:{NAME}"
