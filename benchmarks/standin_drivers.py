"""Thousands of drivers in one process, for `benchmarks/operator_drivers.py`: each has an address of 127/8, all share a
port. Lines of JSON on stdin say which job is behind an address and what becomes of it; what the operator asks of it,
beside polls, is told on stdout.

Behaviours: ``runs`` (a checkpoint every 30 s), ``recovers`` (also loses a slot every minute), ``fails`` (answers 500),
``hangs`` (takes the request and is silent), ``drips`` (a byte of a long answer every half second).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

CHECKPOINT_S, LOSS_S, RECOVERY_S = 30.0, 60.0, 5.0
SLOTS, SHARDS = 2, 8


@dataclass
class Driver:
    """What is known of one."""

    uid: str
    attempt: int
    does: str
    since_s: float
    phase_s: float
    """Its place within the periods, so that not all do the same at once."""


def status(driver: Driver, now_s: float) -> dict[str, Any]:
    """Its JobStatus, as an engine with two slots gives it."""
    age_s = now_s - driver.since_s + driver.phase_s
    number = int(age_s / CHECKPOINT_S)
    losses = int(age_s / LOSS_S) if driver.does == "recovers" else 0
    recovering = losses > 0 and age_s % LOSS_S < RECOVERY_S
    checkpoint = {
        "id": number, "status": "COMPLETED", "kind": "checkpoint", "epoch": number * 6, "trigger_ms": 1767225600000,
        "duration_ms": 400, "sync_pause_ms": 9, "state_bytes": 20_000_000 + number, "uploaded_bytes": 1_200_000,
        "path": f"s3://bucket/state/{driver.uid}/chk-{number}", "trigger_id": None, "failure": None,
    }  # fmt: skip
    slots = [
        {
            "index": slot, "pid": 4000 + slot, "host": "worker", "alive": True, "state_bytes": 10_000_000,
            "shards": list(range(slot * SHARDS, slot * SHARDS + SHARDS)), "rows": 81_300, "rss_bytes": 310_000_000,
            "memory": {"budget": 268435456, "cache": 91000000, "write_buffers": 33000000, "tables": 4000000},
        }
        for slot in range(SLOTS)
    ]  # fmt: skip
    return {
        "job_uid": driver.uid, "name": "job", "attempt": driver.attempt, "lineage": "00aa11bb22cc33dd",
        "phase": "RESTARTING" if recovering else "RUNNING", "restarts": losses, "epoch": int(age_s * 2),
        "backend": "hashmap", "state_bytes": 20_000_000 + number, "slots": slots, "rows_total": int(age_s * 1000),
        "checkpoints_completed": number, "last_checkpoint": checkpoint if number else None, "last_savepoint": None,
    }  # fmt: skip


class Drivers:
    """All of them."""

    def __init__(self) -> None:
        self.known: dict[str, Driver] = {}
        self.polls = 0
        self._triggers: set[str] = set()

    def told(self, line: str) -> None:
        """``{"ip", "uid", "attempt", "does", "phase_s"}``, or ``{"count": true}``, answered with the polls so far."""
        found = json.loads(line)
        if "count" in found:
            _say({"polls": self.polls})
            return
        self.known[found["ip"]] = Driver(
            found["uid"], found["attempt"], found["does"], time.monotonic(), found["phase_s"]
        )

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                driver = self.known.get(writer.get_extra_info("sockname")[0])
                if driver is None:
                    break
                await self._reply(head, driver, reader, writer)
                if "connection: close" in head.lower():
                    break
        writer.close()

    async def _reply(
        self, head: str, driver: Driver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        method, path, _ = head.split(" ", 2)
        if method == "POST":
            length = next(
                (int(line[15:]) for line in head.lower().split("\r\n") if line[:15] == "content-length:"), 0
            )
            body = json.loads(await reader.readexactly(length)) if length else {}
            self._triggers.add(str(body.get("trigger_id")))
            _say(
                {"posted": path, "uid": driver.uid, "at": time.monotonic(), "trigger": body.get("trigger_id")}
            )
            await self._write(
                writer, driver, 202, {"status": "PENDING", "trigger_id": body.get("trigger_id")}
            )
            return
        self.polls += 1
        if driver.does == "hangs":
            await reader.read()
        elif driver.does == "drips":
            writer.write(_head(driver, 200, 100_000))
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.5)
        elif driver.does == "fails":
            await self._write(writer, driver, 500, {"error": "InternalError"})
        elif path.startswith("/v1/savepoints/"):
            trigger = path.removeprefix("/v1/savepoints/")
            found = {"status": "COMPLETED", "location": f"s3://bucket/save/{trigger}", "trigger_id": trigger}
            await self._write(writer, driver, 200 if trigger in self._triggers else 404, found)
        else:
            await self._write(writer, driver, 200, status(driver, time.monotonic()))

    async def _write(
        self, writer: asyncio.StreamWriter, driver: Driver, code: int, found: dict[str, Any]
    ) -> None:
        data = json.dumps(found).encode()
        writer.write(_head(driver, code, len(data)) + data)
        await writer.drain()


def _head(driver: Driver, code: int, length: int) -> bytes:
    return (
        f"HTTP/1.1 {code} x\r\nX-Sparkstate-Job-Uid: {driver.uid}\r\nX-Sparkstate-Attempt: {driver.attempt}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def _say(found: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


async def main(port: int) -> None:
    """Serve until stdin ends."""
    drivers = Drivers()
    await asyncio.start_server(drivers.answer, "0.0.0.0", port, backlog=4096)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    _say({"ready": True})
    while line := await lines.readline():
        drivers.told(line.decode())


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
