"""Job over Helm value over built-in, the origin of each, and what only the sum of two layers shows."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate_operator import errors
from sparkstate_operator.core import settings
from sparkstate_operator.core.settings import KeySpace

BASE: dict[str, Any] = {"image": "shop:1", "checkpointing": {"storage": "s3://bucket/prefix"}}
JOB: dict[str, Any] = {"pythonFile": "/job.py"}


def resolve(spec: dict[str, Any], defaults: dict[str, Any] | None = None, **more: Any) -> settings.Resolved:
    return settings.resolve({**JOB, **spec}, {**BASE, **(defaults or {})}, **more)


def test_the_job_beats_the_chart_and_the_chart_the_built_in_value() -> None:
    resolved = resolve({"slots": 3}, {"slots": 5, "sinkTimeout": "2m"})
    assert (resolved.get("slots"), resolved.origins["slots"]) == (3, "job")
    assert (resolved.get("sinkTimeout"), resolved.origins["sinkTimeout"]) == ("2m", "helm")
    assert (resolved.get("fenceTimeout"), resolved.origins["fenceTimeout"]) == ("30s", "built-in")


def test_every_field_has_an_origin_and_every_origin_a_field() -> None:
    resolved = resolve({"sparkConf": {"spark.a.b": "1"}, "params": {"x": "y"}}, {"s3": {"region": "eu"}})
    assert resolved.origins["sparkConf['spark.a.b']"] == "job"
    assert resolved.origins["s3.region"] == "helm"
    assert resolved.get("params.x") == "y"
    assert None not in {resolved.get(path, 0) for path in resolved.origins if "'" not in path}


def test_maps_merge_by_key_and_lists_and_pod_templates_are_taken_whole() -> None:
    template = {"spec": {"tolerations": [{"key": "a"}]}}
    defaults = {
        "sparkConf": {"spark.a": "1", "spark.b": "2"},
        "imagePullSecrets": [{"name": "chart"}],
        "driverTemplate": {"metadata": {"labels": {"team": "x"}}},
    }
    resolved = resolve(
        {"sparkConf": {"spark.b": "3"}, "imagePullSecrets": [{"name": "own"}], "driverTemplate": template},
        defaults,
    )
    assert resolved.spec["sparkConf"] == {"spark.a": "1", "spark.b": "3"}
    assert resolved.get("imagePullSecrets") == [{"name": "own"}]
    assert resolved.get("driverTemplate") == template


def test_flinks_keys_become_the_fields_they_mean() -> None:
    resolved = resolve({"configuration": {"parallelism.default": "4", "state.backend": "filesystem"}})
    assert resolved.slots == 4
    assert resolved.backend == "hashmap"
    assert "configuration" not in resolved.spec


@pytest.mark.parametrize(
    ("spec", "defaults", "gone", "kept"),
    [
        ({"fixedMemoryPerSlot": "1Gi"}, {"managedMemoryPerSlot": "512Mi"}, "managedMemoryPerSlot", "job"),
        (
            {"savepoints": {"schedule": "@daily"}},
            {"savepoints": {"interval": "1h"}},
            "savepoints.interval",
            "job",
        ),
        (
            {"trigger": {"availableNow": True}},
            {"trigger": {"processingTime": "1s"}},
            "trigger.processingTime",
            "",
        ),
        (
            {"localStorage": {"volumeClaimTemplate": {"spec": {}}}},
            {"localStorage": {"sizeLimit": "1Gi"}},
            "localStorage.sizeLimit",
            "",
        ),
        (
            {"restart": {"strategy": "none"}},
            {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 2}}},
            "restart.fixedDelay",
            "",
        ),
        (
            {"stateBackend": {"type": "hashmap"}},
            {"stateBackend": {"type": "rocksdb", "transferThreads": 8, "timerService": "rocksdb"}},
            "stateBackend.timerService",
            "",
        ),
    ],
    ids=["memory", "savepoints", "trigger", "volume", "restart", "backend"],
)
def test_a_choice_of_the_job_takes_away_defaults_that_exclude_it(
    spec: dict[str, Any], defaults: dict[str, Any], gone: str, kept: str
) -> None:
    resolved = resolve(spec, defaults)
    assert resolved.get(gone) is None
    assert not any(path.startswith(gone) for path in resolved.origins)
    assert kept == "" or kept in resolved.origins.values()


def test_executors_are_as_many_as_the_slots_need() -> None:
    assert resolve({"slots": 5}).executors == 0
    cluster = {"deployment": "cluster", "slotsPerExecutor": 2}
    assert [resolve({**cluster, "slots": slots}).executors for slots in (1, 2, 3, 5)] == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("spec", "defaults", "said"),
    [
        ({"slots": 20}, {"slotsPerExecutor": 2}, ""),
        ({"slots": 20, "shards": 16}, {}, "spec.slots: there are more slots than shards"),
        ({"shards": 200, "maxParallelism": 128}, {}, "spec.shards: there are more shards than key groups"),
        ({"maxParallelism": 4}, {"slots": 6}, r"spec.slots: .* \(it is 6, from Helm value defaults.slots; "),
        (
            {"deployment": "cluster"},
            {"checkpointing": {"storage": "/data"}},
            "spec.checkpointing.storage: with deployment cluster, write a URL .*from Helm value",
        ),
        ({}, {"checkpointing": {"storage": "data"}}, "a relative path has no meaning in a pod"),
        (
            {"restoreFrom": {"uri": "sp-1"}},
            {},
            "spec.restoreFrom.uri: a relative path has no meaning in a pod",
        ),
        ({"savepoints": {"storage": "sp"}}, {}, "spec.savepoints.storage: a relative path has no meaning"),
        (
            {"checkpointing": {"storage": None}},
            {"checkpointing": {}},
            r"storage: is missing; name a URL such as",
        ),
        ({}, {"image": None}, "spec.image: is missing; name an image, or set Helm value defaults.image"),
        (
            {"restart": {"strategy": "exponential-delay", "exponentialDelay": {"initialBackoff": "5m"}}},
            {},
            "initialBackoff is longer than maxBackoff; .*maxBackoff is 1m, from the built-in value",
        ),
        (
            {"stateBackend": {"predefinedOptions": "DEFAULT"}},
            {"stateBackend": {"type": "hashmap"}},
            "spec.stateBackend.predefinedOptions: applies only to type rocksdb",
        ),
        (
            {"stateBackend": {"timerService": "rocksdb"}},
            {"stateBackend": {"type": "hashmap"}},
            "with type hashmap, timers are always on the heap",
        ),
        (
            {"stateBackend": {"type": "rocksdb", "writeBufferRatio": 0.95}},
            {},
            "together must be less than 1 .*writeBufferRatio is 0.95",
        ),
        ({"savepoints": {"schedule": "0 0 30 2 *"}}, {}, "spec.savepoints.schedule: names a time that never"),
        (
            {"trigger": {"availableNow": True, "schedule": "0 0 30 2 *"}},
            {},
            "spec.trigger.schedule: names a time that never",
        ),
        (
            {"trigger": {"availableNow": True, "schedule": "nightly"}},
            {},
            r"spec.trigger.schedule: must be a cron line .* \(it is 'nightly'\)",
        ),
        ({"sparkConf": {"spark.driver.memoryOverhead": "much"}}, {}, "must be a size such as 512m"),
        ({"sparkConf": {"spark.driver.memoryOverhead": "9" * 400}}, {}, "must be a size such as 512m"),
        (
            {"restart": {"strategy": "none"}},
            {"sparkConf": {"spark.master": "local"}},
            r"spec.sparkConf: use the field for this setting: .* \(it is spark.master\)",
        ),
    ],
)
def test_what_two_layers_say_together_is_judged(
    spec: dict[str, Any], defaults: dict[str, Any], said: str
) -> None:
    if not said:
        assert resolve(spec, defaults).slots == 20
        return
    with pytest.raises(errors.SpecInvalid, match=said):
        resolve(spec, defaults)


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("metrics.reporter.prom.port", "0", "spec.metricsPort: must be at least 1 (it is 0, from KEY)"),
        ("parallelism.default", "70000", "spec.slots: must be at most 32768 (it is 70000, from KEY)"),
        ("parallelism.default", "two", "spec.configuration: a count must be a whole number (it is NAME)"),
        (
            "execution.checkpointing.timeout",
            "0 ms",
            "spec.checkpointing.timeout: must be more than 0 (it is 0s, from KEY)",
        ),
        (
            "execution.checkpointing.data-inline-threshold",
            "64mb",
            "spec.checkpointing.inlineThreshold: must be at most 1Mi (it is 64Mi, from KEY)",
        ),
        (
            "kubernetes.operator.savepoint.history.max.age",
            "99999999 d",
            "spec.savepoints.maxAge: must be at most 876000h (100 years) (it is 2399999976h, from KEY)",
        ),
        (
            "restart-strategy.failure-rate.delay",
            "9",
            "spec.restart.failureRate: needs strategy: failure-rate",
        ),
        (
            "state.backend.rocksdb.options-factory",
            "rocks",
            "spec.stateBackend.optionsFactory: must be module:Class (it is from KEY)",
        ),
        (
            "s3.endpoint",
            "key:word@minio",
            "spec.s3.endpoint: must be a URL that starts with http:// or https:// (it is from KEY)",
        ),
    ],
)
def test_a_value_of_flinks_that_its_field_cannot_have_is_refused(key: str, text: str, said: str) -> None:
    """The API server judges keys by their spelling; the bounds are those of the field that a key becomes."""
    with pytest.raises(errors.SpecInvalid) as raised:
        resolve({"configuration": {key: text}})
    assert str(raised.value) == said.replace("KEY", f"configuration['{key}']").replace("NAME", key)


@pytest.mark.parametrize(
    "spec",
    [
        {"checkpointing": {"storageType": "jobmanager"}},
        {"configuration": {"state.checkpoint-storage": "jobmanager"}},
    ],
    ids=["field", "key"],
)
def test_checkpoints_in_a_drivers_memory_are_refused_where_pods_end(spec: dict[str, Any]) -> None:
    with pytest.raises(
        errors.SpecInvalid, match=r"spec\.checkpointing\.storageType: checkpoints in the driver's mem"
    ):
        resolve(spec, {"checkpointing": {}})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"slots": "3"}, "spec.slots: must be a whole number (it is '3')"),
        ({"slots": True}, "spec.slots: must be a whole number"),
        ({"params": ["x"]}, "spec.params: must be an object (name: value pairs)"),
        (
            {"configuration": {"parallelism.default": 3}},
            "spec.configuration['parallelism.default']: must be a string",
        ),
        ({"imagePullSecrets": [{"name": "own"}, {}]}, "spec.imagePullSecrets[1].name: is missing"),
        ({"flinkConfiguration": ["x"]}, "spec.flinkConfiguration: must be an object (name: value pairs)"),
        (
            {"flinkConfiguration": {"parallelism": {"default": [{}]}}},
            "spec.flinkConfiguration: parallelism.default is a list of more than texts",
        ),
        (
            {"flinkConfiguration": {"parallelism": {"default": "two"}}},
            "spec.flinkConfiguration: a count must be a whole number (it is parallelism.default)",
        ),
        (
            {"flinkConfiguration": {"s3": {"secret-key": "12345"}}},
            "spec.flinkConfiguration: keys are never written into a job",
        ),
        (
            {"flinkConfiguration": {"rest.port": 1}, "configuration": {}},
            "spec.flinkConfiguration: means the same as configuration; keep configuration",
        ),
        (
            {"flinkConfiguration": {"parallelism": {"default": 70000}}},
            "spec.slots: must be at most 32768 (it is 70000, from flinkConfiguration['parallelism.default'])",
        ),
        ({"slotz": 3}, "spec.slotz: is not a field of this version; remove it"),
        ({"s3": {"secretKey": 12345}}, "spec.s3.secretKey: must be a string"),
        ({"checkpointing": {"interval": "soon"}}, "spec.checkpointing.interval: must be a duration such as"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_path(spec: dict[str, Any], said: str) -> None:
    """The API server lets none through, but perhaps the CRD of another version did."""
    with pytest.raises(errors.SpecInvalid) as raised:
        resolve(spec)
    assert str(raised.value).startswith(said)
    assert "12345" not in str(raised.value)


def test_all_findings_are_told_at_once() -> None:
    with pytest.raises(errors.SpecInvalid) as raised:
        settings.resolve(JOB)
    assert "spec.image" in str(raised.value)
    assert "spec.checkpointing.storage" in str(raised.value)


def test_the_key_space_of_the_state_binds_a_later_spec() -> None:
    def fixed(_: settings.Resolved) -> KeySpace:
        return KeySpace(max_parallelism=128, shards=16)

    assert resolve({"slots": 16, "shards": 16, "maxParallelism": 128}, fixed=fixed).slots == 16
    with pytest.raises(errors.SpecInvalid, match=r"spec.slots: must lie between 1 and the job's 16 shards"):
        resolve({"slots": 17}, fixed=fixed)
    with pytest.raises(errors.SpecInvalid, match=r"spec.shards: was fixed as 16 .*it is 32"):
        resolve({"shards": 32}, fixed=fixed)


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"pythonFile": "/a.py"}, "defaults.pythonFile: belongs to each job"),
        ({"startEmpty": True}, "defaults.startEmpty: belongs to each job"),
        ({"s3": {"accessKey": "AKIA"}}, "defaults.s3.accessKey: belongs to each job"),
        ({"slots": "3"}, "defaults.slots: "),
        ({"slotz": 3}, "defaults.slotz: "),
        ({"checkpointing": {"interval": "soon"}}, "defaults.checkpointing.interval: "),
        ({"checkpointing": {"storage": "gs://b/x"}}, "defaults.checkpointing.storage: .*not in this version"),
        ({"checkpointing": {"storage": "s3a://b/x"}}, "defaults.checkpointing.storage: the scheme must be"),
        (
            {"savepoints": {"storage": "s3://key:word@b/x"}},
            r"a URL never holds credentials; use s3.secretRef$",
        ),
        ({"fenceTimeout": "1s"}, "defaults.fenceTimeout: must be at least 3s"),
        ({"driver": {"memory": "256Mi"}}, "defaults.driver.memory: Spark needs at least 512Mi"),
        ({"fixedMemoryPerSlot": "1Ki"}, "defaults.fixedMemoryPerSlot: must be at least 1Mi"),
        ({"operatorStateMemoryPerSlot": "0"}, "defaults.operatorStateMemoryPerSlot: must be at least 1Mi"),
        ({"sinkTimeout": "0s"}, "defaults.sinkTimeout: must be more than 0"),
        ({"savepoints": {"schedule": "0 0 30 2 *"}}, "defaults.savepoints.schedule: names a time that never"),
    ],
)
def test_bad_defaults_are_refused_by_their_path(defaults: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.SpecInvalid, match=said):
        settings.check_defaults(defaults)
