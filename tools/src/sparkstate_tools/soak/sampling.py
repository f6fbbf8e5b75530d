"""The soak's measurements: processes by ``/proc``, the local disk, the stored objects, and times from the phase log."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")
_CLAIMED = re.compile(r"the state is claimed, ([0-9.]+) s after the driver began")


@dataclass(frozen=True)
class Usage:
    """Of one or several processes together."""

    rss: int = 0
    fds: int = 0
    threads: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.rss + other.rss, self.fds + other.fds, self.threads + other.threads)


def usage(pids: Iterable[int]) -> Usage:
    """Sum over the processes that still live."""
    total = Usage()
    for pid in pids:
        with suppress(OSError, ValueError):
            process = Path(f"/proc/{pid}")
            rss = int((process / "statm").read_text().split()[1]) * PAGE
            total += Usage(rss, len(os.listdir(process / "fd")), len(os.listdir(process / "task")))
    return total


def managed(slots: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Bytes that RocksDB holds in all slots together, and how many of them are above its budget.

    Its block cache keeps blocks of deleted files until it is full, so resident memory grows until then.
    """
    held = above = 0
    for memory in (slot["memory"] for slot in slots):
        used = memory["cache"] + memory["tables"]
        held += used
        above += max(0, used - memory["budget"]) if memory["budget"] is not None else 0
    return held, above


def java_of(driver: int) -> list[int]:
    """The JVM that the driver started."""
    return [pid for pid in descendants(driver) if _name(pid) == "java"]


def descendants(root: int) -> list[int]:
    """All processes below ``root``."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def tree_size(folder: Path) -> tuple[int, int]:
    """(files, bytes) below a folder whose files come and go."""
    files = size = 0
    for path in _walk(folder):
        with suppress(OSError):
            size += path.stat().st_size
            files += 1
    return files, size


def _walk(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent) / name for name in names)


def claims(log: Path) -> list[float]:
    """Seconds that drivers took to claim the state, as one driver's log says."""
    with suppress(OSError):
        return [float(found) for found in _CLAIMED.findall(log.read_text(errors="replace"))]
    return []


class PhaseTimes:
    """Reads the phase log, forgets it, and keeps the times between its entries."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken = path.with_suffix(".taken")
        self._last_commit: tuple[int, int] | None = None
        self._restore_began: int | None = None
        self._epochs_ms: list[int] = []
        self.restores_ms: list[int] = []
        """From the beginning of a restore to the first committed epoch; the caller empties the list."""

    def read(self) -> None:
        """Take what was written since the last call. Processes open the log anew for each line."""
        with suppress(FileNotFoundError):
            for line in self._taken.read_text().splitlines() if self._taken.exists() else ():
                with suppress(ValueError):  # the line of a process that was killed while it wrote
                    self._note(json.loads(line))
            self._path.replace(self._taken)

    def epoch_ms(self) -> float | None:
        """Median time from one commit to the next since the last call."""
        taken, self._epochs_ms = self._epochs_ms, []
        return median(taken) if taken else None

    def _note(self, entry: Mapping[str, Any]) -> None:
        if entry["process"] != "driver":
            return
        at = int(entry["t_ms"])
        if entry["phase"] == "restore-begin":
            self._restore_began = at
        elif entry["phase"] == "commit":
            if self._restore_began is not None:
                self.restores_ms.append(at - self._restore_began)
            elif self._last_commit is not None and self._last_commit[0] == entry["incarnation"]:
                self._epochs_ms.append(at - self._last_commit[1])
            self._last_commit, self._restore_began = (entry["incarnation"], at), None
