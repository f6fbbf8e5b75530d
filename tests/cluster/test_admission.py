"""What a real API server accepts and refuses: each CEL rule by one object that it lets pass and one that it does
not, each constraint of the schema by values on both sides of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client
from support.cluster import admission_cases, crd_judge
from support.cluster.admission_cases import Case
from support.repository import tree

from sparkstate_tools.kubernetes.cluster import Cluster

GROUP, VERSION = "sparkstate.io", "v1alpha1"
pytestmark = pytest.mark.usefixtures("crds")
KINDS = {"statefulsparkjobs": "StatefulSparkJob", "statesnapshots": "StateSnapshot"}
BASES: dict[str, dict[str, Any]] = {"statefulsparkjobs": {"pythonFile": "job.py"}, "statesnapshots": {}}
CASES = admission_cases.every()
SCHEMAS = {
    plural: yaml.safe_load((tree.ROOT / f"crds/{plural}.yaml").read_text())["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]
    for plural in KINDS
}


def thing(plural: str, spec: Mapping[str, Any], name: str = "flights") -> dict[str, Any]:
    metadata = {"name": name}
    whole = {**BASES[plural], **spec}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KINDS[plural], "metadata": metadata, "spec": whole}


class Admission:
    """Asks the API server without storing anything."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._api = client.CustomObjectsApi(cluster.api())
        self._namespace = namespace

    def create(self, plural: str, body: Mapping[str, Any], dry_run: str | None = "All") -> dict[str, Any]:
        more = {"dry_run": dry_run} if dry_run else {}
        found = self._api.create_namespaced_custom_object(
            GROUP, VERSION, self._namespace, plural, body, field_validation="Strict", **more
        )
        return dict(found)

    def replace(self, plural: str, body: Mapping[str, Any]) -> dict[str, Any]:
        found = self._api.replace_namespaced_custom_object(
            GROUP, VERSION, self._namespace, plural, body["metadata"]["name"], body, dry_run="All"
        )
        return dict(found)

    def causes(self, plural: str, body: Mapping[str, Any], change: bool = False) -> list[tuple[str, str]]:
        """(field, message) of everything that the server finds wrong; empty when it accepts."""
        try:
            self.replace(plural, body) if change else self.create(plural, body)
        except client.ApiException as error:
            if error.status != 422:
                raise
            details = json.loads(error.body)["details"]
            return [(cause["field"], cause["message"]) for cause in details["causes"]]
        return []


@pytest.fixture(scope="module")
def admission(cluster: Cluster, crds: None) -> Iterator[Admission]:
    with cluster.namespace("admission") as name:
        yield Admission(cluster, name)


def broken(case: Case, causes: list[tuple[str, str]]) -> bool:
    """Whether the rule of the case is among what was found."""
    where = case.field or "<nil>"
    return any(field == where and f": {case.message}" in message for field, message in causes)


@pytest.mark.parametrize("case", [case for case in CASES if case.old is None], ids=str)
def test_a_rule_lets_the_right_pass_and_names_the_wrong(admission: Admission, case: Case) -> None:
    assert admission.causes(case.plural, thing(case.plural, case.accepted)) == []
    found = admission.causes(case.plural, thing(case.plural, case.refused, case.name or "flights"))
    assert broken(case, found), found


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(case for case in CASES if case.old is not None)), ids=str
)
def test_a_rule_about_changes_does_so_too(admission: Admission, number: int, case: Case) -> None:
    assert case.old is not None
    stored = admission.create(case.plural, thing(case.plural, case.old, f"changing-{number}"), dry_run=None)
    accepted = {**stored, "spec": {**BASES[case.plural], **case.accepted}}
    refused = {**stored, "spec": {**BASES[case.plural], **case.refused}}
    assert admission.causes(case.plural, accepted, change=True) == []
    found = admission.causes(case.plural, refused, change=True)
    assert broken(case, found), found


