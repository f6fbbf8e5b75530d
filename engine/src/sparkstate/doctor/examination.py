"""All checks, for a machine alone or for one job on it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkstate import clock, settings
from sparkstate.doctor import machine, software, storages
from sparkstate.doctor.check import Check
from sparkstate.operators import compiled


@dataclass(frozen=True)
class Demand:
    """The needs of one job beyond those of all, from its manifest."""

    rocksdb: bool = False
    s3: bool = False
    memory_bytes: int | None = None
    cores: int | None = None
    places: tuple[storages.Place, ...] = ()

    @classmethod
    def of(cls, job: settings.JobSettings, memory_bytes: int | None) -> Demand:
        """The demand of ``job``, which takes ``memory_bytes`` in all (the manifest's memory sum)."""
        urls = (job.checkpoint.storage, job.savepoint.storage or "", job.restore_from or "")
        return cls(
            rocksdb=job.backend.type == "rocksdb",
            s3=any(url.startswith("s3://") for url in urls),
            memory_bytes=memory_bytes,
            cores=job.cores,
            places=storages.places_of(job),
        )


def examine(environ: Mapping[str, str], work_dir: Path, demand: Demand | None) -> list[Check]:
    """All checks, in the order in which they are shown. ``demand`` is None when no manifest was given."""
    needs = demand or Demand()
    return [
        software.check_python(sys.version_info[:3]),
        software.check_java(environ),
        software.check_distribution("pyspark", "pip install pyspark==4.3.0", wanted="4.3."),
        software.check_distribution("pyarrow", "pip install pyarrow"),
        software.check_distribution("pandas", "pip install 'pandas>=2.2,<3'", wanted="2."),
        software.check_distribution("rocksdict", "pip install 'sparkstate[rocksdb]'", required=needs.rocksdb),
        software.check_distribution("boto3", "pip install 'sparkstate[s3]'", required=needs.s3),
        software.check_compiled(compiled.status()),
        machine.check_disk(work_dir),
        machine.check_writable("temporary files", Path(environ.get("TMPDIR") or tempfile.gettempdir())),
        machine.check_writable("shared memory", Path("/dev/shm"), required=False),
        machine.check_memory(machine.available_memory(), needs.memory_bytes),
        machine.check_cores(os.cpu_count() or 1, needs.cores),
        *(storages.check_storage(place, clock.SystemClock()) for place in needs.places),
    ]
