"""Where the threads of a process are: on a processor, or in the kernel, waiting for something.

``/proc/PID/task/TID/schedstat`` has, in nanoseconds, how long a thread ran and how long it was ready and waited for a
processor; ``wchan`` beside it has the kernel's function in which it sleeps, for root and for the owner of the process.
A pool has many threads that do nothing for as long as a job runs, and what these wait for says nothing about an epoch.
So only a thread that ran lately is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RUNNING, SOCKET, LOCK, TIMER, DISK, OTHER = "running", "socket or pipe", "lock", "timer", "disk", "else"
PLACES = (RUNNING, SOCKET, LOCK, TIMER, DISK, OTHER)
"""Where a thread can be, in the order of the report."""
LATELY_S = 2.0
"""A thread that has not run for that long is left out; an epoch of a benchmark takes about as long."""
_PARTS = {
    SOCKET: (
        "poll",
        "pipe",
        "unix_stream",
        "unix_dgram",
        "skb",
        "wait_woken",
        "sk_wait",
        "accept",
        "sk_stream",
    ),
    LOCK: ("futex", "rwsem", "mutex"),
    TIMER: ("nanosleep",),
    DISK: (
        "io_schedule",
        "folio",
        "page",
        "jbd2",
        "blk_",
        "balance_dirty",
        "fsync",
        "writeback",
        "ext4",
        "xfs",
    ),
}
"""Parts of the names of kernel functions. A wait with a time limit counts for what it waits for."""


@dataclass(frozen=True)
class Look:
    """One look at a process."""

    run_s: float
    """For how long its threads have run."""
    wait_s: float
    """For how long they were ready and waited for a processor."""
    places: Mapping[tuple[str, str], int]
    """How many threads that ran lately there are, by the thread's name and the place where it is."""


@dataclass
class _Thread:
    name: str
    ran_ns: int
    last_s: float
    """When it was last seen to have run."""


class ThreadWatcher:
    """Looks at processes repeatedly, and remembers which thread ran when."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], _Thread] = {}

    def look(self, pid: int, now_s: float) -> Look:
        """The process as it is now, at ``now_s`` seconds of any clock; what has ended counts no more."""
        run = wait = 0
        places: Counter[tuple[str, str]] = Counter()
        for folder in Path(f"/proc/{pid}/task").glob("*"):
            try:
                ran, waited, _ = (folder / "schedstat").read_text().split()
                thread = self._thread(pid, folder, int(ran), now_s)
                if now_s - thread.last_s <= LATELY_S:
                    places[thread.name, place((folder / "wchan").read_text())] += 1
            except (OSError, ValueError):  # the thread has ended
                continue
            run += int(ran)
            wait += int(waited)
        return Look(run / 1e9, wait / 1e9, places)

    def _thread(self, pid: int, folder: Path, ran_ns: int, now_s: float) -> _Thread:
        known = self._known.get((pid, folder.name))
        if (
            known is None
        ):  # one that is new has run, or has slept for as long as there was a job: the next look tells
            name = (folder / "comm").read_text().strip()
            known = self._known[pid, folder.name] = _Thread(name, ran_ns, float("-inf"))
        elif ran_ns != known.ran_ns:
            known.ran_ns, known.last_s = ran_ns, now_s
        return known


def place(function: str) -> str:
    """The place of a thread that sleeps in that function of the kernel; "0" or nothing: it runs, or is ready to."""
    if function.strip() in {"", "0"}:
        return RUNNING
    found = (name for name, parts in _PARTS.items() if any(part in function for part in parts))
    return next(found, OTHER)
