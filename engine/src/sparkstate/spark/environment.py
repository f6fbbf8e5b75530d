"""An object like Flink's execution environment, for the configuration of a job in code.

There is one for each job, while its function runs: ``StreamExecutionEnvironment.get_execution_environment()``. Data
goes with PySpark, and starting with ``sparkstate run``, so the methods for these are not here.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

from sparkstate import errors, old_state_backends
from sparkstate.checkpoint_storage import JobManagerCheckpointStorage
from sparkstate.settings import StateBackendSettings
from sparkstate.spark import graph
from sparkstate.spark.checkpoint_config import CheckpointConfig, CheckpointingMode, not_yet_changelog
from sparkstate.spark.code_layer import CodeLayer
from sparkstate.spark.configuration import Configuration
from sparkstate.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
    from_value,
)
from sparkstate_spec import answers, fields

_ELSEWHERE = {
    "execute": "the job starts when its function has returned",
    "execute_async": "the job starts when its function has returned",
    "set_parallelism": "write spec.slots into the manifest, which is read before the code runs",
    "set_max_parallelism": "write spec.maxParallelism into the manifest, which is read before the code runs",
    "set_restart_strategy": "write spec.restart into the manifest, which is read where nothing of the job runs",
    "add_source": "read with spark.readStream, and give the DataFrame to sparkstate.keyed",
    "from_source": "read with spark.readStream, and give the DataFrame to sparkstate.keyed",
    "from_collection": "read with spark.readStream, and give the DataFrame to sparkstate.keyed",
    "set_buffer_timeout": "Spark moves data in epochs; write spec.trigger into the manifest",
    "set_runtime_mode": "write spec.trigger.availableNow into the manifest for a bounded run",
}
"""Methods of Flink's environment that have their place elsewhere."""


class StreamExecutionEnvironment:
    """The configuration of the job that is being declared. The code counts more than the manifest, and the manifest
    more than the built-in values; getters return the value that counts."""

    def __init__(self, declared: graph.Graph) -> None:
        self._graph = declared

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """The environment of the job whose function runs, with ``configuration`` applied to it. Raises ``SpecInvalid``
        outside of one."""
        found = StreamExecutionEnvironment(graph.current())
        return found if configuration is None else found.configure(configuration)

    def set_state_backend(self, state_backend: StateBackend | str) -> StreamExecutionEnvironment:
        """Choose the state backend: an object, or a name of one of any age. An old one sets its checkpoint storage
        and its folder of savepoints too."""
        choose_backend(self._graph, state_backend)
        return self

    def get_state_backend(self) -> StateBackend:
        """The backend that counts, with what the code leaves open taken from the other layers."""
        chosen = self._graph.backend
        if isinstance(chosen, CustomStateBackend):
            return chosen
        if self._layer.get("stateBackend.type") != "rocksdb":
            return chosen or HashMapStateBackend()
        return _configured(chosen if isinstance(chosen, EmbeddedRocksDBStateBackend) else None, self._layer)

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """A checkpoint every ``interval`` milliseconds. Checkpoints are always taken, and always exactly-once."""
        config = self.get_checkpoint_config()
        config.set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """For all other settings of checkpoints."""
        return CheckpointConfig(self._layer)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once."""
        return CheckpointingMode.EXACTLY_ONCE

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """False is taken. Raises ``NotInThisVersion`` for True."""
        not_yet_changelog(enabled)
        return self

    enable_changelog_statebackend = enable_changelog_state_backend
    """As Flink's page on state backends spells it."""

    def is_changelog_state_backend_enabled(self) -> bool:
        """Not in this version."""
        return False

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Where savepoints go whose request names no place. Raises ``SpecInvalid`` for no location."""
        if not isinstance(directory, str) or not directory.strip():
            raise errors.SpecInvalid(
                f"set_default_savepoint_directory({directory!r}): give s3://bucket/prefix or a folder"
            )
        self._layer.set("savepoints.storage", directory, f"set_default_savepoint_directory({directory})")
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The location; None: ``savepoints/`` under the checkpoint storage."""
        found: str | None = self._layer.get("savepoints.storage")
        return found

    def configure(self, configuration: Configuration) -> StreamExecutionEnvironment:
        """Set all keys of a configuration. Raises ``SpecInvalid`` for a key or value that a manifest could not have
        either, and for one that is needed before the code runs."""
        if not isinstance(configuration, Configuration):
            raise TypeError(f"configure({configuration!r}): give a sparkstate.Configuration")
        keys = configuration.to_dict()
        for key, text in keys.items():
            self._layer.configure(key, text)
        for answer in answers.of({"configuration": keys}):
            if answer.outcome != "applied" or "deprecated" in answer.text:
                self._layer.note(f"configure: {answer}")
        if {"state.backend", "state.backend.type"} & keys.keys():
            self._graph.backend = None  # the later call counts
            self._layer.unset("set_state_backend")
        if any(answers.means_memory(keys.get(key, "")) for key in ("state.backend", "state.backend.type")):
            _imply_memory(self._layer)
        return self

    def get_configuration(self) -> Configuration:
        """The keys that the code has set by :meth:`configure`, as a copy."""
        return Configuration(self._layer.configuration)

    def get_parallelism(self) -> int:
        """The number of slots."""
        return int(self._layer.get("slots"))

    @property
    def _layer(self) -> CodeLayer:
        return self._graph.code

    def __getattr__(self, name: str) -> NoReturn:
        remedy = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"StreamExecutionEnvironment has no {name!r} here{remedy}")


