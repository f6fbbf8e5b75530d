"""The state backends of Flink before 1.13, which said where state lives and where its checkpoints go.

Each is today's backend together with today's checkpoint storage, and warns with the new form when it is made. State
is the same in both: a savepoint of the one is a savepoint of the other.
"""

from __future__ import annotations

import warnings

from sparkstate.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from sparkstate.state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend

__all__ = ["FsStateBackend", "MemoryStateBackend", "RocksDBStateBackend", "storage_of"]


class MemoryStateBackend(HashMapStateBackend):
    """``HashMapStateBackend()`` and ``JobManagerCheckpointStorage(checkpoint_path, max_state_size)``.

    Snapshots are always asynchronous, whatever ``using_asynchronous_snapshots`` says.
    """

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        self._checkpoint_storage = JobManagerCheckpointStorage(checkpoint_path, max_state_size)
        self._savepoint_path = savepoint_path
        _warn(self, "HashMapStateBackend()", self._checkpoint_storage)


class FsStateBackend(HashMapStateBackend):
    """``HashMapStateBackend()`` and ``FileSystemCheckpointStorage(checkpoint_directory_uri, …)``.

    Snapshots are always asynchronous, whatever ``using_asynchronous_snapshots`` says.
    """

    def __init__(
        self,
        checkpoint_directory_uri: str,
        savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        self._checkpoint_storage = FileSystemCheckpointStorage(
            checkpoint_directory_uri, file_state_size_threshold, write_buffer_size
        )
        self._savepoint_path = savepoint_directory_uri
        _warn(self, "HashMapStateBackend()", self._checkpoint_storage)


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """``EmbeddedRocksDBStateBackend(enable_incremental_checkpointing)`` and
    ``FileSystemCheckpointStorage(checkpoint_data_uri)``, or the storage of ``checkpoint_stream_backend``.

    Raises ``ValueError`` unless exactly one of the two says where checkpoints go.
    """

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing)
        streams = storage_of(checkpoint_stream_backend)
        if (checkpoint_data_uri is None) == (streams is None):
            raise ValueError(
                f"RocksDBStateBackend(checkpoint_data_uri={checkpoint_data_uri!r}, "
                f"checkpoint_stream_backend={checkpoint_stream_backend!r}): give exactly one of a location and an "
                "FsStateBackend or MemoryStateBackend"
            )
        self._checkpoint_storage = streams or FileSystemCheckpointStorage(checkpoint_data_uri or "")
        self._savepoint_path = savepoints_of(checkpoint_stream_backend)
        _warn(
            self, f"EmbeddedRocksDBStateBackend({enable_incremental_checkpointing})", self._checkpoint_storage
        )


def storage_of(backend: object) -> CheckpointStorage | None:
    """The checkpoint storage that an old backend brings along; None for any other."""
    if isinstance(backend, MemoryStateBackend | FsStateBackend | RocksDBStateBackend):
        return backend._checkpoint_storage
    return None


def savepoints_of(backend: object) -> str | None:
    """The default folder of savepoints that an old backend brings along, if it does."""
    if isinstance(backend, MemoryStateBackend | FsStateBackend | RocksDBStateBackend):
        return backend._savepoint_path
    return None


def deprecation(backend: object) -> str:
    """The new form of an old backend, as a sentence; empty for any other."""
    storage = storage_of(backend)
    if storage is None:
        return ""
    new = (
        "EmbeddedRocksDBStateBackend()"
        if isinstance(backend, RocksDBStateBackend)
        else "HashMapStateBackend()"
    )
    return _told(backend, new, storage)


def _told(backend: object, new: str, storage: CheckpointStorage) -> str:
    return (
        f"{type(backend).__name__} is deprecated: write env.set_state_backend({new}) and "
        f"env.get_checkpoint_config().set_checkpoint_storage({storage})"
    )


def _warn(backend: object, new: str, storage: CheckpointStorage) -> None:
    warnings.warn(_told(backend, new, storage), DeprecationWarning, stacklevel=3)
