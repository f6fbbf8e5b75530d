from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import croniter
import hypothesis
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.faults import tried

from sparkstate import errors, settings
from sparkstate.manifest import Resolved, explain_rows, load, resolve, schema

BASE = Path("/jobs")
STORAGE = {"checkpointing": {"storage": "state"}}


def resolved(
    spec: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    in_cluster: bool = False,
) -> Resolved:
    """A job with these fields, and a storage and an entry point unless they are given."""
    whole: dict[str, Any] = {"pythonFile": "job.py", **spec}
    if whole["pythonFile"] is None:
        del whole["pythonFile"]
    if defaults is None:
        defaults = STORAGE
    head = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "flights"},
    }
    return resolve(
        load(yaml.safe_dump({**head, "spec": whole}), overrides), defaults, BASE, in_cluster=in_cluster
    )


def refused(*arguments: Any, **more: Any) -> str:
    with pytest.raises(errors.SpecInvalid) as raised:
        resolved(*arguments, **more)
    return str(raised.value)


def test_a_minimal_job_has_the_built_in_settings() -> None:
    job = resolved({"checkpointing": {"storage": "s3://bucket/a"}}, {}).settings
    assert job == settings.JobSettings(
        name="flights",
        entry=settings.EntryPoint(python_file="/jobs/job.py"),
        checkpoint=settings.CheckpointSettings(storage="s3://bucket/a"),
    )


def test_the_job_wins_over_the_clusters_default_and_that_over_the_built_in() -> None:
    found = resolved(
        {"slots": 3},
        {**STORAGE, "slots": 4, "fenceTimeout": "10s", "configuration": {"restart-strategy": "none"}},
    )
    assert (found.settings.slots, found.origins["slots"]) == (3, "job")
    assert (found.settings.fence_timeout_s, found.origins["fenceTimeout"]) == (10.0, "cluster default")
    assert (found.settings.sink_timeout_s, found.origins["sinkTimeout"]) == (60.0, "built-in")
    assert found.settings.restart.strategy == "none"
    assert found.origins["restart.strategy"] == "cluster default (restart-strategy)"


def test_what_set_gave_is_named_as_such() -> None:
    found = resolved({"slots": 3}, overrides=["spec.slots=5", "spec.sparkConf.a.b=c"])
    assert (found.settings.slots, found.origins["slots"]) == (5, "--set")
    assert found.origins["sparkConf['a.b']"] == "--set"
    assert found.origins["pythonFile"] == "job"


def test_maps_are_merged_key_by_key() -> None:
    found = resolved(
        {"sparkConf": {"a": "1"}, "params": {"x": "1"}}, {**STORAGE, "sparkConf": {"a": "2", "b": "3"}}
    )
    assert found.settings.spark_conf == {"a": "1", "b": "3"}
    assert found.settings.entry.params == {"x": "1"}
    assert found.origins["sparkConf.b"] == "cluster default"


@pytest.mark.parametrize(
    ("job", "default", "gone"),
    [
        ({"fixedMemoryPerSlot": "64Mi"}, {"managedMemoryPerSlot": "512Mi"}, "managedMemoryPerSlot"),
        (
            {"savepoints": {"schedule": "@daily"}},
            {"savepoints": {"interval": "6h"}},
            "savepoints.interval.job",
        ),
        (
            {"trigger": {"availableNow": True}},
            {"trigger": {"processingTime": "1s"}},
            "trigger.processingTime.job",
        ),
        (
            {"restart": {"strategy": "none"}},
            {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 9}}},
            "restart.fixedDelay.attempts",
        ),
        (
            {"stateBackend": {"type": "hashmap"}},
            {"stateBackend": {"type": "rocksdb", "predefinedOptions": "FLASH_SSD_OPTIMIZED"}},
            "stateBackend.predefinedOptions",
        ),
    ],
    ids=["memory", "savepoints", "trigger", "restart", "backend"],
)
def test_a_choice_of_the_job_replaces_the_clusters_other_choice(
    job: dict[str, Any], default: dict[str, Any], gone: str
) -> None:
    found = resolved(job, {**STORAGE, **default})
    assert found.origins.get(gone) != "cluster default"


