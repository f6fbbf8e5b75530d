"""The example of a backend of one's own passes the kit as its author would run it, and whatever runs on a backend
gives the same on it as on HashMap."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from support.examples import example

from sparkstate.backend_api import BackendContext
from sparkstate.testing import BackendConformance

sqlite_backend = example.load(example.EXAMPLES / "05-own-backend" / "sqlite_backend.py")


class TestSQLiteBackend(BackendConformance):
    backend = sqlite_backend.SQLiteBackend
    options: ClassVar = {"cache_kib": "64"}


class TestSmallestSQLiteBackend(BackendConformance):
    backend = sqlite_backend.SQLiteBackend
    options: ClassVar = {"cache_kib": "1"}
    memory_bytes = None


@pytest.mark.parametrize("options", [{"cache": "1"}, {"cache_kib": "0"}, {"cache_kib": "much"}])
def test_options_that_mean_nothing_are_refused(options: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cache|much"):
        sqlite_backend.SQLiteBackend(BackendContext(directory=tmp_path, options=options))


def test_a_failed_write_leaves_all_rows_as_they_were(tmp_path: Path) -> None:
    rows = sqlite_backend.SQLiteRows(tmp_path, 64)
    rows.write({b"a": b"1"})
    with pytest.raises(Exception, match=r"NOT NULL|type"):
        rows.write({b"a": b"2", b"b": object()})
    assert list(rows.get([b"a", b"b"])) == [b"1", None]
    rows.close()
