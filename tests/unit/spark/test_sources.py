"""Lines of a query's offsets, and the folders of their sources."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkstate import errors
from sparkstate.spark import sources


class Source:
    """As ``StreamExecution.sources`` has it; ``folder`` for one of files."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder

    def getClass(self) -> Any:
        def field(_: str) -> Any:
            path = SimpleNamespace(getName=lambda: self._folder)
            log = SimpleNamespace(metadataPath=lambda: path)
            return SimpleNamespace(setAccessible=lambda _: None, get=lambda _: log)

        name = "FileStreamSource" if self._folder is not None else "RateStreamMicroBatchStream"
        return SimpleNamespace(getSimpleName=lambda: name, getDeclaredField=field)


def execution(*uses: Source) -> Any:
    found = SimpleNamespace(size=lambda: len(uses), apply=uses.__getitem__)
    return SimpleNamespace(sources=lambda: found)


def test_a_source_has_one_folder_however_often_it_is_used() -> None:
    twice, other, heartbeat = Source("0"), Source("1"), Source()
    assert sources.folders(execution(twice, twice, other, twice, heartbeat)) == (0, 0, 1, 0, 2)


def test_a_folder_with_a_name_of_the_job_s_own_is_refused() -> None:
    with pytest.raises(errors.DeclarationError, match=r"sources/orders.*Remove the names"):
        sources.folders(execution(Source("orders")))
