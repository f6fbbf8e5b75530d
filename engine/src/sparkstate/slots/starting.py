"""Starting slot processes.

A slot must outlive the process that starts it (Spark kills idle Python workers after a minute) and end with a process
that it watches. So ``setsid --fork`` starts it, in a session of its own and without a parent to which it would be a
zombie. The key goes through a pipe, never onto a command line. The slot loads its modules at once and then waits to be
told what it is, so that it can be started before that is known.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from sparkstate import errors, local_disk
from sparkstate.backends import allocation
from sparkstate.slots import places
from sparkstate.slots.client import SlotAddress

_TIMEOUT_S: Final = 60.0
_AS_WORKERS: Final[Mapping[str, str]] = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""As Spark has it for its Python workers."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The first thing that a slot process is told."""

    slot: int
    incarnation: int
    key: str = field(repr=False)
    """The attempt's, for slots."""
    watched_pid: int
    """The slot ends when this process does."""
    python_path: tuple[str, ...]
    tcp_host: str = ""
    """Where other hosts reach this one; empty: nobody else needs to."""


class Starting:
    """A process that has been started and waits for its identity. ``base`` is the folder of all slots here."""

    def __init__(self, base: Path, index: int) -> None:
        self._base = base
        self._log = base / f"slot-{index}.log"
        with self._new_log() as log:
            self._process = subprocess.Popen(
                ["setsid", "--fork", sys.executable, "-m", "sparkstate.slots"],
                env={**_AS_WORKERS, **os.environ, **allocation.ENVIRONMENT},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
            )

    def _new_log(self) -> IO[bytes]:
        with local_disk.needed_for("a slot cannot be started", self._base):
            self._base.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Of one that was never told what it is; else it has another name by now.
            self._log.unlink(missing_ok=True)
            return self._log.open("ab")

    def become(self, identity: Identity) -> SlotAddress:
        """Tell it who it is; where it then listens. Raises ``SlotLost`` with the end of its log, or
        ``StorageUnavailable`` if the disk of its folder is full."""
        host = socket.gethostname()
        configuration = {
            "key": identity.key,
            "slot": identity.slot,
            "directory": str(self._directory(identity)),
            "watched_pid": identity.watched_pid,
            "tcp_host": identity.tcp_host or None,
            "python_path": list(identity.python_path),
            "log": str(self._log),
        }
        answer = self._talk(json.dumps(configuration).encode() + b"\n")
        if not answer:
            raise self._not_started(identity.slot, host)
        told = json.loads(answer)
        return SlotAddress(
            identity.slot,
            host,
            told["pid"],
            told["unix_path"],
            told["tcp_port"],
            identity.tcp_host,
            os.environ.get("SPARK_EXECUTOR_ID", ""),
            told["identity"],
        )

    def _not_started(self, slot: int, host: str) -> errors.SparkstateError:
        """The log lies on the same disk, and says nothing where that is full."""
        tail = self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""
        if local_disk.is_full(tail) or (not tail and local_disk.has_no_room(self._base)):
            return local_disk.full(f"slot {slot} did not start on {host}", self._base)
        said = f"the end of its log:\n{tail}" if tail else f"its log {self._log} is empty"
        return errors.SlotLost(f"slot {slot} did not start on {host}; {said}")

    def abandon(self, identity: Identity) -> None:
        """End it, whether or not it has been told that it is ``identity``. One that was told, and has no folder yet,
        ends when it answers, because nobody reads that any more."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
        places.end(self._directory(identity))

    def _directory(self, identity: Identity) -> Path:
        return self._base / f"{identity.incarnation}-{identity.slot}"

    def _talk(self, line: bytes) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._process.stdout:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(line)
            ready, _, _ = select.select([self._process.stdout], [], [], _TIMEOUT_S)
            answer = self._process.stdout.readline() if ready else b""
        self._process.wait()
        return answer


class LocalSlots:
    """Starts the slots of a job whose slots live beside its driver: ``count`` processes, which are begun at once, while
    only their number is known. They end with this process."""

    def __init__(self, base: Path, count: int) -> None:
        self._base = base
        self._count = count
        self._begun = self._begin()

    def start(self, incarnation: int, key: str, python_path: tuple[str, ...]) -> tuple[SlotAddress, ...]:
        """The slots of this incarnation, in order. If one does not start, none is left: they would live as long as
        this process, which may start others many times."""
        begun, self._begun = self._begun or self._begin(), []
        identities = [
            Identity(
                slot=slot,
                incarnation=incarnation,
                key=key,
                watched_pid=os.getpid(),
                python_path=python_path,
            )
            for slot in range(self._count)
        ]
        with contextlib.ExitStack() as failed:
            for each, identity in zip(begun, identities, strict=True):
                failed.callback(each.abandon, identity)
            addresses = tuple(each.become(identity) for each, identity in zip(begun, identities, strict=True))
            failed.pop_all()
        return addresses

    def _begin(self) -> list[Starting]:
        return [Starting(self._base, index) for index in range(self._count)]
