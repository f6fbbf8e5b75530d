"""What many slots cost the driver: processor time, bytes from the slots, and time of a checkpoint, and how it grows.

    make bench-slots                                      1, 10, 50 and 100 slots of 1,000 files each; 4 minutes
    make bench-slots ARGS="--slots 100 --interval-s 60"

The driver's own code (coordination, handles, ``_metadata``, the record in the log, publication of a sink's files,
signs of life, status) runs here, against stand-ins for slots in other processes, which speak the real protocol and have
nothing to store (``played_slots.py``). The quickest of them has stored its files at once, the slowest after
``--slowest-s``. There is no Spark: what its epochs cost is measured elsewhere.

To reach: at most one processor of the driver for 100 slots of 1,000 files with a checkpoint every ten seconds, and
processor time per checkpoint that grows no faster than the slots.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle

from sparkstate import clock, phases
from sparkstate.control import documents
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.claimed_lineage import claim
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.requests import Requests
from sparkstate.driver.snapshot_parts import StoredJob
from sparkstate.driver.view import JobView
from sparkstate.keygroups import KeySpace
from sparkstate.settings import (
    MIB,
    CheckpointSettings,
    EntryPoint,
    JobSettings,
    S3Settings,
    StateBackendSettings,
)
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots import protocol
from sparkstate.slots.client import SlotAddress
from sparkstate.slots.group import SlotGroup
from sparkstate.slots.plan import SinkPlan, SlotPlan
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks

RESULT = Path(__file__).parent / "results" / "slots.json"
PROCESSES = 2
SHARDS_PER_SLOT = 8
AIM_PROCESSORS = 1.0
AIM_GROWTH = 1.5
"""Processor time per slot and checkpoint of the most slots, against that of a tenth as many."""


class Wire:
    """Counts what this process receives from sockets."""

    def __init__(self) -> None:
        self.received = 0
        plain, plain_into = socket.socket.recv, socket.socket.recv_into

        def recv(connection: socket.socket, *arguments: int) -> bytes:
            data = plain(connection, *arguments)
            self.received += len(data)
            return data

        def recv_into(connection: socket.socket, *arguments: Any) -> int:
            count = plain_into(connection, *arguments)
            self.received += count
            return count

        socket.socket.recv = recv  # type: ignore[method-assign]
        socket.socket.recv_into = recv_into  # type: ignore[method-assign]


@contextmanager
def played(
    folder: Path, key: str, slots: int, options: argparse.Namespace
) -> Iterator[tuple[SlotAddress, ...]]:
    """So many slots, in few processes."""
    processes = []
    try:
        for share in range(min(PROCESSES, slots)):
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("played_slots.py"))],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            processes.append(process)
            assert process.stdin is not None
            told = {
                "key": key,
                "folder": str(folder / "slots"),
                "slots": list(range(share, slots, PROCESSES)),
                "files": options.files,
                "changed": options.changed,
                "slowest_s": options.slowest_s,
            }
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield tuple(
            SlotAddress(
                slot, "here", os.getpid(), str(folder / "slots" / str(slot) / "s"), identity=f"{slot:032x}"
            )
            for slot in range(slots)
        )
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Driver:
    """The driver's parts around checkpoints, without a session of Spark."""

    def __init__(self, folder: Path, addresses: tuple[SlotAddress, ...], key: str, interval_s: float) -> None:
        slots = len(addresses)
        self._clock = clock.SystemClock()
        checkpoint = CheckpointSettings(storage=str(folder / "storage"), interval_s=interval_s)
        settings = JobSettings(
            name="job", entry=EntryPoint(module="a.job"), slots=slots, checkpoint=checkpoint
        )
        space = KeySpace(max(128, slots * SHARDS_PER_SLOT), slots * SHARDS_PER_SLOT)
        job = StoredJob(operators=(), premises={}, sink_paths={"out": str(folder / "out")}, backend="hashmap")
        self.job_storage = JobStorage(claim(settings, self._clock, 1, "a benchmark"), job)
        self.job_storage.begin_incarnation(self.job_storage.restore_point(), lambda number: None)
        self.view = JobView(
            documents.JobIdentity(job_uid="u", attempt=1), "job", "default", "rocksdb", self._clock
        )
        self.group = SlotGroup(addresses, key, 1, "here")
        sink = SinkPlan(uid="out", operator="none", tag=None, sink=FileSink(str(folder / "out")))

        def plan(slot: int) -> SlotPlan:
            return SlotPlan(
                slot=slot, slots=slots, incarnation=1, lineage=self.job_storage.lineage.id, key_space=space,
                operators=(), sinks=(sink,), backend=StateBackendSettings(type="hashmap"),
                storage_url=self.job_storage.root.url, s3=S3Settings(),
                inline_threshold_bytes=20_480, write_buffer_bytes=4096,
            )  # fmt: skip

        self.group.each(lambda slot: protocol.Configure(plan=cloudpickle.dumps(plan(slot))), protocol.Ok)
        self.group.each(lambda _: protocol.RestoreShards(), protocol.Restored)
        recorder = phases.Phases("driver", self._clock, {})
        self.checkpoints = Checkpoints(
            self.group,
            self.job_storage,
            checkpoint,
            Requests(),
            self.view,
            self._clock,
            recorder,
            space,
            base=-1,
        )
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def _watch(self) -> None:
        """As an incarnation asks its slots, and as the operator asks the driver, once a second."""
        while not self._over.wait(1.0):
            self.view.note_slots(self.group.addresses, self.group.status(30.0))
            self.view.status().model_dump_json()

    def checkpoint(self, epoch: int) -> float:
        """One epoch's commit and its checkpoint; seconds from its beginning to its end."""
        self.group.each(lambda _: protocol.Commit(incarnation=1, epoch=epoch), protocol.Committed)
        began = time.monotonic()
        self.checkpoints.start(epoch, Watermarks(()), CapturedPosition()).settle()
        return time.monotonic() - began

    def close(self) -> None:
        self._over.set()
        self._watching.join()
        self.group.close()


