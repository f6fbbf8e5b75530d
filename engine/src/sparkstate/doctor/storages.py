"""The storages that a manifest names: tried as the driver tries them at its start, and left as they were."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sparkstate import errors, settings, storage
from sparkstate.checkpoint import restore
from sparkstate.clock import Clock
from sparkstate.doctor.check import Check
from sparkstate.driver.storage_outages import Ending, heard
from sparkstate.storage import local, naming, probe
from sparkstate.storage.objectstore import ObjectStore
from sparkstate.storage.retrying import RetryPolicy
from sparkstate.stored import snapshots

LIMIT_S: Final = 5.0
"""For one storage. Some servers take a request and never answer."""


@dataclass(frozen=True)
class Place:
    """A storage that a job needs."""

    name: str
    field: str
    url: str
    s3: settings.S3Settings
    trial: Callable[[ObjectStore], object] | None
    """The driver's trial of it; None: the driver reads a savepoint or checkpoint there."""


def places_of(job: settings.JobSettings) -> tuple[Place, ...]:
    """The storages that the manifest of ``job`` names; the job's code may name others."""
    saved, origin = job.savepoint.storage or "", job.restore_from or ""
    named = (
        Place(
            "checkpoint storage", "spec.checkpointing.storage", job.checkpoint.storage, job.s3,
            probe.require_conditional_create,
        ),
        Place("savepoint storage", "spec.savepoints.storage", saved, job.s3, probe.require_writable),
        Place("restoreFrom", "spec.restoreFrom.uri", "" if origin == restore.LATEST else origin, job.s3, None),
    )  # fmt: skip
    return tuple(place for place in named if place.url and not naming.is_memory(place.url))


def check_storage(place: Place, clock: Clock, limit_s: float = LIMIT_S) -> Check:
    """That the driver could use ``place``, by a trial that takes no longer than ``limit_s``."""
    until = clock.monotonic() + limit_s
    try:
        detail = heard(lambda: _tried(place), lambda: clock.monotonic() > until)
    except Ending:
        detail, ok = f"{place.url} does not answer within {limit_s:g} s", False
    except errors.SparkstateError as error:
        detail, ok = str(error), False
    else:
        ok = True
    return Check(place.name, ok, detail, f"make it usable for this user, or change {place.field}")


def _tried(place: Place) -> str:
    """The use that can be made of it. Raises the error that the driver would meet."""
    if place.trial is None:
        snapshots.read(place.url, lambda url: _opened(url, place.s3))
        return f"{place.url} can be read"
    url = naming.normalise_url(place.url)
    folder = naming.local_path(url) if naming.is_local(url) else None
    if folder is not None and not os.path.lexists(folder):
        _require_makeable(folder)
        return f"{url} can be made"
    with _left_alone(folder):
        place.trial(_opened(url, place.s3))
    return f"{url} can be written"


def _opened(url: str, s3: settings.S3Settings) -> ObjectStore:
    return storage.open_store(url, s3, create=False, retry=RetryPolicy(attempts=1))


def _require_makeable(folder: Path) -> None:
    above = next(parent for parent in folder.parents if os.path.lexists(parent))
    if not above.is_dir():
        raise errors.StorageError(f"{folder} cannot be made: {above} is not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise errors.StorageRefused(
            f"{folder} cannot be made: this user ({os.getuid()}) may not write in {above}"
        )


@contextlib.contextmanager
def _left_alone(folder: Path | None) -> Iterator[None]:
    """A trial makes the folder for temporary files; where there was none, it is removed again."""
    temporary = None if folder is None else folder / local.TEMPORARY
    was_there = temporary is None or temporary.exists()
    try:
        yield
    finally:
        if temporary is not None and not was_there:
            with contextlib.suppress(OSError):  # a driver that has begun meanwhile uses it
                temporary.rmdir()
