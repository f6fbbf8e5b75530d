"""Both definitions: structural, explained, bounded; and which fields the chart may have a value for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sparkstate_operator.model import StateSnapshot, crd, helm, resources
from sparkstate_operator.model.resources import Resource

RESOURCES = pytest.mark.parametrize("resource", resources.ALL, ids=lambda resource: resource.plural)


def nodes(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".lstrip("."))
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), Mapping):
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


@RESOURCES
def test_the_schema_is_structural(resource: Resource) -> None:
    for path, node in nodes(crd.build_schema(resource)):
        assert "type" in node, path
        assert not node.keys() & {"$ref", "anyOf", "oneOf", "allOf", "not", "nullable", "title"}, path


@RESOURCES
def test_every_field_is_explained(resource: Resource) -> None:
    for path, node in nodes(crd.build_schema(resource)):
        if path.startswith(("spec.", "status.")) and not path.endswith(("[]", "{}")):
            assert node.get("description"), path


@RESOURCES
def test_everything_that_cel_measures_is_bounded(resource: Resource) -> None:
    for path, node in nodes(crd.build_schema(resource)):
        if path.startswith("spec."):
            assert node["type"] != "string" or "enum" in node or "maxLength" in node, path
            assert node["type"] != "array" or "maxItems" in node, path
            assert "additionalProperties" not in node or "maxProperties" in node, path


@RESOURCES
def test_every_column_shows_a_field(resource: Resource) -> None:
    paths = {path for path, _ in nodes(crd.build_schema(resource))} | {"metadata.creationTimestamp"}
    assert {column.path.lstrip(".") for column in resource.columns} <= paths


def test_a_snapshots_schema_has_no_defaults() -> None:
    spec = crd.build_schema(resources.SNAPSHOTS)["properties"]["spec"]
    assert [path for path, node in nodes(spec) if "default" in node] == []


def test_a_snapshot_says_what_is_built_in() -> None:
    spec = crd.build_schema(resources.SNAPSHOTS)["properties"]["spec"]["properties"]
    said = {name for name, node in spec.items() if "Built-in" in node["description"]}
    assert said == set(spec) - {"jobRef", "uri"}


def test_a_snapshots_status_holds_no_keys() -> None:
    paths = {path for path, _ in nodes(crd.build_schema(resources.SNAPSHOTS))}
    assert "status.access.s3.secretRef.name" in paths
    assert not any(path.startswith("status.") and path.endswith(("accessKey", "secretKey")) for path in paths)


def test_a_snapshot_is_read_from_what_is_stored() -> None:
    stored = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StateSnapshot",
        "metadata": {"name": "nightly"},
        "spec": {"jobRef": {"name": "orders"}, "pinned": True},
        "status": {"phase": "Completed", "completedTime": "2026-11-21T03:00:00Z", "epoch": 7},
    }
    snapshot = StateSnapshot.model_validate(stored)
    assert snapshot.spec.job_ref is not None
    assert snapshot.spec.job_ref.name == "orders"
    assert snapshot.status is not None
    assert snapshot.status.phase == "Completed"


def test_exactly_the_fields_that_the_chart_may_default_name_their_value() -> None:
    spec = crd.build_schema(resources.JOBS)["properties"]["spec"]
    for path, node in nodes(spec):
        leaf = path and "properties" not in node and not path.endswith(("[]", "{}"))
        if leaf and "[]" not in path:
            told = f"Helm value: defaults.{path}." in node["description"]
            assert told == helm.has_value(path), path


def test_the_charts_schema_has_those_fields_and_no_others() -> None:
    spec = crd.build_schema(resources.JOBS)["properties"]["spec"]
    made = helm.values_schema(spec)
    for path, node in nodes(made):
        assert path == "" or helm.has_value(path.removesuffix("[]").removesuffix("{}")), path
        assert "properties" not in node or node["additionalProperties"] is False, path
        assert not any(key.startswith("x-kubernetes") for key in node), path
        assert "default" not in node, path
    wanted = {path for path, _ in nodes(spec) if path and helm.has_value(path.removesuffix("{}"))}
    assert wanted - {path for path, _ in nodes(made)} == set()
