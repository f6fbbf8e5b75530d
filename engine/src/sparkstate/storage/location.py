"""Where one checkpoint or savepoint lies, and how it becomes complete: Flink's ``CheckpointStorageLocation``.

The engine makes places and streams of ``_metadata``. Disposal, references and task-owned streams are offered as Flink
has them (``docs/features.md``, 3.5 and 3.6): the engine deletes by its log and names places by their paths instead.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkstate import errors
from sparkstate.storage import creating, layout, naming
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.storage.streams import CheckpointStateOutputStream, CheckpointStreamFactory, StateScope


class CheckpointMetadataOutputStream:
    """Collects the bytes of ``_metadata``; nothing is stored before :meth:`close_and_finalize_checkpoint`."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._buffer = bytearray()
        self._closed = False

    def write(self, data: bytes | int) -> None:
        """Append bytes, or one byte given as a number, of which the low eight bits count (as in Java)."""
        self._require_open()
        if isinstance(data, int):
            self._buffer.append(data & 0xFF)
        else:
            self._buffer += data

    def get_pos(self) -> int:
        """Bytes written so far; -1 after the end, as in Flink."""
        return -1 if self._closed else len(self._buffer)

    def flush(self) -> None:
        """Nothing leaves the buffer: ``_metadata`` appears whole, or not at all.
        ``StorageError("closed")`` after close.
        """
        self._require_open()

    def sync(self) -> None:
        """As :meth:`flush`: the object is durable when :meth:`close_and_finalize_checkpoint` returns."""
        self._require_open()

    def is_closed(self) -> bool:
        """Whether it was finalised or discarded."""
        return self._closed

    def _require_open(self) -> None:
        if self._closed:
            raise errors.StorageError("closed")

    def close_and_finalize_checkpoint(self) -> str:
        """Create ``_metadata``, never over another one, and return the external pointer (the folder's URL).

        Found in storage with the same bytes, it is ours, written by a try whose answer was lost.
        """
        if self._closed:
            raise errors.StorageError("Stream has already been closed and discarded.")
        self._closed = True
        data = bytes(self._buffer)
        if creating.create_or_read(self._store, self._path, data) != data:
            raise errors.AlreadyExists(f"{self._store.url}/{self._path} is there already, with other content")
        return naming.split_url(naming.join_url(self._store.url, self._path))[0]

    def close(self) -> None:
        """Discard."""
        self._closed = True


class CheckpointStorageLocation:
    """The place of one checkpoint in ``store``; making it does no I/O and creates no folder."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    @property
    def metadata_path(self) -> str:
        return f"{self._folder}/{layout.METADATA}" if self._folder else layout.METADATA

    def create_metadata_output_stream(self) -> CheckpointMetadataOutputStream:
        """The stream of this checkpoint's ``_metadata``."""
        return CheckpointMetadataOutputStream(self._store, self.metadata_path)

    def dispose_on_failure(self) -> None:
        """Delete the exclusive folder with all in it, and nothing else."""
        self._store.delete(
            [info.key for info in self._store.list(f"{self._folder}/" if self._folder else "")]
        )

    def get_location_reference(self) -> str:
        """The URL of the folder."""
        return naming.join_url(self._store.url, self._folder) if self._folder else self._store.url


class CheckpointStorage:
    """The places of one lineage's checkpoints. ``store`` is rooted at the lineage."""

    def __init__(self, store: ObjectStore, ids: Callable[[], str] = naming.random_id) -> None:
        self._store = store
        self._ids = ids

    def initialize_location_for_checkpoint(self, checkpoint_id: int) -> CheckpointStorageLocation:
        """The place of a new checkpoint; nothing is created there before the first file."""
        return CheckpointStorageLocation(self._store, layout.checkpoint_folder(checkpoint_id))

    def resolve_checkpoint_storage_location(self, reference: str) -> CheckpointStorageLocation:
        """The place that :meth:`CheckpointStorageLocation.get_location_reference` named."""
        if not reference.startswith(self._store.url + "/"):
            raise errors.StorageError(f"{reference} does not lie under {self._store.url}")
        return CheckpointStorageLocation(self._store, reference.removeprefix(self._store.url + "/"))

    def create_task_owned_state_stream(self, incarnation: int, name: str) -> CheckpointStateOutputStream:
        """A stream into ``taskowned/``: files that no checkpoint's end deletes."""
        factory = CheckpointStreamFactory(
            self._store,
            layout.TASK_OWNED,
            layout.TASK_OWNED,
            lambda: layout.data_name(incarnation, 0, self._ids()),
            threshold=0,
        )
        return factory.create_checkpoint_state_output_stream(StateScope.EXCLUSIVE, name)
