"""ResourceQuotas of a real API server, and the affinities by which scopes tell pods apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkstate_tools.kubernetes.cluster import Cluster


def quota_of(namespace: str, name: str, hard: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard, **spec}}


def used(cluster: Cluster, namespace: str, name: str) -> dict[str, str]:
    """By resource, as the quota says it, once it has counted the objects that are there."""

    def counted() -> dict[str, str] | None:
        found = cluster.get("resourcequota", name, namespace) or {}
        return found.get("status", {}).get("used")  # type: ignore[no-any-return]

    return dict(cluster.until(counted, f"the quota {name} counts"))


def limit(
    cluster: Cluster, namespace: str, name: str, hard: Mapping[str, str], **spec: Any
) -> dict[str, str]:
    """Make a quota; what is used of it. It holds from then on."""
    cluster.apply(quota_of(namespace, name, hard, **spec))
    return used(cluster, namespace, name)


def near(**term: Any) -> dict[str, Any]:
    """An affinity to pods."""
    chosen = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "kafka"}}, **term}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [chosen]}}


def apart(**term: Any) -> dict[str, Any]:
    """An affinity that keeps pods away, if that is possible."""
    chosen = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", **term}}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [chosen]}}
