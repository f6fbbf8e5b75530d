"""End-to-end latency: from a file's arrival in the source's folder to its answers at the sink.

Closed loop: the next file comes when the last one was answered, after a pause, so that nothing queues and the figure
is what one record waits on an otherwise idle job. Measured for our job (from manifest defaults, processing-time
trigger without a pause, a checkpoint every two seconds) and for Spark's identity as the floor.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data
import numpy as np
import ours

HERE = Path(__file__).parent
_WARM_UP = 5
_WARM_UP_S = 25.0
"""No sample counts before so many answers, nor earlier than this after the first of them. A job runs for days, and the
JVM compiles its code within the first half minute: of 80 epochs of identity, the first 20 after the fifth had a p50 of
397 ms, and the last 20 one of 337."""
_WAIT_S = 120.0
_CHECKPOINTS = "2s"


@dataclass(frozen=True)
class Turn:
    """The samples of one start of a job, in ms, and how many checkpoints it completed from its start to its end."""

    times_ms: Sequence[float]
    checkpoints: int


def measure(name: str, rows: int, samples: int, keys: int, slots: int, scratch: Path) -> dict[str, Any]:
    """p50, p99 and the number of samples, in ms, of ``hashmap``, ``rocksdb`` or ``identity``."""
    return result(name, rows, [turn(name, rows, samples, keys, slots, scratch)])


def turn(name: str, rows: int, samples: int, keys: int, slots: int, scratch: Path) -> Turn:
    """The samples of a job that is started for them. A job of ours that completed no checkpoint meanwhile is refused,
    because its p99 would be that of a job without checkpoints."""
    folder, answered = scratch / "in", scratch / "answered"
    folder.mkdir(parents=True)
    answered.touch()
    process = _start(name, folder, answered, slots, scratch)
    try:
        times = _ask(process, folder, answered, rows, samples, keys)
    finally:
        ours.stop(process)
    completed = _completed(scratch / "checkpoints")
    if name != "identity" and not completed:
        raise SystemExit(
            f"{name} completed no checkpoint until its {len(times)} samples of {rows:,} rows were taken"
        )
    return Turn([value * 1000 for value in times], completed)


def _completed(storage: Path) -> int:
    """The number of the newest checkpoint. Older ones are deleted."""
    numbers = (path.parent.name.removeprefix("chk-") for path in storage.rglob("chk-*/_metadata"))
    return max(map(int, numbers), default=0)


def result(name: str, rows: int, turns: Sequence[Turn]) -> dict[str, Any]:
    """The samples of all turns of a contender as they are told."""
    kept = [value for turn in turns for value in turn.times_ms]
    return {
        "name": f"latency-{name}",
        "rows_per_epoch": rows,
        "samples": len(kept),
        "checkpoints": sum(turn.checkpoints for turn in turns),
        "p50_ms": round(float(np.percentile(kept, 50))),
        "p99_ms": round(float(np.percentile(kept, 99, method="higher"))),
    }


def _start(name: str, folder: Path, answered: Path, slots: int, scratch: Path) -> subprocess.Popen[bytes]:
    if name != "identity":
        setup = ours.Setup(backend=name, interval=_CHECKPOINTS)
        document = ours.manifest(setup, folder, slots, scratch, answered=str(answered))
        document["spec"]["trigger"] = {"processingTime": "0s"}
        return ours.start(document, scratch)[0]
    command = [sys.executable, str(HERE / "contenders.py"), "identity", str(folder), str(slots)]
    command += [str(scratch / "query"), str(answered)]
    with (scratch / "driver.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def _ask(
    process: subprocess.Popen[bytes], folder: Path, answered: Path, rows: int, samples: int, keys: int
) -> list[float]:
    """Seconds from each file's arrival to its answer, without those of the warm-up."""
    pauses = random.Random(1)
    times: list[float] = []
    warm_at = float("inf")
    number = 0
    while len(times) < samples:
        hidden = folder.parent / f"{number:05d}.parquet"
        data.write(hidden, rows, keys, seed=number)
        time.sleep(pauses.uniform(0.05, 0.15))
        arrived = time.time()
        shutil.move(hidden, folder / hidden.name)
        took = _wait_for_line(process, answered, number) - arrived
        if number == 0:
            warm_at = arrived + took + _WARM_UP_S
        elif number >= _WARM_UP and arrived >= warm_at:
            times.append(took)
        number += 1
    return times


def _wait_for_line(process: subprocess.Popen[bytes], path: Path, number: int) -> float:
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline and process.poll() is None:
        if os.path.getsize(path):
            lines = path.read_text().split("\n")
            if len(lines) > number + 1:
                return float(lines[number])
        time.sleep(0.002)
    raise SystemExit(f"no answer to file {number} within {_WAIT_S:g} s; see {path.parent}/driver.log")
