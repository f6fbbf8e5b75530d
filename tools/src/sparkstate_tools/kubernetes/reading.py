"""Objects read through one open connection: a wait that asks ten times a second has no CPU for a kubectl each time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kubernetes import client

KINDS: Mapping[str, tuple[str, str]] = {
    "pod": ("api/v1", "pods"),
    "configmap": ("api/v1", "configmaps"),
    "service": ("api/v1", "services"),
    "event": ("api/v1", "events"),
    "job": ("apis/batch/v1", "jobs"),
    "deployment": ("apis/apps/v1", "deployments"),
    "ssj": ("apis/sparkstate.io/v1alpha1", "statefulsparkjobs"),
    "snap": ("apis/sparkstate.io/v1alpha1", "statesnapshots"),
}
"""The names that tests wait by, their group and version, and the resource in a path. Others go by kubectl."""


def knows(kind: str) -> bool:
    """Whether ``kind``, in the singular or the plural, is one of those."""
    return _singular(kind) in KINDS


def get(api: client.ApiClient, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
    """One object, or None when there is none of that name."""
    return _read(api, f"{_path(kind, namespace)}/{name}", {})


def items(api: client.ApiClient, kind: str, namespace: str | None, selector: str) -> list[dict[str, Any]]:
    """All objects of a kind, in one namespace or in all, each with its kind as kubectl shows it."""
    found = _read(api, _path(kind, namespace), {"labelSelector": selector} if selector else {})
    if found is None:
        raise AssertionError(f"the API server knows no {kind}")
    shown = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
    return [{**shown, **item} for item in found["items"] or ()]


def _singular(kind: str) -> str:
    return kind.removesuffix("s") if kind.removesuffix("s") in KINDS else kind


def _path(kind: str, namespace: str | None) -> str:
    group, resource = KINDS[_singular(kind)]
    return f"/{group}/namespaces/{namespace}/{resource}" if namespace else f"/{group}/{resource}"


def _read(api: client.ApiClient, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    request = api.param_serialize(
        "GET",
        path,
        query_params=list(query.items()),
        header_params={"Accept": "application/json"},
        auth_settings=["BearerToken"],
    )
    answer = api.call_api(*request, _request_timeout=30)
    said = answer.read()
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise AssertionError(f"GET {path}: {answer.status} {said[:500]!r}")
    return dict(json.loads(said))
