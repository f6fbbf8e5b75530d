"""A state backend of one's own that the job's code chooses, beside keys, names of Flink's and the manifest."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from sparkstate import Configuration, CustomStateBackend
from sparkstate import StreamExecutionEnvironment as Env
from sparkstate.driver.code_settings import CodeSettings
from sparkstate.manifest import load, resolve
from sparkstate.spark import graph

MANIFEST = """
apiVersion: sparkstate.io/v1alpha1
kind: StatefulSparkJob
metadata: {name: flights}
spec:
  pythonFile: job.py
"""
OWN = "shared_cache:MemoryStateBackend"
"""A class of one's own with a name of Flink's in it."""


@pytest.fixture
def declared() -> graph.Graph:
    return graph.Graph()


@pytest.fixture
def env(declared: graph.Graph) -> Env:
    return Env(declared)


@pytest.mark.parametrize(
    "name", [OWN, OWN.replace(":", "."), "on_filesystem:Backend", "my.RocksDBStateBackend"]
)
def test_a_class_of_ones_own_is_no_old_name_however_it_is_called(
    name: str, env: Env, declared: graph.Graph
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.set_state_backend(name)
    assert env.get_state_backend() == CustomStateBackend(name)
    assert declared.code.notices == []
    assert "checkpointing.storageType" not in declared.code.leaves, "its checkpoints stay where they were"


@pytest.mark.parametrize("backend", [OWN, CustomStateBackend(OWN, {"a": "1"})], ids=["name", "object"])
@pytest.mark.parametrize(
    "written",
    [
        "",
        "type: rocksdb, predefinedOptions: FLASH_SSD_OPTIMIZED, timerService: heap",
        f"class: {OWN}, options: {{a: '1'}}",
        "class: other:Backend, options: {a: '2', b: '3'}",
    ],
    ids=["nothing", "rocksdb", "the same", "another"],
)
def test_the_class_that_code_chooses_counts_over_any_backend_of_the_manifest(
    backend: Any, written: str, env: Env, declared: graph.Graph
) -> None:
    text = f"{MANIFEST}  checkpointing: {{storage: /state}}\n  stateBackend: {{{written}}}\n"
    env.configure(Configuration({"state.backend.type": "rocksdb"})).set_state_backend(backend)
    given = resolve(load(text))
    code = CodeSettings(given.given, lambda leaves: resolve(load(text), code=leaves))
    settings, told = code.over(given.settings, declared)
    has_options = isinstance(backend, CustomStateBackend) or OWN in written
    chosen = settings.backend
    assert (chosen.type, chosen.class_name, chosen.options) == (
        "custom",
        OWN,
        {"a": "1"} if has_options else {},
    )
    assert told["stateBackend.type"] == ("custom", "code (set_state_backend)")
    assert told["stateBackend.class"] == (OWN, "code (set_state_backend)")


def test_a_later_key_counts_more_than_a_class_of_ones_own(env: Env, declared: graph.Graph) -> None:
    text = f"{MANIFEST}  checkpointing: {{storage: /state}}\n"
    env.set_state_backend(OWN).configure(Configuration({"state.backend.type": "rocksdb"}))
    given = resolve(load(text))
    code = CodeSettings(given.given, lambda leaves: resolve(load(text), code=leaves))
    settings, _ = code.over(given.settings, declared)
    assert (settings.backend.type, settings.backend.class_name) == ("rocksdb", None)


def test_both_spellings_of_a_class_are_one_class(env: Env, declared: graph.Graph) -> None:
    text = f"{MANIFEST}  checkpointing: {{storage: /state}}\n  stateBackend: {{class: '{OWN}', options: {{a: '1'}}}}\n"
    env.set_state_backend(OWN.replace(":", "."))
    given = resolve(load(text))
    code = CodeSettings(given.given, lambda leaves: resolve(load(text), code=leaves))
    assert code.over(given.settings, declared)[0].backend.options == {"a": "1"}
