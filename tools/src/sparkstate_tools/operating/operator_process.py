"""The operator as a process of its own, against a cluster of the tests, and what its log said."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkstate_tools.operating import operator_account

KEY = "a key for the tests, not a secret"


@dataclass
class Operator:
    """One process. Its log is structured, so an unexpected error is found by its level."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def lines(self) -> list[dict[str, Any]]:
        """Every line of the log; a line that is no JSON (a traceback before logging began) as an error."""
        found = []
        for text in self.log.read_text().splitlines():
            try:
                found.append(json.loads(text))
            except ValueError:
                found.append({"level": "error", "message": text})
        return found

    def errors(self) -> list[str]:
        """The lines of the log at level error, and tracebacks at any level."""
        return [json.dumps(line) for line in self.lines() if line["level"] == "error" or "traceback" in line]

    def wait(self, timeout_s: float = 30.0) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(timeout_s)

    def pause(self) -> None:
        """As a frozen machine."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Wake it."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As ``kill -9``."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self.alive:
            self.process.terminate()
            self.process.send_signal(signal.SIGCONT)
        return self.process.wait(30)


def start(
    kubeconfig: Path,
    folder: Path,
    namespaces: Sequence[str],
    *,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    name: str = "operator",
    key_secret: str = "",
    own_key: str = KEY,
) -> Operator:
    """Start one that watches ``namespaces``; its Lease is called like the first. End it with ``stop`` or ``kill``.

    ``key_secret``: where its key is, or will be; without, it has ``own_key``.
    """
    key = folder / "key"
    key.write_text(own_key)
    log = folder / f"{name}-{time.monotonic_ns()}.log"
    command = [
        sys.executable,
        "-m",
        "sparkstate_operator",
        "run",
        *(("--key-secret", key_secret) if key_secret else ("--key-file", str(key))),
        "--listen",
        "127.0.0.1:0",
    ]
    command += ["--kubeconfig", str(kubeconfig), "--lease-namespace", "default"]
    command += [
        "--lease-name",
        namespaces[0],
        "--identity",
        name,
        "--resync-seconds",
        "20",
        "--progress-seconds",
        "0",
    ]
    command += ["--engine-image", "example/engine:1"]
    if not any(option.startswith("--driver-role") for option in options):
        command += ["--driver-role", f"{operator_account.ROLE.kind}/{operator_account.ROLE.name}"]
    if not any(option.startswith("--cluster") for option in options):
        command += ["--cluster", "default"]
    for namespace in namespaces:
        command += ["--namespace", namespace]
    clean = {key_: value for key_, value in os.environ.items() if key_ != "KUBECONFIG"}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, *options], stdout=file, stderr=subprocess.STDOUT, env={**clean, **(environment or {})}
        )
    return Operator(process, log)


@contextlib.contextmanager
def running(kubeconfig: Path, folder: Path, namespace: str, **rest: Any) -> Iterator[Operator]:
    """One that must end without an error in its log."""
    operator = start(kubeconfig, folder, [namespace], **rest)
    try:
        yield operator
        assert operator.alive, operator.log.read_text()[-3000:]
    finally:
        operator.stop()
    assert operator.errors() == []