def test_every_rule_of_both_crds_has_its_row() -> None:
    rows = {(case.plural, case.field, case.message) for case in CASES}
    for plural, schema in SCHEMAS.items():
        for path, rule in crd_judge.rules(schema):
            where = f"{path}{rule.get('fieldPath', '')}"
            found = [row for row in rows if row[:2] == (plural, where) and rule["message"].startswith(row[2])]
            assert len(found) == 1, (where, rule["message"], found)
    assert len(rows) == sum(len(list(crd_judge.rules(schema))) for schema in SCHEMAS.values())


# --- the schema's own constraints --------------------------------------------------------------------------

BESIDE: dict[str, dict[str, Any]] = {
    "restart.fixedDelay": {"restart": {"strategy": "fixed-delay"}},
    "restart.exponentialDelay": {"restart": {"strategy": "exponential-delay"}},
    "restart.failureRate": {"restart": {"strategy": "failure-rate"}},
    "backoffLimit": {"jobRef": {"name": "flights"}},
    "formatType": {"jobRef": {"name": "flights"}},
}
"""What must stand beside a section, or a field, so that a good value in it is a good spec."""


def constrained(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every leaf below ``spec`` that has a type, with its schema."""
    for name, child in node.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        if "properties" in child:
            yield from constrained(child, where)
        elif child["type"] in ("string", "integer", "number", "boolean"):
            yield where, child


LEAVES = [
    (plural, path, leaf)
    for plural, schema in SCHEMAS.items()
    for path, leaf in constrained(schema["properties"]["spec"])
]


def put(path: str, value: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for section, beside in BESIDE.items():
        if path == section or path.startswith(f"{section}."):
            spec = json.loads(json.dumps(beside))
    node = spec
    *sections, last = path.split(".")
    for section in sections:
        node = node.setdefault(section, {})
    node[last] = value
    return spec


def wrong_values(leaf: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """A value that breaks each constraint, and how the server says so."""
    yield ([1], "must be of type")
    if "enum" in leaf:
        yield ("nonsense", "Unsupported value") if leaf["type"] == "string" else (False, "Unsupported value")
    if "pattern" in leaf:
        yield (" not this ", "should match")
    if "minimum" in leaf:
        yield (leaf["minimum"] - 1, "should be greater than or equal to")
    if "maximum" in leaf:
        yield (leaf["maximum"] + 1, "should be less than or equal to")
    if "maxLength" in leaf:
        yield ("a" * (leaf["maxLength"] + 1), "may not be more than")


@pytest.mark.parametrize(
    ("plural", "path", "leaf"), LEAVES, ids=[f"{plural}-{path}" for plural, path, _ in LEAVES]
)
def test_the_schema_refuses_a_wrong_value_by_its_path(
    admission: Admission, plural: str, path: str, leaf: Mapping[str, Any]
) -> None:
    for value, said in wrong_values(leaf):
        found = admission.causes(plural, thing(plural, put(path, value)))
        assert any(
            field == f"spec.{path}" and said in message.replace("Too long: ", "") for field, message in found
        ), (
            value,
            found,
        )


EXTREMES = [
    (plural, path, leaf[bound])
    for plural, path, leaf in LEAVES
    for bound in ("minimum", "maximum")
    if bound in leaf
]


@pytest.mark.parametrize(("plural", "path", "value"), EXTREMES, ids=str)
def test_the_schema_accepts_its_own_bounds(admission: Admission, plural: str, path: str, value: Any) -> None:
    assert admission.causes(plural, thing(plural, put(path, value))) == []


@pytest.mark.parametrize("path", ["slotz", "checkpointing.every", "s3.password"])
def test_an_unknown_field_is_refused_by_its_path(admission: Admission, path: str) -> None:
    with pytest.raises(client.ApiException) as refused:
        admission.create("statefulsparkjobs", thing("statefulsparkjobs", put(path, "x")))
    assert refused.value.status == 400
    assert f'unknown field \\"spec.{path}\\"' in refused.value.body


# --- what kubectl shows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("plural", KINDS)
def test_the_server_finds_nothing_to_complain_about_the_definition(cluster: Cluster, plural: str) -> None:
    stored = cluster.get("crd", f"{plural}.{GROUP}")
    assert stored is not None
    conditions = {each["type"]: each["status"] for each in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


def test_kubectl_knows_short_names_category_columns_and_scale(cluster: Cluster, namespace: str) -> None:
    cluster.apply(
        thing("statefulsparkjobs", {"slots": 2}) | {"metadata": {"name": "flights", "namespace": namespace}}
    )
    cluster.apply(
        thing("statesnapshots", {"uri": "s3://b/x"}) | {"metadata": {"name": "old", "namespace": namespace}}
    )
    head = cluster.kubectl("get", "ssj", "-n", namespace).splitlines()[0].split()
    assert head == ["NAME", "PHASE", "SLOTS", "BACKEND", "STATE", "LAST-CHECKPOINT", "RESTARTS", "AGE"]
    head = cluster.kubectl("get", "snap", "-n", namespace).splitlines()[0].split()
    assert head == ["NAME", "PHASE", "JOB", "EPOCH", "SIZE", "COMPLETED", "AGE"]
    both = cluster.kubectl("get", "sparkstate", "-n", namespace, "-o", "name").split()
    assert both == ["statefulsparkjob.sparkstate.io/flights", "statesnapshot.sparkstate.io/old"]
    cluster.kubectl("scale", "ssj/flights", "--replicas=5", "-n", namespace)
    stored = cluster.get("ssj", "flights", namespace)
    assert stored is not None
    assert stored["spec"]["slots"] == 5
    assert {name: stored["spec"][name] for name in ("deployment", "state", "upgradeMode")} == {
        "deployment": "local",
        "state": "running",
        "upgradeMode": "last-state",
    }


def test_the_spec_is_changed_by_people_and_the_status_by_its_subresource(
    cluster: Cluster, namespace: str
) -> None:
    cluster.apply(thing("statefulsparkjobs", {}) | {"metadata": {"name": "flights", "namespace": namespace}})
    patch = ["patch", "ssj", "flights", "-n", namespace, "--type=merge", "-p"]
    cluster.kubectl(*patch, '{"status": {"phase": "Running"}}')
    stored = cluster.get("ssj", "flights", namespace)
    assert stored is not None
    assert "status" not in stored
    cluster.kubectl(*patch, '{"status": {"phase": "Running"}, "spec": {"slots": 7}}', "--subresource=status")
    stored = cluster.get("ssj", "flights", namespace)
    assert stored is not None
    assert stored["status"] == {"phase": "Running"}
    assert "slots" not in stored["spec"]
    assert stored["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    "path", ["ssj.spec.checkpointing.interval", "ssj.status.memory", "snap.spec.deletionPolicy"]
)
def test_kubectl_explains_a_field(cluster: Cluster, path: str) -> None:
    wanted = {
        "ssj.spec.checkpointing.interval": "Helm value: defaults.checkpointing.interval",
        "ssj.status.memory": "How the pods' memory is made up",
        "snap.spec.deletionPolicy": "The fate of the data",
    }
    said = " ".join(cluster.kubectl("explain", path).split())
    assert wanted[path] in said


def test_the_examples_in_the_repository_are_accepted(admission: Admission) -> None:
    manifests = [
        path
        for path in Path(tree.ROOT / "examples").rglob("*.yaml")
        if "StatefulSparkJob" in path.read_text()
    ]
    assert manifests
    for path in manifests:
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "StatefulSparkJob":
                spec = {**document["spec"]}
                body = {**document, "metadata": {"name": document["metadata"]["name"]}, "spec": spec}
                assert admission.causes("statefulsparkjobs", body) == [], path
