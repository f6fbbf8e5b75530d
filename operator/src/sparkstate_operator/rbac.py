"""The rights that the operator's calls need, as one table. The chart's Roles are generated from it (``python -m
sparkstate_operator.crdgen``); a test compares it with what the audit log saw.

No Secret of a job is read: tokens are derived, and bucket credentials are mounted by the kubelet. The one Secret that
the operator reads is that of its own key, where nobody has given it one.
"""

from __future__ import annotations

from typing import Any

from sparkstate_operator.edges import kube as k
from sparkstate_operator.objects import children

Rule = dict[str, Any]

_ALONE = ("get", "list", "create", "delete")

VERBS: tuple[tuple[k.Kind, str, tuple[str, ...]], ...] = (
    (k.JOBS, "", ("get", "list", "watch", "patch")),
    (k.JOBS, "status", ("update",)),
    (k.SNAPSHOTS, "", ("get", "list", "watch", "create", "patch", "delete")),
    (k.SNAPSHOTS, "status", ("update",)),
    (k.PODS, "", (*_ALONE, "watch")),
    (k.TASKS, "", (*_ALONE, "watch")),
    (k.REVISIONS, "", _ALONE),
    (k.CONFIG_MAPS, "", _ALONE),
    (k.SECRETS, "", ("create", "delete")),
    (k.SERVICES, "", (*_ALONE, "patch")),
    (k.SERVICE_ACCOUNTS, "", (*_ALONE, "patch")),
    (k.ROLES, "", (*_ALONE, "patch")),
    (k.ROLE_BINDINGS, "", (*_ALONE, "patch")),
    (k.EVENTS, "", ("create",)),
    (k.NAMESPACES, "", ("get",)),
)
"""(kind, subresource, verbs). Server-side apply needs ``patch``, and ``create`` where there is nothing yet."""

KEY_SECRET = "sparkstate-operator-key"
"""The Secret of the operator's key, where the release is called as the chart; the chart puts the release's own name."""

LEASE_VERBS = ("get", "create", "update")
"""In the operator's own namespace."""


def rules() -> list[Rule]:
    """For jobs, in every namespace that is watched. The last ones are held only to be granted: a driver in a
    cluster deployment makes executors, and nobody may grant what he has not."""
    own = [_rule(kind, subresource, verbs) for kind, subresource, verbs in VERBS]
    return [*own, *({**rule, "verbs": list(rule["verbs"])} for rule in children.EXECUTOR_RULES)]


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
