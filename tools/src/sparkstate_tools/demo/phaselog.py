"""The log that the engine's processes write about their phases (``SPARKSTATE_PHASE_LOG``), and stopping them in one.

To be killed in a named phase a process is held there: a file ``<process>:<phase>`` in the folder that
``SPARKSTATE_HOLD_DIR`` names is taken over by the first process that enters the phase (it renames the file to
``held-<process>:<phase>-<pid>``), and that process waits until the file is gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOLD_TIMEOUT_S = 90.0
"""How long to wait for a process to come into the phase."""
LONGEST_HOLD_S = 20.0
"""After this time the engine lets a held process go on by itself."""


@dataclass(frozen=True)
class Entry:
    """One process entered one phase."""

    process: str
    pid: int
    phase: str
    epoch: int
    checkpoint: int
    incarnation: int
    t_ms: int


class PhaseLog:
    """Reads the log again and again; keeps what it has read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[Entry] = []
        self._offset = 0

    def entries(self) -> list[Entry]:
        """All entries so far, in the order in which they were written."""
        if self.path.exists():
            with self.path.open("rb") as log:
                log.seek(self._offset)
                new = log.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._offset += len(whole)
            self._entries.extend(_parse(line) for line in whole.splitlines())
        return self._entries

    def last_of(self, pid: int, phase: str) -> Entry | None:
        """When a process last entered a phase. It may be in others too: uploads have threads of their own."""
        return next(
            (entry for entry in reversed(self.entries()) if (entry.pid, entry.phase) == (pid, phase)), None
        )

    def since(self, t_ms: int) -> Iterator[Entry]:
        """Entries at or after an instant."""
        return (entry for entry in self.entries() if entry.t_ms >= t_ms)


def _parse(line: bytes) -> Entry:
    document = json.loads(line)
    return Entry(**{name: document[name] for name in Entry.__dataclass_fields__})


class Holds:
    """Asks for a process to be held in a phase and waits until one is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def hold(self, process: str, phase: str) -> int:
        """The id of the process that is now held in the phase. It goes on when :meth:`release` is called."""
        wanted = self.folder / f"{process}:{phase}"
        wanted.touch()
        deadline = time.monotonic() + HOLD_TIMEOUT_S
        while time.monotonic() < deadline:
            for held in self.folder.glob(f"held-{process}:{phase}-*"):
                return int(held.name.rsplit("-", 1)[1])
            time.sleep(0.02)
        wanted.unlink(missing_ok=True)
        raise RuntimeError(f"no process {process} came into the phase {phase} within {HOLD_TIMEOUT_S:.0f} s")

    def is_held(self, process: str, phase: str, pid: int) -> bool:
        """Whether that process is still held in the phase."""
        return (self.folder / f"held-{process}:{phase}-{pid}").exists()

    def release(self) -> None:
        """Let whoever is held go on."""
        for held in self.folder.glob("held-*"):
            held.unlink(missing_ok=True)