def test_both_spellings_of_flink_mean_the_same_settings() -> None:
    old = {
        "state.backend": "rocksdb",
        "state.backend.incremental": "false",
        "state.checkpoints.dir": "s3://bucket/a",
        "state.checkpoints.num-retained": "3",
        "state.savepoints.dir": "s3://bucket/b",
        "state.storage.fs.memory-threshold": "1kb",
        "restart-strategy": "fixed-delay",
        "execution.savepoint.path": "s3://bucket/c",
        "execution.savepoint.ignore-unclaimed-state": "true",
    }
    new = {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "false",
        "execution.checkpointing.dir": "s3://bucket/a",
        "execution.checkpointing.num-retained": "3",
        "execution.checkpointing.savepoint-dir": "s3://bucket/b",
        "execution.checkpointing.data-inline-threshold": "1kb",
        "restart-strategy.type": "fixed-delay",
        "execution.state-recovery.path": "s3://bucket/c",
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    by_old = resolved({"configuration": old}, {}).settings
    assert by_old == resolved({"configuration": new}, {}).settings
    assert by_old.backend == settings.StateBackendSettings(type="rocksdb", incremental=False)
    assert by_old.checkpoint == settings.CheckpointSettings(
        storage="s3://bucket/a", retained=3, inline_threshold_bytes=1024
    )
    assert by_old.savepoint.storage == "s3://bucket/b"
    assert by_old.restore_from == "s3://bucket/c"
    assert by_old.allow_non_restored_state is True
    assert by_old.restart.strategy == "fixed-delay"


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("hashmap", "hashmap"),
        ("jobmanager", "hashmap"),
        ("filesystem", "hashmap"),
        ("rocksdb", "rocksdb"),
        ("org.apache.flink.runtime.state.memory.MemoryStateBackendFactory", "hashmap"),
        ("org.apache.flink.runtime.state.filesystem.FsStateBackendFactory", "hashmap"),
        ("org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory", "hashmap"),
        ("org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory", "rocksdb"),
        ("org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory", "rocksdb"),
        ("org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory", "rocksdb"),
    ],
)
@pytest.mark.parametrize("key", ["state.backend", "state.backend.type"])
def test_the_backend_is_named_as_in_configurations_of_any_age(key: str, name: str, backend: str) -> None:
    job = resolved({"configuration": {key: name, "state.checkpoints.dir": "s3://bucket/a"}}, {}).settings
    assert job.backend.type == backend
    assert job.checkpoint.storage == "s3://bucket/a", "checkpoints go to files, as the old backends had them"


def test_rocksdbs_options_and_metrics_may_stand_among_flinks_keys() -> None:
    found = resolved(
        {
            "configuration": {
                "state.backend": "rocksdb",
                "state.backend.rocksdb.thread.num": "4",
                "state.backend.rocksdb.metrics.estimate-num-keys": "true",
                "state.backend.rocksdb.metrics.num-snapshots": "false",
            },
            "stateBackend": {"options": {"state.backend.rocksdb.files.open": "100"}},
        }
    )
    backend = found.settings.backend
    assert backend.options == {
        "state.backend.rocksdb.thread.num": "4",
        "state.backend.rocksdb.files.open": "100",
    }
    assert backend.native_metrics == ("estimate-num-keys",)


def test_an_option_that_cannot_be_read_is_refused_before_anything_starts() -> None:
    message = refused(
        {"configuration": {"state.backend": "rocksdb", "state.backend.rocksdb.thread.num": "many"}}
    )
    assert "spec.stateBackend.options: state.backend.rocksdb.thread.num is 'many'" in message


def test_an_option_without_effect_is_told() -> None:
    found = resolved(
        {"configuration": {"state.backend": "rocksdb", "state.backend.rocksdb.log.level": "DEBUG_LEVEL"}}
    )
    assert any("state.backend.rocksdb.log.level has no effect" in notice for notice in found.notices)


def test_a_value_out_of_range_among_flinks_keys_is_traced_to_its_key() -> None:
    message = refused({"configuration": {"parallelism.default": "0"}})
    assert message == "manifest: spec.slots: must be at least 1 [from job (parallelism.default)] (it is 0)"


