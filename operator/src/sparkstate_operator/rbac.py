"""The rights of the operator and of drivers, as tables. The chart's Roles are generated from them
(``python -m sparkstate_operator.crdgen``), and tests compare them with the API server's audit log.

The operator reads no Secret of a job: it derives tokens, and the kubelet mounts bucket credentials. It reads one
Secret, that of its own key, where nobody has given it a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkstate_operator.config import DriverRole
from sparkstate_operator.edges import kube as k

Rule = dict[str, Any]

_ALONE = ("get", "list", "create", "delete")

VERBS: tuple[tuple[k.Kind, str, tuple[str, ...]], ...] = (
    (k.JOBS, "", ("get", "list", "watch", "patch", "delete")),
    (k.JOBS, "status", ("update",)),
    (k.SNAPSHOTS, "", ("get", "list", "watch", "create", "patch", "delete")),
    (k.SNAPSHOTS, "status", ("update",)),
    (k.PODS, "", (*_ALONE, "watch")),
    (k.COMMANDS, "", (*_ALONE, "watch")),
    (k.REVISIONS, "", _ALONE),
    (k.CONFIG_MAPS, "", _ALONE),
    (k.SECRETS, "", ("create", "delete")),
    (k.SERVICES, "", (*_ALONE, "patch")),
    (k.SERVICE_ACCOUNTS, "", (*_ALONE, "patch")),
    (k.ROLES, "", ("get", "list", "delete")),
    (k.ROLE_BINDINGS, "", (*_ALONE, "patch")),
    (k.EVENTS, "", ("create", "list")),
    (k.NAMESPACES, "", ("get",)),
    (k.RESOURCE_QUOTAS, "", ("get",)),
    (k.LEASES, "", ("get",)),
)
"""(kind, subresource, verbs). Server-side apply needs ``patch``, and ``create`` where there is nothing yet.

Roles: older operators made one for each job. The operator finds and deletes them, and makes none. Only an older
operator needs ``get`` on them: Helm changes its rights while it still leads, and it reads the job's Role before each
attempt. Without the right it began no attempt during an upgrade. Drop ``get`` with the version after 0.1.

ResourceQuotas: the scopes of one that refuses a new pod, which tell whether it counts the pods that would go.

Events: ``list`` for those of a command's Job that has no pod, which alone say why. Without the right, the condition
says that it is missing.

Leases: those of other operators, which tell whether an operator that has marked a job is still there."""

DRIVER_VERBS: Mapping[str, str] = {
    "create": "makes executors",
    "get": "reads its own pod, where a job brings an executor template of its own (spark.kubernetes.executor."
    "podTemplateFile)",
    "list": "learns how executors fare: every 30 s",
    "watch": "learns how executors fare: at once",
    "patch": "marks a failed executor as seen, where failed ones are kept (spark.kubernetes.executor."
    'deleteOnTermination: "false")',
    "delete": "removes an executor that has failed",
    "deletecollection": "removes all executors when the job ends, and those that never came to their driver",
}
"""All that Spark's Kubernetes backend does with pods in client mode, and what for. Nothing else: the engine switches
off what needs ConfigMaps, Services and claims (``sparkstate.spark.kubernetes``)."""

KEY_SECRET = "sparkstate-operator-key"
"""The Secret of the operator's key, where the release is called as the chart; the chart puts the release's own name."""

LEASE_VERBS = ("get", "create", "update")
"""In the operator's own namespace."""


def rules() -> list[Rule]:
    """For jobs, in every namespace that is watched; with :func:`bind_rules`."""
    return [_rule(kind, subresource, verbs) for kind, subresource, verbs in VERBS]


def bind_rules(role: DriverRole | None = None) -> list[Rule]:
    """For binding drivers to their role, in every namespace that is watched: to this one, and to no other that holds
    more than the operator does. It is read before the rights of older operators go."""
    named = role or DriverRole()
    plural = "clusterroles" if named.kind == "ClusterRole" else k.ROLES.plural
    return [{**_rule(k.ROLES, "", ("bind", "get")), "resources": [plural], "resourceNames": [named.name]}]


def driver_rules() -> list[Rule]:
    """Of a driver with executors, in its namespace."""
    return [_rule(k.PODS, "", tuple(DRIVER_VERBS))]


def lease_rules() -> list[Rule]:
    """For leadership."""
    return [_rule(k.LEASES, "", LEASE_VERBS)]


def key_rules(secret: str = KEY_SECRET) -> list[Rule]:
    """For the operator's own key, in its own namespace, where it makes that key itself. ``secret``: the Secret's name.
    A creation cannot be bound to a name."""
    return [
        {**_rule(k.SECRETS, "", ("get",)), "resourceNames": [secret]},
        _rule(k.SECRETS, "", ("create",)),
    ]


def release_rules() -> list[Rule]:
    """For the command that lets jobs and snapshots go when the chart is uninstalled."""
    kinds = (k.JOBS, k.SNAPSHOTS)
    return [_rule(kind, "", ("get", "list", "patch")) for kind in kinds]


def _rule(kind: k.Kind, subresource: str, verbs: tuple[str, ...]) -> Rule:
    group = kind.path(None).removeprefix("/").split("/")
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return {
        "apiGroups": [group[1] if group[0] == "apis" else ""],
        "resources": [resource],
        "verbs": list(verbs),
    }
