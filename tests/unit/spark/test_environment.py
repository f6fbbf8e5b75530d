"""The environment-like object: each setter, its getter, its field, and values that it refuses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparkstate
from sparkstate import (
    CheckpointConfig,
    CheckpointingMode,
    Configuration,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
    errors,
)
from sparkstate.driver.code_settings import CodeSettings
from sparkstate.manifest import load, resolve
from sparkstate.settings import JobSettings
from sparkstate.spark import graph
from sparkstate.state_backend import PredefinedOptions
from sparkstate_spec.given import JOB, GivenValue

MANIFEST = """
apiVersion: sparkstate.io/v1alpha1
kind: StatefulSparkJob
metadata: {name: flights}
spec:
  pythonFile: job.py
"""
Env = StreamExecutionEnvironment


@pytest.fixture
def declared() -> graph.Graph:
    return graph.Graph()


@pytest.fixture
def env(declared: graph.Graph) -> Env:
    return Env(declared)


@pytest.fixture
def config(env: Env) -> CheckpointConfig:
    return env.get_checkpoint_config()


def decided(declared: graph.Graph, *overrides: str) -> JobSettings:
    """The settings that a driver comes to, over a manifest with these fields."""
    loaded = load(MANIFEST, overrides)
    before = resolve(loaded, place_by_code=True)
    settings, _ = CodeSettings(before.given, lambda code: resolve(loaded, code=code)).over(
        before.settings, declared
    )
    return settings


SETTERS: list[tuple[Callable[[Env, CheckpointConfig], Any], Callable[[Env, CheckpointConfig], Any], Any, str, Any]] = [
    (lambda e, c: e.enable_checkpointing(2000), lambda e, c: e.get_checkpoint_interval(), 2000, "interval_s", 2.0),
    (lambda e, c: c.set_checkpoint_interval(70_001), lambda e, c: c.get_checkpoint_interval(), 70_001,
     "interval_s", 70.001),
    (lambda e, c: c.set_checkpoint_timeout(5000), lambda e, c: c.get_checkpoint_timeout(), 5000, "timeout_s", 5.0),
    (lambda e, c: c.set_min_pause_between_checkpoints(300),
     lambda e, c: c.get_min_pause_between_checkpoints(), 300, "min_pause_s", 0.3),
    (lambda e, c: c.set_tolerable_checkpoint_failure_number(4),
     lambda e, c: c.get_tolerable_checkpoint_failure_number(), 4, "tolerable_failures", 4),
    (lambda e, c: c.set_fail_on_checkpointing_errors(False),
     lambda e, c: c.is_fail_on_checkpointing_errors(), False, "tolerable_failures", 1_000_000),
    (lambda e, c: c.set_checkpoint_storage_dir("/a"),
     lambda e, c: c.get_checkpoint_storage().get_checkpoint_path(), "/a", "storage", "/a"),
    (lambda e, c: c.set_checkpoint_storage("s3://b/x"),
     lambda e, c: c.get_checkpoint_storage().get_checkpoint_path(), "s3://b/x", "storage", "s3://b/x"),
    (lambda e, c: c.set_checkpoint_storage(FileSystemCheckpointStorage("/a", 1024, 8192)),
     lambda e, c: c.get_checkpoint_storage(), FileSystemCheckpointStorage("/a", 1024, 8192),
     "inline_threshold_bytes", 1024),
]  # fmt: skip


@pytest.mark.parametrize(
    ("setter", "getter", "got", "setting", "value"), SETTERS, ids=[s[3] for s in SETTERS]
)
def test_a_setter_is_read_back_and_becomes_a_setting(
    declared: graph.Graph, env: Env, setter: Any, getter: Any, got: Any, setting: str, value: Any
) -> None:
    setter(env, env.get_checkpoint_config())
    assert getter(env, env.get_checkpoint_config()) == got
    settings = decided(
        declared,
        *([] if setting in ("storage", "inline_threshold_bytes") else ["spec.checkpointing.storage=/s"]),
    )
    assert getattr(settings.checkpoint, setting) == value


def test_getters_read_the_manifest_and_then_the_built_in_values() -> None:
    beneath = {"checkpointing.interval": GivenValue("7s", JOB), "slots": GivenValue(3, JOB)}
    env = Env(graph.Graph(code=graph.CodeLayer(beneath)))
    config = env.get_checkpoint_config()
    assert (env.get_checkpoint_interval(), env.get_parallelism()) == (7000, 3)
    assert (config.get_checkpoint_timeout(), config.get_checkpoint_storage()) == (600_000, None)
    assert env.get_state_backend() == HashMapStateBackend()
    assert env.get_default_savepoint_directory() is None


def test_code_counts_more_than_fields_and_these_more_than_flinks_keys(
    declared: graph.Graph, env: Env
) -> None:
    manifest = [
        "spec.checkpointing.storage=/s",
        "spec.checkpointing.interval=30s",
        "spec.configuration={execution.checkpointing.interval: 1 h, execution.checkpointing.timeout: 2 h, "
        "execution.checkpointing.min-pause: 3 s}",
        "spec.checkpointing.timeout=50s",
    ]
    assert decided(graph.Graph(), *manifest).checkpoint.interval_s == 30
    env.enable_checkpointing(10_000)
    found = decided(declared, *manifest).checkpoint
    assert (found.interval_s, found.timeout_s, found.min_pause_s) == (10, 50, 3)


def test_origins_name_the_call(declared: graph.Graph, env: Env) -> None:
    env.enable_checkpointing(10_000).configure(Configuration({"execution.checkpointing.num-retained": "3"}))
    found = resolve(load(MANIFEST, ["spec.checkpointing.storage=/s"]), code=declared.code.leaves)
    assert found.origins["checkpointing.interval"] == "code (set_checkpoint_interval(10000))"
    assert found.origins["checkpointing.retained"] == "code (execution.checkpointing.num-retained)"
    assert found.values["checkpointing.retained"] == "3"


def test_a_backend_is_chosen_by_object_and_its_later_setters_count(declared: graph.Graph, env: Env) -> None:
    backend = EmbeddedRocksDBStateBackend(False)
    env.set_state_backend(backend)
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    found = decided(declared, "spec.checkpointing.storage=/s", "spec.stateBackend.transferThreads=9").backend
    assert (found.type, found.incremental, found.transfer_threads) == ("rocksdb", False, 9)
    assert found.predefined_options == "FLASH_SSD_OPTIMIZED"
    assert env.get_state_backend() is not backend
    assert "incremental=False" in str(env.get_state_backend())


def test_hashmap_in_code_leaves_rocksdbs_settings_of_the_manifest_without_effect(
    declared: graph.Graph, env: Env
) -> None:
    env.set_state_backend("hashmap")
    manifest = ["spec.stateBackend.type=rocksdb", "spec.stateBackend.predefinedOptions=FLASH_SSD_OPTIMIZED"]
    assert decided(declared, "spec.checkpointing.storage=/s", *manifest).backend.type == "hashmap"


@pytest.mark.parametrize(
    ("make", "type_", "new"),
    [
        (lambda: FsStateBackend("/c", "/p", 100), "hashmap",
         r"set_state_backend\(HashMapStateBackend\(\)\) and .*FileSystemCheckpointStorage\(/c\)"),
        (lambda: RocksDBStateBackend("/c", True), "rocksdb",
         r"set_state_backend\(EmbeddedRocksDBStateBackend\(True\)\) and .*FileSystemCheckpointStorage\(/c\)"),
        (lambda: RocksDBStateBackend(checkpoint_stream_backend=FsStateBackend("/c", "/p")), "rocksdb",
         r"RocksDBStateBackend is deprecated|FsStateBackend is deprecated"),
    ],
    ids=["fs", "rocksdb", "rocksdb over fs"],
)  # fmt: skip
def test_an_old_backend_runs_with_a_deprecation_that_names_the_new_form(
    declared: graph.Graph, env: Env, make: Any, type_: str, new: str
) -> None:
    with pytest.warns(DeprecationWarning, match=new):
        backend = make()
    env.set_state_backend(backend)
    found = decided(declared)
    assert (found.backend.type, found.checkpoint.storage) == (type_, "/c")
    assert found.savepoint.storage == (None if "True" in new else "/p")
    assert any("is deprecated: write env.set_state_backend(" in notice for notice in declared.code.notices)


@pytest.mark.parametrize("given_", [(), ("/a", None, FsStateBackend)], ids=["none", "both"])
def test_an_old_rocksdb_backend_needs_one_place(given_: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        streams = FsStateBackend("/b") if given_ else None
        with pytest.raises(ValueError, match="give exactly one of"):
            RocksDBStateBackend("/a" if given_ else None, None, streams)


@pytest.mark.parametrize("name", ["filesystem", "FileSystem", "FsStateBackendFactory"])
def test_a_name_from_before_1_13_is_deprecated(declared: graph.Graph, env: Env, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"'{name}'.*write HashMapStateBackend\(\)"):
        env.set_state_backend(name)
    assert decided(declared, "spec.checkpointing.storage=/s").backend.type == "hashmap"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: c.enable_unaligned_checkpoints(), "nothing to align"),
        (lambda c: c.set_aligned_checkpoint_timeout(10), "nothing to align"),
        (lambda c: c.set_max_concurrent_checkpoints(3), "only one checkpoint runs at a time"),
        (lambda c: c.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE), "every checkpoint is exactly-once"),
        (lambda c: c.set_externalized_checkpoint_cleanup(ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION),
         "checkpoints are always retained"),
    ],
)  # fmt: skip
def test_a_call_without_meaning_here_is_answered(
    declared: graph.Graph, config: CheckpointConfig, call: Any, said: str
) -> None:
    assert call(config) is config
    (notice,) = declared.notices()
    assert "has no effect" in notice
    assert said in notice
    assert declared.code.leaves == {}


def test_what_happens_anyway_is_no_notice(declared: graph.Graph, config: CheckpointConfig) -> None:
    config.set_max_concurrent_checkpoints(1).enable_unaligned_checkpoints(False)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    assert declared.notices() == []
    assert not config.is_unaligned_checkpoints_enabled()
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_externalized_checkpoint_retention().name == "RETAIN_ON_CANCELLATION"


def test_later_versions_things_are_refused_by_name(env: Env) -> None:
    with pytest.raises(errors.NotInThisVersion, match="changelog state backend is not in this version"):
        env.enable_changelog_state_backend(True)
    assert env.enable_changelog_state_backend(False).is_changelog_state_backend_enabled() is False
    with pytest.raises(errors.NotInThisVersion, match="changelog state backend is not in this version"):
        env.enable_changelog_statebackend(True)


INTEGERS = ["set_checkpoint_interval", "set_checkpoint_timeout", "set_min_pause_between_checkpoints",
            "set_tolerable_checkpoint_failure_number", "set_max_concurrent_checkpoints",
            "set_aligned_checkpoint_timeout"]  # fmt: skip
OTHERS = ["set_checkpointing_mode", "set_externalized_checkpoint_retention", "enable_unaligned_checkpoints",
          "set_checkpoint_storage", "set_fail_on_checkpointing_errors"]  # fmt: skip
NONSENSE = st.one_of(
    st.none(), st.floats(), st.text(max_size=5), st.integers(max_value=-1), st.integers(min_value=2**62),
    st.lists(st.integers(), max_size=2), st.booleans(),
)  # fmt: skip


@given(name=st.sampled_from(INTEGERS), value=NONSENSE)
def test_a_bad_number_is_refused_by_setter_value_and_remedy(name: str, value: Any) -> None:
    config = Env(graph.Graph()).get_checkpoint_config()
    with pytest.raises((TypeError, ValueError)) as raised:
        getattr(config, name)(value)
    assert str(raised.value).startswith(f"{name}({value!r}): ")
    assert "whole number from" in str(raised.value) or "must lie between" in str(raised.value)


@given(
    name=st.sampled_from(OTHERS), value=st.one_of(st.none(), st.floats(), st.integers(), st.lists(st.none()))
)
def test_a_value_of_a_wrong_kind_is_refused_by_setter_value_and_kind(name: str, value: Any) -> None:
    config = Env(graph.Graph()).get_checkpoint_config()
    with pytest.raises(TypeError) as raised:
        getattr(config, name)(value)
    assert str(raised.value).startswith(f"{name}({value!r}): give a ")


@given(location=st.text(max_size=20))
def test_a_location_is_taken_or_refused_by_its_field(location: str) -> None:
    declared, said = graph.Graph(), "storage"
    try:
        Env(declared).get_checkpoint_config().set_checkpoint_storage_dir(location)
        decided(declared)
    except errors.SpecInvalid as error:
        said = str(error)
    assert "torage" in said


def test_a_place_that_contradicts_the_manifest_is_refused(
    declared: graph.Graph, config: CheckpointConfig
) -> None:
    config.set_checkpoint_storage_dir("/b")
    with pytest.raises(
        errors.SpecInvalid, match=r"spec\.checkpointing\.storage: the job's code names another place"
    ):
        decided(declared, "spec.checkpointing.storage=/a")
    assert decided(declared, "spec.checkpointing.storage=/b/").checkpoint.storage == "/b"


def test_without_a_place_anywhere_the_job_is_refused(declared: graph.Graph, env: Env) -> None:
    env.enable_checkpointing(1000)
    with pytest.raises(errors.SpecInvalid, match=r"spec\.checkpointing\.storage: is missing"):
        decided(declared)
    with pytest.raises(errors.SpecInvalid, match=r"is missing, and the job's code names none either"):
        decided(graph.Graph())


def test_savepoints_have_a_default_place(declared: graph.Graph, env: Env) -> None:
    env.set_default_savepoint_directory("s3://b/saved")
    assert env.get_default_savepoint_directory() == "s3://b/saved"
    assert decided(declared, "spec.checkpointing.storage=/s").savepoint.storage == "s3://b/saved"


def test_a_configuration_sets_fields_answers_keys_and_is_read_back(declared: graph.Graph, env: Env) -> None:
    given_ = (
        Configuration()
        .set_string("state.backend", "rocksdb")
        .set_integer("state.checkpoints.num-retained", 4)
    )
    given_.set_boolean("state.backend.rocksdb.metrics.estimate-num-keys", True)
    given_.set_boolean("state.backend.rocksdb.metrics.num-snapshots", True).set_string("rest.port", "8081")
    env.configure(given_)
    found = decided(declared, "spec.checkpointing.storage=/s")
    assert (found.backend.type, found.checkpoint.retained) == ("rocksdb", 4)
    assert found.backend.native_metrics == ("estimate-num-keys", "num-snapshots")
    assert env.get_configuration() == given_
    assert any("rest.port: no meaning here" in notice for notice in declared.notices())


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("execution.checkpointing.interval", "soon", "execution.checkpointing.interval is 'soon': a duration must be"),
        ("a.b", "1", "a.b is '1': this version does not know a key"),
        ("parallelism.default", "4", "spec.slots, which is needed before the job's code runs; write it into the"),
        ("s3.secret-key", "hidden", "s3.secret-key: keys are never written into a job"),
        ("state.backend.changelog.enabled", "true", "not in this version"),
    ],
)  # fmt: skip
def test_a_key_that_code_cannot_set_is_refused_by_its_name(env: Env, key: str, text: str, said: str) -> None:
    with pytest.raises(errors.SpecInvalid) as raised:
        env.configure(Configuration({key: text}))
    assert said in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_methods_for_other_things_say_where_these_are(env: Env) -> None:
    with pytest.raises(AttributeError, match=r"'set_parallelism' here: write spec\.slots into the manifest"):
        env.set_parallelism(4)
    with pytest.raises(AttributeError, match=r"has no 'no_such' here$"):
        env.no_such()


def test_outside_of_a_job_there_is_no_environment() -> None:
    with pytest.raises(errors.SpecInvalid, match="outside of a job"):
        StreamExecutionEnvironment.get_execution_environment()


def test_the_names_are_at_hand() -> None:
    names = {"StreamExecutionEnvironment", "CheckpointConfig", "Configuration", "MemoryStateBackend"}
    assert names <= set(sparkstate.__all__)
    assert JobManagerCheckpointStorage().get_max_state_size() == 5 * 1024 * 1024


def test_a_storage_in_memory_is_read_back_and_becomes_settings(
    declared: graph.Graph, config: CheckpointConfig
) -> None:
    config.set_checkpoint_storage(JobManagerCheckpointStorage(max_state_size=2**20))
    assert config.get_checkpoint_storage() == JobManagerCheckpointStorage(max_state_size=2**20)
    found = decided(declared).checkpoint
    assert (found.storage, found.max_state_bytes) == ("memory://driver", 2**20)
    assert any(
        "When the driver's process ends, state and source position are lost" in n for n in declared.notices()
    )
    with pytest.raises(errors.SpecInvalid, match="the job's code names another place"):
        decided(declared, "spec.checkpointing.storage=/a")
    config.set_checkpoint_storage("/a")
    assert decided(declared).checkpoint.storage == "/a"
    with pytest.raises(errors.SpecInvalid, match="the job's code names another place"):
        decided(declared, "spec.configuration={state.backend: jobmanager}")
    with pytest.raises(errors.SpecInvalid, match="the job's code names another place"):
        decided(declared, "spec.checkpointing.storageType=jobmanager")


def test_the_memory_backend_of_old_brings_its_storage_along(declared: graph.Graph, env: Env) -> None:
    with pytest.warns(
        DeprecationWarning, match=r"HashMapStateBackend\(\)\) and .*JobManagerCheckpointStorage"
    ):
        env.set_state_backend(MemoryStateBackend(max_state_size=1000))
    found = decided(declared)
    assert (found.backend.type, found.checkpoint.storage) == ("hashmap", "memory://driver")
    assert found.checkpoint.max_state_bytes == 1000
    for name in (
        "jobmanager",
        "JobManager",
        "org.apache.flink.runtime.state.memory.MemoryStateBackendFactory",
    ):
        by_name = graph.Graph()
        with pytest.warns(DeprecationWarning, match=f"'{name}'"):
            Env(by_name).set_state_backend(name)
        assert decided(by_name).checkpoint.storage == "memory://driver"
    by_key = graph.Graph()
    Env(by_key).configure(Configuration({"state.backend": "jobmanager"}))
    assert decided(by_key).checkpoint.storage == "memory://driver"
    assert decided(by_key, "spec.checkpointing.storageType=jobmanager").backend.type == "hashmap"


def test_a_folder_beside_memory_is_refused() -> None:
    with pytest.raises(errors.NotInThisVersion, match=r"use FileSystemCheckpointStorage\(path\)"):
        JobManagerCheckpointStorage("/a")