def measure(slots: int, options: argparse.Namespace, wire: Wire) -> dict[str, Any]:
    """The figures for so many slots."""
    folder = Path(tempfile.mkdtemp(prefix="ss-slots-"))
    key = secrets.token_hex(16)
    try:
        with played(folder, key, slots, options) as addresses:
            driver = Driver(folder, addresses, key, options.interval_s)
            driver.checkpoint(0)  # every file is new
            gc.collect()
            idle = _busy(options.idle_s, lambda: None)
            rounds = []
            for epoch in range(1, options.rounds + 1):
                received, took = wire.received, [0.0]

                def one(epoch: int = epoch, took: list[float] = took) -> None:
                    took[0] = driver.checkpoint(epoch)

                busy = _busy(options.interval_s, one)
                rounds.append((busy, took[0], wire.received - received))
            metadata = (
                folder / "storage" / driver.job_storage.lineage.id / f"chk-{options.rounds + 1}" / "_metadata"
            )
            stored = metadata.stat().st_size
            threads = threading.active_count()
            driver.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    busy = statistics.median(each[0] for each in rounds)
    return {
        "slots": slots,
        "processors": round(busy / options.interval_s, 3),
        "idle_processors": round(idle / options.idle_s, 3),
        "cpu_ms_per_checkpoint": round((busy - idle * options.interval_s / options.idle_s) * 1000),
        "checkpoint_ms": round(statistics.median(each[1] for each in rounds) * 1000),
        "received_mib_per_checkpoint": round(statistics.median(each[2] for each in rounds) / MIB, 2),
        "metadata_mib": round(stored / MIB, 2),
        "threads": threads,
        "peak_rss_mib": _peak_rss() // MIB,
    }


def _busy(seconds: float, action: Any) -> float:
    """Processor time of this process while ``action`` runs and then until the interval is over."""
    began, cpu = time.monotonic(), time.process_time()
    action()
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    return time.process_time() - cpu


def _peak_rss() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 10, 50, 100])
    parser.add_argument("--files", type=int, default=1000, help="of each slot (default 1000)")
    parser.add_argument(
        "--changed", type=int, default=16, help="of these, new at each checkpoint (default 16)"
    )
    parser.add_argument("--interval-s", type=float, default=10.0, help="between two checkpoints (default 10)")
    parser.add_argument("--slowest-s", type=float, default=3.0, help="what the slowest slot's upload takes")
    parser.add_argument("--rounds", type=int, default=3, help="checkpoints that are measured (default 3)")
    parser.add_argument("--idle-s", type=float, default=5.0, help="without checkpoints, for comparison")
    options = parser.parse_args()
    wire = Wire()
    results = []
    for slots in options.slots:
        results.append(measure(slots, options, wire))
        print(json.dumps(results[-1]), flush=True)
    most = results[-1]
    before = min(results, key=lambda each: abs(each["slots"] - most["slots"] / 10))
    per_slot = [each["cpu_ms_per_checkpoint"] / each["slots"] for each in (before, most)]
    growth = per_slot[1] / max(per_slot[0], 0.01)
    good = most["processors"] <= AIM_PROCESSORS and (before is most or growth <= AIM_GROWTH)
    print(
        f"per slot and checkpoint: {per_slot[1]:.2f} ms of a processor, "
        f"{growth:.2f} times that of {before['slots']} slots"
    )
    print("reached" if good else f"MISSED: at most {AIM_PROCESSORS} processors, growth at most {AIM_GROWTH}")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
