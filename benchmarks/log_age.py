"""What the age of a lineage costs: its restart and its commits, by the number of entries that its log has had.

    .venv/bin/python benchmarks/log_age.py                              100 to 100,000 entries, in a folder
    .venv/bin/python benchmarks/log_age.py --s3 --entries 100 10000     on a real S3 server (the tests' own)
    .venv/bin/python benchmarks/log_age.py --as-before                  logs that were never compacted

For each age a driver appends that many entries as a job does: a checkpoint, the tombstone of what is published and that
of the checkpoint before. Then, five times each, it is measured what a restart does with the log and the lineage (open,
claim, incarnation, next checkpoint number, both sweeps), what the fence's check does, and one entry; the median counts.
``objects`` are those in ``log/`` at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from sparkstate import storage
from sparkstate.checkpoint import CompletedCheckpointStore
from sparkstate.clock import SystemClock
from sparkstate.log import ClaimedLog, LineageLog, LogState, framing, records
from sparkstate.log.state import fold
from sparkstate.settings import S3Settings
from sparkstate.storage import ObjectStore, PrefixedStore

TIMES = 5


@contextmanager
def place(on_s3: bool) -> Iterator[tuple[str, S3Settings]]:
    """An empty storage, removed afterwards."""
    if not on_s3:
        folder = Path(tempfile.mkdtemp(prefix="sparkstate-log-age-"))
        try:
            yield str(folder), S3Settings()
        finally:
            shutil.rmtree(folder)
        return
    from sparkstate_tools.servers import s3server

    with s3server.running() as server:
        os.environ.update(server.environment)
        yield "s3://state/log-age", server.settings


def entries_of_a_job(number: int) -> records.Record:
    """The ``number``-th of them."""
    done = number // 3
    if number % 3 == 0:
        return records.CheckpointCommitted(
            checkpoint_id=done, path=f"chk-{done}/_metadata", checksum="", epoch=done, incarnation=1
        )
    if number % 3 == 1:
        return records.Tombstone(published=done, reason="published")
    paths = tuple(f"shared/1-{done}-{part:016x}" for part in range(8))
    return records.Tombstone(paths=paths, checkpoints=(done,), reason="subsumed")


def grow(store: ObjectStore, entries: int) -> None:
    """The life of a driver up to that many entries."""
    log = LineageLog(store, SystemClock()).claim(1, "the first")
    log.begin_incarnation("")
    for number in range(3, entries):
        log.append(entries_of_a_job(number))
    log.append(records.Tombstone(checkpoints=(entries // 3,)))


def grow_as_before(store: ObjectStore, entries: int) -> None:
    """The same as versions left it that did not compact: all entries, and the two newest hints."""
    state = LogState()
    for number in range(1, entries + 1):
        record = entries_of_a_job(number)
        if number == 1:
            record = records.Claim(attempt=1, life=1, driver="the first")
        elif number == entries:
            record = records.Tombstone(checkpoints=(entries // 3,))
        entry = records.Entry(number=number, writer="w", timestamp_ms=0, record=record)
        store.put_if_absent(f"log/{number:012d}", records.encode(entry))
        state = fold(state, entry)
        if number % 50 == 0 and number > entries - 100:
            hint = framing.frame(b"SSLS", 1, msgspec.msgpack.encode(state))
            store.put_if_absent(f"log/_checkpoint-{number:012d}", hint)


def restart(store: ObjectStore) -> ClaimedLog:
    """What a new life does with them."""
    log = LineageLog(store, SystemClock()).claim(1, "the next")
    checkpoints = CompletedCheckpointStore(store, log)
    checkpoints.next_checkpoint_id()
    log.begin_incarnation("")
    checkpoints.sweep()
    if hasattr(log, "sweep"):  # to measure versions of before
        log.sweep()
    return log


def median_ms(act: Callable[[], object]) -> float:
    """Of ``TIMES`` calls."""
    taken = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        act()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def main() -> None:
    """Print one row for each age."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--s3", action="store_true", help="on a real S3 server instead of a folder")
    parser.add_argument(
        "--as-before", action="store_true", help="logs as versions left them that did not compact"
    )
    wanted = parser.parse_args()
    print(f"{'entries':>8} {'restart ms':>11} {'check ms':>9} {'entry ms':>9} {'objects':>8}")
    with place(wanted.s3) as (url, s3):
        root = storage.open_store(url, s3)
        os.fsync = lambda descriptor: None  # the disk's own speed is not what is compared
        for entries in wanted.entries:
            store = PrefixedStore(root, f"{entries:016d}")
            (grow_as_before if wanted.as_before else grow)(store, entries)
            restart_ms = median_ms(lambda store=store: restart(store))  # type: ignore[misc]
            log = restart(store)
            check_ms = median_ms(log.check)
            entry_ms = median_ms(lambda log=log: log.append(records.Tombstone(paths=("x",))))  # type: ignore[misc]
            objects = sum(1 for _ in store.list("log/"))
            print(
                f"{entries:>8} {restart_ms:>11.1f} {check_ms:>9.2f} {entry_ms:>9.2f} {objects:>8}", flush=True
            )


if __name__ == "__main__":
    main()
