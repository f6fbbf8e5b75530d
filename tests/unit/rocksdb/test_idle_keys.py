"""Keys of RocksDB that are taken and change nothing: the log says so."""

from __future__ import annotations

import pytest

from sparkstate.backends.rocksdb import effective, memory
from sparkstate.settings import StateBackendSettings


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"bloom-filter.block-based-mode": "true"}, ["block-based-mode has no effect"]),
        ({"bloom-filter.block-based-mode": "false"}, []),
        (
            {"compaction.level.use-dynamic-size": "true"},
            ["use-dynamic-size has no effect with compaction.style"],
        ),
        ({"compaction.level.max-size-level-base": "1mb"}, ["max-size-level-base has no effect"]),
        ({"compaction.level.max-size-level-base": "1mb", "compaction.style": "LEVEL"}, []),
        ({"compaction.level.target-file-size-base": "1mb"}, []),
    ],
)
def test_a_key_that_changes_nothing_is_told(options: dict[str, str], told: list[str]) -> None:
    settings = StateBackendSettings(type="rocksdb", options=options)
    notices = effective.resolve(settings, memory.plan(settings), None, []).notices
    assert len(notices) == len(told)
    assert all(text in notice for text, notice in zip(told, notices, strict=True))
