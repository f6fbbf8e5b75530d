"""The processes of one test cluster: started, logged, paused, and ended by their recorded ids."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STOP_TIMEOUT_S = 15.0


@dataclass
class Running:
    """One process; its log is all it ever printed."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises when it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {self.tail()}")

    def tail(self, characters: int = 1500) -> str:
        """The last it printed."""
        return self.log.read_text(errors="replace")[-characters:]

    def pause(self) -> None:
        """Stops it as a frozen machine would; connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a paused process run on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends it, politely first."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Processes:
    """All processes of a cluster. Each is also recorded in ``folder/pids`` with its start time, so that a later
    run finds what a killed one left, and never mistakes another process for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, Running] = {}
        (folder / "pids").mkdir(parents=True, exist_ok=True)
        (folder / "logs").mkdir(exist_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        inside: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Running:
        """Starts a program; ``inside`` is a command before it, such as an ``nsenter``.

        The kernel kills it when the thread that started it ends, so that a killed pytest leaves nothing.
        """
        log = self.folder / "logs" / f"{name}.log"
        tied = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*inside, *tied, *map(str, command)],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )
        (self.folder / "pids" / name).write_text(f"{process.pid} {start_time(process.pid)}")
        self.running[name] = Running(name, process, log)
        return self.running[name]

    def stop(self, name: str) -> None:
        """Ends one and forgets it."""
        running = self.running.pop(name, None)
        if running:
            running.stop()
            (self.folder / "pids" / name).unlink(missing_ok=True)

    def stop_all(self) -> None:
        """Ends all, the last started first."""
        for name in reversed(list(self.running)):
            self.stop(name)

    def until(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Waits for a condition; raises at once when one of the processes has ended, and after the time."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if condition():
                return
            for running in self.running.values():
                running.check()
            time.sleep(0.05)
        logs = "\n".join(f"--- {running.name}\n{running.tail(400)}" for running in self.running.values())
        raise TimeoutError(f"{what} after {timeout_s:.0f} s is not so:\n{logs}")


def end_recorded(folder: Path) -> list[str]:
    """Kills what an earlier run recorded in ``folder`` and that still lives; returns the names."""
    ended = []
    for record in (folder / "pids").glob("*"):
        pid, started = (int(word) for word in record.read_text().split())
        if start_time(pid) == started:
            os.kill(pid, signal.SIGKILL)
            ended.append(record.name)
        record.unlink()
    return ended


def start_time(pid: int) -> int:
    """When a process started, in ticks since boot (field 22 of its ``stat``); 0 when there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def free_port() -> int:
    """A port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
