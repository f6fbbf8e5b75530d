"""A job that is lost before RocksDB has merged anything: its state grows by no more than a restore puts up with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.backends import cells
from support.backends.cells import commit

from sparkstate.backends.rocksdb import restoring

KEYS, LIVES = 2000, 10
TEXTS = cells.NAMES


def life(slot: Any, files: dict[str, Path] | None) -> dict[str, Path]:
    """Restore, write every key twice, take a checkpoint, and be lost."""
    store = slot.store()
    if files is not None:
        store.restore(files, "rocksdb")
    for number in range(2):
        commit(store, cells.values({f"key-{key}": os.urandom(100).hex() for key in range(KEYS)}, TEXTS))
        store.prepare_snapshot(number, slot.folder(), canonical=False).release()
    snapshot = store.prepare_snapshot(9, slot.folder(), canonical=False)
    return {file.name: file.path for file in snapshot.files()}


def size(files: dict[str, Path]) -> int:
    return sum(path.stat().st_size for path in files.values())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoring, "SPARE_BYTES", 1024)


FACTORY = "support.backends.options_factories:NeverDone"


@pytest.mark.fault_on("rocksdb")
@pytest.mark.fault(
    broken="a slot is lost soon after its checkpoint, ten times in a row",
    when="before RocksDB has compacted anything",
    expected="the state stays below three times that of one life, and every key is there",
)
def test_state_that_is_lost_often_does_not_grow(make_slot: Any, small: None) -> None:
    slot, files, sizes = make_slot(options_factory=FACTORY), None, []
    for _ in range(LIVES):
        files = life(slot, files)
        sizes.append(size(files))
    one_life = sizes[0]
    assert max(sizes) < 3 * one_life, sizes
    store = slot.store()
    store.restore(files, "rocksdb")
    assert store.stats().rows == KEYS


def test_a_job_that_asked_for_no_merging_gets_none(make_slot: Any, small: None) -> None:
    slot, files, sizes = make_slot(options={"state.backend.rocksdb.compaction.style": "NONE"}), None, []
    for _ in range(4):
        files = life(slot, files)
        sizes.append(size(files))
    assert sizes[-1] > 3.5 * sizes[0]


def test_what_is_spare_is_left_alone(make_slot: Any) -> None:
    slot = make_slot(options_factory=FACTORY)
    files = life(slot, life(slot, None))
    store = slot.store()
    before = sum(path.stat().st_size for name, path in files.items() if name.endswith(".sst"))
    store.restore(files, "rocksdb")
    assert store.stats().bytes >= before
