"""The seam to durable storage: a dozen operations, two implementations (a local folder, S3).

Keys are relative, ``/``-separated names without a leading slash; the store's ``url`` is their root.
Errors are ours: :class:`errors.NotFound`, :class:`errors.AlreadyExists`, :class:`errors.StorageUnavailable`
(try again), :class:`errors.StorageError` (repair access: the message names URL, operation and what the server said).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class ObjectInfo:
    """A listed object: ``modified_ms`` is the storage's own clock."""

    key: str
    size: int
    modified_ms: int


class Upload(Protocol):
    """An object under way, in parts. It appears whole, with :meth:`complete`, or not at all."""

    def part(self, number: int, offset: int, data: bytes | bytearray) -> None:
        """Store part ``number`` (from 1), which begins at ``offset``. Several threads may, in any order, and a part may
        be repeated with the same bytes. At least 5 MiB each but the last (S3's rule)."""

    def complete(self, parts: int, size: int) -> None:
        """All ``parts`` are stored, ``size`` bytes in all: make the object. May be repeated."""

    def abort(self) -> None:
        """Drop what is stored, as far as that can be; raises nothing."""


class ObjectStore(Protocol):
    """Bytes by name. Safe to call from several threads."""

    @property
    def url(self) -> str:
        """``file:///…`` or ``s3://bucket/prefix``, without a trailing slash and without credentials."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Create the object durably; raise ``AlreadyExists`` if there is one. Atomic: never half an object."""

    def put_file(self, key: str, source: Path) -> None:
        """Store a local file under a name never used before; large files in parts."""

    def upload(self, key: str) -> Upload:
        """Begin an object of unknown size under a name never used before."""

    def get(self, key: str) -> bytes:
        """The bytes of an object; raises ``NotFound``."""

    def get_file(self, key: str, target: Path) -> str:
        """Download to ``target`` (whole or not at all); ``sha256:`` and the hex digest of what arrived."""

    def head(self, key: str) -> ObjectInfo:
        """Size and time of an object; raises ``NotFound``."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects whose key starts with ``prefix``, in order of their keys."""

    def begin_move(self, source: str, target: str) -> str:
        """A ticket for :meth:`move`: a line without secrets, to be stored. Nothing appears yet. Raises ``NotFound`` if
        there is no ``source``, here or in :meth:`move`."""

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        """Make ``source``, of ``size`` bytes, appear as ``target``; it may stay under its own name too.

        It appears once for a ticket, however often and by whomever this is called, whichever answers are lost, and
        wherever ``target`` has gone since. False: it had appeared before (or, in a bucket, the ticket was dropped as an
        unfinished upload, by :meth:`drop_move` or a rule). Raises ``NotFound`` for a ``source`` that is gone while the
        ticket is good.
        """

    def drop_move(self, ticket: str, target: str) -> None:
        """The ticket will not be used; raises nothing."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete; objects may be missing."""

    def abort_uploads(self, prefix: str, is_dead: Callable[[str], bool], before_ms: int | None = None) -> int:
        """Drop what killed writers stored of objects under ``prefix`` that never became whole; the number of uploads.

        Only those of keys that ``is_dead`` accepts, and that were begun before ``before_ms`` by the storage's clock.
        """
