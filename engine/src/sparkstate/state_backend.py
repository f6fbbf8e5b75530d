"""Where keyed state lives while the job runs: PyFlink's ``state_backend`` module, for PySpark.

A state backend is a light, picklable description. It holds no state and opens nothing: each slot makes its
stores from the merged settings, in its own process. The job's code wins over its manifest, and
the manifest gives what the code leaves out (:meth:`StateBackend.configure`).

``HashMapStateBackend`` keeps objects in the memory of the slot's process: fast, limited by memory, and the
state of all slots of a machine must fit at once. ``EmbeddedRocksDBStateBackend`` keeps bytes on local disk:
limited by the disk, incremental checkpoints, needs ``pip install 'sparkstate[rocksdb]'``. Both write their
checkpoints to the job's checkpoint storage, which is set apart from the backend. ``CustomStateBackend`` is a
class of the user's own (docs/custom-backends.md).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from sparkstate import errors
from sparkstate.settings import StateBackendSettings

if TYPE_CHECKING:
    from sparkstate.backends.custom.factory import BackendFactory

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]

_DEFAULTS = StateBackendSettings()
_JOB_FILE = "sparkstate_job_"
"""The beginning of the name under which the driver loads a job's ``pythonFile``."""


class PredefinedOptions(Enum):
    """Sets of RocksDB options for common settings; the numbers are PyFlink's.

    They count less than configurable keys, and those less than an options factory.
    """

    DEFAULT = 0
    """Nothing beyond the defaults. Files are never synced: RocksDB's disk takes no part in recovery."""
    SPINNING_DISK_OPTIMIZED = 1
    """For disks that turn: level compaction with dynamic level sizes, 4 background jobs, all files open."""
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    """As before with large buffers, caches and a Bloom filter. If the container is killed for its memory, go back.
    """
    FLASH_SSD_OPTIMIZED = 3
    """For flash: 4 background jobs, all files open."""


class StateBackend(abc.ABC):
    """Says how the state of a job is kept. Picklable, and safe to use from several threads: it is
    only a description.
    """

    @abc.abstractmethod
    def effective_settings(self, settings: StateBackendSettings) -> StateBackendSettings:
        """``settings`` (from manifest and cluster) with everything that this object says put in their place."""

    @abc.abstractmethod
    def configure(self, settings: StateBackendSettings) -> StateBackend:
        """A backend of the same kind in which everything left open is taken from ``settings``."""