def test_the_clusters_defaults_are_judged_by_their_own_name() -> None:
    assert "cluster defaults: defaults.slotz: unknown field" in refused({}, {"slotz": 1})
    assert "defaults.checkpointing.mode: checkpointing mode changelog is not in this version" in refused(
        {}, {"checkpointing": {"mode": "changelog"}}
    )


def test_job_and_defaults_must_fit_each_other() -> None:
    message = refused({"slots": 40}, {**STORAGE, "shards": 20})
    assert "spec.slots: there are more slots than shards" in message


def test_without_a_storage_nothing_can_be_kept() -> None:
    assert "spec.checkpointing.storage: is missing; name a folder or a URL" in refused({}, {})


def test_a_schedule_that_never_comes_is_refused() -> None:
    assert "spec.savepoints.schedule: names a time that never comes; correct the day or month" in refused(
        {"savepoints": {"schedule": "0 0 30 2 *"}}
    )


CRON = schema.spec()["properties"]["savepoints"]["properties"]["schedule"]["pattern"]


@given(st.from_regex(CRON, fullmatch=True))
@hypothesis.settings(max_examples=tried(60))
def test_the_scheduler_reads_every_line_that_the_schema_accepts(line: str) -> None:
    assert croniter.croniter.is_valid(line.rstrip("\n"))


def test_relative_paths_mean_the_manifests_folder() -> None:
    job = resolved(
        {
            "checkpointing": {"storage": "../state"},
            "savepoints": {"storage": "savepoints"},
            "restoreFrom": {"uri": "savepoints/savepoint-1"},
            "localStorage": {"paths": ["work/a", "/disk/b"]},
            "stateBackend": {"type": "rocksdb"},
        },
        {},
    ).settings
    assert job.entry.python_file == "/jobs/job.py"
    assert job.checkpoint.storage == "/state"
    assert job.savepoint.storage == "/jobs/savepoints"
    assert job.restore_from == "/jobs/savepoints/savepoint-1"
    assert job.work_dir == "/jobs/work/a"
    assert job.backend.storage_paths == ("/jobs/work/a", "/disk/b")


def test_a_single_path_holds_the_stores_within_the_working_directory() -> None:
    local = {"localStorage": {"paths": ["/disk/a"]}, "stateBackend": {"type": "rocksdb"}}
    job = resolved(local).settings
    assert (job.work_dir, job.backend.storage_paths) == ("/disk/a", ())
    told = {**local, "stateBackend": {"type": "rocksdb", "storagePaths": ["/disk/b"]}}
    assert resolved(told).settings.backend.storage_paths == ("/disk/b",)


def test_urls_and_absolute_paths_stay_as_they_are() -> None:
    job = resolved(
        {"pythonFile": "/opt/job.py", "checkpointing": {"storage": "file:///data/state"}}, {}
    ).settings
    assert job.entry.python_file == "/opt/job.py"
    assert job.checkpoint.storage == "file:///data/state"


def test_the_three_ways_of_slot_memory() -> None:
    managed = resolved({"managedMemoryPerSlot": "64Mi"}).settings.backend
    assert (managed.managed_memory_bytes, managed.fixed_memory_bytes) == (64 * settings.MIB, None)
    fixed = resolved({"fixedMemoryPerSlot": "32Mi"}).settings.backend
    assert (fixed.managed_memory_bytes, fixed.fixed_memory_bytes) == (None, 32 * settings.MIB)
    off = resolved({"managedMemory": False}).settings.backend
    assert (off.managed_memory_bytes, off.fixed_memory_bytes) == (None, None)


