"""A job without Spark that lives on a storage: real stores, transfers, log, checkpoints, savepoints and sink.

Its input is the numbers 0, 1, 2, …; state and output are functions of how many it has taken (``fold``), and that number
is its source position. So what a checkpoint must hold, and what must have been published, is known from its position.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.backends import cells

from sparkstate.backends import loader
from sparkstate.backends.base import DELETED, TableChanges
from sparkstate.checkpoint import Downloader, KnownFiles, Uploader, UploadTarget
from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.clock import SystemClock
from sparkstate.driver.job_storage import JobStorage
from sparkstate.handles import ShardHandle
from sparkstate.keygroups import KeySpace
from sparkstate.settings import (
    MIB,
    CheckpointSettings,
    EntryPoint,
    JobSettings,
    S3Settings,
    StateBackendSettings,
)
from sparkstate.sinks.file_sink import FileSink, FileSinkWriter

KEY_SPACE = KeySpace(128, 2)
KEYS = 24
SINK = "out"
TABLES = (cells.VALUES, cells.LISTS, cells.MAPS, cells.TIMERS)


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the code under test catches it."""


def changes_of(number: int) -> list[TableChanges]:
    """What one record of the input does to the state."""
    key = number % KEYS
    found = [cells.values({key: DELETED if number % 7 == 6 else number})]
    if number % 3 == 0:
        found.append(cells.appended(key, f"item {number}", "x" * (number % 50)))
    if number % 4 == 1:
        found.append(cells.mapped(key, {f"day {number % 5}": number}, cleared=number % 11 == 0))
    if number % 5 == 2:
        found.append(cells.timers([cells.timer(number, key)], [cells.timer(number - KEYS * 5, key)]))
    return found


def fold(count: int) -> dict[str, Any]:
    """The state after the first ``count`` records, in plain dicts."""
    state: dict[str, Any] = {"values": {}, "lists": {}, "maps": {}, "timers": set()}
    for number in range(count):
        key = number % KEYS
        state["values"][key] = number
        if number % 7 == 6:
            del state["values"][key]
        if number % 3 == 0:
            state["lists"].setdefault(key, []).extend([f"item {number}", "x" * (number % 50)])
        if number % 4 == 1:
            entries = {} if number % 11 == 0 else state["maps"].get(key, {})
            state["maps"][key] = {**entries, f"day {number % 5}": number}
        if number % 5 == 2:
            state["timers"] = (state["timers"] | {(number, key)}) - {(number - KEYS * 5, key)}
    return state


def content(stores: dict[int, Any]) -> dict[str, Any]:
    """What the stores of all shards hold, in the form of :func:`fold`."""
    state: dict[str, Any] = {"values": {}, "lists": {}, "maps": {}, "timers": set()}
    for key in range(KEYS):
        group = cells.group_of(key)
        store = stores[KEY_SPACE.shard_of_key_group(group)]
        value = store.table(cells.VALUES).get(group, key)
        found = {
            "values": {} if value is None else {key: value},
            "lists": {key: items} if (items := store.table(cells.LISTS).get(group, key)) else {},
            "maps": {key: entries} if (entries := store.table(cells.MAPS).items(group, key)) else {},
        }
        for name, entries in found.items():
            state[name].update(entries)
    for store in stores.values():
        state["timers"] |= {(timer.timestamp, timer.key) for timer in store.table(cells.TIMERS).due(2**62)}
    return state


