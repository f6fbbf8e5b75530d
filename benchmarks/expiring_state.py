"""Does state that expires stay bounded in a whole job? Entries, files on the disk and savepoints over twenty lives.

    .venv/bin/python benchmarks/expiring_state.py                       both backends, 2 × 20 lives of 6 s
    .venv/bin/python benchmarks/expiring_state.py --backends rocksdb --ttl-s 30 --rows-per-s 5000

A real job: files bring rows whose keys never repeat, the function writes a value for each and reads none, and the
time-to-live counts in processing time. Checkpoints are taken as usual. At the end of each life a savepoint is
triggered, and the table has a line:

``entries``     of state in all slots, as the job's status reports them
``alive``       values in the savepoint
``disk KB``     RocksDB's files of all slots; HashMap has none
``savepoint``   its bytes, in KB
``memory MB``   resident memory of the slots

After the last life no more files come, and the job's state has to go without any row. ``written`` are the rows so far:
what the state would hold without a time-to-live.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkstate.backends import canonical
from sparkstate.checkpoint import Downloader
from sparkstate.checkpoint import metadata as codec
from sparkstate.control import documents
from sparkstate.control.client import ControlClient
from sparkstate.storage import open_store
from sparkstate_tools.drivers import driving, totals

KB, MB = 1024, 1024 * 1024
LIVES = 20
FILES_PER_S = 4


@dataclass(frozen=True)
class Sample:
    """One moment of a job."""

    written: int
    entries: int
    alive: int
    disk_bytes: int
    savepoint_bytes: int
    memory_bytes: int

    def line(self, life: str) -> str:
        """A row of the table."""
        return (
            f"{life:>6} {self.written:>9,} {self.entries:>9,} {self.alive:>9,} {self.disk_bytes // KB:>9,} "
            f"{self.savepoint_bytes // KB:>12,} {self.memory_bytes // MB:>10,}"
        )


HEAD = f"{'life':>6} {'written':>9} {'entries':>9} {'alive':>9} {'disk KB':>9} {'savepoint KB':>12} {'memory MB':>10}"


class Writer:
    """Writes files at a steady pace until it is stopped."""

    def __init__(self, folder: Path, rows_per_s: int) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._rows_of_file = rows_per_s // FILES_PER_S
        self.rows = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        due, number = time.monotonic(), 0
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            made = [("", self.rows + place, 0, 0) for place in range(self._rows_of_file)]
            totals.write(self._folder / f"{number:06d}.parquet", made, number)
            self.rows += len(made)
            number, due = number + 1, due + 1 / FILES_PER_S

    def stop(self) -> int:
        """All rows that were written."""
        self._stopped.set()
        self._thread.join()
        return self.rows


def disk_bytes(work_dir: Path) -> int:
    """Of RocksDB's files in the stores of all slots."""
    found = 0
    for path in work_dir.rglob("db/**/*.sst"):
        try:
            found += path.stat().st_size
        except FileNotFoundError:  # merged meanwhile
            continue
    return found


def savepoint(client: ControlClient, name: str) -> tuple[int, int]:
    """Take one: its rows, and its bytes."""
    client.trigger_savepoint(documents.SavepointRequest(trigger_id=name))
    done = client.wait_for_savepoint(name, 120)
    assert done.location is not None, done
    store = open_store(done.location, create=False)
    metadata = codec.decode(store.get("_metadata"), "_metadata")
    downloader, rows, size = Downloader(store), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / canonical.FORMAT
        for file in (file for shard in metadata.shards for file in shard.files):
            path.write_bytes(downloader.read(file))
            size += file.size
            rows += sum(1 for _ in canonical.CanonicalFile(path).rows())
    downloader.close()
    return rows, size


def sample(client: ControlClient, work_dir: Path, name: str) -> Sample:
    """The job now."""
    alive, size = savepoint(client, name)
    status = client.status()
    return Sample(
        written=status.rows_total,
        entries=sum(slot.rows for slot in status.slots),
        alive=alive,
        disk_bytes=disk_bytes(work_dir),
        savepoint_bytes=size,
        memory_bytes=sum(slot.rss_bytes or 0 for slot in status.slots),
    )


def lives(folder: Path, backend: str, wanted: argparse.Namespace) -> Iterator[tuple[str, Sample]]:
    """A sample at the end of each life, and one when the job rests after the last row."""
    ttl_ms = round(1000 * wanted.ttl_s)
    document: dict[str, Any] = driving.manifest(
        folder,
        "single_values.py",
        params={
            "ttl": str(ttl_ms), "bytes": str(wanted.bytes), "files": "100", "max_file_age": "1000d",
        },
        stateBackend={"type": backend},
        trigger={"processingTime": "200ms"},
        checkpointing={"interval": f"{max(500, ttl_ms // 5)}ms", "storage": str(folder / "checkpoints")},
    )  # fmt: skip
    writer = Writer(folder / "in", wanted.rows_per_s)
    with driving.Driver(folder, document) as driver, driver.client() as client:
        driving.wait_for(lambda: client.status().rows_total > 0, driving.PATIENCE_S, "rows", driver.process)
        began = time.monotonic()
        for life in range(1, LIVES + 1):
            time.sleep(max(0.0, began + life * wanted.ttl_s - time.monotonic()))
            yield str(life), sample(client, driver.work_dir, f"life-{life}")
        rows = writer.stop()
        driving.wait_for(
            lambda: client.status().rows_total >= rows, driving.PATIENCE_S, "the last row", driver.process
        )
        time.sleep(3 * wanted.ttl_s + 45)
        yield "pause", sample(client, driver.work_dir, "pause")
        client.cancel()
        driver.wait()


def main() -> None:
    """Print a table for each backend."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backends", nargs="+", default=["hashmap", "rocksdb"])
    parser.add_argument("--ttl-s", type=float, default=6.0)
    parser.add_argument("--rows-per-s", type=int, default=2000)
    parser.add_argument("--bytes", type=int, default=200, help="of a value")
    wanted = parser.parse_args()
    for backend in wanted.backends:
        print(
            f"{backend}: {wanted.rows_per_s:,} new keys in a second, a time-to-live of {wanted.ttl_s:g} s\n{HEAD}"
        )
        folder = Path(tempfile.mkdtemp(prefix="sparkstate-lives-"))
        try:
            for life, found in lives(folder, backend, wanted):
                print(found.line(life), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
