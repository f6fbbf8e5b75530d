"""Folders in memory for what flushes every write, or writes thousands of small files.

They do not end by themselves as a process does. So each names the process that made it, and the first that a later
process makes clears those whose process is gone, with the server that was left running over one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

from sparkstate_tools.processes import start_time

SHARED = Path("/dev/shm")
OWNER = ".owner"
SERVER = "pid"
"""In a folder: the process id of a server that works there, or in a folder below."""


def folder(prefix: str, place: Path | None = None) -> Path:
    """A new folder of this process; whoever makes it removes it. Where there is no memory for it, on the disk."""
    where = place or (SHARED if SHARED.is_dir() else Path(tempfile.gettempdir()))
    _clear_once(where)
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
    (made / OWNER).write_text(json.dumps({"pid": os.getpid(), "started": start_time(os.getpid())}))
    return made


@functools.cache
def _clear_once(where: Path) -> None:
    clear(where)


def clear(where: Path) -> list[Path]:
    """Remove what killed processes left; returns it."""
    left = []
    for record in where.glob(f"sparkstate-*/{OWNER}"):
        with contextlib.suppress(OSError, ValueError, KeyError):  # its process removes it at this moment
            says = json.loads(record.read_text())
            if start_time(says["pid"]) != says["started"]:
                _end_server(record.parent)
                shutil.rmtree(record.parent, ignore_errors=True)
                left.append(record.parent)
    return left


def _end_server(folder: Path) -> None:
    """The process id may be another's by now: it is the server if its working directory is the folder or lies in it.
    versitygw goes into the folder of its data, wherever it was started."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / SERVER).read_text())
        if Path(f"/proc/{pid}/cwd").resolve().is_relative_to(folder.resolve()):
            os.kill(pid, signal.SIGKILL)
