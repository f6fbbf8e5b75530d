"""What a key costs: bytes in memory, on disk and in checkpoints, uploads, restores, and reads beyond the cache.

    make bench-state                                  10 minutes on two idle cores
    make bench-state ARGS="--parts keys restores"      two parts of it
    make bench-state ARGS="--keys 40000 --rounds 4"    quick and rough

One real slot process is filled over its socket, without Spark; its checkpoints go to a real S3 server. Every value is
incompressible. Bytes are the difference between a slot with ``--keys`` keys and one with half as many, divided by the
difference in keys: what a slot takes without any state drops out. Resident memory is the highest that the kernel saw,
with checkpoints taken while epochs changed a tenth of the keys. Processor time is that of the slot's process.

Parts: ``keys`` (memory, disk, a whole checkpoint, by size of the value), ``restores`` (processor time of a whole
checkpoint and of its restore), ``columns`` (both for numbers in HashMap), ``uploads`` (what incremental checkpoints
upload for each byte that changed, and how much disk they take), ``touches`` (processor time of rows that share keys, of
rows with a key each, and of state larger than the managed memory).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import checkpoints
import cpu
import machine
import numpy as np
import slot_process
from checkpoints import Place
from slot_process import SlotProcess

from sparkstate.settings import MIB, StateBackendSettings

RESULT = Path(__file__).parent / "results" / "state-costs.json"
BACKENDS = ("hashmap", "rocksdb")
PAYLOADS = (16, 1000)
NUMBERS = 0
"""Stands for values that are whole numbers."""
UPLOAD_PAYLOAD, TOUCH_PAYLOAD = 200, 500
FEW_KEYS = 2000
SHARES = (0.01, 0.1, 0.5)
CACHE_MIB, UNCACHED_MIB = 32, 256
RATIOS = (1, 2, 4, 8)
EPOCH_ROWS, MEASURED_ROWS = 50_000, 300_000


def settings(backend: str, managed_mib: int = UNCACHED_MIB) -> StateBackendSettings:
    """Everything as by default, but for the memory."""
    if backend == "hashmap":
        return StateBackendSettings(type="hashmap", managed_memory_bytes=managed_mib * MIB)
    return StateBackendSettings(type="rocksdb", managed_memory_bytes=managed_mib * MIB)


@contextmanager
def slot(backend: StateBackendSettings, payload: int, folder: Path, place: Place) -> Iterator[SlotProcess]:
    """An empty slot whose checkpoints go to a folder of its own in the storage."""
    process = SlotProcess(folder, place.environment)
    try:
        process.configure(backend, f"{place.url}/{folder.name}", payload, place.s3)
        process.restore()
        yield process
    finally:
        process.stop()


def keys_of(count: int) -> np.ndarray:
    """So many keys in random order, spread over the key groups."""
    return np.random.default_rng(5).permutation(count).astype(np.int64) * 2_654_435_761


def feed(process: SlotProcess, keys: np.ndarray, epoch: int) -> int:
    """One record for each key, in epochs; the next epoch's number."""
    for start in range(0, len(keys), EPOCH_ROWS):
        process.epoch(epoch, slot_process.batches(keys[start : start + EPOCH_ROWS], epoch))
        epoch += 1
    return epoch


def busy_s(process: SlotProcess) -> float:
    """Processor time that the slot has used so far."""
    return cpu.used(os.getpid(), [process.pid])["slots"]


def disk(folder: Path) -> int:
    """Bytes that the folder takes on its disk; what is linked twice counts once. Files may go meanwhile."""
    found: dict[int, int] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                seen = os.stat(os.path.join(root, name))
            except FileNotFoundError:
                continue
            found[seen.st_ino] = seen.st_blocks * 512
    return sum(found.values())


