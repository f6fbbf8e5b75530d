"""The same manifests before both judges: the operator's (models, CRD schema, CEL rules) and the engine's.

A bad manifest names what must be found in its first lines: ``# expect: <path>: <beginning of the message>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml
from support.cluster import crd_judge

from sparkstate import errors
from sparkstate.manifest import Manifest, document, load, schema
from sparkstate_operator.model import StatefulSparkJob
from sparkstate_spec import fields, flink, rules

MANIFESTS = Path(__file__).parent / "manifests"
GOOD = sorted((MANIFESTS / "good").glob("*.yaml"))
BAD = sorted((MANIFESTS / "bad").glob("*.yaml"))
CRD_RULES = [(path, rule) for path, rule in crd_judge.rules(schema.root()) if "oldSelf" not in rule["rule"]]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def expectations(path: Path) -> list[str]:
    return re.findall(r"^# expect: (.*)$", path.read_text(), re.MULTILINE)


def types_fit(manifest: dict[str, Any]) -> bool:
    return not schema.check({k: v for k, v in manifest.items() if k != "metadata"}, schema.root(), "")


def by_cel(manifest: dict[str, Any]) -> set[tuple[str, str]]:
    return set(crd_judge.violations(manifest, schema.root()))


def by_engine(manifest: dict[str, Any]) -> set[tuple[str, str]]:
    """The engine's findings; the CRD cannot name metadata.name in a path, so its rule stands at the root."""
    found = rules.check(schema.with_defaults(manifest))
    return {("" if p.path == "metadata.name" else p.path, p.message) for p in found}


def given_twice() -> Iterator[tuple[str, dict[str, Any]]]:
    """For each of Flink's keys that has two spellings a manifest with both."""
    samples = {"duration": "10 s", "memory": "64kb", "boolean": "true", "integer": "4", "number": "0.5"}
    samples |= {"location": "s3://bucket/a"}
    words = {"stateBackend.type": "rocksdb", "restart.strategy": "none"}
    words["checkpointing.storageType"] = "filesystem"
    for known in (one for one in fields.TABLE if len(one.flink) > 1):
        text = words.get(known.path) or samples[known.kind]
        yield known.path, wrap({"pythonFile": "job.py", "configuration": dict.fromkeys(known.flink, text)})


def beside_fields() -> Iterator[tuple[str, dict[str, Any]]]:
    """For each of Flink's keys a manifest that gives its field too."""
    for path, both in given_twice():
        known = fields.BY_PATH[path]
        key, text = next(iter(both["spec"]["configuration"].items()))
        spec: dict[str, Any] = {"pythonFile": "job.py", "configuration": {key: text}}
        node = spec
        *parents, last = known.path.split(".")
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = flink.read(known, text)
        yield path, wrap(spec)


def wrap(spec: dict[str, Any]) -> dict[str, Any]:
    head = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "flights"},
    }
    return {**head, "spec": spec}


TWICE = list(given_twice())
BESIDE = list(beside_fields())


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_both_sides_accept_a_good_manifest(path: Path) -> None:
    manifest = read(path)
    job = StatefulSparkJob.model_validate(manifest)
    assert job.metadata["name"] == "flights"
    assert by_cel(manifest) == set()
    loaded = load(path)
    assert isinstance(loaded, Manifest)
    assert loaded.name == "flights"


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_the_engine_refuses_a_bad_manifest_by_its_paths(path: Path) -> None:
    wanted = expectations(path)
    found = [str(problem) for problem in document.judge(read(path))]
    assert wanted, f"{path.name} names nothing that must be found"
    missing = [text for text in wanted if not any(line.startswith(text) for line in found)]
    assert not missing, found
    assert len(found) == len(wanted), found
    with pytest.raises(errors.SpecInvalid) as raised:
        load(path)
    assert all(text in str(raised.value) for text in wanted)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_only_later_fields_wrong_is_an_error_of_its_own(path: Path) -> None:
    later = all("not in this version" in text for text in expectations(path))
    with pytest.raises(errors.SpecInvalid) as raised:
        load(path)
    assert (type(raised.value) is errors.NotInThisVersion) == later


@pytest.mark.parametrize("path", [path for path in BAD if types_fit(read(path))], ids=lambda path: path.stem)
def test_the_crds_rules_find_the_same_with_the_same_words(path: Path) -> None:
    manifest = read(path)
    assert by_cel(manifest) == by_engine(manifest) != set()
    StatefulSparkJob.model_validate(manifest)


