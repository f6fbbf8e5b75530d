"""The least that a backend has to bring: an ordered map from bytes to bytes for each shard."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence

Row = tuple[bytes, bytes]
"""A key and its value."""


class RowsView(abc.ABC):
    """The rows as they were when the view was made, whatever was written since.

    Read in another thread than the one that made it, beside reads and writes of the rows themselves.
    """

    @abc.abstractmethod
    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        """The rows with ``start`` ≤ key < ``end``, in order of the bytes of their keys."""

    @abc.abstractmethod
    def release(self) -> None:
        """Free what the view holds. Called once, in any thread, when nothing reads it any more."""


class OrderedRows(abc.ABC):
    """The rows of one shard. Keys are in the order of their bytes, as ``bytes`` compare in Python.

    Several threads may read at a time; a write comes alone, in any thread. Keys are as long as the job's own keys,
    namespaces and map keys. Nothing has to outlive the process: after a failure, a checkpoint has the rows.
    """

    @abc.abstractmethod
    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The values of these keys, in their order; None for a key that is not there."""

    @abc.abstractmethod
    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        """The rows with ``start`` ≤ key < ``end``, in order. Nothing is written until the iterator is used up or
        dropped; other reads may come meanwhile."""

    @abc.abstractmethod
    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Set these rows; a value of None deletes the row, if there is one. All of them or, with an exception, none."""

    @abc.abstractmethod
    def view(self) -> RowsView:
        """A view of the rows as they are now. No epoch goes on until it returns, so it should not copy them. Several
        views may exist at a time."""

    @abc.abstractmethod
    def close(self) -> None:
        """Free everything. All views were released before."""


@contextlib.contextmanager
def left_early(scan: Iterator[Row]) -> Iterator[Iterator[Row]]:
    """A scan that may not be used up. At the end of the block it is closed, if it can be, and holds nothing."""
    try:
        yield scan
    finally:
        close = getattr(scan, "close", None)
        if close is not None:
            close()
