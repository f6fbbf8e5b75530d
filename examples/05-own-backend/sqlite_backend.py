"""A state backend of one's own: keyed state in SQLite, which is in Python's standard library.

Each shard is one database file in the slot's folder. A database is an ordered map from bytes to bytes, and that is all
that ``RowBackendFactory`` asks for. Nothing is ever synced to the disk: what has to outlive the slot is in checkpoints.

Options: ``cache_kib``, the page cache of each shard (default 2048).
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sparkstate.backend_api import BackendContext, OrderedRows, Row, RowBackendFactory, RowsView

CACHE_KIB = 2048
KEYS_AT_ONCE = 500
"""SQLite takes at most 999 parameters in a statement, in its older versions."""

BETWEEN = "SELECT key, value FROM rows WHERE key >= ? AND key < ? ORDER BY key"


def connect(path: Path, cache_kib: int) -> sqlite3.Connection:
    """A connection that begins no transaction by itself. Several threads of a slot use it: SQLite lets them in one by
    one."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")  # readers see the moment at which they began
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    return connection


class SQLiteView(RowsView):
    """The rows of a moment: a connection of its own in a transaction that began then."""

    def __init__(self, path: Path, cache_kib: int) -> None:
        self._connection = connect(path, cache_kib)
        self._connection.execute("BEGIN")
        # The transaction sees the database as it is at its first read, so it has to read something now.
        self._connection.execute("SELECT key FROM rows LIMIT 1").fetchall()

    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        return self._connection.execute(BETWEEN, (start, end))

    def release(self) -> None:
        self._connection.close()


class SQLiteRows(OrderedRows):
    """The rows of a shard. SQLite compares BLOBs as Python compares bytes."""

    def __init__(self, directory: Path, cache_kib: int) -> None:
        self._path = directory / "rows.sqlite"
        self._cache_kib = cache_kib
        self._connection = connect(self._path, cache_kib)
        self._connection.execute(
            "CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
        )

    def get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), KEYS_AT_ONCE):
            asked = keys[start : start + KEYS_AT_ONCE]
            places = ",".join(itertools.repeat("?", len(asked)))
            found.update(
                self._connection.execute(f"SELECT key, value FROM rows WHERE key IN ({places})", asked)
            )
        return [found.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        return self._connection.execute(BETWEEN, (start, end))

    def write(self, rows: Mapping[bytes, bytes | None]) -> None:
        with self._connection:  # commits, or rolls back after an exception
            self._connection.execute("BEGIN")
            self._connection.executemany(
                "INSERT OR REPLACE INTO rows VALUES (?, ?)",
                ((key, value) for key, value in rows.items() if value is not None),
            )
            self._connection.executemany(
                "DELETE FROM rows WHERE key = ?", ((key,) for key, value in rows.items() if value is None)
            )

    def view(self) -> RowsView:
        return SQLiteView(self._path, self._cache_kib)

    def close(self) -> None:
        self._connection.close()


class SQLiteBackend(RowBackendFactory):
    """``stateBackend: {type: custom, class: "sqlite_backend:SQLiteBackend"}``."""

    def __init__(self, context: BackendContext) -> None:
        super().__init__(context)
        if sqlite3.threadsafety < 3:
            raise ValueError(
                "this Python's SQLite was built without its locks between threads; use another Python"
            )
        unknown = sorted(context.options.keys() - {"cache_kib"})
        if unknown:
            raise ValueError(f"unknown options {', '.join(unknown)}; there is cache_kib")
        self._cache_kib = int(context.options.get("cache_kib", CACHE_KIB))
        if self._cache_kib < 1:
            raise ValueError(f"cache_kib is {self._cache_kib}; it must be at least 1")
        self._shards = 0

    def open_rows(self, directory: Path) -> OrderedRows:
        self._shards += 1
        return SQLiteRows(directory, self._cache_kib)

    def memory(self) -> Mapping[str, int]:
        return {"cache": self._shards * self._cache_kib * 1024}
