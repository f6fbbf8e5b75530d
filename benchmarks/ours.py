"""Our driver as a contender: one run of it on a folder of input files, its epochs from the log of its phases."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cpu
import yaml

from sparkstate.operators.compiled import VARIABLE as COMPILED

HERE = Path(__file__).parent
LIMIT_S = 900.0
"""No run of any contender may take longer: then the benchmark ends with an error instead of hanging."""
_LOOK_S = 0.02


@dataclass(frozen=True)
class Setup:
    """One way to run our job. ``interval``: that of checkpoints; with ``1h`` none runs during the epochs. ``managed``:
    memory of a slot for state and overlays; None: the default. ``compiled``: whether records take the path of
    ``sparkstate-compiled``, where it is installed."""

    backend: str
    function: str = "sum"
    interval: str = "1h"
    managed: str | None = None
    compiled: bool = False


def manifest(setup: Setup, folder: Path, slots: int, scratch: Path, **params: str) -> dict[str, Any]:
    """The job's manifest; everything that is not here has its default."""
    return {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "bench"},
        "spec": {
            "pythonFile": str(HERE / "job.py"),
            "params": {"input": str(folder), "function": setup.function, **params},
            "slots": slots,
            "stateBackend": {"type": setup.backend},
            "trigger": {"availableNow": True},
            "checkpointing": {"interval": setup.interval, "storage": str(scratch / "checkpoints")},
            "driver": {"memory": "2Gi"},
            **({"managedMemoryPerSlot": setup.managed} if setup.managed else {}),
        },
    }


def start(
    document: dict[str, Any], scratch: Path, *, compiled: bool = False
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start our driver; its process, and the file into which it logs its phases. Records take the path in Python
    unless ``compiled`` says otherwise, so that figures do not depend on what is installed."""
    path, log = scratch / "job.yaml", scratch / "phases.jsonl"
    path.write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "sparkstate.driver"]
    command += ["--manifest", str(path), "--work-dir", str(scratch / "w")]
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARKSTATE_PHASE_LOG": str(log),
        COMPILED: str(int(compiled)),
    }
    with (scratch / "driver.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    return process, log


def run(setup: Setup, folder: Path, slots: int, scratch: Path) -> list[dict[str, Any]]:
    """Seconds and CPU seconds of every epoch, from its begin to the next one's."""
    process, log = start(manifest(setup, folder, slots, scratch), scratch, compiled=setup.compiled)
    marks: list[tuple[float, dict[str, float]]] = []
    reader = Phases(log)
    deadline = time.monotonic() + LIMIT_S
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise SystemExit(f"our driver took longer than {LIMIT_S:g} s; see --rows and --epochs")
            begun = [e for e in reader.new() if (e["process"], e["phase"]) == ("driver", "epoch-begin")]
            marks += [(e["t_ms"] / 1000, cpu.used(process.pid, reader.slots)) for e in begun]
            time.sleep(_LOOK_S)
    finally:
        stop(process)
    if process.returncode != 0:
        tail = (scratch / "driver.log").read_text(errors="replace")[-2000:]
        raise SystemExit(f"our driver ended with exit code {process.returncode}:\n{tail}")
    return [
        {"seconds": after[0] - before[0], "cpu_s": cpu.between(before[1], after[1])}
        for before, after in itertools.pairwise(marks)
    ]


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the driver if it still runs; its slots end with its JVM."""
    if process.poll() is None:
        process.kill()
        process.wait()


class Phases:
    """Follows a log of phases while it grows."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0
        self.slots: set[int] = set()
        """Process ids of the slots seen so far."""

    def new(self) -> list[dict[str, Any]]:
        """Entries since the last call."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        entries = [json.loads(line) for line in data.splitlines()]
        self.slots |= {entry["pid"] for entry in entries if entry["process"].startswith("slot-")}
        return entries
