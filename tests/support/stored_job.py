"""A job's real lineage in a real storage, without a driver: claimed, with savepoints that hold no rows."""

from __future__ import annotations

from sparkstate import clock, handles, keygroups, storage
from sparkstate.checkpoint import metadata, savepoint
from sparkstate.log import lineage, log


class StoredJob:
    """Claims the lineage of ``name`` at ``url`` for ``attempt`` and begins an incarnation."""

    def __init__(self, url: str, name: str, attempt: int) -> None:
        self.url = url
        self.name = lineage.JobName(cluster="local", namespace="default", name=name)
        self._clock = clock.SystemClock()
        self._lineage = lineage.open_lineage(storage.open_store(url), self.name, self._clock)
        self._log = log.LineageLog(self._lineage.store, self._clock)
        self._log.claim(attempt, "a test")
        self._incarnation = self._log.begin_incarnation("", 1)
        self._savepoints = savepoint.Savepoints(self._lineage, self._log, storage.open_store)

    def entries(self) -> int:
        """How many entries the log has."""
        return self._log.refresh().last_number

    def take_savepoint(
        self, trigger_id: str, epoch: int, *, target: str | None = None, stop: bool = False
    ) -> str:
        """Commit a savepoint and return its URL; ``stop`` closes the lineage with it."""
        number = self._log.refresh().last_checkpoint_id + 1
        parent = target or f"{self.url}/savepoints"
        status = self._savepoints.begin(trigger_id, parent, number, self._incarnation)
        committed = self._savepoints.commit(status.url, self._metadata(trigger_id, number, epoch, stop))
        if stop:
            self._savepoints.close_lineage(committed)
        return status.url

    def _metadata(self, trigger_id: str, number: int, epoch: int, stop: bool) -> metadata.CheckpointMetadata:
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
            shards=(handles.ShardHandle(shard=0, format="canonical", files=()),),
            trigger_id=trigger_id,
            closed=stop,
        )
