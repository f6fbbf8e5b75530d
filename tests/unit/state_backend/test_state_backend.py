"""PyFlink's state_backend module, call by call."""

from __future__ import annotations

import concurrent.futures
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from support.backends import own_backends

from sparkstate import errors, state_backend
from sparkstate.settings import StateBackendSettings
from sparkstate.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)

EXAMPLES = "support.backends.options_factories"


def backends() -> Mapping[str, StateBackend]:
    rocks = EmbeddedRocksDBStateBackend(True)
    rocks.set_db_storage_paths("/data/a", "file:///data/b")
    rocks.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    rocks.set_options(f"{EXAMPLES}:ExampleFactory")
    rocks.set_number_of_transfer_threads(8)
    return {
        "hashmap": HashMapStateBackend(),
        "rocksdb": rocks,
        "custom": CustomStateBackend("my.module:Backend"),
    }


def test_public_names_are_pyflinks() -> None:
    assert set(state_backend.__all__) == {
        "StateBackend",
        "HashMapStateBackend",
        "EmbeddedRocksDBStateBackend",
        "CustomStateBackend",
        "PredefinedOptions",
    }


def test_predefined_options_have_pyflinks_numbers() -> None:
    assert {option.name: option.value for option in PredefinedOptions} == {
        "DEFAULT": 0,
        "SPINNING_DISK_OPTIMIZED": 1,
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM": 2,
        "FLASH_SSD_OPTIMIZED": 3,
    }


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb", "custom"])
def test_a_backend_survives_pickling(kind: str) -> None:
    backend = backends()[kind]
    assert pickle.loads(pickle.dumps(backend)) == backend


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb", "custom"])
def test_a_backend_prints_what_it_is(kind: str) -> None:
    backend = backends()[kind]
    assert str(backend).startswith(type(backend).__name__ + "(")


def test_the_rocksdb_backend_prints_its_settings() -> None:
    text = str(backends()["rocksdb"])
    assert "FLASH_SSD_OPTIMIZED" in text
    assert "/data/a" in text
    assert "transfer_threads=8" in text


@pytest.mark.parametrize(("argument", "incremental"), [(None, True), (True, True), (False, False)])
def test_incremental_is_undefined_or_decided(argument: bool | None, incremental: bool) -> None:
    assert EmbeddedRocksDBStateBackend(argument).is_incremental_checkpoints_enabled() is incremental


@pytest.mark.parametrize(("argument", "expected"), [(None, False), (True, True)])
def test_undefined_incremental_takes_the_configurations_word(argument: bool | None, expected: bool) -> None:
    configured = EmbeddedRocksDBStateBackend(argument).configure(StateBackendSettings(incremental=False))
    assert configured.is_incremental_checkpoints_enabled() is expected


@pytest.mark.parametrize("wrong", ["true", 1, 0, []])
def test_another_value_for_incremental_is_a_type_error_that_shows_it(wrong: object) -> None:
    with pytest.raises(TypeError, match="Unsupported input for 'enable_incremental_checkpointing'") as caught:
        EmbeddedRocksDBStateBackend(wrong)  # type: ignore[arg-type]
    assert repr(wrong) in str(caught.value)
    assert "None or True or False" in str(caught.value)


def test_storage_paths_are_none_until_set_and_none_again_when_unset() -> None:
    backend = EmbeddedRocksDBStateBackend()
    assert backend.get_db_storage_paths() is None
    backend.set_db_storage_paths("/data/a", "file:///data/b")
    assert backend.get_db_storage_paths() == ["/data/a", "/data/b"]
    backend.set_db_storage_paths()
    assert backend.get_db_storage_paths() is None
    backend.set_db_storage_paths("/data/a")
    backend.set_db_storage_paths(None)
    assert backend.get_db_storage_paths() is None


@pytest.mark.parametrize(
    ("path", "words"),
    [("relative/path", "relative"), ("s3://bucket/x", "not local"), ("", "name a directory")],
)
def test_a_storage_path_that_cannot_work_is_refused(path: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EmbeddedRocksDBStateBackend().set_db_storage_paths("/data/a", path)


def test_predefined_options_default_to_default_and_are_never_none() -> None:
    backend = EmbeddedRocksDBStateBackend()
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    with pytest.raises(TypeError, match="None is not allowed"):
        backend.set_predefined_options(None)  # type: ignore[arg-type]
    backend.set_predefined_options(PredefinedOptions.SPINNING_DISK_OPTIMIZED)
    assert backend.get_predefined_options() is PredefinedOptions.SPINNING_DISK_OPTIMIZED


def test_an_options_factory_is_named_by_its_class() -> None:
    backend = EmbeddedRocksDBStateBackend()
    assert backend.get_options() is None
    backend.set_options(f"{EXAMPLES}:ExampleFactory")
    assert backend.get_options() == f"{EXAMPLES}:ExampleFactory"
    backend.set_options(f"{EXAMPLES}.ExampleFactory")
    assert backend.get_options() == f"{EXAMPLES}.ExampleFactory"


def test_a_class_that_is_no_options_factory_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="The input class does not implement RocksDBOptionsFactory"):
        EmbeddedRocksDBStateBackend().set_options(f"{EXAMPLES}:NoFactory")


