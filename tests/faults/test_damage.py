"""Stored files that were damaged: each is noticed, named, and takes nothing else along."""

from __future__ import annotations

import struct

import pytest
from support.storage.checkpoints import JOB, CheckpointedJob
from support.storage.stores import ManualClock

from sparkstate import errors
from sparkstate.checkpoint import Downloader, carry_out, decide_restore, operator_parts
from sparkstate.checkpoint import metadata as codec
from sparkstate.log import LineageLog, open_lineage
from sparkstate.log.lineage import find

CONTENTS = {"1.sst": b"a" * 400, "OPTIONS": b"o" * 300}


class Job(CheckpointedJob):
    """Two completed checkpoints; the second has a state file of its own beside the first one's."""

    def __init__(self, root, folder) -> None:
        super().__init__(root, folder, retained=2)
        self.checkpoint(1)
        self.checkpoint(2)

    def contents(self, number):
        return {**CONTENTS, f"{number + 1}.sst": b"b" * 200 * number}

    def change(self, key, change):
        """Put other bytes where an object was; None takes it away."""
        data = self.root.get(key)
        self.root.delete([key])
        if (changed := change(data)) is not None:
            self.root.put_if_absent(key, changed)

    def restore(self):
        """Read what the newest checkpoint's restore reads, in a process that knows nothing yet."""
        log = LineageLog(self.lineage.store, ManualClock())
        plan = decide_restore(log.refresh(), self.lineage.store.url, None, False)
        return self.fetch(carry_out(plan, self.lineage, lambda url: self.root).metadata)


@pytest.fixture
def job(root, tmp_path):
    return Job(root, tmp_path)


def flipped(data):
    return data[:60] + bytes([data[60] ^ 1]) + data[61:]


def of_a_later_version(data):
    return data[:4] + struct.pack(">H", 9) + data[6:]


