"""One run of our job, recorded for ``make bench ARGS=--trace``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import cpu
import ours

from sparkstate_tools.tracing import jvm_spans, runs, sampling

_LOOK_S = 0.5


def record(setup: ours.Setup, folder: Path, slots: int, scratch: Path) -> runs.Run:
    """Run the job to the end of its input."""
    document = ours.manifest(setup, folder, slots, scratch)
    event_log = scratch / "events"
    event_log.mkdir()
    document["spec"]["sparkConf"] = jvm_spans.settings(event_log)
    process, log = ours.start(document, scratch, compiled=setup.compiled)
    phases = ours.Phases(log)
    kinds: dict[int, str] = {}
    entries: list[dict[str, Any]] = []
    threads: list[runs.ThreadTimes] = []

    sampler = sampling.Sampler(lambda: list(kinds))
    deadline = time.monotonic() + ours.LIMIT_S
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise SystemExit(f"our driver took longer than {ours.LIMIT_S:g} s")
            entries += phases.new()
            kinds.update(cpu.kinds(process.pid, phases.slots))
            threads.append(runs.ThreadTimes(time.time() * 1000, cpu.of_threads(phases.slots)))
            time.sleep(_LOOK_S)
        entries += phases.new()
    finally:
        ours.stop(process)
    if process.returncode != 0:
        raise SystemExit((scratch / "driver.log").read_text(errors="replace")[-2000:])
    return runs.Run(entries, sampler.stop(), kinds, threads, jvm_spans.read(event_log))
