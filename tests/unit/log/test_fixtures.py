"""Logs that older versions wrote, committed with the tests: every later version must read them and go on with them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from support.storage.stores import ManualClock

from sparkstate.log import LineageLog, bases, records
from sparkstate.log.records import key_of
from sparkstate.storage.local import LocalStore

FIXTURES = Path(__file__).parent / "fixtures"
LAST = {"v1_with_hints": (121, 40), "v2_compacted": (160, 53)}
"""Entries, and the newest checkpoint."""


@pytest.fixture(params=list(LAST))
def stored(request, tmp_path):
    with zipfile.ZipFile(FIXTURES / f"{request.param}.zip") as packed:
        packed.extractall(tmp_path)
    return LocalStore(str(tmp_path)), *LAST[request.param]


def test_a_stored_log_says_what_it_said(stored):
    store, entries, checkpoint = stored
    state = LineageLog(store, ManualClock()).refresh()
    assert state.last_number == entries
    assert state.token == records.Token(1, 1)
    assert state.incarnation == 1
    assert state.restore_point == state.checkpoints[-1]
    assert (state.restore_point.checkpoint_id, state.published) == (checkpoint, checkpoint)
    assert [saved.trigger_id for saved in state.savepoints] == ["t1"]


def test_a_stored_log_goes_on_and_is_compacted(stored):
    store, entries, checkpoint = stored
    log = LineageLog(store, ManualClock(), base_every=20).claim(2, "the next")
    assert log.token == records.Token(2, 1)
    log.begin_incarnation("")
    for _ in range(60):
        log.append(records.Tombstone(paths=("x",)))
    log.sweep()
    fresh = LineageLog(store, ManualClock()).refresh()
    assert fresh == log.state
    assert (fresh.last_number, fresh.restore_point.checkpoint_id) == (entries + 62, checkpoint)
    assert len([key for key in (info.key for info in store.list("log/")) if key > key_of(entries + 1)]) < 45


def test_an_old_log_without_its_hints_is_read_from_its_first_entry(tmp_path):
    with zipfile.ZipFile(FIXTURES / "v1_with_hints.zip") as packed:
        packed.extractall(tmp_path)
    store = LocalStore(str(tmp_path))
    whole = LineageLog(store, ManualClock()).refresh()
    store.delete([bases.key_of(number) for number in bases.listed(store).numbers])
    assert LineageLog(store, ManualClock()).refresh() == whole