def peak_resident(process: SlotProcess) -> int:
    """The highest resident memory so far."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this kernel does not tell VmHWM")


def filled(backend: str, payload: int, count: int, folder: Path, place: Place) -> dict[str, float]:
    """Bytes of a slot with so many keys, after checkpoints beside which a tenth of them changed."""
    chosen = keys_of(count)
    with slot(settings(backend), payload, folder, place) as process:
        epoch = feed(process, chosen, 0)
        for number in range(1, 4):
            process.start_snapshot(number, epoch - 1, number - 1 or -1)
            epoch = feed(process, chosen[number::10], epoch)
            while not (state := process.snapshot_state(number)).done:
                pass
            process.end_snapshot(number)
        return {
            "memory": peak_resident(process),
            "disk": disk(folder),
            "checkpoint": slot_process.payload_of(state.shards),
        }


def bytes_per_key(backend: str, payload: int, keys: int, scratch: Path, place: Place) -> dict[str, float]:
    """Bytes of a slot with so many keys beyond those of one with half as many, for each key."""
    few, many = (
        filled(backend, payload, count, scratch / f"{backend}-{payload}-{count}", place)
        for count in (keys // 2, keys)
    )
    return {f"{name}_bytes": round((many[name] - few[name]) / (keys - keys // 2), 1) for name in few}


def measure_keys(options: argparse.Namespace, scratch: Path, place: Place) -> list[dict[str, Any]]:
    """Bytes per key by backend and size of the value."""
    results = []
    for backend in BACKENDS:
        for payload in PAYLOADS:
            each = bytes_per_key(backend, payload, options.keys, scratch, place)
            results.append({"part": "keys", "backend": backend, "payload": payload, **each})
            print(json.dumps(results[-1]), flush=True)
    return results


def restored(
    backend: str, payload: int, options: argparse.Namespace, scratch: Path, place: Place
) -> dict[str, float]:
    """Processor time of storing a whole checkpoint and of restoring it in another slot."""
    name = f"restored-{backend}-{payload}"
    with slot(settings(backend), payload, scratch / name, place) as process:
        epoch = feed(process, keys_of(options.keys), 0)
        before = busy_s(process)
        shards = process.snapshot(1, epoch - 1, -1).shards
        stored = busy_s(process) - before
    fresh = SlotProcess(scratch / f"{name}-again", place.environment)
    try:
        fresh.configure(settings(backend), f"{place.url}/{name}", payload, place.s3, incarnation=2)
        before = busy_s(fresh)
        fresh.restore(shards, f"{place.url}/{name}/{slot_process.LINEAGE}", 1)
        used = busy_s(fresh) - before
    finally:
        fresh.stop()
    return {
        "store_us_per_key": round(stored / options.keys * 1e6, 3),
        "restore_us_per_key": round(used / options.keys * 1e6, 3),
        "restore_s_per_gib": round(used / slot_process.payload_of(shards) * (1 << 30), 3),
    }


def measure_restores(options: argparse.Namespace, scratch: Path, place: Place) -> list[dict[str, Any]]:
    """Processor time of storing a whole checkpoint and of restoring it, for each key."""
    results = []
    for backend in BACKENDS:
        for payload in PAYLOADS:
            told = {"part": "restores", "backend": backend, "payload": payload}
            results.append({**told, **restored(backend, payload, options, scratch, place)})
            print(json.dumps(results[-1]), flush=True)
    return results


def measure_columns(options: argparse.Namespace, scratch: Path, place: Place) -> list[dict[str, Any]]:
    """The same as ``keys`` and ``restores`` for HashMap where each value is a whole number."""
    results = [
        {
            "part": "columns",
            **bytes_per_key("hashmap", NUMBERS, options.keys, scratch, place),
            **restored("hashmap", NUMBERS, options, scratch, place),
        }
    ]
    print(json.dumps(results[-1]), flush=True)
    return results


def measure_uploads(options: argparse.Namespace, scratch: Path, place: Place) -> list[dict[str, Any]]:
    """Bytes that incremental checkpoints of RocksDB upload, for each byte of the keys that changed; disk."""
    results = []
    state_mib = options.keys * UPLOAD_PAYLOAD // MIB
    for share in SHARES:
        folder = scratch / f"uploads-{share}"
        with slot(settings("rocksdb"), UPLOAD_PAYLOAD, folder, place) as process:
            told = argparse.Namespace(state_mib=state_mib, payload=UPLOAD_PAYLOAD)
            run = checkpoints.Run(process, told)
            run.fill()
            first = run.round(share)
            rounds, disks = [], []
            for _ in range(options.rounds):
                rounds.append(run.round(share))
                disks.append(disk(folder))
        uploaded = statistics.fmean(each.uploaded for each in rounds)
        results.append(
            {
                "part": "uploads",
                "share": share,
                "per_changed": round(uploaded / (first.whole * share), 2),
                "median_per_changed": round(
                    statistics.median(each.uploaded for each in rounds) / (first.whole * share), 2
                ),
                "stored_of_first": round(max(each.whole for each in rounds) / first.whole, 2),
                "disk_of_first": round(max(disks) / first.whole, 2),
                "files": rounds[-1].files,
            }
        )
        print(json.dumps(results[-1]), flush=True)
    return results


def touching(
    backend: StateBackendSettings, count: int, few: bool, folder: Path, place: Place
) -> dict[str, float]:
    """Processor time of a slot per row. ``few``: rows of an epoch share ``FEW_KEYS`` keys, else each has its own."""
    chosen, chance = keys_of(count), np.random.default_rng(9)
    with slot(backend, TOUCH_PAYLOAD, folder, place) as process:
        epoch = feed(process, chosen, 0)
        if few:
            rows = chosen[chance.integers(0, FEW_KEYS, MEASURED_ROWS)]
        else:
            at = [chance.choice(count, EPOCH_ROWS, replace=False) for _ in range(MEASURED_ROWS // EPOCH_ROWS)]
            rows = chosen[np.concatenate(at)]
        before = busy_s(process)
        feed(process, rows, epoch)
        return {"cpu_us_per_row": round((busy_s(process) - before) / MEASURED_ROWS * 1e6, 2)}


def measure_touches(_: argparse.Namespace, scratch: Path, place: Place) -> list[dict[str, Any]]:
    """Processor time of rows that share keys, of rows with a key each, and of those whose state is not in memory."""
    whole = UNCACHED_MIB * MIB // 4 // TOUCH_PAYLOAD
    cases: list[tuple[str, int, int, bool]] = [
        (backend, UNCACHED_MIB, whole, few) for backend in BACKENDS for few in (True, False)
    ]
    cases += [("rocksdb", CACHE_MIB, int(ratio * CACHE_MIB * MIB / TOUCH_PAYLOAD), False) for ratio in RATIOS]
    results = []
    for number, (backend, managed, count, few) in enumerate(cases):
        told = {
            "part": "touches",
            "backend": backend,
            "ratio": count * TOUCH_PAYLOAD / (managed * MIB),
            "few": few,
        }
        used = touching(settings(backend, managed), count, few, scratch / f"touches-{number}", place)
        results.append({**told, **used})
        print(json.dumps(results[-1]), flush=True)
    return results


PARTS = {
    "keys": measure_keys,
    "restores": measure_restores,
    "columns": measure_columns,
    "uploads": measure_uploads,
    "touches": measure_touches,
}


def main(arguments: Sequence[str]) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=200_000, help="of a slot (default 200,000)")
    parser.add_argument("--rounds", type=int, default=20, help="checkpoints of a part (default 20)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="ss-state-"))
    results: list[dict[str, Any]] = []
    try:
        with checkpoints.s3_server() as place:
            for part in options.parts:
                results += PARTS[part](options, scratch, place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    machine.write(RESULT, results, machine.description(arguments, "bench-state"))


if __name__ == "__main__":
    main(sys.argv[1:])
