"""Old and new names of backends, as they stand in configurations of every age."""

from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.settings import StateBackendSettings
from sparkstate.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    from_value,
    normalize_backend_name,
)
from sparkstate_spec import fields

NAMES = [
    ("hashmap", "hashmap"),
    ("HashMap", "hashmap"),
    (" rocksdb ", "rocksdb"),
    ("jobmanager", "hashmap"),
    ("filesystem", "hashmap"),
    ("HashMapStateBackend", "hashmap"),
    ("EmbeddedRocksDBStateBackend", "rocksdb"),
    ("org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory", "hashmap"),
    ("org.apache.flink.runtime.state.hashmap.HashMapStateBackend", "hashmap"),
    ("org.apache.flink.runtime.state.memory.MemoryStateBackendFactory", "hashmap"),
    ("org.apache.flink.runtime.state.filesystem.FsStateBackendFactory", "hashmap"),
    ("org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory", "rocksdb"),
    ("org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory", "rocksdb"),
    ("org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory", "rocksdb"),
    ("org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend", "rocksdb"),
    ("sparkstate.state_backend:EmbeddedRocksDBStateBackend", "rocksdb"),
]


@pytest.mark.parametrize(("name", "backend"), fields.BY_PATH["stateBackend.type"].words.items())
def test_a_name_means_the_same_in_code_as_by_flinks_keys_in_a_manifest(name: str, backend: str) -> None:
    assert normalize_backend_name(name) == backend


@pytest.mark.parametrize(("name", "backend"), NAMES, ids=[name for name, _ in NAMES])
def test_every_name_of_any_age_means_one_backend(name: str, backend: str) -> None:
    assert normalize_backend_name(name) == backend


@pytest.mark.parametrize(
    "name", ["forst", "my.module:Backend", "org.apache.flink.state.forst.ForStStateBackendFactory"]
)
def test_a_backend_that_is_none_of_ours_is_not_in_this_version(name: str) -> None:
    with pytest.raises(errors.NotInThisVersion, match="hashmap or rocksdb"):
        normalize_backend_name(name)


@pytest.mark.parametrize("name", ["", "rocks", "hash map"])
def test_a_word_that_names_nothing_is_refused_with_the_choices(name: str) -> None:
    with pytest.raises(errors.SpecInvalid, match="must be hashmap or rocksdb"):
        normalize_backend_name(name)


def test_nothing_stays_nothing() -> None:
    assert from_value(None) is None


def test_a_backend_stays_itself() -> None:
    backend = HashMapStateBackend()
    assert from_value(backend) is backend


def test_names_and_settings_become_backends() -> None:
    assert isinstance(from_value("filesystem"), HashMapStateBackend)
    assert isinstance(from_value("rocksdb"), EmbeddedRocksDBStateBackend)
    assert from_value("my.module:Backend") == CustomStateBackend("my.module:Backend")
    assert isinstance(from_value(StateBackendSettings(type="hashmap")), HashMapStateBackend)
    rocks = from_value(StateBackendSettings(type="rocksdb", transfer_threads=7))
    assert isinstance(rocks, EmbeddedRocksDBStateBackend)
    assert rocks.get_number_of_transfer_threads() == 7
    own = StateBackendSettings(type="custom", class_name="my.module.Backend", options={"size": "1"})
    assert from_value(own) == CustomStateBackend("my.module.Backend", {"size": "1"})


def test_flinks_disaggregated_backend_is_no_class_of_ones_own() -> None:
    with pytest.raises(errors.NotInThisVersion, match="forst"):
        from_value("forst")


@pytest.mark.parametrize("wrong", [42, object, {}])
def test_anything_else_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError, match="is not an instance of StateBackend"):
        from_value(wrong)
