"""Completed checkpoints: commit, retention, deletion. Storage and log agree after every crash.

The order of writes is the whole protocol. *Commit*: data files, then ``_metadata`` (created if absent), then
the log record, which alone makes the checkpoint complete. *Deletion*: a tombstone in the log that names the
objects, then the objects. *Sweep*: what no retained checkpoint refers to and an older incarnation wrote can
never be committed any more, because the log refuses older incarnations and older claims; it goes the same
way, tombstone first.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sparkstate import errors
from sparkstate.checkpoint import metadata as codec
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.log import records
from sparkstate.log.log import ClaimedLog, LineageLog
from sparkstate.log.records import CheckpointCommitted
from sparkstate.log.state import LogState
from sparkstate.storage import layout
from sparkstate.storage.location import CheckpointStorage
from sparkstate.storage.objectstore import ObjectStore

TOMBSTONE_PATHS = 2000
"""At most this many objects are named by one tombstone, so that log entries stay small."""


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint that a restart can use. ``record`` is its commit in the log."""

    record: CheckpointCommitted
    metadata: CheckpointMetadata


@dataclass(frozen=True)
class Deletion:
    """The things that one deletion removed, for logs and metrics."""

    checkpoints: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()


class CompletedCheckpointStore:
    """The completed checkpoints of one lineage, for the driver that has claimed it. Thread-safe.

    ``store`` is rooted at the lineage; ``retained`` completed checkpoints are kept (at least 1). ``discarded`` is told
    the id of each checkpoint of which the log says that it never becomes complete.
    """

    def __init__(
        self,
        store: ObjectStore,
        log: LineageLog | ClaimedLog,
        retained: int = 1,
        discarded: Callable[[int], object] = lambda checkpoint_id: None,
    ) -> None:
        if retained < 1:
            raise errors.SpecInvalid(
                f"{retained} checkpoints cannot be retained; the number must be at least 1"
            )
        self._store = store
        self._log = log
        self._retained = retained
        self._discarded = discarded
        self._locations = CheckpointStorage(store)
        self._metadata: dict[int, CheckpointMetadata] = {}
        self._open: set[int] = set()
        """Checkpoints whose record may be in the log."""
        self._sent: set[int] = set()
        """Checkpoints whose record was handed to the log, whatever became of it."""
        self._given_up: dict[int, bool] = {}
        """Id → whether its tombstone is in the log."""
        self._dropped: set[str] = set()
        """Files of subsumed checkpoints that may still be there, while the log may have forgotten who had them."""
        self._lock = threading.RLock()

    def commit(
        self, metadata: CheckpointMetadata, before_record: Callable[[], None] = lambda: None
    ) -> CompletedCheckpoint:
        """As :meth:`_commit`. A storage that refuses us while the outcome is open is away: the record may be there, and
        a checkpoint that is told to have failed must not be one that a restart goes back to."""
        try:
            return self._commit(metadata, before_record)
        except errors.StorageRefused as error:
            if metadata.checkpoint_id not in self._open:
                raise
            raise errors.StorageUnavailable(
                f"the record of checkpoint {metadata.checkpoint_id} may be written, and now the storage refuses "
                f"access: {error}"
            ) from error

    def _commit(self, metadata: CheckpointMetadata, before_record: Callable[[], None]) -> CompletedCheckpoint:
        """Make a checkpoint complete. ``before_record`` is called between ``_metadata`` and the log's record.

        ``StorageUnavailable`` leaves the outcome open: call again with the same metadata until it succeeds,
        or :meth:`discard` the checkpoint, which settles it. Raises ``Fenced`` if another driver owns the
        lineage, and ``StateError`` if a newer incarnation has begun, the lineage was closed, or a shared file
        is not safe to refer to.
        """
        with self._lock:
            data = codec.encode(metadata)
            record = CheckpointCommitted(
                checkpoint_id=metadata.checkpoint_id,
                path=layout.metadata_path(metadata.checkpoint_id),
                checksum=codec.checksum(data),
                epoch=metadata.epoch,
                incarnation=metadata.incarnation,
                timestamp_ms=metadata.timestamp_ms,
            )
            self._require_reachable(metadata)
            # In this order: ``_metadata`` without a record is a leftover that the next sweep deletes, while a record
            # without its ``_metadata`` would block every restart.
            self._write_metadata(record, data)
            before_record()
            self._sent.add(record.checkpoint_id)
            try:
                self._log.append_if(lambda state: _commit_once(state, record))
            except errors.StorageUnavailable:
                self._open.add(record.checkpoint_id)
                raise
            self._open.discard(record.checkpoint_id)
            self._sent.discard(record.checkpoint_id)
            self._metadata[metadata.checkpoint_id] = metadata
            return CompletedCheckpoint(record, metadata)

    def latest(self) -> CompletedCheckpoint | None:
        """The newest completed checkpoint, by the log. Raises ``CorruptData`` if its metadata is not
        what was committed.
        """
        records_ = self._log.refresh().checkpoints
        return CompletedCheckpoint(records_[-1], self.load(records_[-1])) if records_ else None

    def completed(self) -> list[CompletedCheckpoint]:
        """All retained checkpoints, oldest first."""
        return [CompletedCheckpoint(record, self.load(record)) for record in self._log.refresh().checkpoints]

    def load(self, record: CheckpointCommitted) -> CheckpointMetadata:
        """The metadata of a committed checkpoint, verified against its record."""
        known = self._metadata.get(record.checkpoint_id)
        if known is None:
            known = load_metadata(self._store, record.path, record.checksum)
            self._metadata[record.checkpoint_id] = known
        return known

    def next_checkpoint_id(self) -> int:
        """One above every id that the log or a folder of a checkpoint names. Ids of ``_metadata`` are never used twice.

        Shared files are not looked at, of which there may be a hundred thousand: a dead attempt's has the number of
        its incarnation in its name, which is never used twice, so the same id with another incarnation is another
        name. Files named by the id alone lie in ``chk-N/``, and the log remembers which of those were swept.
        """
        named = [self._log.refresh().last_checkpoint_id]
        for info in self._store.list("chk-"):
            number = info.key.removeprefix("chk-").partition("/")[0]
            named.append(int(number) if number.isdigit() else 0)
        return max(named) + 1

    def subsume(self) -> Deletion:
        """Delete all but the newest ``retained`` checkpoints, and what was left by discarded ones. Of a damaged one the
        log forgets the record, and the next incarnation's sweep finds its files. The next call deletes what an outage
        has kept from being deleted.

        Raises ``CorruptData``, and deletes nothing, if one of those that are kept cannot be read.
        """
        with self._lock:
            deleted = self._drop_excess()
            # Slots may have gone on uploading for a while after the checkpoint was given up, or the storage may have
            # been away at that moment: look once more.
            for checkpoint_id, settled in list(self._given_up.items()):
                if not settled or self._leftovers_of(checkpoint_id):
                    self.discard(checkpoint_id)
                self._given_up.pop(checkpoint_id, None)
            return deleted

    def _drop_excess(self) -> Deletion:
        excess = self._log.state.checkpoints[: -self._retained]
        if not excess and not self._dropped:
            return Deletion()
        reachable = self._reachable(self._log.state.checkpoints[-self._retained :])
        # Kept until they are deleted: the storage may go away as soon as a tombstone has taken the records, by which
        # the next look would find these files.
        self._dropped |= {path for record in excess for path in self._known_files_of(record)}
        self._dropped -= reachable
        deleted = self._bury(self._dropped, tuple(record.checkpoint_id for record in excess), "subsumed")
        self._dropped = set()
        return deleted

    def discard(self, checkpoint_id: int) -> Deletion:
        """Give up a checkpoint that was not committed, and delete what was stored for it.

        If its commit was open and turns out to have happened, nothing is deleted and ``checkpoints`` is empty.
        """
        with self._lock:
            self._given_up.setdefault(checkpoint_id, False)
            # Even with nothing to delete the tombstone is written: it takes the number at which an open commit might
            # still arrive, and so settles that it never does.
            try:
                deleted = self._bury_failed(checkpoint_id)
            except errors.StorageUnavailable:
                if not self._made_room(checkpoint_id):
                    raise
                deleted = self._bury_failed(checkpoint_id)
            self._open.discard(checkpoint_id)
            if deleted.checkpoints:
                self._given_up[checkpoint_id] = True
                self._discarded(checkpoint_id)
            else:
                del self._given_up[checkpoint_id]
            return deleted

    def _bury_failed(self, checkpoint_id: int) -> Deletion:
        leftovers = self._leftovers_of(checkpoint_id)
        return self._bury(leftovers, (checkpoint_id,), "not completed", unless_committed=checkpoint_id)

    def _made_room(self, checkpoint_id: int) -> bool:
        """Whether files of a failed checkpoint were deleted although the log has not taken their tombstone. On a volume
        that is full it finds no room, and these files would keep the volume full.

        Only where the log was never given the checkpoint's record, so that nothing can ever refer to them; and only
        names that are never used again. ``_metadata`` waits for the tombstone, which takes its number.
        """
        if checkpoint_id in self._sent:
            return False
        own = (self._log.own_incarnation, checkpoint_id)
        paths = [path for path in self._leftovers_of(checkpoint_id) if layout.written_by(path) == own]
        self._store.delete(paths)
        return bool(paths)

    def _leftovers_of(self, checkpoint_id: int) -> set[str]:
        """The files that this incarnation stored for an incomplete checkpoint.
        Shared files are its own: see KnownFiles. The successor of a driver that is fenced may use the same number for a
        checkpoint of its own.
        """
        incarnation = self._log.own_incarnation
        return {
            info.key
            for prefix in (
                f"{layout.checkpoint_folder(checkpoint_id)}/",
                f"{layout.SHARED}/{incarnation}-{checkpoint_id}-",
            )
            for info in self._store.list(prefix)
            if layout.checkpoint_of_metadata(info.key) == checkpoint_id
            or layout.written_by(info.key) == (incarnation, checkpoint_id)
        }

    def sweep(self) -> Deletion:
        """Delete what older incarnations left and nothing refers to. Called once after each new incarnation.

        Raises ``CorruptData``, and deletes nothing, if a retained checkpoint cannot be read.
        """
        with self._lock:
            state = self._log.refresh()
            reachable = self._reachable(state.checkpoints)
            doomed = {
                info.key
                for prefix in layout.DATA_PREFIXES
                for info in self._store.list(prefix)
                if info.key not in reachable and self._is_leftover(info.key, state)
            }
            return self._bury(doomed, (), "orphans") if doomed else Deletion()

    def _is_leftover(self, path: str, state: LogState) -> bool:
        written = layout.written_by(path)
        if written is not None:
            return written[0] < state.incarnation
        if layout.checkpoint_of_metadata(path) is None:
            return False
        try:
            return codec.decode(self._store.get(path), path).incarnation < state.incarnation
        except errors.StorageUnavailable:
            raise
        except errors.StorageError:
            return False  # never committed, and nobody knows whose it is: left for a person to look at

    def _write_metadata(self, record: CheckpointCommitted, data: bytes) -> None:
        location = self._locations.initialize_location_for_checkpoint(record.checkpoint_id)
        stream = location.create_metadata_output_stream()
        stream.write(data)
        try:
            stream.close_and_finalize_checkpoint()
        except errors.AlreadyExists as error:
            raise errors.StateError(
                f"{self._store.url}/{record.path} was written by another driver; checkpoint "
                f"{record.checkpoint_id} is "
                "given up, the next one has another number"
            ) from error

    def _require_reachable(self, metadata: CheckpointMetadata) -> None:
        """Files that this checkpoint did not write must belong to a retained one; else they may be deleted any time."""
        foreign = {
            path
            for path in metadata.paths()
            if layout.written_by(path) != (metadata.incarnation, metadata.checkpoint_id)
        }
        for record in reversed(self._log.state.checkpoints):
            if not foreign:
                return
            with contextlib.suppress(
                errors.CorruptData
            ):  # a damaged one holds nothing that anybody could know of
                foreign -= self._files_of(record)
        if foreign:
            raise errors.StateError(
                f"checkpoint {metadata.checkpoint_id} refers to {min(foreign)}, which no retained checkpoint "
                "holds. This is a bug. Please report."
            )

    def _reachable(self, kept: Iterable[CheckpointCommitted]) -> set[str]:
        """The shared registry: every object that the given checkpoints need."""
        return {path for record in kept for path in self._files_of(record)}

    def _files_of(self, record: CheckpointCommitted) -> set[str]:
        return self.load(record).paths() | {record.path}

    def _known_files_of(self, record: CheckpointCommitted) -> set[str]:
        try:
            return self._files_of(record)
        except errors.CorruptData:
            return {record.path}

    def _bury(
        self, doomed: set[str], ids: tuple[int, ...], reason: str, unless_committed: int | None = None
    ) -> Deletion:
        # All tombstones come before the first deletion. So a driver that is cut off in between, or a deletion that the
        # storage carries out late, takes no file to which a newer checkpoint could still refer (RFC 0001).
        paths = sorted(doomed)
        chunks = [paths[start : start + TOMBSTONE_PATHS] for start in range(0, len(paths), TOMBSTONE_PATHS)]
        for index, chunk in enumerate(chunks or [[]]):
            stone = records.Tombstone(
                paths=tuple(chunk), checkpoints=ids if index == 0 else (), reason=reason
            )

            def decide(state: LogState, stone: records.Tombstone = stone) -> records.Record | None:
                committed = {record.checkpoint_id for record in state.checkpoints}
                return None if unless_committed in committed else stone

            if self._log.append_if(decide) is None:
                return Deletion()
        for checkpoint_id in ids:
            self._metadata.pop(checkpoint_id, None)
        self._store.delete(paths)
        return Deletion(ids, tuple(paths))


