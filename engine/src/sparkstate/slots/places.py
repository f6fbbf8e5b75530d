"""How many slots run in one executor: places in its working directory, taken by the tasks that start slots.

An executor's memory is reckoned for ``slotsPerExecutor`` slots. Several tasks may start slots in it at once, each in a
process of its own, so a place is a directory that only one of them can make.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

from sparkstate.local_state import folders, inheritance

_GONE_S: Final = 10.0
_POLL_S: Final = 0.05


def take(base: Path, incarnation: int, places: int, slot: int) -> bool:
    """Take a place for ``slot`` in this executor; False if others have taken all of them.

    A slot that has one already (its task is tried again) keeps it. Raises ``OSError`` if the disk is full.
    """
    folder = base / f"places-{incarnation}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(places):
        owner = folder / str(number)
        try:
            descriptor = os.open(owner, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            if owner.read_text() == str(slot):
                return True
            continue
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(str(slot))
        except OSError:
            owner.unlink()  # a place that nobody's number is in would stay taken
            raise
        return True
    return False


def clear_older(base: Path, incarnation: int, patience_s: float = _GONE_S) -> None:
    """Wait until the slots of earlier incarnations have left this executor; end those that do not.

    Two incarnations at once would need twice the memory. Their folders are for the next ones (``local_state``).
    """
    rounds = round(patience_s / _POLL_S)
    for folder in _older(base, incarnation):
        for _ in range(rounds):
            if not folder.exists():
                break
            time.sleep(_POLL_S)
        else:
            end(folder)


def _older(base: Path, incarnation: int) -> list[Path]:
    of_slots = [folder for folder in base.iterdir() if folders.is_slot(folder)]
    return sorted(folder for folder in of_slots if int(folder.name.partition("-")[0]) < incarnation)


def end(folder: Path) -> None:
    """Kill the slot whose folder this is, if it still runs; the folder gives up its name."""
    with contextlib.suppress(OSError, ValueError):
        kill(int((folder / "pid").read_text()))
    inheritance.retire(folder)


def kill(pid: int) -> None:
    """End a slot that hangs: nobody needs its state any more, but its memory. Another process of that id is spared."""
    with contextlib.suppress(OSError):
        if b"sparkstate.slots" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
