"""Disk, memory and cores."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from sparkstate.doctor.check import Check

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
MINIMUM_FREE_DISK: Final = 2 * GIB
"""Spark's shuffle files, a RocksDB store and a log or two; below this a job ends early, not late."""


def check_disk(work_dir: Path) -> Check:
    """Free space where the job will work (the nearest folder above it that exists)."""
    existing = next(folder for folder in (work_dir, *work_dir.parents) if _is_there(folder))
    free = shutil.disk_usage(existing).free
    return Check(
        "free disk",
        free >= MINIMUM_FREE_DISK,
        f"{free / GIB:.1f} GiB at {existing}",
        f"free {MINIMUM_FREE_DISK / GIB:.0f} GiB, or choose another folder with --work-dir",
    )


def _is_there(folder: Path) -> bool:
    try:
        return folder.exists()
    except OSError:  # nobody may look below one of its parents
        return False


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