def load_metadata(store: ObjectStore, path: str, checksum: str = "") -> CheckpointMetadata:
    """Read and verify a ``_metadata``; ``checksum`` of the committed bytes, if a log record has it.

    A missing one is ``CorruptData``: a record says that it was there.
    """
    try:
        data = store.get(path)
    except errors.NotFound as error:
        raise errors.CorruptData(
            f"{store.url}/{path} is missing, although the log says that it was committed"
        ) from error
    if checksum and codec.checksum(data) != checksum:
        raise errors.CorruptData(
            f"{store.url}/{path} has the checksum {codec.checksum(data)}, {checksum} was committed"
        )
    return codec.decode(data, f"{store.url}/{path}")


def _commit_once(state: LogState, record: CheckpointCommitted) -> records.Record | None:
    if record in state.checkpoints:
        return None  # the answer to an earlier try was lost, and the commit is called again
    if record.incarnation != state.incarnation:
        raise errors.StateError(
            f"checkpoint {record.checkpoint_id} belongs to incarnation {record.incarnation}, the lineage is "
            "at "
            f"{state.incarnation}; it is given up"
        )
    if state.closed is not None:
        raise errors.StateError(
            f"checkpoint {record.checkpoint_id} comes after the lineage was closed by the savepoint "
            f"{state.closed.savepoint_url}; it is given up"
        )
    return record
