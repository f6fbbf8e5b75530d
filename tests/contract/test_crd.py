"""The CRD as a document: generated, packaged, structural, explained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.repository import tree

from sparkstate import settings
from sparkstate.manifest import fields, schema
from sparkstate_operator import crdgen
from sparkstate_operator.model import resources
from sparkstate_spec import built_in, flink_tables, given, values
from sparkstate_spec import fields as spec_fields

FIRST = "crds/statefulsparkjobs.yaml"
CRD = yaml.safe_load((tree.ROOT / "crds/statefulsparkjobs.yaml").read_text())
VERSION = CRD["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]


def nodes(node: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".lstrip("."))
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), Mapping):
        yield from nodes(node["additionalProperties"], f"{path}{{}}")


NODES = dict(nodes(ROOT))


def test_no_generated_file_is_stale() -> None:
    assert crdgen.stale(tree.ROOT) == []
    assert crdgen.main(["--check", "--root", str(tree.ROOT)]) == 0


def test_a_stale_file_is_noticed_and_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema_file = tmp_path / crdgen.VALUES_SCHEMA
    schema_file.parent.mkdir(parents=True)
    schema_file.write_text((tree.ROOT / crdgen.VALUES_SCHEMA).read_text())
    assert crdgen.main(["--root", str(tmp_path)]) == 0
    first = tmp_path / FIRST
    first.write_text(first.read_text().replace("shortNames", "short"))
    assert crdgen.main(["--check", "--root", str(tmp_path)]) == 1
    assert f"{FIRST} is stale" in capsys.readouterr().err
    assert crdgen.main(["--root", str(tmp_path)]) == 0
    assert crdgen.main(["--check", "--root", str(tmp_path)]) == 0


@pytest.mark.parametrize("resource", resources.ALL, ids=lambda resource: resource.plural)
def test_it_is_small_enough_for_kubectl_apply(resource: resources.Resource) -> None:
    assert len(crdgen.render(resource).encode()) < 256 * 1024


def test_the_engine_reads_the_same_document() -> None:
    assert schema.crd() == CRD


def test_the_schema_is_structural() -> None:
    for path, node in NODES.items():
        assert "type" in node, path
        assert not node.keys() & {"$ref", "anyOf", "oneOf", "allOf", "not", "nullable", "title"}, path
        assert node.get("additionalProperties") is not False, path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_every_field_of_spec_and_status_is_explained() -> None:
    unexplained = [
        path
        for path, node in NODES.items()
        if path.startswith(("spec.", "status."))
        and not path.endswith(("[]", "{}"))
        and not node.get("description")
    ]
    assert unexplained == []


def test_pod_templates_are_open_and_carry_no_schema() -> None:
    for path in ("spec.driverTemplate", "spec.executorTemplate", "spec.localStorage.volumeClaimTemplate"):
        assert NODES[path]["x-kubernetes-preserve-unknown-fields"] is True
        assert "properties" not in NODES[path]


def test_the_schema_defaults_only_what_decides_the_shape() -> None:
    defaults = {path: node["default"] for path, node in NODES.items() if "default" in node}
    spec = {path: value for path, value in defaults.items() if path.startswith("spec")}
    assert spec == {"spec.deployment": "local", "spec.state": "running", "spec.upgradeMode": "last-state"}


def test_what_a_field_is_without_a_default_is_said() -> None:
    silent = {
        path
        for path, node in NODES.items()
        if path.startswith(("spec.checkpointing.", "spec.stateBackend.", "spec.savepoints.", "spec.restart."))
        and node["type"] not in ("object",)
        and not path.endswith(("[]", "{}"))
        and not re.search("Built-in|Helm value|[Nn]ot in this version", node["description"])
    }
    assert silent == set()


KINDS = {"duration": values.DURATION, "memory": values.QUANTITY, "location": values.LOCATION}
TYPES = {"paths": "array", "boolean": "boolean", "integer": "integer", "number": "number"}


@pytest.mark.parametrize("known", spec_fields.TABLE, ids=lambda known: known.path)
def test_a_field_is_spelled_as_its_line_says_and_described_with_its_keys_and_built_in_value(
    known: spec_fields.Field,
) -> None:
    node = NODES[f"spec.{known.path}"]
    assert node["type"] == TYPES.get(known.kind, "string")
    if known.kind in KINDS:
        assert node["pattern"] == KINDS[known.kind]
    elif known.kind == "text":
        assert node.get("pattern") not in KINDS.values()
    if known.words and "enum" in node:
        assert set(known.words.values()) <= set(node["enum"])
    told = f" Flink: {' or '.join(known.flink)}." if known.flink else " Flink: "
    assert (told in node["description"]) == bool(known.flink)
    if known.built_in is not None and "default" not in node:
        assert f"Built-in: {built_in.shown(known.path)}" in node["description"]
    assert node.get("default") in (None, known.built_in)


def test_a_field_that_is_taken_whole_is_one_whose_inside_the_schema_leaves_open() -> None:
    opened = {path for path, node in NODES.items() if node.get("x-kubernetes-preserve-unknown-fields")}
    # Sections of Flink's keys may nest as deep as one likes; the reading of the spec splits them into keys.
    assert {path.removeprefix("spec.") for path in opened} == {*given.OPAQUE, "flinkConfiguration"}


def test_the_metrics_that_the_schema_names_are_those_that_flinks_keys_switch_on() -> None:
    assert NODES["spec.stateBackend.nativeMetrics[]"]["enum"] == list(flink_tables.NATIVE_METRICS)


def test_the_built_in_values_are_the_engines() -> None:
    defaults = settings.JobSettings(name="a", entry=settings.EntryPoint())
    strategy_fields = [field for each in fields.STRATEGY_FIELDS.values() for field in each]
    for field in [*fields.FIELDS, *strategy_fields]:
        description = NODES[f"spec.{field.path}"]["description"]
        said = re.search(r"Built-in: ([^ ,:(]+)", description)
        if said:
            value: Any = defaults
            for name in field.setting.split("."):
                value = getattr(value, name)
            words = {"savepoints/": "none", "Flink's": "none", "four": "none", "AWS": "none", "from": "none"}
            words |= {"the": "none", "without": "none"}
            told = said[1].rstrip(".")
            told = words.get(told, told)
            assert told == field.kind.show(value), field.path


def test_everything_cel_measures_is_bounded() -> None:
    unbounded = [
        path
        for path, node in NODES.items()
        if path.startswith("spec.")
        and (
            (node["type"] == "string" and "enum" not in node and "maxLength" not in node)
            or (node["type"] == "array" and "maxItems" not in node)
            or ("additionalProperties" in node and "maxProperties" not in node)
        )
    ]
    assert unbounded == []


def test_every_pattern_is_explained_in_words() -> None:
    for path, node in NODES.items():
        if "pattern" in node:
            assert not schema.hint(node["pattern"]).startswith("must match"), path


def test_kubectl_get_shows_what_matters() -> None:
    names = [column["name"] for column in VERSION["additionalPrinterColumns"]]
    assert names == ["Phase", "Slots", "Backend", "State", "Last-Checkpoint", "Restarts", "Progress", "Age"]
    for column in VERSION["additionalPrinterColumns"]:
        path = column["jsonPath"].lstrip(".")
        assert path in NODES or path == "metadata.creationTimestamp"


def test_kubectl_scale_changes_the_slots() -> None:
    scale = VERSION["subresources"]["scale"]
    assert scale["specReplicasPath"] == ".spec.slots"
    assert NODES["spec.slots"]["type"] == NODES["status.slots"]["type"] == "integer"
    assert NODES["status.selector"]["type"] == "string"
    assert set(VERSION["subresources"]) == {"status", "scale"}
    assert CRD["spec"]["names"]["shortNames"] == ["ssj"]
