"""Stand-ins for slots that two cores cannot run: the real server, runtime, upload and bookkeeping of each, over shards
that hold nothing and say that they have so many files. Started by ``slots.py``, many in one process.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkstate import clock, phases
from sparkstate.backends.base import ShardStats, SnapshotFile
from sparkstate.checkpoint.uploader import Uploader
from sparkstate.slots import protocol
from sparkstate.slots.plan import SlotPlan
from sparkstate.slots.runtime import SlotRuntime
from sparkstate.slots.server import SlotServer
from sparkstate.storage.local import LocalStore
from sparkstate.storage.objectstore import ObjectInfo

CONTENT = b"a sorted string table" * 100
OUTPUT = pa.record_batch([pa.array(range(100), pa.int64())], names=["n"])


@dataclass(frozen=True)
class Play:
    """What each slot pretends: ``files`` of which ``changed`` are new at a checkpoint, stored within ``slowest_s``."""

    files: int
    changed: int
    slowest_s: float


class PlayedSnapshot:
    """The files of one shard; ``files`` takes as long as the slot's upload shall."""

    format = "rocksdb"

    def __init__(self, files: Sequence[SnapshotFile], wait_s: float) -> None:
        self._files = files
        self._wait_s = wait_s

    def files(self) -> Sequence[SnapshotFile]:
        time.sleep(self._wait_s)
        return self._files

    def release(self) -> None:
        """Nothing is held."""


class PlayedStore:
    """A ``ShardStore`` of so many immutable files, of which each snapshot replaces the oldest."""

    def __init__(self, shard: int, files: int, changed: int, wait_s: float, content: Path) -> None:
        self.shard = shard
        self._count, self._changed, self._wait_s, self._content = files, changed, wait_s, content
        self._first = -changed

    def tables(self) -> Sequence[Any]:
        return []

    def prepare_snapshot(self, checkpoint_id: int, directory: Path, canonical: bool) -> PlayedSnapshot:
        self._first += self._changed
        numbers = range(self._first, self._first + self._count)
        store = f"{self.shard:032x}"
        return PlayedSnapshot([self._file(number, store) for number in numbers], self._wait_s)

    def _file(self, number: int, store: str) -> SnapshotFile:
        size = len(CONTENT)
        return SnapshotFile(f"{number:06d}.sst", self._content, size, True, f"{store}-{number:06d}-{size}")

    def stats(self) -> ShardStats:
        return ShardStats(rows=self._count, bytes=self._count * len(CONTENT))

    def quiesce(self) -> None:
        """There is no work."""

    def close(self) -> None:
        """Nothing is open."""


class PlayedObjects(LocalStore):
    """Says that it has stored a file. What is small, and what the driver reads, is stored."""

    def put_file(self, key: str, source: Path) -> None:
        del key, source

    def head(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(CONTENT), 0)


class PlayedRuntime(SlotRuntime):
    """A slot without operators; each commit brings its sinks a hundred rows."""

    def __init__(self, plan: SlotPlan, directory: Path, play: Play) -> None:
        system = clock.SystemClock()
        super().__init__(plan, directory, system, phases.Phases("slot", system, {}))
        store = PlayedObjects(f"{plan.storage_url}/{plan.lineage}")
        self._snapshots.worker._uploader = Uploader(store, inline_threshold_bytes=plan.inline_threshold_bytes)
        self._play = play

    def restore(self, request: protocol.RestoreShards) -> protocol.Restored:
        plan, play = self.plan, self._play
        shards = plan.key_space.shards_of_slot(plan.slot, plan.slots)
        content = self._state.directory / "content"
        content.parent.mkdir(parents=True, exist_ok=True)
        content.write_bytes(CONTENT)
        waits_s = play.slowest_s * (plan.slot + 1) / plan.slots / len(shards)
        for shard in shards:
            self._state.stores[shard] = PlayedStore(  # type: ignore[assignment]
                shard, play.files // len(shards), play.changed // len(shards), waits_s, content
            )
        return protocol.Restored(bytes_read=0)

    def commit(self, request: protocol.Commit) -> protocol.Committed:
        for writer in self._state.output.writers.values():
            writer.hold([OUTPUT])
        return super().commit(request)


def main() -> None:
    """Serve until standard input ends; told, as one JSON line: ``key``, ``folder``, ``slots``, and :class:`Play`."""
    told: Mapping[str, Any] = json.loads(sys.stdin.readline())
    play = Play(told["files"], told["changed"], told["slowest_s"])
    servers = []
    for slot in told["slots"]:
        directory = Path(told["folder"]) / str(slot)
        directory.mkdir(parents=True)

        def make(plan: SlotPlan, directory: Path = directory) -> SlotRuntime:
            return PlayedRuntime(plan, directory, play)

        servers.append(
            SlotServer(told["key"], f"{slot:032x}", directory / "s", None, make, clock.SystemClock())
        )
    for server in servers:
        server.start()
    print("ready", flush=True)
    threading.Thread(target=sys.stdin.read).run()


if __name__ == "__main__":
    main()
