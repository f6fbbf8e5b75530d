"""A slot's log: all that its process writes to standard output and error, be it users' prints or native code's words.

The file is on the slot's disk, ``slot-<slot>-<incarnation>.log`` beside the slots' folders, and bounded: beyond
:data:`LIMIT_BYTES` it becomes ``….log.1``, and each slot's newest :data:`KEPT` incarnations stay. The file is the
process's standard output and error itself, not the end of a pipe, so it has the last words of a crash. Where the
process that the slot belongs to writes to a container's log (a pipe), each line goes there too, behind ``slot N:``, as
far as somebody reads it. If that is a file, it would grow without a bound.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import stat
import threading
from io import FileIO
from pathlib import Path
from typing import Final

from sparkstate import clock as clocks
from sparkstate.local_state import folders
from sparkstate.settings import MIB
from sparkstate.slots import last_lines

LIMIT_BYTES: Final = 8 * MIB
KEPT: Final = 3
_LOOK_S: Final = 0.5
_PATIENCE_S: Final = 0.25
_LEFT_OUT: Final = b"%d bytes of the slot's log are left out here, because this log was not read fast enough"
_CHUNK: Final = MIB


def trim(base: Path, slot: int, own: Path) -> None:
    """Remove the slot's logs under ``base``, except ``own`` and those of the incarnations that wrote last.

    Not those with the highest numbers: a job that starts without its state counts from 1 again.
    """
    written: dict[int, float] = {}
    of_slot: list[tuple[int, Path]] = []
    for path in base.glob(f"slot-{slot}-*"):
        named = folders.LOG.fullmatch(path.name)
        with contextlib.suppress(FileNotFoundError):  # an earlier process of the slot renames its own
            if named is not None:
                incarnation = int(named[2])
                of_slot.append((incarnation, path))
                last = math.inf if path == own else path.stat().st_mtime
                written[incarnation] = max(last, written.get(incarnation, 0))
    newest = sorted(written, key=lambda incarnation: (written[incarnation], incarnation))[-KEPT:]
    for incarnation, path in of_slot:
        if incarnation not in newest:
            path.unlink(missing_ok=True)


class SlotLog:
    """Of this process, whose standard error is ``log``, the file that the starting process made for it.

    Where standard error is anything else, it does nothing: a file to which a user redirected it stays the user's.

    The console may be read slowly, or by nobody: it gets as much as it takes in a quarter of a second per look. The
    rest is left out when the file is put aside, with a line that says how much. So neither the file nor a caller that
    waits for the lock depends on it: a full pipe blocked the thread that rotates, and with it ``Configure``.
    """

    def __init__(
        self,
        watched_pid: int,
        log: Path | None,
        limit_bytes: int = LIMIT_BYTES,
        clock: clocks.Clock | None = None,
    ) -> None:
        self._limit = limit_bytes
        self._clock = clock or clocks.SystemClock()
        self._path = log if log is not None and _is_behind(2, log) else None
        self._console = _console_of(watched_pid)
        self._prefix = b"slot: "
        self._reader: FileIO | None = None
        self._rest = b""
        self._unsent = memoryview(b"")
        self._left_out = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Standard output joins standard error, and a thread looks after both."""
        if self._path is None:
            return
        os.dup2(2, 1)
        with self._lock:
            self._reader = FileIO(self._path)
        threading.Thread(target=self._run, name="slot-log", daemon=True).start()

    def belongs_to(self, slot: int, incarnation: int) -> None:
        """The process has been told which slot it is, and its log gets that name."""
        if self._path is None:
            return
        with self._lock:
            named = self._path.with_name(f"slot-{slot}-{incarnation}.log")
            with contextlib.suppress(FileNotFoundError):  # somebody removed it: the next file gets the name
                self._path.rename(named)
            self._path = named
            self._prefix = f"slot {slot}: ".encode()
        trim(named.parent, slot, named)

    def look(self) -> None:
        """Pass new lines on, and begin a new file where this one is too large."""
        with self._lock:
            until = self._clock.monotonic() + _PATIENCE_S
            try:
                self._pass_on(until)
            finally:
                if self._path is not None and os.fstat(2).st_size > self._limit:
                    self._begin_anew(self._path, until)

    def _run(self) -> None:
        waiting = threading.Event()
        while not waiting.wait(_LOOK_S):
            with contextlib.suppress(OSError):  # a full disk: the next look tries again
                self.look()

    def _begin_anew(self, path: Path, until: float) -> None:
        try:
            self._rotate(path, until)
        except OSError:  # no inode or descriptor is left for a second file
            if os.fstat(2).st_size <= 2 * self._limit:
                raise
            self._leave_out()
            os.ftruncate(2, 0)
            if self._reader is not None:
                self._reader.seek(0)

    def _rotate(self, path: Path, until: float) -> None:
        # The new file is there before the old one loses its name: whatever fails here can be tried again.
        new = path.with_name(path.name + ".new")
        fresh = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            reader = FileIO(new)
            with contextlib.suppress(FileNotFoundError):  # the second rename has failed before
                path.rename(path.with_name(path.name + ".1"))
            new.rename(path)
            for descriptor in (1, 2):
                os.dup2(fresh, descriptor)
        finally:
            os.close(fresh)
        try:
            self._pass_on(until)  # what came between the last look and now
            self._leave_out()
        finally:
            if self._reader is not None:
                self._reader.close()
            self._reader = reader

    def _leave_out(self) -> None:
        """The console does not get the rest of this file."""
        if self._reader is None or self._console is None:
            return
        behind = os.fstat(self._reader.fileno()).st_size - self._reader.tell()
        if behind > 0:
            self._left_out += behind + len(self._rest)
            self._rest = b""

    def _pass_on(self, until: float) -> None:
        if self._reader is None or self._console is None:
            return
        while self._send(self._console, until) and (read := self._reader.read(_CHUNK)):
            *lines, self._rest = (self._rest + read).split(b"\n")
            if len(self._rest) > _CHUNK:
                lines, self._rest = [*lines, self._rest], b""
            if lines and self._left_out:
                lines.insert(0, _LEFT_OUT % self._left_out)
                self._left_out = 0
            self._unsent = memoryview(b"".join(self._prefix + line + b"\n" for line in lines))

    def _send(self, console: int, until: float) -> bool:
        """Whether the console has taken all that it was to get, and there is time for more."""
        while self._unsent and self._clock.monotonic() < until:
            # No more than PIPE_BUF at once, and whole lines: the lines of several slots do not mix.
            piece = bytes(self._unsent[: select.PIPE_BUF])
            piece = piece[: piece.rfind(b"\n") + 1] or piece
            try:
                self._unsent = self._unsent[os.write(console, piece) :]
            except BlockingIOError:
                _wait_for(console, until - self._clock.monotonic())
            except OSError:  # nobody has it open for reading (any more)
                return False
        return not self._unsent and self._clock.monotonic() < until


def own_lines() -> tuple[str, ...]:
    """The last lines of this process's log, without the secrets of its environment; nothing if standard error
    goes elsewhere than to a file."""
    path = _file_behind(2)
    return () if path is None else last_lines.Hiding.of_process(os.environ).lines(last_lines.of_file(path))


def _wait_for(console: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(console, select.POLLOUT)
    poll.poll(max(0.0, seconds) * 1000)


def _is_behind(descriptor: int, log: Path) -> bool:
    with contextlib.suppress(OSError):  # it is closed, or somebody removed the file
        return os.path.samestat(os.fstat(descriptor), log.stat())
    return False


def _file_behind(descriptor: int) -> Path | None:
    """For reading alone: the file may be a user's."""
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
            return opened  # a description of our own: the flag is not that of the process whose console it is
        os.close(opened)
    return None