@dataclass
class Place:
    """What all drivers of a life share: where state, output and working files are, and how S3 is reached."""

    url: str
    sink: str
    folder: Path
    s3: S3Settings
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """(incarnation, checkpoint id) of every commit that was reported as done."""
    offered: dict[tuple[int, int], int] = field(default_factory=dict)
    """The same for every commit that was tried, with its source position."""
    names: Iterable[int] = field(default_factory=itertools.count)

    def new_folder(self) -> Path:
        path = self.folder / str(next(iter(self.names)))
        path.mkdir(parents=True)
        return path

    def settings(self, slots: int, backend: str) -> JobSettings:
        return JobSettings(
            name="job",
            entry=EntryPoint(module="support.storage.life"),
            slots=slots,
            backend=StateBackendSettings(type=backend, managed_memory_bytes=8 * MIB),  # type: ignore[arg-type]
            checkpoint=CheckpointSettings(storage=self.url, retained=2, inline_threshold_bytes=64),
            s3=self.s3,
        )


class ImpatientClock(SystemClock):
    """Waits a fiftieth of what is asked for; a driver that is dead does not come back from a wait."""

    def __init__(self, dead: Callable[[], bool] = lambda: False) -> None:
        self._dead = dead

    def sleep(self, seconds: float) -> None:
        if self._dead():
            raise Killed
        super().sleep(seconds / 50)


class Slot:
    """The stores of a run of shards, their transfers, and one end of the sink. Filled from ``restored``."""

    def __init__(
        self,
        place: Place,
        job_storage: JobStorage,
        number: int,
        settings: JobSettings,
        incarnation: int,
        restored: RestoredSnapshot,
    ) -> None:
        self.factory = loader.create_store_factory(settings.backend, place.new_folder())
        shards = KEY_SPACE.shards_of_slot(number, settings.slots)
        self.stores = {shard: self._new_store(shard, place) for shard in shards}
        self.known = KnownFiles()
        self.uploader = Uploader(job_storage.lineage.store, threads=4, inline_threshold_bytes=64)
        self.writer = FileSinkWriter(
            FileSink(place.sink, format="json"),
            SINK,
            number,
            incarnation,
            job_storage.lineage.id,
            place.new_folder(),
            place.s3,
        )
        if restored.metadata is not None:
            handles = [handle for handle in restored.metadata.shards if handle.shard in self.stores]
            fill(self.stores, handles, restored.store, place)
            if restored.metadata.kind == "checkpoint":
                self.known.uploaded(restored.metadata.checkpoint_id, handles)
                self.known.complete(restored.metadata.checkpoint_id)
        for store in self.stores.values():
            for spec in TABLES:
                store.table(spec)

    def _new_store(self, shard: int, place: Place) -> Any:
        return self.factory.create(shard, KEY_SPACE.key_groups_of_shard(shard), place.new_folder())

    def take(self, number: int) -> None:
        """One record: its changes, and its row of output."""
        changes = changes_of(number)
        self.stores[shard_of(number)].commit(changes, cells.groups(changes))
        self.writer.hold([pa.record_batch({"number": [number]})])

    def upload(
        self, target: UploadTarget, uploader: Uploader, base: int | None, folder: Path, *, canonical: bool
    ) -> list[ShardHandle]:
        """Snapshot all shards and store them."""
        snapshots = {}
        try:
            for shard, store in self.stores.items():
                directory = folder / f"{target.checkpoint_id}-{shard}"
                directory.mkdir()
                snapshots[shard] = store.prepare_snapshot(target.checkpoint_id, directory, canonical)
            return uploader.upload(target, snapshots, self.known.base(base))
        finally:
            for snapshot in snapshots.values():
                snapshot.release()

    def close(self) -> None:
        self.uploader.close()
        self.writer.close()
        for store in self.stores.values():
            store.close()
        self.factory.close()


def shard_of(number: int) -> int:
    """The shard of a record's key."""
    return KEY_SPACE.shard_of_key_group(cells.group_of(number % KEYS))


def fill(stores: dict[int, Any], handles: Iterable[ShardHandle], source: Any, place: Place) -> None:
    """Download shards from the store ``source`` and fill empty stores with them."""
    downloader = Downloader(source, threads=2)
    try:
        for handle in handles:
            stores[handle.shard].restore(downloader.fetch(handle, place.new_folder()), handle.format)
    finally:
        downloader.close()
