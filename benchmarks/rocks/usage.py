"""Processor time of this process by kind of thread, and the bytes that it read and wrote, as the kernel counts them."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

_THREADS = Path("/proc/self/task")
_NS = 1e-9


@dataclass(frozen=True)
class Usage:
    """Since the process began. Seconds, bytes."""

    cpu_s: float
    """All threads, ended ones included, user and system."""
    compacting_s: float
    flushing_s: float
    read_bytes: int
    """By read calls, from the page cache or the disk."""
    written_bytes: int

    def since(self, before: Usage) -> Usage:
        """What was used in between."""
        return Usage(*(after - was for after, was in zip(self._fields(), before._fields(), strict=True)))

    def _fields(self) -> tuple[float, float, float, int, int]:
        return self.cpu_s, self.compacting_s, self.flushing_s, self.read_bytes, self.written_bytes


def used() -> Usage:
    """Now."""
    total = resource.getrusage(resource.RUSAGE_SELF)
    threads = _threads()
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return Usage(
        total.ru_utime + total.ru_stime,
        threads.get("rocksdb:low", 0.0),
        threads.get("rocksdb:high", 0.0),
        int(io["rchar"]),
        int(io["wchar"]),
    )


def _threads() -> dict[str, float]:
    """Seconds by the thread's name. RocksDB's pools live as long as the process."""
    seconds: dict[str, float] = {}
    for name in os.listdir(_THREADS):
        try:
            title = (_THREADS / name / "comm").read_text().strip()
            spent = int((_THREADS / name / "schedstat").read_text().split()[0]) * _NS
        except OSError:  # it ended
            continue
        # RocksDB numbers the threads of a pool.
        title = title.rstrip("0123456789")
        seconds[title] = seconds.get(title, 0.0) + spent
    return seconds


def peak_resident_bytes() -> int:
    """The most that was resident at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
