from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sparkstate import errors
from sparkstate.manifest import load
from sparkstate.manifest.document import API_VERSION, KIND

HEAD = "apiVersion: sparkstate.io/v1alpha1\nkind: StatefulSparkJob\nmetadata:\n  name: flights\n"


def refused(text: str, *fragments: str, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(errors.SpecInvalid) as raised:
        load(text, overrides)
    for fragment in fragments:
        assert fragment in str(raised.value)
    return str(raised.value)


def test_a_manifest_is_read_from_text_and_from_a_file(tmp_path: Path) -> None:
    text = f"{HEAD}spec:\n  pythonFile: job.py\n"
    assert load(text).base_dir is None
    assert load(text).namespace == "default"
    (tmp_path / "job.yaml").write_text(text)
    manifest = load(tmp_path / "job.yaml")
    assert manifest.base_dir == tmp_path.resolve()
    assert manifest.spec == {"pythonFile": "job.py"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"none\.yaml cannot be read: No such file"):
        load(tmp_path / "none.yaml")


def test_the_jobs_code_in_place_of_its_manifest_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("def job(spark, params): ...\n")
    with pytest.raises(
        errors.SpecInvalid, match=r"job\.py is Python code; name the job's manifest.*sparkstate init"
    ):
        load(tmp_path / "job.py")


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        (
            "stateBackend:\n    type: Rocks",
            'must be "hashmap" or "rocksdb" or "custom"; did you mean rocksdb',
        ),
        ("checkpointing:\n    mode: hourly", 'must be "interval" (it is'),
    ],
)
def test_a_value_of_a_later_version_is_no_choice_yet(field: str, choices: str) -> None:
    refused(f"{HEAD}spec:\n  pythonFile: job.py\n  {field}\n", choices)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(errors.SpecInvalid, match=r"job\.yaml is not UTF-8 text"):
        load(tmp_path / "job.yaml")


def test_a_key_that_stands_twice_is_refused_with_both_lines() -> None:
    refused(
        f"{HEAD}spec:\n  slots: 2\n  slots: 3\n", "line 7: slots appears twice (first on line 6); keep one"
    )


def test_two_documents_are_refused() -> None:
    refused(f"{HEAD}spec: {{}}\n---\n{HEAD}spec: {{}}\n", "there are 2 YAML documents in it")
    refused("", "there are 0 YAML documents in it")


def test_a_leading_separator_is_no_second_document() -> None:
    assert load(f"---\n{HEAD}spec:\n  pythonFile: job.py\n---\n").name == "flights"


def test_broken_yaml_is_refused_with_its_line() -> None:
    refused("spec: [1,\nmetadata: }", "line 2: this is not valid YAML")
    refused("- a\n- b\n", "the manifest is a list; it must be a mapping")


def test_code_in_yaml_is_not_run() -> None:
    refused("spec: !!python/object/apply:os.system ['true']", "not valid YAML")


def test_few_lines_that_stand_for_more_than_a_memory_holds_are_refused() -> None:
    lines = ["a0: &a0 {k: v}", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))]
    maps = [
        "a0: &a0 {k: v}",
        *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 20)),
    ]
    for text in (lines, maps):
        refused(f"{HEAD}" + "\n".join(text), "more than 100,000 parts with each YAML alias (*name) in full")
    refused(f"{HEAD}spec: " + "[" * 5000, "it is nested too deeply")


def test_kind_and_version_are_named() -> None:
    refused("spec: {}\n", "apiVersion: is missing", "kind: is missing; it must be StatefulSparkJob")
    refused(
        "apiVersion: sparkstate.io/v1\nkind: SparkApplication\nmetadata: {name: a}\nspec: {}\n",
        "apiVersion: must be sparkstate.io/v1alpha1 (it is 'sparkstate.io/v1')",
        "kind: must be StatefulSparkJob (it is 'SparkApplication')",
    )


def test_a_job_has_a_name_and_a_spec() -> None:
    refused(
        "apiVersion: sparkstate.io/v1alpha1\nkind: StatefulSparkJob\nspec:\n  module: a\n",
        "metadata.name: is missing",
    )
    refused(HEAD, "spec: is missing")
    refused(
        HEAD.replace("flights", "7") + "spec:\n  module: a\n",
        "metadata.name: must be text; write it in quotes",
    )


def test_several_findings_are_reported_together() -> None:
    message = refused(
        f"{HEAD}spec:\n  slots: three\n  checkpointing:\n    intervall: 5s\n    timeout: soon\n"
    )
    assert message.splitlines() == [
        "manifest has 3 problems:",
        "  spec.checkpointing.intervall: unknown field; did you mean interval?",
        '  spec.slots: must be a whole number (it is "three")',
        '  spec.checkpointing.timeout: must be a duration such as 500ms, 30s, 5m or 1h30m (it is "soon")',
    ]


