"""End-to-end latency: from a file's arrival in the source's folder to its answers at the sink.

Closed loop: the next file comes when the last one was answered, after a pause, so that nothing queues and the figure
is what one record waits on an otherwise idle job. Measured for our job (from manifest defaults, processing-time
trigger without a pause) and for Spark's identity as the floor.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import data
import numpy as np
import ours

HERE = Path(__file__).parent
_WARM_UP = 5
_WAIT_S = 120.0


def measure(name: str, rows: int, samples: int, keys: int, slots: int, scratch: Path) -> dict[str, Any]:
    """p50, p99 and the number of samples, in ms, of ``hashmap``, ``rocksdb`` or ``identity``."""
    return result(name, rows, times_ms(name, rows, samples, keys, slots, scratch))


def times_ms(name: str, rows: int, samples: int, keys: int, slots: int, scratch: Path) -> list[float]:
    """Each sample of a job that is started for them."""
    folder, answered = scratch / "in", scratch / "answered"
    folder.mkdir(parents=True)
    answered.touch()
    process = _start(name, folder, answered, slots, scratch)
    try:
        times = _ask(process, folder, answered, rows, samples + _WARM_UP, keys)
    finally:
        ours.stop(process)
    return [value * 1000 for value in times[_WARM_UP:]]


def result(name: str, rows: int, kept: list[float]) -> dict[str, Any]:
    """The samples of all turns of a contender as they are told."""
    return {
        "name": f"latency-{name}",
        "rows_per_epoch": rows,
        "samples": len(kept),
        "p50_ms": round(float(np.percentile(kept, 50))),
        "p99_ms": round(float(np.percentile(kept, 99, method="higher"))),
    }


def _start(name: str, folder: Path, answered: Path, slots: int, scratch: Path) -> subprocess.Popen[bytes]:
    if name != "identity":
        setup = ours.Setup(backend=name, interval="10s")
        document = ours.manifest(setup, folder, slots, scratch, answered=str(answered))
        document["spec"]["trigger"] = {"processingTime": "0s"}
        return ours.start(document, scratch)[0]
    command = [sys.executable, str(HERE / "contenders.py"), "identity", str(folder), str(slots)]
    command += [str(scratch / "query"), str(answered)]
    with (scratch / "driver.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def _ask(
    process: subprocess.Popen[bytes], folder: Path, answered: Path, rows: int, files: int, keys: int
) -> list[float]:
    """Seconds from each file's arrival to its answer."""
    pauses = random.Random(1)
    times = []
    for number in range(files):
        hidden = folder.parent / f"{number:05d}.parquet"
        data.write(hidden, rows, keys, seed=number)
        time.sleep(pauses.uniform(0.05, 0.15))
        arrived = time.time()
        shutil.move(hidden, folder / hidden.name)
        times.append(_wait_for_line(process, answered, number) - arrived)
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
