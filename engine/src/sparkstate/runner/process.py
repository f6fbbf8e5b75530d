"""One driver process and everything that it started in its own process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sparkstate import clock as clocks

GROUP_GRACE_S = 10.0
"""How long the JVM may take to end after its driver: it removes its temporary files then."""
KILLED_GRACE_S = 0.5
"""The same after a driver that was killed: its JVM would wait in vain for a streaming query whose callbacks are gone,
and the next attempt empties the working directory anyway."""
KILL_WAIT_S = 5.0
"""A killed process is gone when the kernel comes to it."""
POLL_S = 0.05


class DriverProcess:
    """A running driver. Must be made by the thread that lives as long as the runner (see ``leash``)."""

    def __init__(self, process: subprocess.Popen[bytes], clock: clocks.Clock) -> None:
        self._process = process
        self._clock = clock

    @classmethod
    def start(
        cls, command: Sequence[str], environment: Mapping[str, str], log: Path, clock: clocks.Clock
    ) -> DriverProcess:
        """Start ``command`` on a leash, in its own session: a Ctrl-C in the terminal is the runner's."""
        leash = [sys.executable, "-m", "sparkstate.runner.leash", str(os.getpid())]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*leash, *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, clock)

    @property
    def pid(self) -> int:
        """Of the driver, and of its process group."""
        return self._process.pid

    def poll(self) -> int | None:
        """None while it runs, else its exit code (negative: that signal); then its group is gone too."""
        if self._process.returncode is not None:
            return self._process.returncode
        # Left unreaped until its group is dealt with: until then nobody else can get the number of the group.
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        killed = ended.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
        self._end_group(KILLED_GRACE_S if killed else GROUP_GRACE_S)
        return self._process.wait()

    def terminate(self) -> None:
        """Ask the driver to stop cleanly."""
        self._process.terminate()

    def kill(self) -> int:
        """Kill the driver and its group at once, wait for the end, return the exit code."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._await_group(KILL_WAIT_S)
        return self._process.wait()

    def _end_group(self, grace_s: float) -> None:
        self._await_group(grace_s)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._await_group(KILL_WAIT_S)

    def _await_group(self, seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while group_members(self.pid) and self._clock.monotonic() < deadline:
            self._clock.sleep(POLL_S)


def group_members(group: int, proc: Path = Path("/proc")) -> list[int]:
    """Living processes of a process group except its leader; empty where there is no ``/proc``."""
    members = []
    for folder in proc.iterdir() if proc.is_dir() else ():
        if not folder.name.isdigit() or int(folder.name) == group:
            continue
        with suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold blanks; after it come state, parent, group.
            state, _, process_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(process_group) == group and state not in ("Z", "X"):
                members.append(int(folder.name))
    return members
