"""One ``sparkstate run`` in a process of its own, its control endpoint, and its manifest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

RUN = (sys.executable, "-m", "sparkstate.cli.main", "run")
REQUEST_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.2
T = TypeVar("T")


def write_manifest(source: Path, target: Path, name: str, changes: Mapping[str, Any]) -> Path:
    """A copy of an example's manifest under another name, with other values in ``spec`` (merged)."""
    document = yaml.safe_load(source.read_text())
    document["metadata"]["name"] = name
    document["spec"]["pythonFile"] = str((source.parent / document["spec"]["pythonFile"]).resolve())
    _merge(document["spec"], changes)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(yaml.safe_dump(document, sort_keys=False))
    return target


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


class JobProcess:
    """Starts the runner; the runner starts, watches and restarts the driver; the driver starts the slots."""

    def __init__(self, manifest: Path, work_dir: Path, environment: Mapping[str, str]) -> None:
        self.manifest = manifest
        self.work_dir = work_dir
        self.console = work_dir / "console.log"
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._client = httpx.Client(timeout=REQUEST_TIMEOUT_S, trust_env=False)

    def start(self) -> None:
        """Start ``sparkstate run`` on the manifest; what it prints goes to ``console.log``."""
        self.work_dir.mkdir(parents=True, exist_ok=True)
        with self.console.open("wb") as console:
            self._process = subprocess.Popen(
                [*RUN, str(self.manifest), "--work-dir", str(self.work_dir)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """The runner's process id; None before the start."""
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process else None

    def wait(self, timeout_s: float) -> int:
        """The exit code, once it has ended; raises if it does not end in time."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def stop(self) -> None:
        """End it if it still runs: first as Ctrl-C does, then for good."""
        self._client.close()
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)

    def last_words(self, lines: int = 30) -> str:
        """The end of what the runner and the newest driver printed, for an error message."""
        logs = sorted(self.work_dir.glob("logs/driver-*.log"), key=lambda log: log.stat().st_mtime)
        texts = [
            path.read_text(errors="replace").splitlines()[-lines:] for path in (self.console, *logs[-1:])
        ]
        return "\n".join(line for text in texts for line in text)

    def driver(self) -> tuple[int, str] | None:
        """Process id and address of the driver that runs now; None while there is none."""
        try:
            document = json.loads((self.work_dir / "driver.json").read_text())
            return int(document["pid"]), str(document["address"])
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def request(self, method: str, path: str, **arguments: Any) -> Any:
        """Ask the control endpoint. None when nobody answers (the driver is dead or not yet up)."""
        driver = self.driver()
        if driver is None:
            return None
        address = driver[1] if "://" in driver[1] else f"http://{driver[1]}"
        try:
            token = (self.work_dir / "token").read_text().strip()
            answer = self._client.request(
                method,
                f"{address}{path}",
                headers={"Authorization": f"Bearer {token}"},
                **arguments,
            )
        except (httpx.TransportError, FileNotFoundError):
            return None
        return answer.json() if answer.is_success else None

    def status(self) -> dict[str, Any] | None:
        """The job's status document; None when nobody answers."""
        answer: dict[str, Any] | None = self.request("GET", "/v1/status")
        return answer

    def wait_until(self, what: str, condition: Callable[[], T | None], timeout_s: float) -> T:
        """The condition's first value that is true; raises when the job ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if found := condition():
                return found
            if self.exit_code is not None:
                raise RuntimeError(
                    f"the job ended with code {self.exit_code}, waiting for: {what}\n{self.last_words()}"
                )
            time.sleep(POLL_INTERVAL_S)
        raise RuntimeError(f"after {timeout_s:.0f} s still waiting for: {what}\n{self.last_words()}")
