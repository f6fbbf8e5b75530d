"""Processor time of every process of a job, sampled while it runs, from Linux's scheduler statistics.

``waiting`` looks at the threads of a process. A sample costs about a millisecond, most of it for the JVM's threads.
``/proc/stat`` has, in ticks, for how long all processors were busy with anything, for how long the host of a virtual
machine took them away, and for how long each of them was idle.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkstate_tools.tracing.waiting import ThreadWatcher

INTERVAL_S = 0.02
_TICKS_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IO_WAIT, _STOLEN = 3, 4, 7
"""Places in a line of ``/proc/stat``: of all processors in the first line, and of each in those that follow."""


@dataclass(frozen=True)
class Sample:
    """Seconds that each process has run and has waited for a processor, up to ``t_ms``."""

    t_ms: float
    run_s: dict[int, float]
    wait_s: dict[int, float]
    machine_s: float = 0.0
    """Seconds for which all processors together ran anything: the job, other processes, the kernel."""
    stolen_s: float = 0.0
    """Seconds that the host of a virtual machine gave to others."""
    idle_s: tuple[float, ...] = ()
    """Seconds for which each processor had nothing to run."""
    disk_s: float = 0.0
    """The part of these, of all processors, in which a thread waited for a disk."""
    places: Mapping[int, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    """By process: how many threads that ran lately there are of a name and at a place (``waiting.PLACES``)."""


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
        threads = ThreadWatcher()
        while not self._ended.wait(INTERVAL_S):
            looks = {pid: threads.look(pid, time.monotonic()) for pid in self._processes()}
            run = {pid: look.run_s for pid, look in looks.items()}
            wait = {pid: look.wait_s for pid, look in looks.items()}
            places = {pid: look.places for pid, look in looks.items()}
            self.samples.append(Sample(time.time() * 1000, run, wait, *_of_machine(), places))


def _of_machine() -> tuple[float, float, tuple[float, ...], float]:
    """Seconds of work and stolen seconds of all processors, the idle ones of each, and those in which a thread waited
    for a disk. The kernel counts guests in the first ones."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        told = itertools.takewhile(lambda line: line.startswith("cpu"), file)
        ticks, *each = [[int(word) for word in line.split()[1:9]] for line in told]
    idle = [one[_IDLE] + one[_IO_WAIT] for one in each]
    free = ticks[_IDLE] + ticks[_IO_WAIT] + ticks[_STOLEN]
    return (
        (sum(ticks) - free) / _TICKS_S,
        ticks[_STOLEN] / _TICKS_S,
        tuple(one / _TICKS_S for one in idle),
        ticks[_IO_WAIT] / _TICKS_S,
    )
