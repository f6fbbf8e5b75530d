"""A job's real lineage in a real storage, without a driver: claimed, with savepoints that hold no rows."""

from __future__ import annotations

from sparkstate import clock, handles, keygroups, storage
from sparkstate.checkpoint import metadata, savepoint
from sparkstate.log import lineage, log, records

FILE = "1-1-content"
"""The one file of a savepoint that has content."""


class StoredJob:
    """Claims the lineage of ``name`` at ``url`` for ``attempt`` and begins an incarnation."""

    def __init__(
        self,
        url: str,
        name: str,
        attempt: int,
        *,
        cluster: str = "local",
        namespace: str = "default",
        restored_from: str = "",
        start_empty: bool = False,
        opened: savepoint.OpenStore | None = None,
    ) -> None:
        opened = opened or storage.open_store  # looked up now: tests put another in its place
        self.url = url
        self.name = lineage.JobName(cluster=cluster, namespace=namespace, name=name)
        self._clock = clock.SystemClock()
        self._lineage = lineage.open_lineage(
            opened(url), self.name, self._clock, start_empty=start_empty, attempt=attempt
        )
        self.lineage_id = self._lineage.id
        self._log = log.LineageLog(self._lineage.store, self._clock).claim(attempt, "a test")
        self._incarnation = self._log.begin_incarnation(restored_from, 1)
        self._savepoints = savepoint.Savepoints(self._lineage, self._log, opened)

    def entries(self) -> int:
        """How many entries the log has."""
        return self._log.refresh().last_number

    def begin_incarnation(self) -> None:
        """The job is restored once more."""
        self._incarnation = self._log.begin_incarnation("", 1)

    def begin_savepoint(self, trigger_id: str) -> str:
        """Begin a savepoint, write a file of it, and go no further; its URL."""
        number = self._log.refresh().last_checkpoint_id + 1
        url = self._savepoints.begin(trigger_id, f"{self.url}/savepoints", number, self._incarnation).url
        self._savepoints.folder(url).put_if_absent("1-1-half", b"half of it")
        return url

    def append_until_compacted(self) -> None:
        """Entries that say nothing, until the first ones are gone."""
        while (self._lineage.store.get(records.key_of(1))) != records.COMPACTED:
            self._log.append(records.Tombstone(reason="nothing"))

    def take_savepoint(
        self,
        trigger_id: str,
        epoch: int,
        *,
        target: str | None = None,
        stop: bool = False,
        content: bytes = b"",
    ) -> str:
        """Commit a savepoint and return its URL; ``stop`` closes the lineage with it. ``content``: of one file."""
        number = self._log.refresh().last_checkpoint_id + 1
        parent = target or f"{self.url}/savepoints"
        url = self._savepoints.begin(trigger_id, parent, number, self._incarnation).url
        files = self._write(url, content) if content else ()
        committed = self._savepoints.commit(url, self._metadata(trigger_id, number, epoch, stop, files))
        if stop:
            self._log.close_lineage(committed)
        return url

    def complete(self, url: str, trigger_id: str, epoch: int) -> None:
        """Commit a savepoint that was begun."""
        number = self._log.state.last_checkpoint_id
        self._savepoints.commit(url, self._metadata(trigger_id, number, epoch, False))

    def _write(self, url: str, content: bytes) -> tuple[handles.FileHandle, ...]:
        self._savepoints.folder(url).put_if_absent(FILE, content)
        checksum = metadata.checksum(content)
        return (handles.FileHandle(name="canonical", size=len(content), checksum=checksum, path=FILE),)

    def _metadata(
        self,
        trigger_id: str,
        number: int,
        epoch: int,
        stop: bool,
        files: tuple[handles.FileHandle, ...] = (),
    ) -> metadata.CheckpointMetadata:
        delay = handles.StateMeta(
            uid="rotation",
            name="delay",
            kind="value",
            key_type="string",
            namespace_type="void",
            value_type="long",
        )
        return metadata.CheckpointMetadata(
            kind="savepoint",
            checkpoint_id=number,
            job=self.name,
            lineage=self._lineage.id,
            incarnation=self._incarnation,
            epoch=epoch,
            watermark=0,
            timestamp_ms=self._clock.now_ms(),
            key_space=keygroups.KeySpace(128, 1),
            slots=1,
            backend="hashmap",
            operators=("rotation",),
            states=(delay,),
            shards=(handles.ShardHandle(shard=0, format="canonical", files=files),),
            trigger_id=trigger_id,
            closed=stop,
        )
