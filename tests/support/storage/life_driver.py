"""One driver of the life in ``life.py``: claims, restores, checkpoints, savepoints; may be killed anywhere.

It does with the real ``JobStorage`` what ``driver.checkpoints`` does, one step after the other.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

from support.storage.life import KEY_SPACE, SINK, ImpatientClock, Killed, Place, Slot, shard_of

from sparkstate import errors
from sparkstate.checkpoint import Uploader, UploadTarget
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.snapshot_parts import SnapshotParts, StoredJob
from sparkstate.handles import ShardHandle
from sparkstate.slots.restoring import state_metas
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.position import PART_BYTES
from sparkstate.spark.watermarks import Watermarks

PATIENCE = 3
"""How often it looks for the storage before it gives a checkpoint up."""


def position_at(taken: int, folder: Path) -> CapturedPosition:
    """The position after so many records, with a large log that only grows now and then."""
    log = folder / "0"
    log.write_bytes(log_at(taken))
    return CapturedPosition(
        taken, {"taken": json.dumps(taken).encode()}, {"sources/0/9.compact": log}, folder
    )


def log_at(taken: int) -> bytes:
    return random.Random(taken // 20).randbytes(PART_BYTES + 1)


def taken_of(query: Path) -> int:
    """The inverse of :func:`position_at`, from a seeded directory."""
    taken = int(json.loads((query / "taken").read_bytes()))
    assert (query / "sources/0/9.compact").read_bytes() == log_at(taken)
    return taken


class LifeDriver:
    """``attempt`` as the operator counts them. The constructor claims and restores; it raises what those raise.

    ``dead`` says whether the process was killed: then no wait returns.
    """

    def __init__(
        self, place: Place, attempt: int, slots: int, backend: str, dead: Callable[[], bool] = lambda: False
    ) -> None:
        self.place, self.attempt = place, attempt
        self.settings = place.settings(slots, backend)
        self.clock = ImpatientClock(dead)
        self.slots: list[Slot] = []
        self.base: int | None = None
        self.taken = 0
        self.savepoints: list[str] = []
        self.closed = False
        claimed = self._insist(lambda: claim(self.settings, self.clock, attempt, f"attempt {attempt}"))
        job = StoredJob(operators=("op",), premises={}, sink_paths={SINK: place.sink}, backend=backend)
        self.job_storage = JobStorage(claimed, job)
        self.restore()

    def _insist(self, action):
        while True:
            try:
                return action()
            except errors.StorageUnavailable:
                self.clock.sleep(0.05)

    def restore(self) -> None:
        """Begin a new incarnation from what the log says, as after any failure."""
        self.close()
        self._insist(self._restore)

    def _restore(self) -> None:
        restored = self.job_storage.restore_point()
        self.incarnation = self.job_storage.begin_incarnation(restored, lambda number: None)
        query = self.place.new_folder() / "query"
        self.job_storage.seed_position(restored, query, heartbeat=False)
        self.taken = taken_of(query) if query.exists() else 0
        self.close()
        for number in range(self.settings.slots):
            self.slots.append(
                Slot(self.place, self.job_storage, number, self.settings, self.incarnation, restored)
            )
        self.base = _base(restored)

    def close(self) -> None:
        for slot in self.slots:
            slot.close()
        self.slots = []

    def epoch(self, records: int) -> None:
        """Take that many records."""
        for number in range(self.taken, self.taken + records):
            self.slots[KEY_SPACE.slot_of_shard(shard_of(number), len(self.slots))].take(number)
        self.taken += records

    def checkpoint(self, savepoint: str = "", *, stop: bool = False) -> bool:
        """One checkpoint, with a savepoint of that trigger id if one is given; whether it was completed.

        Raises ``Fenced``. After a failure of which nobody knows how far it came, a new incarnation begins.
        """
        number, committed = self.job_storage.ids.new(), False
        rotated = [slot.writer.rotate(number) for slot in self.slots]
        try:
            target = UploadTarget.checkpoint(self.incarnation, number)
            shards = [
                shard
                for slot in self.slots
                for shard in slot.upload(
                    target, slot.uploader, self.base, self.place.new_folder(), canonical=False
                )
            ]
            for slot in self.slots:
                slot.known.uploaded(number, [shard for shard in shards if shard.shard in slot.stores])
            staged = tuple(
                slot.writer.stage(parts, number, self.taken)
                for slot, parts in zip(self.slots, rotated, strict=True)
                if parts
            )
            url = self._savepoint(savepoint, staged, stop=stop) if savepoint else ""
            committed = bool(url)
            parts = self._parts(number, shards, staged)
            self.place.offered[self.incarnation, number] = self.taken
            metadata = self.job_storage.commit_checkpoint(parts, self._patience(), lambda: None)
            committed = True
            self.place.acknowledged.append((self.incarnation, number))
            self.base = number
            self.job_storage.publish(metadata, self._patience())
        except (errors.StorageError, errors.StateError) as error:
            return self._failed(number, committed, error)
        for slot, parts in zip(self.slots, rotated, strict=True):
            slot.known.complete(number)
            slot.writer.forget(parts)
        if url and stop:
            self.job_storage.close_lineage(url, savepoint, lambda: False)
            self.closed = True
        self.job_storage.subsume()
        return True

    def _failed(self, number: int, committed: bool, error: Exception) -> bool:
        if isinstance(error, errors.StorageError) and not isinstance(error, errors.StorageUnavailable):
            raise AssertionError(f"a storage that is only shaky was reported as {error!r}") from error
        for slot in self.slots:
            slot.known.abort(number)
        if committed:
            self.restore()
        else:
            self.job_storage.discard(number)
        return False

    def _savepoint(self, trigger: str, staged, *, stop: bool) -> str:
        """Take a savepoint of now; its URL, or empty if it failed and nothing came of it."""
        number = self.job_storage.ids.new()
        target = UploadTarget.savepoint(self.incarnation, number)
        try:
            url = self.job_storage.begin_savepoint(
                SavepointTrigger(trigger_id=trigger), number, self.incarnation
            )
            self.job_storage.make_savepoint_folder(url, 60.0, lambda: False)
            uploader = Uploader(self.job_storage.savepoints.folder(url), threads=2, inline_threshold_bytes=64)
            try:
                shards = [
                    shard
                    for slot in self.slots
                    for shard in slot.upload(target, uploader, None, self.place.new_folder(), canonical=True)
                ]
            finally:
                uploader.close()
        except errors.StorageUnavailable:
            return ""
        self.place.offered[self.incarnation, number] = self.taken
        parts = self._parts(number, shards, staged, trigger, stop)
        record = self.job_storage.write_savepoint(parts, url, lambda: False)
        self.job_storage.record_savepoint(record, lambda: False)
        self.place.acknowledged.append((self.incarnation, number))
        self.savepoints.append(url)
        return url

    def _parts(
        self, number: int, shards: list[ShardHandle], staged, trigger: str = "", stop: bool = False
    ) -> SnapshotParts:
        stores = {shard: store for slot in self.slots for shard, store in slot.stores.items()}
        return SnapshotParts(
            checkpoint_id=number,
            trigger_id=trigger,
            incarnation=self.incarnation,
            epoch=self.taken,
            watermarks=Watermarks(()),
            position=position_at(self.taken, self.place.new_folder()),
            key_space=KEY_SPACE,
            shards=tuple(shards),
            states=tuple(state_metas(stores)),
            operator_state=(),
            committables=staged,
            slots=len(self.slots),
            drained=False,
            closed=stop,
            trigger_ms=self.clock.now_ms(),
            began=self.clock.monotonic(),
        )

    def _patience(self) -> Callable[[], bool]:
        tries = iter(range(PATIENCE))
        return lambda: next(tries, None) is None

    def delete_savepoint(self, url: str) -> None:
        """Delete one that a restart does not need; an outage on the way leaves it to a later sweep."""
        try:
            self.job_storage.savepoints.delete(url)
        except errors.StorageUnavailable:
            return
        except errors.StorageError as error:
            if not re.search("is the newest completed snapshot|is no savepoint", str(error)):
                raise


def _base(restored: RestoredSnapshot) -> int | None:
    metadata = restored.metadata
    return metadata.checkpoint_id if metadata is not None and metadata.kind == "checkpoint" else None


__all__ = ["Killed", "LifeDriver"]
