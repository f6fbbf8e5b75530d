"""Whether the kernel has ended processes of this container for want of memory, by its control group's own counter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))
"""Of version 2 and version 1; both have a line ``oom_kill N``. A container sees its own group there."""


class OomKills:
    """Counts from when it was made. Where nothing can be read, there is nothing to tell."""

    def __init__(self, counters: Sequence[Path] = COUNTERS) -> None:
        self._counters = counters
        self._told = self._read()

    def news(self) -> str:
        """A remark about a process that vanished: the kills since the last call, or an empty text."""
        now = self._read()
        new, self._told = now - self._told, now
        if new <= 0:
            return ""
        return (
            f"; meanwhile the kernel killed {new} process(es) of this container because it was out of memory: the "
            "job's code takes more than its slots have (raise driver.memory, or the pod template's memory limit)"
        )

    def _read(self) -> int:
        for path in self._counters:
            try:
                lines = path.read_text().splitlines()
            except OSError:
                continue
            for words in map(str.split, lines):
                if len(words) == 2 and words[0] == "oom_kill" and words[1].isdigit():
                    return int(words[1])
        return 0
