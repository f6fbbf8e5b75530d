"""Built-in values: which, for whom, and how they are said."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate_spec import built_in, fields, flink, given, layers


def filled(spec: dict[str, Any]) -> dict[str, Any]:
    found = built_in.fill(layers.fold(spec, given.JOB))
    return {path: leaf.value for path, leaf in found.items() if leaf.origin == given.BUILT_IN}


def test_what_nobody_gave_is_written_down_as_built_in() -> None:
    found = filled({"slots": 3})
    assert found["fenceTimeout"] == "30s"
    assert "slots" not in found
    assert found["stateBackend.type"] == "hashmap"


@pytest.mark.parametrize(
    ("spec", "path", "value"),
    [
        ({}, "slotsPerExecutor", None),
        ({"deployment": "cluster"}, "slotsPerExecutor", 2),
        ({"deployment": "cluster"}, "executor.memory", "1Gi"),
        ({}, "configMapRef.key", None),
        ({"configMapRef": {"name": "code"}}, "configMapRef.key", "job.py"),
        ({"fixedMemoryPerSlot": "1Gi"}, "managedMemoryPerSlot", None),
        ({"managedMemory": False}, "managedMemoryPerSlot", None),
        ({}, "managedMemoryPerSlot", "256Mi"),
        ({}, "managedMemory", None),
        ({"stateBackend": {"timerService": "rocksdb"}}, "stateBackend.type", None),
        ({"stateBackend": {"optionsFactory": "a.b:C"}}, "stateBackend.type", None),
        ({"stateBackend": {"timerService": "rocksdb"}}, "stateMemoryPerSlot", "256Mi"),
        ({"stateBackend": {"type": "rocksdb"}}, "stateMemoryPerSlot", None),
        ({"stateBackend": {"type": "rocksdb"}}, "stateBackend.transferThreads", 4),
        ({}, "stateBackend.transferThreads", None),
        ({"trigger": {"availableNow": True}}, "trigger.processingTime", None),
        ({}, "trigger.processingTime", "0s"),
        ({}, "trigger.availableNow", None),
        ({}, "restart.exponentialDelay.maxBackoff", "1m"),
        ({"restart": {"strategy": "fixed-delay"}}, "restart.exponentialDelay.maxBackoff", None),
        ({"restart": {"strategy": "fixed-delay"}}, "restart.fixedDelay.attempts", 3),
        ({"restart": {"strategy": "failure-rate"}}, "restart.failureRate.delay", "1s"),
        ({"s3": {"region": "eu"}}, "s3.pathStyle", False),
        ({}, "s3.pathStyle", None),
        ({}, "startEmpty", None),
        ({}, "operatorStateMemoryPerSlot", None),
    ],
)
def test_a_built_in_value_counts_where_its_field_means_something(
    spec: dict[str, Any], path: str, value: Any
) -> None:
    assert filled(spec).get(path) == value


WRITTEN = {
    "allowNonRestoredState",
    "checkpointing.inlineThreshold",
    "checkpointing.interval",
    "checkpointing.maxHeldOutput",
    "checkpointing.maxTimeWithoutCheckpoint",
    "checkpointing.minPause",
    "checkpointing.mode",
    "checkpointing.retained",
    "checkpointing.timeout",
    "checkpointing.tolerableFailures",
    "checkpointing.writeBufferSize",
    "deletion.deadline",
    "deletion.policy",
    "deployment",
    "driver.cores",
    "driver.memory",
    "fenceTimeout",
    "function",
    "restart.strategy",
    "savepoints.onStop",
    "sinkTimeout",
    "slots",
    "state",
    "ui",
    "upgradeCheck",
    "upgradeMode",
}


def test_a_new_field_gives_no_running_job_another_revision_and_no_older_image_a_field_that_it_refuses() -> (
    None
):
    written = {
        line.path for line in fields.TABLE if line.built_in is not None and line.applies is fields.always
    }
    assert written <= WRITTEN, "give the new field `applies=unwritten`, or a condition"


@pytest.mark.parametrize(
    "line", [one for one in fields.TABLE if one.built_in is not None], ids=lambda one: one.path
)
def test_a_built_in_value_is_spelled_as_its_field(line: fields.Field) -> None:
    types: dict[str, type] = {"boolean": bool, "integer": int, "number": float}
    assert type(line.built_in) is types.get(line.kind, str)
    if line.words:
        assert line.built_in in line.words.values()


@pytest.mark.parametrize(
    ("path", "value", "plain", "shown"),
    [
        ("checkpointing.interval", "1m", 60.0, "1m"),
        ("driver.memory", "1Gi", 2**30, "1Gi"),
        ("ui", False, False, "false"),
        ("slots", 2, 2, "2"),
        ("stateBackend.writeBufferRatio", 0.5, 0.5, "0.5"),
    ],
)
def test_a_built_in_value_can_be_had_in_plain_units_and_as_text(
    path: str, value: Any, plain: Any, shown: str
) -> None:
    assert (built_in.value(path), built_in.plain(path), built_in.shown(path)) == (value, plain, shown)


def test_a_field_without_a_built_in_value_says_so() -> None:
    with pytest.raises(KeyError, match="shards has no built-in value"):
        built_in.plain("shards")


def test_flinks_words_and_the_built_in_ones_are_the_same() -> None:
    for line in fields.TABLE:
        if line.flink and isinstance(line.built_in, str) and line.words:
            assert flink.read(line, line.built_in) == line.built_in