def test_too_little_memory_is_refused_with_field_value_and_the_least() -> None:
    for told in ("'0'", "1023Ki"):
        message = refused(f"{HEAD}spec:\n  module: a\n  operatorStateMemoryPerSlot: {told}\n")
        shown = told.strip("'")
        assert message.endswith(f"spec.operatorStateMemoryPerSlot: must be at least 1Mi (it is {shown})")
    load(f"{HEAD}spec:\n  module: a\n  operatorStateMemoryPerSlot: 1Mi\n")


def test_values_that_yaml_11_would_bend_stay_what_they_look_like() -> None:
    manifest = load(f"{HEAD}spec:\n  module: a\n  params:\n    day: 2026-11-01\n    clock: 12:30:00\n")
    assert manifest.spec["params"] == {"day": "2026-11-01", "clock": "12:30:00"}
    refused(
        f"{HEAD}spec:\n  module: a\n  params:\n    on: 'x'\n", "the key True is not text; write it in quotes"
    )


def test_a_character_that_json_writes_as_two_escapes_is_read_as_one() -> None:
    spec = {"pythonFile": "job.py", "params": {"\U0001f600": "\\ud83d ä\u2028\U00010000"}}
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "flights"}, "spec": spec}
    assert load(json.dumps(document)).spec == spec


def test_half_of_a_character_is_refused_with_its_line() -> None:
    text = HEAD + 'spec:\n  pythonFile: job.py\n  params: {x: "a\\ud83d"}\n'
    refused(text, r"line 7: 'a\ud83d' holds half of a character; write the whole")


def test_a_value_that_may_be_a_key_is_never_shown() -> None:
    message = refused(
        f"{HEAD}spec:\n  module: a\n  s3:\n    secretKey: 12345\n", "spec.s3.secretKey: must be text"
    )
    assert "12345" not in message
    message = refused(
        f"{HEAD}spec:\n  module: a\n  sparkConf:\n    fs.s3a.secret.key: hidden\n", "fs.s3a.secret.key"
    )
    assert "hidden" not in message


@pytest.mark.parametrize(
    "wrong",
    [
        "configuration: {s3: {secret-key: hidden}}",
        "configuration: {my.token: [hidden]}",
        "configuration: [hidden]",
        "flinkConfiguration: [{s3.secret-key: hidden}]",
        "flinkConfiguration: hidden",
        "sparkConf: [{fs.s3a.secret.key: hidden}]",
        "params: {db: {password: hidden}}",
        f"configuration: {dict.fromkeys((f'a.hidden.{number}' for number in range(101)), 'hidden')}",
    ],
)
def test_a_value_of_the_wrong_type_that_may_hold_a_key_is_never_shown(wrong: str) -> None:
    message = refused(f"{HEAD}spec:\n  module: a\n  {wrong}\n")
    assert "hidden" not in re.sub(r"a\.hidden\.\d+", "", message)


@pytest.mark.parametrize("digits", ["9" * 5000, "0x" + "f" * 5000, "!!int nine"])
def test_a_number_beyond_all_bounds_is_refused_with_its_line(digits: str) -> None:
    refused(f"{HEAD}spec:\n  module: a\n  slots: {digits}\n", "line 7: ", "is not a number")


def test_an_unknown_key_of_flinks_gets_a_suggestion() -> None:
    refused(
        f"{HEAD}spec:\n  module: a\n  configuration:\n    state.checkpoint.dir: /a\n",
        "did you mean state.checkpoints.dir?",
    )


def test_a_field_at_a_wrong_place_is_told_its_place() -> None:
    refused(
        f"{HEAD}spec:\n  module: a\n  inlineThreshold: 1Ki\n",
        "spec.inlineThreshold: unknown field; there is spec.checkpointing.inlineThreshold",
    )


def test_a_finding_of_one_line_stays_on_one_line() -> None:
    message = refused(f"{HEAD}spec:\n  module: a\n  slots: 0\n")
    assert message == "manifest: spec.slots: must be at least 1 (it is 0)"


