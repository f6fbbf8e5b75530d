"""Does a slot keep to its memory? Resident memory of a real slot process, far beyond its budget.

    make bench-memory                                       2 GiB of state on 256 MiB, 10 minutes
    .venv/bin/python benchmarks/memory.py --minutes 2 --state-gib 1

First random keys fill the state, in epochs with more distinct keys than fit in memory; then random keys of it are
read and replaced until the time is up, with a checkpoint after every few epochs. The kernel's resident set of the
process is read every 100 ms.

To reach: resident memory at most budget + 20 % + the bare interpreter (the same process, configured, with
everything imported and no state), and the cache at least 80 % full while the state is larger than it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import slot_process
from slot_process import SlotProcess

from sparkstate.settings import MIB, StateBackendSettings

RESULT = Path(__file__).parent / "results" / "memory.json"
SAMPLE_S = 0.1
TOLERANCE = 1.2
FULL = 0.8


@dataclass
class Samples:
    """What was seen, with the time since the start in s."""

    resident: list[tuple[float, int]] = field(default_factory=list)
    cache: list[tuple[float, float]] = field(default_factory=list)
    """Part of its capacity that the cache used."""
    overlays: list[int] = field(default_factory=list)


class Sampler:
    """Reads resident memory every 100 ms and asks for the cache's usage every second."""

    def __init__(self, slot: SlotProcess) -> None:
        self.samples = Samples()
        self._slot = slot
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._resident, self._cache)]
        for thread in self._threads:
            thread.start()

    def _resident(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self.samples.resident.append((time.monotonic() - self._started, self._slot.resident_bytes()))

    def _cache(self) -> None:
        while not self._ended.wait(1.0):
            memory = self._slot.status().memory
            at = time.monotonic() - self._started
            self.samples.cache.append((at, memory["cache"] / memory["cache_capacity"]))
            self.samples.overlays.append(memory["overlays"])

    def end(self) -> Samples:
        """Stop, and what was seen."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        return self.samples


def backend(options: argparse.Namespace) -> StateBackendSettings:
    """RocksDB on the budget, everything else as by default."""
    return StateBackendSettings(type="rocksdb", managed_memory_bytes=options.budget_mib * MIB)


def storage(folder: Path) -> str:
    """A new one for checkpoints, with the folder that a driver makes before it starts a slot."""
    (folder / slot_process.LINEAGE).mkdir(parents=True)
    return str(folder)


def bare_interpreter(options: argparse.Namespace, scratch: Path) -> int:
    """Resident bytes of a configured slot process that has no state: one row was fed, so that all is imported."""
    slot = SlotProcess(scratch / "bare")
    try:
        slot.configure(backend(options), storage(scratch / "bare-storage"), options.payload)
        slot.restore()
        slot.epoch(0, slot_process.batches(np.arange(1), 0))
        slot.snapshot(1, 0, -1)
        return slot.resident_bytes()
    finally:
        slot.stop()


def life(slot: SlotProcess, options: argparse.Namespace) -> dict[str, Any]:
    """Fill the state, then update random keys until the time is up; rows/s of both."""
    ends = time.monotonic() + options.minutes * 60
    count = int(options.state_gib * (1 << 30)) // options.payload
    chance = np.random.default_rng(1)
    keys = chance.permutation(count).astype(np.int64) * 2_654_435_761
    rates: dict[str, list[float]] = {"filling": [], "updating": []}
    epoch = checkpoint = 0
    start = 0
    while start < count or time.monotonic() < ends:
        filling = start < count
        if filling:
            chosen = keys[start : start + options.epoch_rows]
            start += options.epoch_rows
        else:
            chosen = keys[chance.integers(0, count, options.epoch_rows)]
        began = time.monotonic()
        slot.epoch(epoch, slot_process.batches(chosen, epoch))
        rates["filling" if filling else "updating"].append(len(chosen) / (time.monotonic() - began))
        epoch += 1
        if epoch % options.checkpoint_every == 0:
            slot.snapshot(checkpoint + 1, epoch - 1, checkpoint or -1)
            checkpoint += 1
    return {
        "keys": count,
        "epochs": epoch,
        "checkpoints": checkpoint,
        **{f"{name}_rows_per_s": round(statistics.median(each)) for name, each in rates.items() if each},
    }


def judge(options: argparse.Namespace, samples: Samples, bare: int, state_bytes: int) -> dict[str, Any]:
    """The figures and whether they keep the promise."""
    budget = options.budget_mib * MIB
    limit = int(budget * TOLERANCE) + bare
    peak_at, peak = max(samples.resident, key=lambda sample: sample[1])
    # The cache is under pressure from the moment on at which it was full first.
    pressed = [part for at, part in samples.cache if at >= samples.cache[-1][0] / 4]
    used = statistics.median(pressed)
    return {
        "budget_mib": options.budget_mib,
        "state_mib": state_bytes // MIB,
        "bare_interpreter_mib": bare // MIB,
        "limit_mib": limit // MIB,
        "peak_resident_mib": peak // MIB,
        "peak_at_s": round(peak_at),
        "median_resident_mib": int(statistics.median(size for _, size in samples.resident)) // MIB,
        "samples": len(samples.resident),
        "cache_used": round(used, 3),
        "overlays_peak_mib": max(samples.overlays) // MIB,
        "bound_kept": peak <= limit,
        "cache_full": used >= FULL,
    }


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """One run."""
    bare = bare_interpreter(options, scratch)
    slot = SlotProcess(scratch / "slot")
    slot.configure(backend(options), storage(scratch / "storage"), options.payload)
    slot.restore()
    sampler = Sampler(slot)
    try:
        figures = life(slot, options)
        state_bytes = slot.status().state_bytes
    finally:
        samples = sampler.end()
    slot.stop()
    if options.trace:
        Path(options.trace).write_text(json.dumps({"resident": samples.resident, "cache": samples.cache}))
    return {
        "name": "memory",
        "minutes": options.minutes,
        "epoch_rows": options.epoch_rows,
        "payload_bytes": options.payload,
        **figures,
        **judge(options, samples, bare, state_bytes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--state-gib", type=float, default=2.1)
    parser.add_argument("--budget-mib", type=int, default=256)
    parser.add_argument("--payload", type=int, default=1000, help="bytes of state per key (default 1000)")
    parser.add_argument("--epoch-rows", type=int, default=300_000, help="rows an epoch (default 300,000)")
    parser.add_argument("--checkpoint-every", type=int, default=5, help="epochs (default 5)")
    parser.add_argument("--trace", help="write all samples to this file")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="ss-mem-"))
    try:
        result = measure(options, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for name, value in result.items():
        print(f"{name:<24}{value}")
    reached = result["bound_kept"] and result["cache_full"]
    print("reached" if reached else "MISSED")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps([result], indent=2) + "\n")


if __name__ == "__main__":
    main()
