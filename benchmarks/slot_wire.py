"""What the wire between driver, tasks and slots carries: Arrow batches over a Unix socket and over TCP.

    python benchmarks/slot_wire.py [--seconds 2]

One process sends, this one receives, as a task and its slot do. "plain" over TCP is what the protocol was before frames
were sealed (RFC 0017). Frames and MiB per second go with what else the machine does; processor time per MiB does less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import socket
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkstate.slots import batches, handshake
from sparkstate.slots.channel import Channel

SIZES_MIB = (1, 2, 4, 8)
KINDS = ("unix", "tcp plain", "tcp")
KEY, IDENTITY = secrets.token_hex(32), handshake.new_identity()


@dataclass(frozen=True)
class Figures:
    """One kind and size."""

    frames_per_s: float
    mib_per_s: float
    sender_ms_per_mib: float
    receiver_ms_per_mib: float


def batch(mib: int) -> pa.RecordBatch:
    """Rows of a key, a value and a key group, of so many MiB."""
    rows = mib * (1 << 20) // 20
    rng = np.random.default_rng(7)
    return pa.record_batch(
        {
            "k": rng.integers(0, 1 << 40, rows),
            "v": rng.integers(0, 1 << 40, rows),
            "group": rng.integers(0, 128, rows).astype(np.int32),
        }
    )


def measure(kind: str, mib: int, seconds: float, folder: Path) -> Figures:
    """Send for so long."""
    target: Any
    if kind == "unix":
        target = str(folder / f"s{mib}")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(target)
        listener.listen()
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        target = listener.getsockname()
    ours, theirs = multiprocessing.Pipe()
    sender = multiprocessing.get_context("fork").Process(
        target=_send, args=(listener.family, target, kind, mib, seconds, theirs)
    )
    sender.start()
    connection, _ = listener.accept()
    with listener, connection:
        _, channel = handshake.answer(connection, KEY, IDENTITY, lambda: 30.0)
        connection.settimeout(None)
        channel = Channel(connection) if kind == "tcp plain" else channel
        began, cpu, frames = time.perf_counter(), time.process_time(), 0
        for _ in batches.receive(channel):
            frames += 1
        took, spent = time.perf_counter() - began, time.process_time() - cpu
    sender_ms: float = ours.recv()
    sender.join()
    total = frames * mib
    return Figures(frames / took, total / took, sender_ms, spent * 1000 / total)


def _send(family: int, target: Any, kind: str, mib: int, seconds: float, told: Connection) -> None:
    rows, frames = batch(mib), 0
    with socket.socket(family) as connection:
        connection.connect(target)
        channel = handshake.call(connection, KEY, IDENTITY, handshake.Role.TASK, lambda: 30.0)
        connection.settimeout(None)
        channel = Channel(connection) if kind == "tcp plain" else channel
        sender = batches.Sender(channel)
        began, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            sender.send(rows)
            frames += 1
        sender.end()
        told.send((time.process_time() - cpu) * 1000 / (frames * mib))


def handshakes(kind: str, folder: Path, count: int = 300) -> float:
    """Milliseconds for one connection with its handshake, both sides on one processor's worth of this machine."""
    server = socket.create_server(("127.0.0.1", 0)) if kind != "unix" else socket.socket(socket.AF_UNIX)
    if kind == "unix":
        server.bind(str(folder / "h"))
        server.listen(64)
    target: Any = str(folder / "h") if kind == "unix" else server.getsockname()
    pid = os.fork()
    if pid == 0:
        for _ in range(count):
            connection, _ = server.accept()
            with connection:
                handshake.answer(connection, KEY, IDENTITY, lambda: 30.0)
        os._exit(0)
    began = time.perf_counter()
    for _ in range(count):
        with socket.socket(server.family) as connection:
            connection.connect(target)
            handshake.call(connection, KEY, IDENTITY, handshake.Role.TASK, lambda: 30.0)
    took = time.perf_counter() - began
    server.close()
    os.waitpid(pid, 0)
    return took * 1000 / count


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    seconds = parser.parse_args().seconds
    print(
        f"{'kind':10} {'MiB':>4} {'frames/s':>9} {'MiB/s':>7} {'sender ms/MiB':>14} {'receiver ms/MiB':>16}"
    )
    with tempfile.TemporaryDirectory() as name:
        for mib in SIZES_MIB:
            for kind in KINDS:
                found = measure(kind, mib, seconds, Path(name))
                print(
                    f"{kind:10} {mib:4} {found.frames_per_s:9.0f} {found.mib_per_s:7.0f} "
                    f"{found.sender_ms_per_mib:14.2f} {found.receiver_ms_per_mib:16.2f}"
                )
        for kind in ("unix", "tcp"):
            print(f"a connection with its handshake, {kind}: {handshakes(kind, Path(name)):.2f} ms")


if __name__ == "__main__":
    main()
