"""What a checkpoint costs: how long an epoch waits for it, how much is uploaded, how fast it is restored.

    make bench-checkpoints                                    1 GiB in one slot, 20 checkpoints, to a real S3 server
    .venv/bin/python benchmarks/checkpoints.py --state-mib 256 --rounds 6
    .venv/bin/python benchmarks/checkpoints.py --backend hashmap

One slot process is filled; then, round by round, 1 % of its keys, chosen at random, get another value in ten epochs,
of which the first begins in the moment in which the checkpoint of the round before does. Afterwards the last checkpoint
is restored into a fresh slot, and the same objects are downloaded by boto3 with as many threads, in turns.

To reach: the longest wait of an epoch for a checkpoint at most 50 ms in 99 of 100 checkpoints; with RocksDB, the median
upload at most 5 % of the state. Every checkpoint of HashMap is a full one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import slot_process
from slot_process import SlotProcess

from sparkstate.handles import ShardHandle
from sparkstate.settings import MIB, S3Settings, StateBackendSettings
from sparkstate.slots import protocol

RESULT = Path(__file__).parent / "results" / "checkpoints.json"
FILL_ROWS = 200_000
EPOCHS_A_ROUND = 10
PAUSE_MS = 50.0
UPLOAD_SHARE = 0.05


@dataclass(frozen=True)
class Place:
    """Where checkpoints go. ``environment`` holds the credentials."""

    url: str
    s3: S3Settings
    environment: dict[str, str]


@contextmanager
def s3_server() -> Iterator[Place]:
    """A real S3 server on this machine (the tests' own)."""
    from sparkstate_tools.servers import s3server

    with s3server.running() as server:
        yield Place("s3://state/bench", server.settings, server.environment)


@dataclass
class Round:
    """One checkpoint: longest wait of an epoch for it, time of its parts, bytes uploaded and named in all, ms."""

    waited_ms: float
    prepare_ms: float
    upload_ms: float
    uploaded: int
    whole: int
    files: int


def new_objects(shards: Sequence[ShardHandle], known: set[str]) -> int:
    """Bytes that this checkpoint stored: files that no earlier one names. Adds them to ``known``."""
    size = 0
    for shard in shards:
        for file in shard.files:
            name = f"{file.path}@{file.offset}" if file.path else ""
            if not name or name not in known:
                size += file.size
            known.add(name)
    return size


class Run:
    """A slot and the keys it was filled with."""

    def __init__(self, slot: SlotProcess, options: argparse.Namespace) -> None:
        self._slot = slot
        self._chance = np.random.default_rng(3)
        count = options.state_mib * MIB // options.payload
        self._keys = self._chance.permutation(count).astype(np.int64) * 2_654_435_761
        self._epoch = 0
        self._known: set[str] = set()
        self.last: protocol.SnapshotState | None = None
        self.checkpoint = 0

    def fill(self) -> None:
        """Every key once."""
        for start in range(0, len(self._keys), FILL_ROWS):
            self._run(self._keys[start : start + FILL_ROWS])

    def _run(self, keys: np.ndarray) -> protocol.Committed:
        committed = self._slot.epoch(self._epoch, slot_process.batches(keys, self._epoch))
        self._epoch += 1
        return committed

    def round(self, share: float) -> Round:
        """A checkpoint, and beside it epochs that change ``share`` of the keys."""
        number, base = self.checkpoint + 1, self.checkpoint or -1
        keys = self._chance.choice(self._keys, int(len(self._keys) * share), replace=False)
        self._slot.start_snapshot(number, self._epoch - 1, base)
        waits = [self._run(part).waited_ms for part in np.array_split(keys, EPOCHS_A_ROUND)]
        while not (state := self._slot.snapshot_state(number)).done:
            time.sleep(0.02)
        self._slot.end_snapshot(number)
        self.checkpoint, self.last = number, state
        return Round(
            max(waits),
            state.sync_ms,
            state.upload_ms,
            new_objects(state.shards, self._known),
            slot_process.payload_of(state.shards),
            sum(len(shard.files) for shard in state.shards),
        )


def plain_download(place: Place, shards: Sequence[ShardHandle], threads: int, folder: Path) -> float:
    """Seconds that boto3 takes for the same objects."""
    import boto3

    url = urlsplit(place.url)
    session = boto3.session.Session(
        place.environment["AWS_ACCESS_KEY_ID"],
        place.environment["AWS_SECRET_ACCESS_KEY"],
        region_name=place.s3.region,
    )
    client = session.client("s3", endpoint_url=place.s3.endpoint)
    paths = sorted({file.path for shard in shards for file in shard.files if file.path})
    prefix = f"{url.path.strip('/')}/{slot_process.LINEAGE}/"
    folder.mkdir()
    started = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(
                lambda item: client.download_file(url.netloc, prefix + item[1], str(folder / str(item[0]))),
                enumerate(paths),
            )
        )
    seconds = time.monotonic() - started
    shutil.rmtree(folder)
    return seconds