def test_set_gives_one_value_by_the_schemas_type() -> None:
    manifest = load(
        f"{HEAD}spec:\n  module: a\n  slots: 2\n",
        [
            "spec.slots=3",
            "spec.ui=true",
            "spec.checkpointing.interval=5s",
            "spec.params.hours=4",
            "spec.sparkConf.spark.sql.shuffle.partitions=2",
            "spec.configuration['execution.checkpointing.timeout']=1 min",
            "spec.stateBackend.storagePaths=/a, /b",
            "spec.restart.exponentialDelay.jitterFactor=0.2",
            "spec.restart.strategy=exponential-delay",
            "metadata.namespace=shop",
        ],
    )
    assert manifest.namespace == "shop"
    assert manifest.spec["slots"] == 3
    assert manifest.spec["ui"] is True
    assert manifest.spec["params"] == {"hours": "4"}
    assert manifest.spec["sparkConf"] == {"spark.sql.shuffle.partitions": "2"}
    assert manifest.spec["configuration"] == {"execution.checkpointing.timeout": "1 min"}
    assert manifest.spec["stateBackend"] == {"storagePaths": ["/a", "/b"]}
    assert manifest.spec["restart"]["exponentialDelay"] == {"jitterFactor": 0.2}


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("spec.slots=1:30", "spec.slots"),
        ("spec.slots=1_0", "spec.slots"),
        ("spec.slots=2026-13-01", "spec.slots"),
        ("spec.slots=2.0", "spec.slots"),
        ("spec.slots=" + "9" * 5000, "--set spec.slots: "),
        ("spec.slots=" + "[" * 5000, "--set spec.slots: "),
        ("spec.slots=!!float abc", "--set spec.slots: "),
        ("spec.checkpointing={interval: 5s, interval: 9s}", "interval appears twice"),
        ("spec.driver={1: 2}", "the key 1 is not text"),
        ("spec.sparkConf={on: x}", "the key True is not text"),
        ("=3", "there is no field before '='"),
        ("spec.restart.exponentialDelay.backoffMultiplier=.nan", "backoffMultiplier"),
    ],
)
def test_what_set_gives_is_read_by_the_rules_of_the_manifest(text: str, fragment: str) -> None:
    refused(f"{HEAD}spec:\n  pythonFile: job.py\n", fragment, overrides=(text,))


@pytest.mark.parametrize(
    ("field", "value"),
    [("slots", "2.0"), ("maxParallelism", "128.0"), ("checkpointing", "{retained: 3.0}"), ("slots", "true")],
)
def test_a_whole_number_with_a_fraction_is_refused(field: str, value: str) -> None:
    """JSON Schema takes 2.0 for a whole number, and Python does not count by it."""
    refused(
        f"{HEAD}spec:\n  pythonFile: job.py\n  {field}: {value}\n", f"spec.{field}", "must be a whole number"
    )


@pytest.mark.parametrize("tagged", ["!!float abc", "!!bool x", "!!timestamp x"])
def test_a_value_that_is_not_of_its_tags_type_is_refused(tagged: str) -> None:
    refused(f"{HEAD}spec:\n  pythonFile: {tagged}\n", "does not fit its explicit tag")


@pytest.mark.parametrize("annotations", ["text", "[a]", "5"])
def test_annotations_that_are_no_mapping_are_refused(annotations: str) -> None:
    text = f"{HEAD}  annotations: {annotations}\nspec:\n  pythonFile: job.py\n"
    refused(text, "metadata.annotations: must be a mapping")


def test_set_to_null_takes_a_field_away() -> None:
    assert load(f"{HEAD}spec:\n  module: a\n  slots: 0\n", ["spec.slots=null"]).spec == {"module": "a"}


def test_what_set_gives_is_judged_as_the_rest() -> None:
    text = f"{HEAD}spec:\n  module: a\n"
    refused(text, "spec.slots: must be a whole number", overrides=("spec.slots=many",))
    refused(text, "unknown field slotz; did you mean slots?", overrides=("spec.slotz=3",))
    refused(text, "there is no '='; write it as spec.slots=3", overrides=("spec.slots",))
    refused(text, "more slots than shards", overrides=("spec.slots=30", "spec.shards=20"))
    refused(text, "module is 'a' in the manifest, not a mapping", overrides=("spec.module.x=1",))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "restoreFrom: file:///savepoints/savepoint-012345-a",
            "spec.restoreFrom: must be a mapping of fields (snapshotRef, latest, uri, beforeTime), "
            "for example restoreFrom: {uri: …}",
        ),
        ("stateBackend: rocksdb", "for example stateBackend: {type: …}"),
        ("checkpointing: 10s", "for example checkpointing: {interval: …}"),
        ("deletion: [purge]", "(policy, deadline), for example deletion: {policy: …}"),
        ("params: text", "spec.params: must be a mapping of fields"),
    ],
)
def test_a_text_in_place_of_a_mapping_is_refused_with_its_fields_and_an_example(
    line: str, message: str
) -> None:
    refused(f"{HEAD}spec:\n  pythonFile: job.py\n  {line}\n", message)
