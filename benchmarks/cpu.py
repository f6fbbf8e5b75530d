"""CPU seconds that a job has used so far, by kind of process, read from ``/proc``.

Wall time on a shared machine swings; CPU time tells where an epoch's work goes. Kinds: ``driver`` (Python),
``jvm``, ``workers`` (Spark's Python workers, whose ended children count through their daemon) and ``slots``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sparkstate_tools.tracing.runs import KINDS

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _stat(pid: int | str) -> tuple[str, list[str]] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _stat(int(entry))) is not None:
            found.setdefault(int(stat[1][1]), []).append(int(entry))
    return found


def _tree(driver: int) -> Iterator[tuple[int, str, list[str]]]:
    """Process id, kind and statistics of the driver and all processes below it."""
    children = _children()
    pending = [(driver, "driver")]
    while pending:
        pid, kind = pending.pop()
        stat = _stat(pid)
        if stat is None:
            continue
        if stat[0] == "java":
            kind = "jvm"
        yield pid, kind, stat[1]
        below = "workers" if kind in ("jvm", "workers") else "driver"
        pending += [(child, below) for child in children.get(pid, ())]


def kinds(driver: int, slots: Iterable[int] = ()) -> dict[int, str]:
    """The kind of each process there is now."""
    return {pid: kind for pid, kind, _ in _tree(driver)} | dict.fromkeys(slots, "slots")


def used(driver: int, slots: Iterable[int] = ()) -> dict[str, float]:
    """CPU seconds by kind of the tree below ``driver``, and of ``slots``, which are no children of anybody."""
    totals = dict.fromkeys(KINDS, 0.0)
    for _, kind, fields in _tree(driver):
        totals[kind] += (int(fields[11]) + int(fields[12])) * _TICK_S
        if kind == "workers":  # workers that ended are counted by the daemon that waited for them
            totals[kind] += (int(fields[13]) + int(fields[14])) * _TICK_S
    for pid in slots:
        stat = _stat(pid)
        if stat is not None:
            totals["slots"] += (int(stat[1][11]) + int(stat[1][12])) * _TICK_S
    return totals


def of_threads(pids: Iterable[int]) -> dict[str, tuple[float, float]]:
    """CPU seconds of the threads of these processes by the threads' names, in user and in kernel mode.

    What is left of a process counts for its own name: that of its Python threads, also of those that have ended.
    """
    totals: dict[str, tuple[float, float]] = {}

    def add(name: str, user: float, kernel: float) -> None:
        before = totals.get(name, (0.0, 0.0))
        totals[name] = (before[0] + user, before[1] + kernel)

    for pid in pids:
        whole = _stat(pid)
        if whole is None:
            continue
        user, kernel = _seconds(whole[1])
        for task in Path(f"/proc/{pid}/task").glob("*"):
            stat = _stat(f"{pid}/task/{task.name}")
            if stat is not None and stat[0] != whole[0]:
                used = _seconds(stat[1])
                add(stat[0], *used)
                user, kernel = user - used[0], kernel - used[1]
        add(whole[0], max(0.0, user), max(0.0, kernel))
    return totals


def _seconds(fields: list[str]) -> tuple[float, float]:
    """In user and in kernel mode."""
    return int(fields[11]) * _TICK_S, int(fields[12]) * _TICK_S


def between(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What was used in between."""
    return {kind: round(after[kind] - before[kind], 3) for kind in KINDS}