class HashMapStateBackend(StateBackend):
    """Keeps working state as objects in the memory of the slot's process, and checkpoints it asynchronously."""

    def effective_settings(self, settings: StateBackendSettings) -> StateBackendSettings:
        return dataclasses.replace(_without_class(settings), type="hashmap")

    def configure(self, settings: StateBackendSettings) -> HashMapStateBackend:
        return HashMapStateBackend()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashMapStateBackend)

    def __hash__(self) -> int:
        return hash(HashMapStateBackend)

    def __str__(self) -> str:
        return "HashMapStateBackend()"

    __repr__ = __str__


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps working state in RocksDB on the slot's local disk; the state may be much larger than memory.

    ``enable_incremental_checkpointing``: True, False, or None to take it from the configuration. Every setter
    may be left out; what is never set comes from the configuration too.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if not isinstance(enable_incremental_checkpointing, bool | None):
            raise TypeError(
                f"Unsupported input for 'enable_incremental_checkpointing': "
                f"{enable_incremental_checkpointing!r}, "
                "the value of the parameter should be None or True or False."
            )
        self._incremental = enable_incremental_checkpointing
        self._db_storage_paths: tuple[str, ...] | None = None
        self._predefined_options: PredefinedOptions | None = None
        self._options_factory: str | None = None
        self._transfer_threads: int | None = None
        self._configured: StateBackendSettings | None = None

    def set_db_storage_paths(self, *paths: str | None) -> None:
        """Spread the stores' files over these directories. They need not outlive the machine.

        Each store is on one path, different stores on different ones. No path, or None, means the slot's own
        working directory. Raises ``ValueError`` for a path that is not absolute or not local.
        """
        if not paths or paths == (None,):
            self._db_storage_paths = None
            return
        self._db_storage_paths = tuple(_local_path(path) for path in paths)

    def get_db_storage_paths(self) -> list[str] | None:
        """The directories, or None if none were configured."""
        if self._db_storage_paths is not None:
            return list(self._db_storage_paths)
        configured = self._settings().storage_paths
        return list(configured) if configured else None

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether checkpoints hold only what changed. Undecided here means the configuration's word or its default."""
        return self._settings().incremental if self._incremental is None else self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose one of the predefined sets; raises ``TypeError`` for anything else."""
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"The input {options!r} is not one of PredefinedOptions; None is not allowed.")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """The chosen set, ``PredefinedOptions.DEFAULT`` unless code or configuration say otherwise."""
        if self._predefined_options is not None:
            return self._predefined_options
        return PredefinedOptions[self._settings().predefined_options.upper()]

    def set_options(self, options_factory_class_name: str) -> None:
        """Name the class of an options factory (``package.module:Class``); for experts.

        Options cannot be pickled, therefore the name of a class with a constructor without arguments. Raises
        ``ValueError`` if it is no ``RocksDBOptionsFactory``, :class:`errors.SpecInvalid` if it cannot be imported.
        """
        from sparkstate.backends.rocksdb import effective  # needs no rocksdict

        effective.load_options_factory(options_factory_class_name)
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """The name of the options factory's class, or None."""
        if self._options_factory is not None:
            return self._options_factory
        return self._settings().options_factory

    def get_number_of_transfer_threads(self) -> int:
        """Threads that move files at snapshot and restore, per slot (default 4)."""
        return self._settings().transfer_threads if self._transfer_threads is None else self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Raises ``ValueError`` unless the number is larger than 0. (The parameter is spelled as in PyFlink.)"""
        if not isinstance(number_of_transfering_threads, int) or number_of_transfering_threads <= 0:
            raise ValueError(
                f"The number of transfer threads is {number_of_transfering_threads!r}; "
                "it must be a whole number larger than 0."
            )
        self._transfer_threads = number_of_transfering_threads

    def effective_settings(self, settings: StateBackendSettings) -> StateBackendSettings:
        given: dict[str, Any] = {"type": "rocksdb"}
        if self._incremental is not None:
            given["incremental"] = self._incremental
        if self._db_storage_paths is not None:
            given["storage_paths"] = self._db_storage_paths
        if self._predefined_options is not None:
            given["predefined_options"] = self._predefined_options.name
        if self._options_factory is not None:
            given["options_factory"] = self._options_factory
        if self._transfer_threads is not None:
            given["transfer_threads"] = self._transfer_threads
        return dataclasses.replace(_without_class(settings), **given)

    def configure(self, settings: StateBackendSettings) -> Self:
        configured = type(self).__new__(type(self))
        configured.__dict__.update(self.__dict__)
        configured._configured = self.effective_settings(settings)
        return configured

    def _settings(self) -> StateBackendSettings:
        return _DEFAULTS if self._configured is None else self._configured

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EmbeddedRocksDBStateBackend) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # it has setters

    def __str__(self) -> str:
        incremental = "undefined" if self._incremental is None else self._incremental
        return (
            f"EmbeddedRocksDBStateBackend(incremental={incremental}, "
            f"predefined_options={self.get_predefined_options().name}, options={self.get_options()}, "
            f"db_storage_paths={self.get_db_storage_paths()}, "
            f"transfer_threads={self.get_number_of_transfer_threads()})"
        )

    __repr__ = __str__


class CustomStateBackend(StateBackend):
    """A backend of the user's own: the name of its class, ``module:Class`` or ``module.Class``, and its options.

    The class derives from ``sparkstate.backend_api.BackendFactory``, and every slot imports it by that name. It may be
    given itself instead. ``options`` None: those of ``stateBackend.options``, where the manifest names the same class.
    """

    def __init__(
        self, class_name: str | type[BackendFactory], options: Mapping[str, str] | None = None
    ) -> None:
        self._class_name = class_name if isinstance(class_name, str) else _name_of(class_name)
        self._options = None if options is None else dict(options)

    @property
    def class_name(self) -> str:
        """The name by which the class is imported."""
        return self._class_name

    def effective_settings(self, settings: StateBackendSettings) -> StateBackendSettings:
        is_planned = settings.type == "custom" and _dotted(settings.class_name) == _dotted(self._class_name)
        inherited = settings.options if is_planned else {}
        options = inherited if self._options is None else self._options
        return dataclasses.replace(
            settings, type="custom", class_name=self._class_name, options=dict(options)
        )

    def configure(self, settings: StateBackendSettings) -> CustomStateBackend:
        return CustomStateBackend(self._class_name, self.effective_settings(settings).options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomStateBackend) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self._class_name)

    def __str__(self) -> str:
        return f"CustomStateBackend({self._class_name})"

    __repr__ = __str__


def _without_class(settings: StateBackendSettings) -> StateBackendSettings:
    """Without the class of another backend, and its options."""
    if settings.class_name is None:
        return settings
    return dataclasses.replace(settings, class_name=None, options={})


def _dotted(class_name: str | None) -> str:
    """``module:Class`` and ``module.Class`` are one class."""
    return (class_name or "").replace(":", ".")


def _name_of(backend: type[BackendFactory]) -> str:
    if not isinstance(backend, type) or backend.__qualname__ != backend.__name__:
        raise errors.SpecInvalid(
            f"CustomStateBackend({backend!r}): give a class at the top of a module, or its name, module:Class"
        )
    if backend.__module__.startswith(_JOB_FILE) or backend.__module__ == "__main__":
        raise errors.SpecInvalid(
            f"CustomStateBackend({backend.__name__}): slots cannot import a class from the job's own file; move it "
            "into a module beside that file"
        )
    return f"{backend.__module__}:{backend.__name__}"


# Short names, and classes or factories by their last part, whichever package they came from: Flink moved
# RocksDB's from contrib.streaming.state to state.rocksdb, and MemoryStateBackend and FsStateBackend live on
# in old configurations.
_BACKENDS: dict[str, Literal["hashmap", "rocksdb"]] = {
    "hashmap": "hashmap",
    "jobmanager": "hashmap",
    "filesystem": "hashmap",
    "rocksdb": "rocksdb",
    "HashMapStateBackend": "hashmap",
    "MemoryStateBackend": "hashmap",
    "FsStateBackend": "hashmap",
    "EmbeddedRocksDBStateBackend": "rocksdb",
    "RocksDBStateBackend": "rocksdb",
}
_KNOWN_PACKAGES = (
    "org.apache.flink.runtime.state.hashmap",
    "org.apache.flink.runtime.state.memory",
    "org.apache.flink.runtime.state.filesystem",
    "org.apache.flink.contrib.streaming.state",
    "org.apache.flink.state.rocksdb",
    "pyflink.datastream.state_backend",
    "pyflink.datastream",
    "sparkstate.state_backend",
    "sparkstate",
)


def normalize_backend_name(name: str) -> Literal["hashmap", "rocksdb"]:
    """The backend that a name of any age means: ``jobmanager``, ``filesystem``, ``rocksdb``, a class or its factory.

    Raises :class:`errors.NotInThisVersion` for ``forst`` and for any class but Flink's and ours (of the user's own
    backend, which is named by :class:`CustomStateBackend`), and :class:`errors.SpecInvalid` for any other word.
    """
    word = _known_word(name)
    if word in _BACKENDS:
        return _BACKENDS[word]
    if word == "forst" or "." in word or ":" in word:
        raise errors.NotInThisVersion(
            f"the state backend {name!r} is not in this version; use hashmap or rocksdb, or a class of your own "
            "(stateBackend.type: custom)"
        )
    raise errors.SpecInvalid(f"the state backend is {name!r}; it must be hashmap or rocksdb")


def _known_word(name: str) -> str:
    """``name`` as the tables above have it: lower case for short names, the bare class for a known package."""
    text = name.strip()
    package, _, last = text.replace(":", ".").rpartition(".")
    if package in _KNOWN_PACKAGES or (not package and text.endswith(("Backend", "BackendFactory"))):
        return last.removesuffix("Factory")
    return text if package else text.lower()


def from_value(value: object) -> StateBackend | None:
    """A backend from what a job may hand over: None, a :class:`StateBackend`, a name, or settings.

    Any name but ours gives a :class:`CustomStateBackend`. Raises ``TypeError`` for anything else, and
    :class:`errors.NotInThisVersion` for ``forst``.
    """
    if value is None or isinstance(value, StateBackend):
        return value
    if isinstance(value, StateBackendSettings):
        if value.type == "custom":
            return CustomStateBackend(value.class_name or "", value.options)
        backend = HashMapStateBackend() if value.type == "hashmap" else EmbeddedRocksDBStateBackend()
        return backend.configure(value)
    if isinstance(value, str):
        try:
            known = normalize_backend_name(value)
        except errors.NotInThisVersion:
            if _known_word(value) == "forst":
                raise
            return CustomStateBackend(value)
        return HashMapStateBackend() if known == "hashmap" else EmbeddedRocksDBStateBackend()
    raise TypeError(f"The input {value} is not an instance of StateBackend.")


def _local_path(path: str | None) -> str:
    if path is None or not path:
        raise ValueError(f"a storage path is {path!r}; name a directory, or none at all for the default")
    parts = urlsplit(path)
    if parts.scheme not in ("", "file") or parts.netloc:
        raise ValueError(f"the storage path {path!r} is not local; RocksDB's files need a local directory")
    local = parts.path if parts.scheme else path
    if not PurePosixPath(local).is_absolute():
        raise ValueError(f"the storage path {path!r} is relative; give an absolute one")
    return local
