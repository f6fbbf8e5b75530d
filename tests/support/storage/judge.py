"""Judges a storage after a life in ``life.py``, through a clean connection: is all kept, and nothing else?"""

from __future__ import annotations

import json
from typing import Any

from support.storage.life import KEY_SPACE, Place, content, fill, fold
from support.storage.life_driver import LifeDriver, taken_of

from sparkstate.backends import loader
from sparkstate.checkpoint import CompletedCheckpointStore, Downloader, open_snapshot
from sparkstate.checkpoint.metadata import CheckpointMetadata
from sparkstate.clock import SystemClock
from sparkstate.log import LineageLog, find, records
from sparkstate.log.lineage import JobName, Lineage
from sparkstate.log.records import key_of
from sparkstate.settings import MIB, StateBackendSettings
from sparkstate.spark import position
from sparkstate.storage import open_store

JOB = JobName(cluster="local", namespace="default", name="job")


class Judge:
    """``place`` must reach the real server. ``deleted``: (key, last log number then) of every delete that was seen;
    ``archive``: the entries of the log that compactions deleted, by key."""

    def __init__(self, place: Place, deleted: list[tuple[str, int]], archive: dict[str, bytes]) -> None:
        self.place, self.deleted, self.archive = place, deleted, archive
        self.root = open_store(place.url, place.s3)
        lineage = find(self.root, JOB)
        assert lineage is not None, "the job's name leads nowhere"
        self.lineage: Lineage = lineage
        self.entries = self.read_log()

    def read_log(self) -> list[records.Entry]:
        """All entries: numbered from 1 without a gap, each once."""
        stored = {info.key: self.lineage.store.get(info.key) for info in self.lineage.store.list("log/0")}
        stored |= self.archive  # which has what was first under each number
        keys = sorted(key for key, data in stored.items() if data != records.COMPACTED)
        assert keys == [key_of(number) for number in range(1, len(keys) + 1)], "the log has gaps"
        entries = [records.decode(stored[key], key) for key in keys]
        assert [entry.number for entry in entries] == list(range(1, len(keys) + 1))
        return entries

    def judge(self) -> None:
        """Everything, in the order in which a person would look."""
        self.judge_writers()
        self.judge_commits()
        self.judge_deletions()
        self.judge_what_is_retained()
        self.judge_the_end()

    def judge_writers(self) -> None:
        """Between two claims only the first one's driver writes; tokens and incarnations rise."""
        writer, token, incarnation = "", None, 0
        for entry in self.entries:
            match entry.record:
                case records.Claim():
                    assert token is None or entry.record.token > token, (
                        f"claim {entry.number} is no newer one"
                    )
                    writer, token = entry.writer, entry.record.token
                case records.Incarnation():
                    assert entry.record.number == incarnation + 1
                    incarnation = entry.record.number
            assert entry.writer == writer, f"entry {entry.number} is not of the driver that had claimed"

    def commits(self) -> list[Any]:
        kinds = (records.CheckpointCommitted, records.SavepointCommitted)
        return [entry.record for entry in self.entries if isinstance(entry.record, kinds)]

    def judge_commits(self) -> None:
        """What was reported is there; nothing is there twice, or without having been tried."""
        ids = [(record.incarnation, record.checkpoint_id) for record in self.commits()]
        assert len(set(ids)) == len(ids), "a commit is in the log twice"
        assert set(self.place.acknowledged) <= set(ids), "a commit that was reported is not in the log"
        assert set(ids) <= set(self.place.offered)
        epochs = [record.epoch for record in self.commits()]
        assert epochs == sorted(epochs), "the source went back behind a completed checkpoint"

    def judge_deletions(self) -> None:
        """A file that a commit names was deleted only when its tombstone was in the log."""
        stones = [(entry.number, entry.record) for entry in self.entries]
        live = self.paths_of_live()
        for key, last in self.deleted:
            buried = [
                stone for number, stone in stones if number <= last and isinstance(stone, records.Tombstone)
            ]
            if any(key in stone.paths for stone in buried):
                continue
            folders = [url for stone in buried for url in stone.savepoints]
            if any(f"{self.lineage.store.url}/{key}".startswith(f"{url}/") for url in folders):
                continue
            assert key not in live, f"{key} was deleted without a tombstone"

    def paths_of_live(self) -> set[str]:
        """Objects that a completed checkpoint still names; names in deleted ones stand in their tombstones."""
        log = LineageLog(self.lineage.store, SystemClock())
        completed = CompletedCheckpointStore(self.lineage.store, log, 1)
        return {path for done in completed.completed() for path in done.metadata.paths() | {done.record.path}}

    def judge_what_is_retained(self) -> None:
        """Every checkpoint and savepoint that the log calls complete gives back exactly its state."""
        log = LineageLog(self.lineage.store, SystemClock())
        for done in CompletedCheckpointStore(self.lineage.store, log, 1).completed():
            self.judge_snapshot(done.metadata, self.lineage.store)
        for saved in log.state.savepoints:
            snapshot = open_snapshot(saved.url, lambda url: open_store(url, self.place.s3, create=False))
            self.judge_snapshot(snapshot.metadata, snapshot.store)

    def judge_snapshot(self, metadata: CheckpointMetadata, store: Any) -> None:
        downloader = Downloader(store, threads=2)
        assert metadata.source_position is not None
        archive = downloader.read(metadata.source_position)
        parts = {handle.name: downloader.read(handle) for handle in metadata.source_files}
        downloader.close()
        query = self.place.new_folder() / "query"
        position.seed(query, archive, heartbeat=False, part=parts.__getitem__)
        taken = taken_of(query)
        assert taken == metadata.epoch == self.place.offered[metadata.incarnation, metadata.checkpoint_id]
        factory = loader.create_store_factory(
            StateBackendSettings(type=metadata.backend, managed_memory_bytes=8 * MIB),  # type: ignore[arg-type]
            self.place.new_folder(),
        )
        stores = {
            shard: factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), self.place.new_folder())
            for shard in range(KEY_SPACE.shards)
        }
        try:
            fill(stores, metadata.shards, store, self.place)
            assert content(stores) == fold(taken)
        finally:
            for each in stores.values():
                each.close()
            factory.close()

    def judge_the_end(self) -> None:
        """A last driver cleans up and takes one checkpoint: then the output is exact and nothing is left over."""
        attempt = max(
            entry.record.attempt for entry in self.entries if isinstance(entry.record, records.Claim)
        )
        driver = LifeDriver(self.place, attempt + 1, 2, "rocksdb")
        try:
            known = max((record.epoch for record in self.commits()), default=0)
            assert driver.taken == known, "the last driver began elsewhere than at the newest commit"
            driver.epoch(5)
            assert driver.checkpoint()
            self.judge_output(driver.taken)
            self.judge_leftovers(driver)
        finally:
            driver.close()

    def judge_output(self, taken: int) -> None:
        """The sink has each record of the input up to the last checkpoint exactly once, and nothing is staged."""
        sink = open_store(self.place.sink, self.place.s3)
        keys = [info.key for info in sink.list("")]
        rows = [
            json.loads(line)["number"]
            for key in keys
            if not key.startswith("_")
            for line in sink.get(key).splitlines()
        ]
        assert sorted(rows) == list(range(taken))
        assert [key for key in keys if key.startswith("_")] == []

    def judge_leftovers(self, driver: LifeDriver) -> None:
        job_storage = driver.job_storage
        needed = {
            path
            for done in job_storage.completed.completed()
            for path in done.metadata.paths() | {done.record.path}
        }
        found = {info.key for info in self.lineage.store.list("") if not info.key.startswith("log/")}
        assert found == needed, f"left over: {sorted(found - needed)}; missing: {sorted(needed - found)}"
        prefix = f"{self.place.url}/"
        kept = tuple(f"{saved.url.removeprefix(prefix)}/" for saved in job_storage.log.state.savepoints)
        folders = [info.key for info in self.root.list("savepoints/")]
        assert [key for key in folders if not key.startswith(kept)] == [], "left over of a savepoint"