DAMAGES = [
    pytest.param("cut in the middle", lambda data: data[: len(data) // 2], id="cut"),
    pytest.param("one bit changed", flipped, id="flipped"),
    pytest.param("empty", lambda data: b"", id="empty"),
    pytest.param("replaced by something else", lambda data: b"<html>404</html>" * 20, id="other"),
]
MISSING = pytest.param("gone", lambda data: None, id="gone")


@pytest.mark.fault(
    broken="`_metadata` of the newest checkpoint: {damage}",
    when="before a restore",
    expected="RestoreBlocked (exit code 3) with the file's name and what to do; no object is changed",
)
@pytest.mark.parametrize(("damage", "change"), [*DAMAGES, MISSING])
def test_a_damaged_metadata_blocks_the_restore_and_nothing_is_lost(job, damage, change):
    job.change(f"{job.lineage.id}/chk-2/_metadata", change)
    before = job.objects()
    with pytest.raises(errors.RestoreBlocked, match=r"chk-2/_metadata.*startEmpty") as refused:
        job.restore()
    assert refused.value.exit_code == 3
    assert job.objects() == before
    job.fetch(job.completed.completed()[0].metadata)  # the checkpoint before it is whole


@pytest.mark.fault(
    broken="`_metadata` of the newest checkpoint has an unknown format version",
    when="before a restore by an older sparkstate",
    expected="RestoreBlocked (exit code 3), which says to take the version that wrote it; that one restores",
)
def test_a_metadata_of_a_later_version_blocks_the_restore_and_is_no_damage(job, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(
            codec, "FORMAT_VERSION", 11
        )  # one without operator state and large source files is two below
        job.checkpoint(3)
        job.restore()
    before = job.objects()
    with pytest.raises(
        errors.RestoreBlocked, match=r"format version 9.*the sparkstate version that wrote it"
    ):
        job.restore()
    assert job.objects() == before


@pytest.mark.fault(
    broken="a state file of the newest checkpoint: {damage}",
    when="before a restore",
    expected="CorruptData with the file's name and what to do; the checkpoint before restores; put back, all does",
)
@pytest.mark.parametrize(("damage", "change"), [*DAMAGES, MISSING])
def test_a_damaged_state_file_is_noticed_before_anything_is_restored_from_it(job, damage, change):
    older, newest = (done.metadata for done in job.completed.completed())
    path = next(iter({f.path for f in newest.shards[0].files if f.shared} - older.paths()))
    key = f"{job.lineage.id}/{path}"
    whole = job.root.get(key)
    job.change(key, change)
    with pytest.raises(errors.CorruptData, match=rf"{path}.*keep the") as refused:
        job.restore()
    assert "restoreFrom" in str(refused.value)
    job.fetch(older)
    job.root.delete([key])
    job.root.put_if_absent(key, whole)
    assert {name: file.stat().st_size for name, file in job.restore().items()}["3.sst"] == 400


class JobWithOperatorState(Job):
    """Its checkpoints have the operator state of two slots."""

    def parts(self, number):
        elements = tuple(bytes([0, number, at]) for at in range(40))
        state = operator_parts.StoredState(
            uid="op", name="buffer", mode="split", value_type="LONG", values=elements
        )
        return tuple(operator_parts.OperatorPart(slot=slot, slots=2, states=(state,)) for slot in range(2))

    def read(self, metadata):
        downloader = Downloader(self.lineage.store)
        try:
            return operator_parts.read(downloader, metadata.operator_state, self.lineage.store.url)
        finally:
            downloader.close()


@pytest.mark.fault(
    broken="the operator state of a slot in the newest checkpoint: {damage}",
    when="before a restore",
    expected="CorruptData with the file's name and what to do; the checkpoint before restores; put back, all does",
)
@pytest.mark.parametrize(("damage", "change"), [*DAMAGES, MISSING])
def test_damaged_operator_state_is_noticed_and_named(root, tmp_path, damage, change):
    job = JobWithOperatorState(root, tmp_path)
    older, newest = (done.metadata for done in job.completed.completed())
    path = newest.operator_state[1].path
    key = f"{job.lineage.id}/{path}"
    whole = job.root.get(key)
    job.change(key, change)
    with pytest.raises(errors.CorruptData, match=rf"{path}.*keep the") as refused:
        job.read(newest)
    assert "restoreFrom" in str(refused.value)
    assert job.read(older) == list(job.parts(1))
    job.root.delete([key])
    job.root.put_if_absent(key, whole)
    assert job.read(newest) == list(job.parts(2))


@pytest.mark.fault(
    broken="an entry of the log: {damage}",
    when="when a driver starts",
    expected="an error that names the entry (exit code 5); nothing is claimed, no object is changed",
)
@pytest.mark.parametrize(
    ("damage", "change", "error"),
    [
        *[pytest.param(*case.values, errors.CorruptData, id=case.id) for case in DAMAGES],
        pytest.param(
            "of a later format version", of_a_later_version, errors.UnknownFormat, id="later-version"
        ),
    ],
)
def test_a_damaged_log_is_never_a_shorter_history(job, damage, change, error):
    job.change(f"{job.lineage.id}/log/000000000003", change)
    before = job.objects()
    with pytest.raises(error, match="log/000000000003") as refused:
        LineageLog(job.lineage.store, ManualClock()).claim(2, "another")
    assert refused.value.exit_code == 5
    assert job.objects() == before


@pytest.mark.fault(
    broken="the pointer from the job's name to its state: {damage}",
    when="when a driver starts",
    expected="an error that names the pointer; no new, empty state is begun beside the old one",
)
@pytest.mark.parametrize(
    ("damage", "change", "error"),
    [
        *[pytest.param(*case.values, errors.CorruptData, id=case.id) for case in DAMAGES],
        pytest.param(
            "of a later format version", of_a_later_version, errors.UnknownFormat, id="later-version"
        ),
    ],
)
def test_a_damaged_pointer_never_begins_an_empty_state(job, damage, change, error):
    pointer = next(info.key for info in job.root.list("by-name/"))
    job.change(pointer, change)
    before = job.objects()
    for look in (lambda: find(job.root, JOB), lambda: open_lineage(job.root, JOB, ManualClock())):
        with pytest.raises(error, match="by-name/"):
            look()
    assert job.objects() == before


@pytest.mark.fault(
    broken="the log's hint that spares readers the old entries: {damage}",
    when="when a driver starts",
    expected="it is ignored; the whole log is read",
)
@pytest.mark.parametrize(("damage", "change"), DAMAGES)
def test_a_damaged_hint_costs_time_and_nothing_else(job, damage, change):
    for _ in range(50):
        job.log.begin_incarnation("")
    hint = next(info.key for info in job.root.list("") if "/log/_checkpoint-" in info.key)
    wanted = job.log.refresh()
    job.change(hint, change)
    assert LineageLog(job.lineage.store, ManualClock()).refresh() == wanted