def test_a_factory_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(errors.SpecInvalid, match=r"no\.such\.module:Factory"):
        EmbeddedRocksDBStateBackend().set_options("no.such.module:Factory")


def test_transfer_threads_are_four_until_set() -> None:
    backend = EmbeddedRocksDBStateBackend()
    assert backend.get_number_of_transfer_threads() == 4
    backend.set_number_of_transfer_threads(9)
    assert backend.get_number_of_transfer_threads() == 9


@pytest.mark.parametrize("wrong", [0, -1, "4", None])
def test_transfer_threads_must_be_positive(wrong: Any) -> None:
    with pytest.raises(ValueError, match="larger than 0"):
        EmbeddedRocksDBStateBackend().set_number_of_transfer_threads(wrong)


def test_what_code_sets_counts_more_than_the_configuration() -> None:
    configured = StateBackendSettings(
        type="hashmap",
        incremental=False,
        predefined_options="DEFAULT",
        transfer_threads=2,
        storage_paths=("/conf",),
    )
    merged = backends()["rocksdb"].effective_settings(configured)
    assert merged.type == "rocksdb"
    assert merged.incremental is True
    assert merged.predefined_options == "FLASH_SSD_OPTIMIZED"
    assert merged.transfer_threads == 8
    assert merged.storage_paths == ("/data/a", "/data/b")


def test_what_code_leaves_out_comes_from_the_configuration() -> None:
    configured = StateBackendSettings(
        incremental=False,
        predefined_options="SPINNING_DISK_OPTIMIZED",
        transfer_threads=2,
        options={"writebuffer.size": "8mb"},
        storage_paths=("/conf",),
        options_factory="my.module:Factory",
    )
    backend = EmbeddedRocksDBStateBackend().configure(configured)
    assert backend.get_predefined_options() is PredefinedOptions.SPINNING_DISK_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 2
    assert backend.get_db_storage_paths() == ["/conf"]
    assert backend.get_options() == "my.module:Factory"
    assert backend.effective_settings(configured).options == {"writebuffer.size": "8mb"}


def test_configuring_leaves_the_original_as_it_was() -> None:
    backend = EmbeddedRocksDBStateBackend()
    backend.configure(StateBackendSettings(transfer_threads=2))
    assert backend.get_number_of_transfer_threads() == 4


def test_a_hashmap_backend_in_code_wins_over_rocksdb_in_the_configuration() -> None:
    assert HashMapStateBackend().effective_settings(StateBackendSettings(type="rocksdb")).type == "hashmap"


def test_a_custom_backend_names_its_class_and_options() -> None:
    settings = StateBackendSettings(type="rocksdb", options={"state.backend.rocksdb.thread.num": "3"})
    plain = CustomStateBackend("my.module:Backend").effective_settings(settings)
    assert (plain.type, plain.class_name, plain.options) == ("custom", "my.module:Backend", {})
    with_options = CustomStateBackend("my.module:Backend", {"size": "1"})
    assert with_options.effective_settings(settings).options == {"size": "1"}
    assert with_options != CustomStateBackend("my.module:Backend")
    assert with_options.configure(settings) == with_options


def test_a_custom_backend_takes_the_manifests_options_for_the_same_class_only() -> None:
    planned = StateBackendSettings(type="custom", class_name="my.module:Backend", options={"size": "2"})
    assert CustomStateBackend("my.module:Backend").effective_settings(planned).options == {"size": "2"}
    assert CustomStateBackend("my.module:Backend", {}).effective_settings(planned).options == {}
    assert CustomStateBackend("my.module:Other").effective_settings(planned).options == {}


def test_a_custom_backend_may_be_given_as_its_class() -> None:
    backend = CustomStateBackend(own_backends.MemoryBackend)
    assert backend.class_name == "support.backends.own_backends:MemoryBackend"

    class Local(own_backends.MemoryBackend):
        pass

    with pytest.raises(errors.SpecInvalid, match="a class at the top of a module"):
        CustomStateBackend(Local)
    of_the_job = type("Mine", (own_backends.MemoryBackend,), {"__module__": "sparkstate_job_job"})
    with pytest.raises(errors.SpecInvalid, match="move it into a module beside that file"):
        CustomStateBackend(of_the_job)


def test_settings_of_another_backend_after_a_custom_one_have_none_of_its_options() -> None:
    planned = StateBackendSettings(type="custom", class_name="my.module:Backend", options={"size": "2"})
    for backend in (HashMapStateBackend(), EmbeddedRocksDBStateBackend()):
        effective = backend.effective_settings(planned)
        assert (effective.class_name, effective.options) == (None, {})


def test_one_backend_serves_several_threads() -> None:
    backend = backends()["rocksdb"]
    settings = StateBackendSettings()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        merged = list(
            threads.map(lambda _: backend.configure(settings).effective_settings(settings), range(200))
        )
    assert merged == [backend.effective_settings(settings)] * 200
