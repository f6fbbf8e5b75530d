"""The engines that are compared, each in a place of its own below the user's cache, never in the project's ``.venv``.

Versions are pinned in ``requirements/*.txt``. Flink's Java comes with its Python package, so one list pins both.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from sparkstate import errors, java

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
INSTALL_LIMIT_S = 900.0
PACKAGES = {"flink": "apache-flink", "bytewax": "bytewax", "quix": "quixstreams"}
"""List of requirements, and the package in it whose version counts."""
HEAP = "-Xmx2g"
"""Of each JVM of Flink; Spark's have as much."""
OPENED = (
    "java.lang",
    "java.net",
    "java.io",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
)
"""Packages of the JDK that Flink's own start scripts open to it."""


class Unavailable(Exception):
    """An engine that cannot run here; the message is the reason that the table gives."""


def cache() -> Path:
    """Where the engines are."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "sparkstate" / "peers"


def versions() -> dict[str, str]:
    """The pinned version of each engine that comes from a list of requirements."""
    found = {}
    for name, package in PACKAGES.items():
        lines = (HERE / "requirements" / f"{name}.txt").read_text().splitlines()
        found[package] = next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))
    return found


def python(name: str) -> Path:
    """The interpreter of the virtual environment with ``requirements/<name>.txt``; made at the first call."""
    wanted = HERE / "requirements" / f"{name}.txt"
    digest = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache() / f"{name}-{digest}"
    complete = folder / "complete"
    if not complete.exists():
        print(f"installing {name} into {folder}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _check([sys.executable, "-m", "venv", str(folder)])
        _check([str(folder / "bin/pip"), "install", "--quiet", "--no-deps", "-r", str(wanted)])
        complete.touch()
    return folder / "bin/python"


def _check(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise Unavailable(f"{' '.join(command[-2:])}: {lines[-1][:200]}")


def _java() -> Path:
    try:
        found = java.find(os.environ).executable
    except errors.SparkstateError as error:
        raise Unavailable(str(error)) from error
    return found


def _flink() -> list[str]:
    """Flink in one JVM, with our Java sources compiled against its jars."""
    interpreter = python("flink")
    jars = next((interpreter.parent.parent / "lib").glob("python*/site-packages/pyflink/lib"))
    executable = _java()
    compiler = executable.with_name("javac")
    if not compiler.exists():
        raise Unavailable(
            f"{compiler} is missing: Flink's programs need a JDK, such as Debian's default-jdk-headless"
        )
    sources = sorted((PROGRAMS / "flink").glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    classes = cache() / f"classes-{digest}"
    if not (classes / "Peer.class").exists():
        _check([str(compiler), "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)])
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    return [str(executable), HEAP, *opened, "-cp", f"{classes}:{jars}/*", "Peer"]


def _pyflink() -> list[str]:
    """It starts a JVM of its own, whose place and memory come from the environment."""
    given = [f"JAVA_HOME={_java().parent.parent}", f"JVM_ARGS={HEAP}"]
    return ["env", *given, str(python("flink")), str(PROGRAMS / "on_pyflink.py")]


def _quix() -> list[str]:
    """Its broker comes from ``topics.py``, and needs Java."""
    _java()
    return [str(python("quix")), str(PROGRAMS / "on_quix.py")]


COMMANDS: Mapping[str, Callable[[], list[str]]] = {
    "sparkstate": lambda: [sys.executable, str(PROGRAMS / "on_sparkstate.py")],
    "spark": lambda: [sys.executable, str(PROGRAMS / "on_spark.py")],
    "flink": _flink,
    "pyflink": _pyflink,
    "bytewax": lambda: [str(python("bytewax")), str(PROGRAMS / "on_bytewax.py")],
    "quix": _quix,
}
"""The command of each engine, to which its words are added."""


def command(engine: str) -> list[str]:
    """Raises Unavailable with the reason."""
    return COMMANDS[engine]()
