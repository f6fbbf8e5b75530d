"""Starting slots from Spark tasks.

A slot must outlive the Python worker that starts it (Spark kills idle workers after a minute) and end with the
executor's JVM. So the task starts it by ``setsid --fork`` (a session of its own, no zombie of the worker) and tells it
the JVM's process id to watch; the token goes through a pipe, never onto a command line.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sparkstate import errors
from sparkstate.slots.client import SlotAddress

if TYPE_CHECKING:
    from pyspark import SparkContext

_START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class StartSlot:
    """Runs in a Spark task: starts the slot with the partition's number."""

    directory: str
    incarnation: int
    token: str
    python_path: tuple[str, ...]
    tcp: bool

    def __call__(self, index: int, _: Iterator[int]) -> Iterator[SlotAddress]:
        base = Path(self.directory)
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        host = socket.gethostname()
        configuration = {
            "token": self.token,
            "slot": index,
            "directory": str(base / f"{self.incarnation}-{index}"),
            "jvm_pid": jvm_pid(),
            "tcp_host": _own_address(host) if self.tcp else None,
            "python_path": list(self.python_path),
        }
        with (base / f"slot-{index}.log").open("ab") as log:
            process = subprocess.Popen(
                ["setsid", "--fork", sys.executable, "-m", "sparkstate.slots"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
            )
            answer = _talk(process, json.dumps(configuration).encode() + b"\n")
        if not answer:
            tail = (base / f"slot-{index}.log").read_text(errors="replace")[-2000:]
            raise errors.SlotLost(f"slot {index} did not start on {host}; the end of its log:\n{tail}")
        told = json.loads(answer)
        yield SlotAddress(index, host, told["pid"], told["unix_path"], told["tcp_port"])


def _talk(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(line)
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], _START_TIMEOUT_S)
        answer = process.stdout.readline() if ready else b""
    process.wait()
    return answer


def jvm_pid() -> int:
    """The executor's JVM: the nearest ancestor of this worker that is called java."""
    pid = os.getpid()
    while pid > 1:
        status = Path(f"/proc/{pid}/stat").read_text()
        name, rest = status[status.index("(") + 1 : status.rindex(")")], status[status.rindex(")") + 2 :]
        if name == "java":
            return pid
        pid = int(rest.split()[1])
    raise errors.SlotLost("no java process among the ancestors of this Spark worker")


def _own_address(host: str) -> str:
    return os.environ.get("SPARK_LOCAL_IP") or socket.gethostbyname(host)


def launch(context: SparkContext, slots: int, start: StartSlot) -> tuple[SlotAddress, ...]:
    """Start ``slots`` slots, one Spark task each, and return their addresses in order."""
    started = context.parallelize(range(slots), slots).mapPartitionsWithIndex(start).collect()
    return tuple(sorted(started, key=lambda address: address.slot))
