"""The storage that is read, and the job in it that is meant."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate import clock as clocks
from sparkstate import settings, storage
from sparkstate.log import lineage
from sparkstate.storage.objectstore import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Place:
    """A checkpoint storage, and the job in it that is meant; ``job`` is None if the URL alone was given."""

    url: str
    s3: settings.S3Settings
    job: lineage.JobName | None

    def open(self, url: str | None = None) -> ObjectStore:
        """The store at ``url`` (default: the storage itself); creates nothing."""
        return storage.open_store(url or self.url, self.s3, clock=clocks.SystemClock(), create=False)
