"""The command line and environment of a driver process."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkstate import java
from sparkstate.runner import workdir


@dataclass(frozen=True, kw_only=True)
class DriverArguments:
    """Arguments of ``sparkstate run`` that go to the driver unchanged."""

    manifest: Path
    overrides: tuple[str, ...] = ()
    listen: str = "127.0.0.1:0"
    start_since: int = 0
    """The run's first attempt, to which ``startEmpty`` was given; 0: it was not. Every attempt is told, because only
    the storage says whether one of them has begun empty: the first may have died before it could."""


def driver_command(
    arguments: DriverArguments, folder: workdir.WorkDir, attempt: int, lineage: str = ""
) -> list[str]:
    """The driver of ``attempt``. The token goes by file, because every user can read a command line. ``lineage`` is
    that of earlier attempts, empty if nobody knows of one."""
    overrides = [part for override in arguments.overrides for part in ("--set", override)]
    return [
        sys.executable,
        *("-m", "sparkstate.driver"),
        *("--manifest", str(arguments.manifest.resolve())),
        *overrides,
        *("--work-dir", str(folder.local)),
        *("--attempt", str(attempt)),
        *(("--lineage", lineage) if lineage else ()),
        *(("--start-since", str(arguments.start_since)) if arguments.start_since else ()),
        *("--listen", arguments.listen),
        *("--token-file", str(folder.token_file)),
        *("--status-file", str(folder.status_file)),
        *("--termination-log", str(folder.termination_log)),
    ]


def driver_environment(
    environ: Mapping[str, str], found: java.Java, import_paths: Sequence[Path] = ()
) -> dict[str, str]:
    """The runner's own environment, with the Java that was found and this Python for Spark's workers.

    ``PYTHONUNBUFFERED`` keeps the log complete when the driver is killed.
    """
    paths = [*map(str, import_paths), *filter(None, [environ.get("PYTHONPATH")])]
    given = {"PYTHONPATH": ":".join(paths)} if paths else {}
    own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}
    return {**environ, **own, **found.environment(), **given}
