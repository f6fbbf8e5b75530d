"""Where checkpoints go, as a job's code says it: PyFlink's ``checkpoint_storage`` classes.

Like a state backend, a storage here is a light description that can be pickled. It opens nothing; it says which fields
of the manifest it means, and these are judged with all the others.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Final

from sparkstate import errors
from sparkstate_spec import units

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]

_PATH = "checkpointing.storage"


class CheckpointStorage(abc.ABC):
    """Says where the checkpoints of a job are kept."""

    @abc.abstractmethod
    def fields(self) -> Mapping[str, Any]:
        """The values that it gives, by the paths of the manifest's fields and in their spelling."""


class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints in a folder or a bucket.

    ``checkpoint_directory`` is ``s3://bucket/prefix``, ``file:///path`` or a path. ``file_state_size_threshold`` in
    bytes: files up to it lie in the checkpoint's metadata (default 20 KiB, at most 1 MiB). ``write_buffer_size`` in
    bytes (default 4 KiB). None and -1 take a number from the configuration. Raises ``ValueError`` for a number out of
    bounds and :class:`errors.SpecInvalid` for a text that does not name a location.
    """

    MAX_FILE_STATE_THRESHOLD: Final = 1024 * 1024

    def __init__(
        self,
        checkpoint_directory: str,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
    ) -> None:
        if not isinstance(checkpoint_directory, str) or not checkpoint_directory.strip():
            raise errors.SpecInvalid(
                f"FileSystemCheckpointStorage({checkpoint_directory!r}): give s3://bucket/prefix or a folder"
            )
        self._directory = checkpoint_directory
        self._threshold = _bytes(
            "file_state_size_threshold", file_state_size_threshold, 0, self.MAX_FILE_STATE_THRESHOLD
        )
        self._write_buffer = _bytes("write_buffer_size", write_buffer_size, 1, 2**31 - 1)

    def get_checkpoint_path(self) -> str:
        """The location, as it was given."""
        return self._directory

    def get_min_file_size_threshold(self) -> int | None:
        """In bytes; None: the configuration's."""
        return self._threshold

    def get_write_buffer_size(self) -> int | None:
        """In bytes; None: the configuration's."""
        return self._write_buffer

    def fields(self) -> Mapping[str, Any]:
        sizes = {
            "checkpointing.inlineThreshold": self._threshold,
            "checkpointing.writeBufferSize": self._write_buffer,
        }
        given = {path: units.format_bytes(size) for path, size in sizes.items() if size is not None}
        return {"checkpointing.storageType": "filesystem", _PATH: self._directory, **given}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileSystemCheckpointStorage) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self._directory)

    def __str__(self) -> str:
        return f"FileSystemCheckpointStorage({self._directory})"

    __repr__ = __str__


class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the memory of the coordinator, here the driver: for tests and small state. A slot that is lost
    comes back with its state; with the driver's process, all is lost.

    ``max_state_size`` in bytes is the most that a state may have in a slot (default 5 MiB, at most 64 MiB); a larger
    one fails the checkpoint. Raises ``ValueError`` for a number out of bounds. ``checkpoint_path``, Flink's folder for
    the metadata alone, is refused: a folder makes checkpoints durable, and that is ``FileSystemCheckpointStorage``.
    """

    DEFAULT_MAX_STATE_SIZE: Final = 5 * 1024 * 1024
    MAX_STATE_SIZE: Final = 64 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        if checkpoint_path is not None:
            raise errors.NotInThisVersion(
                f"JobManagerCheckpointStorage(checkpoint_path={checkpoint_path!r}): metadata in a folder and state in "
                "memory is not in this version; use FileSystemCheckpointStorage(path), or leave checkpoint_path out"
            )
        self._max_state_size = _bytes("max_state_size", max_state_size, 1, self.MAX_STATE_SIZE)

    def get_checkpoint_path(self) -> None:
        """None: nothing lies in a folder."""

    def get_max_state_size(self) -> int:
        """In bytes."""
        return self.DEFAULT_MAX_STATE_SIZE if self._max_state_size is None else self._max_state_size

    def fields(self) -> Mapping[str, Any]:
        given = {"checkpointing.storageType": "jobmanager"}
        if self._max_state_size is not None:
            given["checkpointing.maxStateSize"] = units.format_bytes(self._max_state_size)
        return given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobManagerCheckpointStorage) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(self._max_state_size)

    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage(max_state_size={self.get_max_state_size()})"

    __repr__ = __str__


def _bytes(name: str, size: int | None, least: int, most: int) -> int | None:
    if size is None or (size == -1 and not isinstance(size, bool)):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= most:
        raise ValueError(f"{name} is {size!r}; it must be a whole number of bytes from {least} to {most}")
    return size
