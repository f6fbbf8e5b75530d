"""Real drivers for tests: start one on a manifest, ask it, kill it or one of its slots in a named phase."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sparkstate.control.client import ControlClient

JOBS = Path(__file__).parent / "jobs"
TOKEN = "token-of-the-tests"
PATIENCE_S = 240.0
"""How long anything may take that happens in seconds: a machine under load is slow, and that is not a fault."""


def manifest(folder: Path, job: str, **spec: Any) -> dict[str, Any]:
    """A manifest of one of the test jobs with storage, input and output under ``folder``."""
    params = {"input": str(folder / "in"), "output": str(folder / "out"), **spec.pop("params", {})}
    document: dict[str, Any] = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": spec.pop("name", "job")},
        "spec": {
            "pythonFile": str(JOBS / job),
            "params": params,
            "slots": 2,
            "stateBackend": {"type": "hashmap"},
            "trigger": {"availableNow": True},
            "checkpointing": {"interval": "500ms", "storage": str(folder / "checkpoints")},
            "restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 5, "delay": "100ms"}},
            "driver": {"memory": "512Mi"},
        },
    }
    document["spec"].update(spec)
    return document


class Driver:
    """One driver process. Use as a context manager: it is killed and its log shown when a test fails inside."""

    def __init__(
        self,
        folder: Path,
        document: Mapping[str, Any],
        *,
        attempt: int = 1,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        module: str = "sparkstate.driver",
        work_dir: Path | None = None,
    ) -> None:
        self.folder = folder / f"driver-{attempt}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.holds = self.folder / "holds"
        self.holds.mkdir(exist_ok=True)
        self.phase_log = self.folder / "phases.jsonl"
        self.work_dir = work_dir or folder / "work"
        self._status = self.folder / "status.json"
        self._status.unlink(missing_ok=True)
        (self.folder / "job.yaml").write_text(yaml.safe_dump(dict(document)))
        (self.folder / "token").write_text(TOKEN)
        self._log = (self.folder / "log.txt").open("ab")
        command = [sys.executable, "-m", module]
        command += ["--manifest", str(self.folder / "job.yaml"), "--work-dir", str(self.work_dir)]
        command += ["--attempt", str(attempt), "--token-file", str(self.folder / "token")]
        command += ["--status-file", str(self._status), "--termination-log", str(self.folder / "end.json")]
        command += arguments
        self.process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "SPARKSTATE_PHASE_LOG": str(self.phase_log),
                "SPARKSTATE_HOLD_DIR": str(self.holds),
                **(environment or {}),
            },
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()
        if kind is not None:
            print(f"---- log of {self.folder}:\n{self.log()[-6000:]}")

    def log(self) -> str:
        """The output of driver and JVM."""
        return (self.folder / "log.txt").read_text(errors="replace")

    def end(self) -> dict[str, Any]:
        """The termination log."""
        result: dict[str, Any] = json.loads((self.folder / "end.json").read_text())
        return result

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(timeout_s)

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait for an end that is a success."""
        code = self.wait(timeout_s)
        assert code == 0, f"exit code {code}; the log ends with:\n{self.log()[-5000:]}"

    @property
    def address(self) -> str:
        wait_for(
            self._status.exists,
            PATIENCE_S,
            f"status file of the driver; log:\n{self.log()[-3000:]}",
            self.process,
        )
        return str(json.loads(self._status.read_text())["address"])

    def client(self) -> ControlClient:
        """A client of the control endpoint."""
        return ControlClient(self.address, TOKEN)

    def phases(self) -> list[dict[str, Any]]:
        """The phase log so far."""
        if not self.phase_log.exists():
            return []
        # The last line may be half written: it counts when it is whole.
        return [
            json.loads(line)
            for line in self.phase_log.read_text().splitlines(keepends=True)
            if line[-1] == "\n"
        ]

    def hold(self, process: str, phase: str) -> None:
        """Let ``process`` (``driver``, ``slot-0``…) stop in ``phase`` when it next comes there."""
        (self.holds / f"{process}:{phase}").touch()

    def is_held(self, process: str, phase: str) -> bool:
        """Whether it is held there now."""
        return any(self.holds.glob(f"held-{process}:{phase}-*"))

    def pid_of(self, process: str) -> int:
        """The process id under which ``process`` last entered a phase."""
        return int([p for p in self.phases() if p["process"] == process][-1]["pid"])

    def held(self, process: str, phase: str, timeout_s: float = PATIENCE_S) -> int:
        """Wait until it is held there; its process id."""
        pattern = f"held-{process}:{phase}-*"
        wait_for(lambda: self.is_held(process, phase), timeout_s, f"{process} held in {phase}", self.process)
        return int(next(self.holds.glob(pattern)).name.rpartition("-")[2])

    def release(self, process: str = "*") -> None:
        """Let go of everybody who is held, or of ``process``."""
        for path in self.holds.glob(f"held-{process}:*"):
            path.unlink(missing_ok=True)

    def kill_in(self, process: str, phase: str) -> int:
        """SIGKILL ``process`` in ``phase``; its process id."""
        self.hold(process, phase)
        pid = self.held(process, phase)
        os.kill(pid, signal.SIGKILL)
        self.release()
        return pid


def wait_for(
    condition: Callable[[], bool], timeout_s: float, what: str, process: subprocess.Popen[bytes] | None = None
) -> None:
    """Poll until ``condition`` holds; fail with ``what`` after ``timeout_s`` or when ``process`` has ended."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the process ended with {process.returncode} while waiting for: {what}")
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:g} s still waiting for: {what}")
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether the process lives; one that has ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def parent_of(pid: int) -> int:
    """Its parent; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def command_line(pid: int) -> str:
    """Its arguments, blank between them; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def processes_with(text: str) -> list[int]:
    """Process ids whose command line or environment mentions ``text``; zombies do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if state != "Z" and text.encode() in seen:
            found.append(int(entry.name))
    return found


def wait_until_nothing_is_left(folder: Path, timeout_s: float = 90) -> None:
    """No process of a job in ``folder`` lives on; the JVM may take a moment longer than its driver."""
    wait_for(lambda: not processes_with(str(folder)), timeout_s, f"the end of {processes_with(str(folder))}")