@pytest.mark.parametrize(
    ("restart", "wanted"),
    [
        ({"strategy": "none"}, settings.RestartSettings(strategy="none")),
        (
            {"strategy": "fixed-delay", "fixedDelay": {"attempts": 7, "delay": "2s"}},
            settings.RestartSettings(strategy="fixed-delay", attempts=7, delay_s=2.0),
        ),
        (
            {
                "strategy": "exponential-delay",
                "exponentialDelay": {
                    "initialBackoff": "500ms",
                    "maxBackoff": "10s",
                    "backoffMultiplier": 2,
                    "resetBackoffThreshold": "1m",
                    "jitterFactor": 0,
                    "attemptsBeforeResetBackoff": 4,
                },
            },
            settings.RestartSettings(
                initial_backoff_s=0.5,
                max_backoff_s=10.0,
                backoff_multiplier=2.0,
                reset_after_s=60.0,
                jitter=0.0,
                max_attempts=4,
            ),
        ),
        (
            {
                "strategy": "failure-rate",
                "failureRate": {"maxFailuresPerInterval": 3, "failureRateInterval": "5m", "delay": "10s"},
            },
            settings.RestartSettings(
                strategy="failure-rate",
                max_failures_per_interval=3,
                failure_rate_interval_s=300.0,
                delay_s=10.0,
            ),
        ),
    ],
    ids=["none", "fixed", "exponential", "rate"],
)
def test_each_restart_strategy_has_its_own_parameters(
    restart: dict[str, Any], wanted: settings.RestartSettings
) -> None:
    assert resolved({"restart": restart}).settings.restart == wanted


def test_executors_of_a_cluster_become_spark_settings() -> None:
    spec = {"deployment": "cluster", "executor": {"cores": 4, "memory": "2Gi"}, **_url()}
    found = resolved(spec, in_cluster=True)
    assert found.settings.deployment == "cluster"
    assert found.settings.spark_conf == {"spark.executor.cores": "4", "spark.executor.memory": "2048m"}
    assert ("executor.memory", "2Gi", "job") in explain_rows(found)


def test_without_a_cluster_spark_runs_locally_and_says_so() -> None:
    found = resolved({"deployment": "cluster", "slotsPerExecutor": 4, **_url()})
    assert found.settings.deployment == "local"
    assert found.settings.spark_conf == {}
    assert ("deployment", "local", "no cluster here") in explain_rows(found)
    assert "spec.slotsPerExecutor has no effect here: there are no executors" in found.notices
    assert any(notice.startswith("spec.deployment: cluster has no effect here") for notice in found.notices)
    assert resolved({"deployment": "cluster", **_url()}, in_cluster=True).notices == []


def _url() -> dict[str, Any]:
    return {"checkpointing": {"storage": "s3://bucket/a"}}


def test_what_only_a_cluster_can_use_is_said_to_have_no_effect() -> None:
    notices = resolved(
        {"image": "a:1", "imagePullSecrets": [{"name": "b"}], "deletion": {"policy": "purge"}}
    ).notices
    assert [notice.split(":")[0] for notice in notices] == [
        "spec.image has no effect here",
        "spec.imagePullSecrets has no effect here",
        "spec.deletion has no effect here",
    ]
    assert resolved({}).notices == []


def test_what_would_run_something_else_without_a_cluster_is_refused() -> None:
    assert "spec.configMapRef: a ConfigMap needs a cluster" in refused(
        {"pythonFile": None, "configMapRef": {"name": "a"}}
    )
    assert "spec.restoreFrom.snapshotRef: a StateSnapshot needs a cluster" in refused(
        {"restoreFrom": {"snapshotRef": {"name": "a"}}}
    )


def test_explain_shows_every_effective_setting_with_its_origin() -> None:
    rows = explain_rows(resolved({"slots": 3, "stateBackend": {"type": "rocksdb"}}))
    assert ("slots", "3", "job") in rows
    assert ("maxParallelism", "128 for a new job", "built-in") in rows
    assert ("shards", "16 for a new job", "built-in") in rows
    assert ("managedMemoryPerSlot", "256Mi", "built-in") in rows
    assert ("checkpointing.storage", "/jobs/state", "cluster default") in rows
    assert ("savepoints.schedule", "none", "built-in") in rows
    assert len({path for path, _, _ in rows}) == len(rows)


def test_explain_leaves_out_what_the_backend_cannot_use() -> None:
    on_heap = {path for path, _, _ in explain_rows(resolved({}))}
    on_disk = {path for path, _, _ in explain_rows(resolved({"stateBackend": {"type": "rocksdb"}}))}
    assert on_heap - on_disk == {"stateMemoryPerSlot"}
    assert "stateBackend.predefinedOptions" in on_disk - on_heap
