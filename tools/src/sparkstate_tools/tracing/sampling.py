"""Processor time of every process of a job, sampled while it runs, from Linux's scheduler statistics.

``/proc/PID/task/TID/schedstat`` has, in nanoseconds, how long a thread ran and how long it was ready and waited for
a processor. A sample costs about a millisecond, most of it for the JVM's threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

INTERVAL_S = 0.02


@dataclass(frozen=True)
class Sample:
    """Seconds that each process has run and has waited for a processor, up to ``t_ms``."""

    t_ms: float
    run_s: dict[int, float]
    wait_s: dict[int, float]


class Sampler:
    """Samples until it is stopped. ``processes`` says which there are now."""

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self._processes = processes
        self._ended = threading.Event()
        self.samples: list[Sample] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[Sample]:
        """The samples, in order of time."""
        self._ended.set()
        self._thread.join()
        return self.samples

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            run: dict[int, float] = {}
            wait: dict[int, float] = {}
            for pid in self._processes():
                run[pid], wait[pid] = _of_process(pid)
            self.samples.append(Sample(time.time() * 1000, run, wait))


def _of_process(pid: int) -> tuple[float, float]:
    run = wait = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            ran, waited, _ = path.read_text().split()
        except (OSError, ValueError):  # the thread has ended
            continue
        run += int(ran)
        wait += int(waited)
    return run / 1e9, wait / 1e9
