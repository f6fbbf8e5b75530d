"""A spec as leaves, Flink's keys folded in, and whose value counts."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate_spec import given, layers
from sparkstate_spec.given import GivenValue

CLUSTER = "cluster default"


def values(leaves: given.Leaves) -> dict[str, Any]:
    return {path: leaf.value for path, leaf in leaves.items()}


def merged(job: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return values(layers.merge(layers.fold(job, given.JOB), layers.fold(defaults, CLUSTER)))


def test_maps_fall_apart_and_lists_and_pod_templates_are_taken_whole() -> None:
    spec = {
        "slots": 3,
        "driver": {"cores": 1},
        "params": {"x": "y", "a.b": "z"},
        "imagePullSecrets": [{"name": "own"}],
        "driverTemplate": {"spec": {"nodeSelector": {}}},
        "localStorage": {"volumeClaimTemplate": {"spec": {}}},
        "executor": {},
        "ui": None,
    }
    found = dict(given.leaves(spec))
    assert found == {
        "slots": 3,
        "driver.cores": 1,
        "params.x": "y",
        "params['a.b']": "z",
        "imagePullSecrets": [{"name": "own"}],
        "driverTemplate": {"spec": {"nodeSelector": {}}},
        "localStorage.volumeClaimTemplate": {"spec": {}},
    }
    tree = given.nested({path: GivenValue(value, given.JOB) for path, value in found.items()})
    assert tree == {name: value for name, value in spec.items() if value not in ({}, None)}


@pytest.mark.parametrize("name", ["slots", "a_b", "a.b", "state.backend.rocksdb.thread.num", "9", "a b"])
def test_a_path_splits_into_the_names_it_was_joined_of(name: str) -> None:
    assert given.split(given.join("sparkConf", name)) == ["sparkConf", name]


def test_a_field_is_below_itself_and_its_sections_and_not_below_a_longer_or_shorter_name() -> None:
    assert given.below("restart", "restart")
    assert given.below("restart.fixedDelay.delay", "s3", "restart")
    assert given.below("sparkConf['spark.a']", "sparkConf")
    assert not given.below("managedMemoryPerSlot", "managedMemory")
    assert not given.below("restart", "restart.strategy")


def test_flinks_keys_become_fields_options_and_metrics_and_say_which_key_it_was() -> None:
    configuration = {
        "parallelism.default": "4",
        "state.backend": "rocksdb",
        "state.backend.rocksdb.thread.num": "4",
        "state.backend.rocksdb.metrics.estimate-num-keys": "true",
        "state.backend.rocksdb.metrics.is-write-stopped": "false",
        "state.backend.rocksdb.metrics.column-family-as-variable": "true",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
    }
    found = layers.fold({"configuration": configuration}, given.JOB)
    assert values(found) == {
        "slots": 4,
        "stateBackend.type": "rocksdb",
        "stateBackend.options['state.backend.rocksdb.thread.num']": "4",
        "stateBackend.options['state.backend.rocksdb.metrics.column-family-as-variable']": "true",
        "stateBackend.nativeMetrics": ["estimate-num-keys"],
    }
    assert {leaf.origin for leaf in found.values()} == {given.JOB}
    assert found["slots"].source == "job (parallelism.default)"
    assert found["stateBackend.nativeMetrics"].source == "job (state.backend.rocksdb.metrics.*)"
    assert GivenValue(1, given.JOB).source == "job"


def test_a_class_says_the_type_of_the_backend_too() -> None:
    for spec in ({"class": "m:C"}, {"class": "m:C", "type": "custom"}):
        found = values(layers.fold({"stateBackend": spec}, given.JOB))
        assert found == {"stateBackend.class": "m:C", "stateBackend.type": "custom"}
    assert merged({}, {"stateBackend": {"class": "m:C"}})["stateBackend.type"] == "custom"


def test_the_job_wins_key_by_key() -> None:
    assert merged({"params": {"x": "1"}}, {"params": {"x": "2", "y": "3"}, "slots": 4}) == {
        "params.x": "1",
        "params.y": "3",
        "slots": 4,
    }


@pytest.mark.parametrize(
    ("job", "defaults", "left"),
    [
        pytest.param({"fixedMemoryPerSlot": "1Gi"}, {"managedMemoryPerSlot": "512Mi"}, {}, id="memory"),
        pytest.param({"managedMemoryPerSlot": "1Gi"}, {"managedMemory": False}, {}, id="managed"),
        pytest.param(
            {"managedMemory": True},
            {"managedMemoryPerSlot": "512Mi"},
            {"managedMemoryPerSlot": "512Mi"},
            id="memory as it is anyway",
        ),
        pytest.param(
            {"trigger": {"availableNow": False}},
            {"trigger": {"processingTime": "1s"}},
            {"trigger.processingTime": "1s"},
            id="trigger as it is anyway",
        ),
        pytest.param(
            {"savepoints": {"schedule": "@daily"}},
            {"savepoints": {"interval": "1h", "maxCount": 3}},
            {"savepoints.maxCount": 3},
            id="savepoints",
        ),
        pytest.param(
            {"trigger": {"availableNow": True}}, {"trigger": {"processingTime": "1s"}}, {}, id="trigger"
        ),
        pytest.param(
            {"localStorage": {"volumeClaimTemplate": {"spec": {}}}},
            {"localStorage": {"sizeLimit": "1Gi"}},
            {},
            id="volume",
        ),
        pytest.param(
            {"pythonFile": "job.py"}, {"configMapRef": {"name": "code", "key": "a.py"}}, {}, id="code"
        ),
        pytest.param({"configMapRef": {"name": "code"}}, {"module": "shop.orders"}, {}, id="code by name"),
        pytest.param(
            {"restoreFrom": {"uri": "s3://b/1"}},
            {"restoreFrom": {"snapshotRef": {"name": "monday"}}},
            {},
            id="restored",
        ),
        pytest.param(
            {"restoreFrom": {"snapshotRef": {"name": "monday"}}}, {"startEmpty": True}, {}, id="empty"
        ),
        pytest.param(
            {"restart": {"strategy": "none"}},
            {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 2}}},
            {},
            id="restart",
        ),
        pytest.param(
            {"restart": {"strategy": "fixed-delay"}},
            {"restart": {"fixedDelay": {"attempts": 2}, "failureRate": {"delay": "1s"}}},
            {"restart.fixedDelay.attempts": 2},
            id="strategy",
        ),
        pytest.param(
            {"stateBackend": {"type": "hashmap"}},
            {
                "stateBackend": {
                    "type": "rocksdb",
                    "optionsFactory": "m:C",
                    "timerService": "heap",
                    "transferThreads": 8,
                }
            },
            {"stateBackend.transferThreads": 8},
            id="backend",
        ),
        pytest.param(
            {"stateBackend": {"type": "rocksdb"}},
            {"stateBackend": {"class": "m:C", "options": {"own": "1"}, "transferThreads": 8}},
            {"stateBackend.transferThreads": 8},
            id="class",
        ),
        pytest.param(
            {"stateBackend": {"class": "m:C"}},
            {"stateBackend": {"type": "rocksdb", "options": {"own": "1"}, "storagePaths": ["/a"]}},
            {},
            id="class in place of rocksdb",
        ),
        pytest.param(
            {"stateBackend": {"class": "m:Other"}},
            {"stateBackend": {"class": "m:C", "options": {"own": "1"}}},
            {},
            id="another class",
        ),
        pytest.param(
            {"stateBackend": {"class": "m:C", "options": {"more": "2"}}},
            {"stateBackend": {"class": "m:C", "options": {"own": "1", "more": "1"}}},
            {"stateBackend.options.own": "1"},
            id="options of the same class",
        ),
    ],
)
def test_a_choice_of_the_job_takes_away_defaults_that_exclude_it(
    job: dict[str, Any], defaults: dict[str, Any], left: dict[str, Any]
) -> None:
    assert merged(job, defaults) == {**left, **values(layers.fold(job, given.JOB))}
