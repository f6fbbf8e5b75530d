"""A slot's log: all that its process writes to standard output and error, users' prints and native code's alike.

The file is on the slot's disk, ``slot-<slot>-<incarnation>.log`` beside the slots' folders, and bounded: beyond
:data:`LIMIT_BYTES` it becomes ``….log.1``, and of each slot the newest :data:`KEPT` incarnations stay. It is the
process's standard output and error itself, not the end of a pipe, so that what a crash says last is in it. Where the
process that the slot belongs to writes to a container's log (a pipe), each line goes there too, behind ``slot N:``; a
file would grow by it without a bound.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from pathlib import Path
from typing import BinaryIO, Final

from sparkstate.settings import MIB

LIMIT_BYTES: Final = 8 * MIB
KEPT: Final = 3
_LOOK_S: Final = 0.5
_CHUNK: Final = MIB
_NAME = re.compile(r"slot-(\d+)-(\d+)\.log(\.1)?")


def is_log(name: str) -> bool:
    """Whether a file of that name is the log of a slot that was told what it is."""
    return _NAME.fullmatch(name) is not None


def trim(base: Path, slot: int) -> None:
    """Remove the slot's logs under ``base`` but those of its newest incarnations."""
    found = [(int(named[2]), path) for path in base.iterdir() if (named := _NAME.fullmatch(path.name))]
    of_slot = [(incarnation, path) for incarnation, path in found if path.name.startswith(f"slot-{slot}-")]
    newest = sorted({incarnation for incarnation, _ in of_slot})[-KEPT:]
    for incarnation, path in of_slot:
        if incarnation not in newest:
            path.unlink(missing_ok=True)


class SlotLog:
    """Of this process, whose standard error is a file. Without one it does nothing."""

    def __init__(self, watched_pid: int, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._path = _file_behind(2)
        self._console = _console_of(watched_pid)
        self._prefix = b"slot: "
        self._reader: BinaryIO | None = None
        self._rest = b""
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Standard output joins standard error, and a thread looks after both."""
        if self._path is not None:
            os.dup2(2, 1)
            self._reader = self._path.open("rb")
            threading.Thread(target=self._run, name="slot-log", daemon=True).start()

    def belongs_to(self, slot: int, incarnation: int) -> None:
        """The process has been told which slot it is: its log is called so."""
        if self._path is None:
            return
        with self._lock:
            named = self._path.with_name(f"slot-{slot}-{incarnation}.log")
            self._path = self._path.rename(named)
            self._prefix = f"slot {slot}: ".encode()
        trim(named.parent, slot)

    def look(self) -> None:
        """Pass new lines on, and begin a new file where this one is too large."""
        with self._lock:
            self._pass_on()
            if self._path is not None and os.fstat(2).st_size > self._limit:
                self._rotate(self._path)

    def _run(self) -> None:
        waiting = threading.Event()
        while not waiting.wait(_LOOK_S):
            with contextlib.suppress(OSError):  # a full disk, or a console that is gone
                self.look()

    def _rotate(self, path: Path) -> None:
        path.rename(path.with_name(path.name + ".1"))
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(fresh, descriptor)
        os.close(fresh)
        self._pass_on()  # what came between the last look and now
        if self._reader is not None:
            self._reader.close()
        self._reader = path.open("rb")

    def _pass_on(self) -> None:
        while self._reader is not None and (read := self._reader.read(_CHUNK)):
            if self._console is None:
                continue
            *lines, self._rest = (self._rest + read).split(b"\n")
            if len(self._rest) > _CHUNK:
                lines, self._rest = [*lines, self._rest], b""
            if lines:
                os.write(self._console, b"".join(self._prefix + line + b"\n" for line in lines))


def _file_behind(descriptor: int) -> Path | None:
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return Path(f"/proc/self/fd/{descriptor}").readlink()
    return None


def _console_of(pid: int) -> int | None:
    """Standard error of ``pid`` if it is a pipe, as a container's is."""
    with contextlib.suppress(OSError):
        # Without O_NONBLOCK the call would wait for ever where nobody reads.
        opened = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        if stat.S_ISFIFO(os.fstat(opened).st_mode):
            os.set_blocking(opened, True)
            return opened
        os.close(opened)
    return None
