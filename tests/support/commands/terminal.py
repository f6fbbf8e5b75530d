"""A program on a terminal of its own, as a person starts it: keys are typed, the screen is read."""

from __future__ import annotations

import os
import pty
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

MARK = "SPARKSTATE_TEST_MARK"


class Terminal:
    """Started at once; ``screen`` is all that was written so far."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.screen = ""
        self.exit_code: int | None = None
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execve(command[0], list(command), dict(environment))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def type(self, keys: str) -> None:
        """Ctrl-C is ``\\x03``: the terminal makes SIGINT of it."""
        os.write(self._terminal, keys.encode())

    def kill(self) -> None:
        """End the program with SIGKILL, if it still runs."""
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> int:
        """The exit code, once it has ended."""
        wait_until(lambda: self.exit_code is not None, timeout_s, lambda: self.screen)
        assert self.exit_code is not None
        return self.exit_code

    def _read(self) -> None:
        with suppress(OSError):  # how a terminal says that its program has ended
            while data := os.read(self._terminal, 65536):
                self.screen += data.decode(errors="replace")
        _, status = os.waitpid(self._pid, 0)
        os.close(self._terminal)
        self.exit_code = os.waitstatus_to_exitcode(status)


def wait_until(condition: Callable[[], object], timeout_s: float, tell: Callable[[], str]) -> None:
    """Look every tenth of a second; an ``AssertionError`` with what ``tell`` says when the time is over."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s\n{tell()}")
        time.sleep(0.1)


def marked(mark: str) -> dict[int, str]:
    """All living processes that were started, over any number of steps, with ``mark`` in their environment."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
                )
    return found