@pytest.mark.parametrize(
    "path", [path for path in BAD if not types_fit(read(path))], ids=lambda path: path.stem
)
def test_the_operators_models_refuse_wrong_types_at_the_same_paths(path: Path) -> None:
    with pytest.raises(pydantic.ValidationError) as raised:
        StatefulSparkJob.model_validate(read(path))
    found = {".".join(str(part) for part in error["loc"]) for error in raised.value.errors()}
    wanted = {text.split(": ")[0] for text in expectations(path)}
    empty = {text.split(": ")[0] for text in expectations(path) if "is empty" in text}
    assert found == wanted - empty


def by_flinks_name(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the map of Flink's keys as Flink's Kubernetes operator spells it."""
    spec = dict(manifest["spec"])
    spec["flinkConfiguration"] = spec.pop("configuration")
    return {**manifest, "spec": spec}


ON_KEYS = [
    path
    for path in BAD
    if types_fit(read(path)) and "configuration" in read(path)["spec"] and path.stem != "two-configurations"
]


@pytest.mark.parametrize("path", ON_KEYS, ids=lambda path: path.stem)
def test_flinks_spelling_of_the_map_is_refused_for_the_same_keys_by_the_engine(path: Path) -> None:
    manifest = by_flinks_name(read(path))
    assert types_fit(manifest)
    wanted = {str(one) for one in rules.check(schema.with_defaults(read(path)))}
    found = {str(one) for one in rules.check(schema.with_defaults(manifest))}
    assert found == {
        text.replace("spec.configuration", "spec.flinkConfiguration").replace(
            "configuration['", "flinkConfiguration['"
        )
        for text in wanted
    }
    StatefulSparkJob.model_validate(manifest)


@pytest.mark.parametrize(("path", "manifest"), TWICE, ids=[name for name, _ in TWICE])
def test_a_key_in_both_spellings_is_refused_by_both_sides(path: str, manifest: dict[str, Any]) -> None:
    assert types_fit(manifest)
    found = by_cel(manifest)
    assert found == by_engine(manifest)
    assert any(message.endswith("mean the same; keep one") for _, message in found)


@pytest.mark.parametrize(("path", "manifest"), BESIDE, ids=[name for name, _ in BESIDE])
def test_a_key_beside_its_field_is_accepted_by_both_sides(path: str, manifest: dict[str, Any]) -> None:
    assert types_fit(manifest)
    assert by_cel(manifest) == by_engine(manifest) == set()


def test_every_rule_of_the_crd_is_broken_by_some_manifest() -> None:
    broken: set[tuple[str, str]] = set()
    for manifest in [*(read(path) for path in BAD if types_fit(read(path))), *(each for _, each in TWICE)]:
        broken |= by_cel(manifest)
    every = {(f"{path}{rule.get('fieldPath', '')}".lstrip("."), rule["message"]) for path, rule in CRD_RULES}
    assert every - broken == set()


def test_the_engine_has_exactly_the_crds_rules() -> None:
    crd = {(f"{path}{rule.get('fieldPath', '')}".lstrip("."), rule["message"]) for path, rule in CRD_RULES}
    engine = {("" if rule.path == "metadata.name" else rule.path, rule.message) for rule in rules.ALL}
    assert engine == crd
    assert len(rules.ALL) == len(CRD_RULES)


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ({"shards": 16}, {"shards": 16}, ""),
        ({"shards": 16}, {"shards": 32}, "spec.shards"),
        ({"shards": 16}, {}, ""),  # the remedy for a number that is not that of the job's state
        ({}, {"shards": 16}, ""),
        ({"maxParallelism": 128}, {"maxParallelism": 256}, "spec.maxParallelism"),
        ({"maxParallelism": 128}, {}, ""),
        (
            {"configuration": {"pipeline.max-parallelism": "128"}},
            {"configuration": {"pipeline.max-parallelism": "128", "parallelism.default": "3"}},
            "",
        ),
        (
            {"configuration": {"pipeline.max-parallelism": "128"}},
            {"configuration": {"pipeline.max-parallelism": "64"}},
            "spec.configuration",
        ),
        ({"configuration": {"pipeline.max-parallelism": "128"}}, {"maxParallelism": 128}, ""),
        ({"configuration": {"pipeline.max-parallelism": "128"}}, {"configuration": {}}, ""),
    ],
    ids=str,
)
def test_shards_and_key_groups_cannot_be_changed(
    old: dict[str, Any], new: dict[str, Any], refused: str
) -> None:
    before, after = (wrap({"pythonFile": "job.py", **spec}) for spec in (old, new))
    found = crd_judge.change_violations(before, after, schema.root())
    assert [path for path, _ in found] == ([refused] if refused else [])
