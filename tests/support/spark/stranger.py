"""Somebody in the pod network who reaches the ports of a driver's Spark and does not hold its secret.

Frames are those of Spark's transport: their whole length, a type, and what that type has.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from pathlib import Path

import pyspark

from sparkstate import java

HOST = "127.0.0.1"
_CHUNK_FETCH, _RPC, _STREAM = 0, 3, 6
_HEAD = struct.Struct(">qb")
_PATIENCE_S = 60.0
_OPENED = ("java.nio", "sun.nio.ch", "java.lang")


def _exchange(port: int, kind: int, body: bytes) -> tuple[int, bytes]:
    """Type and body of the answer to one frame."""
    with (
        socket.create_connection((HOST, port), timeout=_PATIENCE_S) as connection,
        connection.makefile("rb") as said,
    ):
        connection.sendall(_HEAD.pack(_HEAD.size + len(body), kind) + body)
        length, answer = _HEAD.unpack(said.read(_HEAD.size))
        found = said.read(length - _HEAD.size)
        if answer == _STREAM + 1:  # the stream follows its frame, which tells the number of bytes
            found = said.read(struct.unpack(">q", found[-8:])[0])
    return answer, found


def call(port: int, message: bytes) -> tuple[bool, str]:
    """Whether Spark took a message to one of its endpoints, and what it answered."""
    answer, said = _exchange(port, _RPC, struct.pack(">qi", 1, len(message)) + message)
    return answer == _RPC + 1, said.decode(errors="replace")


def chunk(port: int, stream: int) -> tuple[bool, str]:
    """Whether Spark sent the first block of the stream with that number, and what it answered."""
    answer, said = _exchange(port, _CHUNK_FETCH, struct.pack(">qi", stream, 0))
    return answer == _CHUNK_FETCH + 1, said.decode(errors="replace")


def file(port: int, name: str) -> tuple[bool, bytes]:
    """Whether Spark sent the file of that name, and what it answered."""
    path = name.encode()
    answer, said = _exchange(port, _STREAM, struct.pack(">i", len(path)) + path)
    return answer == _STREAM + 1, said


def executor(port: int, secret: str) -> subprocess.CompletedProcess[str]:
    """An executor of Spark's own that joins the driver with a secret, until it ends."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = [str(java.find().home / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    command += ["-Dspark.authenticate=true", "-cp", f"{jars}/*"]
    command += ["org.apache.spark.executor.CoarseGrainedExecutorBackend"]
    command += ["--driver-url", f"spark://CoarseGrainedScheduler@{HOST}:{port}", "--executor-id", "99"]
    command += ["--hostname", HOST, "--cores", "1", "--app-id", "any", "--resourceProfileId", "0"]
    environment = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": HOST, "_SPARK_AUTH_SECRET": secret}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