def restore(place: Place, run: Run, settings: StateBackendSettings, payload: int, folder: Path) -> float:
    """Seconds until a fresh slot has opened the last checkpoint."""
    assert run.last is not None
    slot = SlotProcess(folder, place.environment)
    try:
        slot.configure(settings, place.url, payload, place.s3, incarnation=2)
        started = time.monotonic()
        slot.restore(run.last.shards, f"{place.url}/{slot_process.LINEAGE}", run.checkpoint)
        return time.monotonic() - started
    finally:
        slot.stop()


def measure(options: argparse.Namespace, scratch: Path, place: Place) -> dict[str, Any]:
    """One run."""
    settings = StateBackendSettings(
        type=options.backend,
        managed_memory_bytes=options.budget_mib * MIB,
        predefined_options=options.predefined,
        options=dict(pair.split("=", 1) for pair in options.option),
    )
    slot = SlotProcess(scratch / "slot", place.environment)
    slot.configure(settings, place.url, options.payload, place.s3)
    slot.restore()
    run = Run(slot, options)
    run.fill()
    first = run.round(options.share)
    rounds = []
    for number in range(options.rounds):
        rounds.append(run.round(options.share))
        if options.verbose:
            print(number, rounds[-1], flush=True)
    slot.stop()
    assert run.last is not None
    pairs = []
    for number in range(max(1, options.restores)):
        plain = plain_download(place, run.last.shards, settings.transfer_threads, scratch / "plain")
        ours = restore(place, run, settings, options.payload, scratch / f"restored-{number}")
        pairs.append((plain, ours))
    return figures(options, first, rounds, pairs)


def figures(
    options: argparse.Namespace, first: Round, rounds: list[Round], pairs: list[tuple[float, float]]
) -> dict[str, Any]:
    """What is reported."""
    shares = sorted(each.uploaded / each.whole for each in rounds)
    waits = sorted(each.waited_ms for each in rounds)
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    plain, ours = (statistics.median(pair[at] for pair in pairs) for at in (0, 1))
    whole = rounds[-1].whole
    return {
        "name": "checkpoints",
        "state_mib": whole // MIB,
        "backend": options.backend,
        "changed_share": options.share,
        "rounds": len(rounds),
        "budget_mib": options.budget_mib,
        "predefined": options.predefined,
        "options": options.option,
        "first_upload_mib": first.uploaded // MIB,
        "first_upload_s": round(first.upload_ms / 1000, 2),
        "wait_median_ms": round(statistics.median(waits), 1),
        "wait_p99_ms": round(p99, 1),
        "prepare_median_ms": round(statistics.median(each.prepare_ms for each in rounds), 1),
        "upload_median_ms": round(statistics.median(each.upload_ms for each in rounds)),
        "upload_share_median": round(statistics.median(shares), 4),
        "upload_share_mean": round(statistics.fmean(shares), 4),
        "upload_share_worst": round(shares[-1], 4),
        "files": rounds[-1].files,
        "restore_s": round(ours, 2),
        "plain_download_s": round(plain, 2),
        "restore_mib_per_s": round(whole / MIB / ours),
        "restore_to_plain": round(ours / plain, 2),
        "pause_reached": p99 <= PAUSE_MS,
        "upload_reached": options.backend == "hashmap" or statistics.median(shares) <= UPLOAD_SHARE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=("rocksdb", "hashmap"), default="rocksdb")
    parser.add_argument("--state-mib", type=int, default=1024)
    parser.add_argument("--payload", type=int, default=1000, help="bytes of state per key (default 1000)")
    parser.add_argument("--rounds", type=int, default=20, help="checkpoints (default 20)")
    parser.add_argument("--share", type=float, default=0.01, help="keys changed between two (default 0.01)")
    parser.add_argument("--budget-mib", type=int, default=256)
    parser.add_argument("--predefined", default="DEFAULT")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of RocksDB")
    parser.add_argument("--restores", type=int, default=3)
    parser.add_argument("--verbose", action="store_true", help="print every round")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="ss-chk-"))
    try:
        with s3_server() as place:
            result = measure(options, scratch, place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for name, value in result.items():
        print(f"{name:<24}{value}")
    for name in ("pause_reached", "upload_reached"):
        print(f"{name:<24}{'reached' if result[name] else 'MISSED'}")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps([result], indent=2) + "\n")


if __name__ == "__main__":
    main()