def choose_backend(declared: graph.Graph, backend: object) -> None:
    """Let ``declared`` have this backend, and the fields that the backend says. Raises ``SpecInvalid`` for
    a value that does not name one."""
    try:
        chosen = from_value(backend)
    except TypeError:
        chosen = None
    if chosen is None:
        raise errors.SpecInvalid(
            f"set_state_backend({backend!r}): pass HashMapStateBackend(), EmbeddedRocksDBStateBackend() or a name of "
            "one of them"
        )
    layer = declared.code
    declared.backend = chosen
    note_backend(declared)
    # A class of one's own may have an old name in its own: shared:MemoryStateBackend.
    own = isinstance(chosen, CustomStateBackend)
    if isinstance(backend, str) and not own and answers.is_old_name(backend):
        new = type(chosen).__name__
        told = f"set_state_backend({backend!r}) is deprecated: write {new}() and name the checkpoint storage apart"
        warnings.warn(told, DeprecationWarning, stacklevel=3)
        layer.note(told)
        if answers.means_memory(backend):
            _imply_memory(layer)
    storage = old_state_backends.storage_of(chosen)
    if storage is None:
        return
    layer.note(old_state_backends.deprecation(chosen))
    CheckpointConfig(layer).set_checkpoint_storage(storage)
    if (savepoints := old_state_backends.savepoints_of(chosen)) is not None:
        layer.set("savepoints.storage", savepoints, f"{type(chosen).__name__}")


def _imply_memory(layer: CodeLayer) -> None:
    """Before Flink 1.13, ``jobmanager`` meant the storage too, where no other was named."""
    if layer.get("checkpointing.storage") is None:
        CheckpointConfig(layer).set_checkpoint_storage(JobManagerCheckpointStorage())


def note_backend(declared: graph.Graph) -> None:
    """Set the fields that the chosen backend says now: its setters may be called after it was chosen."""
    if declared.backend is None:
        return
    declared.code.unset("set_state_backend")
    for path, value in _fields(declared.backend).items():
        declared.code.set(path, value, "set_state_backend")


def _fields(backend: StateBackend) -> dict[str, Any]:
    """The values that a backend gives, by the manifest's fields. A factory's class is taken from the object itself."""
    if isinstance(backend, HashMapStateBackend):
        return {"stateBackend.type": "hashmap"}
    if isinstance(backend, CustomStateBackend):
        return {fields.BACKEND_TYPE: "custom", fields.BACKEND_CLASS: backend.class_name}
    if not isinstance(backend, EmbeddedRocksDBStateBackend):
        return {}
    said = {
        "stateBackend.incremental": backend._incremental,
        "stateBackend.storagePaths": backend._db_storage_paths and list(backend._db_storage_paths),
        "stateBackend.predefinedOptions": backend._predefined_options and backend._predefined_options.name,
        "stateBackend.transferThreads": backend._transfer_threads,
    }
    return {
        "stateBackend.type": "rocksdb",
        **{path: value for path, value in said.items() if value is not None},
    }


def _configured(chosen: EmbeddedRocksDBStateBackend | None, layer: CodeLayer) -> EmbeddedRocksDBStateBackend:
    return (chosen or EmbeddedRocksDBStateBackend()).configure(
        StateBackendSettings(
            type="rocksdb",
            incremental=layer.get("stateBackend.incremental"),
            predefined_options=layer.get("stateBackend.predefinedOptions"),
            options_factory=layer.get("stateBackend.optionsFactory"),
            storage_paths=tuple(layer.get("stateBackend.storagePaths") or ()),
            transfer_threads=layer.get("stateBackend.transferThreads"),
        )
    )
