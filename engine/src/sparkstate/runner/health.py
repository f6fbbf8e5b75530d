"""What this machine has of what a job needs: ``sparkstate doctor``.

Each check is a small function that returns a :class:`Check`; none raises, none changes anything but a probe
file that it removes (and the Java shim, which :mod:`sparkstate.java` writes where one is needed).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkstate import java, settings

MIB = 1024 * 1024
GIB = 1024 * MIB
MINIMUM_PYTHON = (3, 11)
MINIMUM_FREE_DISK = 2 * GIB
"""Spark's shuffle files, a RocksDB store and a log or two; below this a job ends early, not late."""


@dataclass(frozen=True)
class Check:
    """One line of the report. ``required`` is False for what only some jobs need."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


@dataclass(frozen=True)
class Demand:
    """What one job needs beyond the rest: from its manifest."""

    rocksdb: bool = False
    s3: bool = False
    memory_bytes: int | None = None
    cores: int | None = None

    @classmethod
    def of(cls, job: settings.JobSettings, memory_bytes: int | None) -> Demand:
        """The demand of ``job``, which takes ``memory_bytes`` in all (the manifest's memory sum)."""
        urls = (job.checkpoint.storage, job.savepoint.storage or "", job.restore_from or "")
        return cls(
            rocksdb=job.backend.type == "rocksdb",
            s3=any(url.startswith("s3://") for url in urls),
            memory_bytes=memory_bytes,
            cores=job.cores,
        )


def examine(environ: Mapping[str, str], work_dir: Path, demand: Demand | None) -> list[Check]:
    """All checks, in the order in which they are shown. ``demand`` is None when no manifest was given."""
    needs = demand or Demand()
    return [
        check_python(sys.version_info[:3]),
        check_java(environ),
        check_distribution("pyspark", "pip install pyspark==4.3.0", wanted="4.3."),
        check_distribution("pyarrow", "pip install pyarrow"),
        check_distribution("pandas", "pip install 'pandas>=2.2,<3'", wanted="2."),
        check_distribution("rocksdict", "pip install 'sparkstate[rocksdb]'", required=needs.rocksdb),
        check_distribution("boto3", "pip install 'sparkstate[s3]'", required=needs.s3),
        check_disk(work_dir),
        check_writable("temporary files", Path(environ.get("TMPDIR") or tempfile.gettempdir())),
        check_writable("shared memory", Path("/dev/shm"), required=False),
        check_memory(available_memory(), needs.memory_bytes),
        check_cores(os.cpu_count() or 1, needs.cores),
    ]


def check_python(version: tuple[int, ...]) -> Check:
    """Python 3.11 or newer."""
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    return Check(
        "python",
        version[:2] >= MINIMUM_PYTHON,
        ".".join(map(str, version)),
        f"install Python {wanted} or newer, e.g. `uv python install {wanted}`",
    )


def check_java(environ: Mapping[str, str]) -> Check:
    """A Java that starts Spark: which one, and its version."""
    try:
        found = java.find(environ)
    except java.JavaNotFound as exc:
        return Check("java", False, str(exc), java.REMEDY)
    except OSError as exc:
        return Check(
            "java",
            False,
            f"the shim cannot be written: {exc}",
            "set XDG_CACHE_HOME to a folder you can write",
        )
    shim = f", through the shim {found.home / 'bin' / 'java'}" if found.shim else ""
    return Check("java", True, f"{found.version} at {found.executable} (from {found.origin}{shim})")


def check_distribution(name: str, install: str, *, wanted: str = "", required: bool = True) -> Check:
    """An installed package, by its metadata: nothing is imported. ``wanted`` begins the version."""
    remedy = f"`{install}`"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, "not installed", remedy, required)
    if not version.startswith(wanted):
        return Check(name, False, f"version {version}, {wanted}x is needed", remedy, required)
    if importlib.util.find_spec(name) is None:
        return Check(
            name, False, f"version {version} is registered, but cannot be imported", remedy, required
        )
    return Check(name, True, version, required=required)


def check_disk(work_dir: Path) -> Check:
    """Free space where the job will work (the nearest folder above it that exists)."""
    existing = next(folder for folder in (work_dir, *work_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    return Check(
        "free disk",
        free >= MINIMUM_FREE_DISK,
        f"{free / GIB:.1f} GiB at {existing}",
        f"free {MINIMUM_FREE_DISK / GIB:.0f} GiB, or choose another folder with --work-dir",
    )


def check_writable(name: str, folder: Path, *, required: bool = True) -> Check:
    """That a file can be made in ``folder``."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="sparkstate-doctor-"):
            return Check(name, True, f"{folder} is writable", required=required)
    except OSError as exc:
        remedy = (
            "set TMPDIR to a writable folder" if required else "none needed: temporary files are used instead"
        )
        return Check(name, False, f"{folder}: {exc.strerror}", remedy, required)


def check_memory(available: int | None, needed: int | None) -> Check:
    """Memory that is free now, against the job's sum if a manifest was given."""
    if available is None:
        return Check("memory", True, "this system does not say how much is available", required=False)
    shown = f"{available / GIB:.1f} GiB available"
    if needed is None:
        return Check("memory", available >= GIB, shown, "a small job needs about 1 GiB")
    return Check(
        "memory",
        available >= needed,
        f"{shown}, the job needs {needed / GIB:.1f} GiB",
        "lower slots, managedMemoryPerSlot or jvmMemory; `sparkstate explain` shows the sum",
    )


def check_cores(present: int, wanted: int | None) -> Check:
    """Cores of this machine, against the job's if a manifest was given; fewer make it slow, not wrong."""
    enough = wanted is None or present >= wanted
    detail = f"{present}" if wanted is None else f"{present}, the job asks for {wanted}"
    return Check(
        "cores", enough, detail, "lower cores, or accept that tasks wait for one another", required=False
    )


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that can be taken without swapping, as the kernel estimates; None where it does not say."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None
