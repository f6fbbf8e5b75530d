"""Stored files that were damaged: each is noticed, named, and takes nothing else along."""

from __future__ import annotations

import pytest
from support.checkpoints import JOB, take
from support.stores import ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore, carry_out, decide_restore
from sparkstate.log import LineageLog, open_lineage

CONTENTS = {0: {"1.sst": b"a" * 40, "OPTIONS": b"o" * 30}}


class Job:
    """A lineage with two completed checkpoints."""

    def __init__(self, root, folder) -> None:
        self.root = root
        self.lineage = open_lineage(root, JOB, ManualClock())
        self.log = LineageLog(self.lineage.store, ManualClock())
        self.log.claim(1, "a test")
        self.incarnation = self.log.begin_incarnation("")
        self.completed = CompletedCheckpointStore(self.lineage.store, self.log, retained=2)
        for number in (1, 2):
            taken = take(
                self.lineage.store,
                folder,
                CONTENTS,
                checkpoint_id=number,
                incarnation=1,
                lineage=self.lineage.id,
            )
            self.completed.commit(taken)

    def change(self, path, change):
        """Put other bytes where an object was."""
        data = self.lineage.store.get(path)
        self.lineage.store.delete([path])
        self.lineage.store.put_if_absent(path, change(data))

    def restore(self):
        log = LineageLog(self.lineage.store, ManualClock())
        plan = decide_restore(log.refresh(), self.lineage.store.url, None, False)
        return carry_out(plan, self.lineage, lambda url: self.root)


def flipped(data):
    return data[:60] + bytes([data[60] ^ 1]) + data[61:]


@pytest.mark.fault(
    broken="`_metadata` of the newest checkpoint: {damage}",
    when="before a restore",
    expected="the restore is blocked, with the file's name and what to do; the log and all files stay",
)
@pytest.mark.parametrize(
    ("damage", "change"),
    [
        pytest.param("cut in the middle", lambda data: data[: len(data) // 2], id="cut"),
        pytest.param("one bit changed", flipped, id="flipped"),
        pytest.param("empty", lambda data: b"", id="empty"),
        pytest.param("replaced by something else", lambda data: b"<html>404</html>" * 20, id="other"),
    ],
)
def test_a_damaged_metadata_blocks_the_restore_and_nothing_is_lost(root, tmp_path, damage, change):
    job = Job(root, tmp_path)
    job.change("chk-2/_metadata", change)
    before = {info.key: info.size for info in job.lineage.store.list("")}
    with pytest.raises(errors.RestoreBlocked, match=r"chk-2/_metadata.*startEmpty") as refused:
        job.restore()
    assert refused.value.exit_code == 3
    assert {info.key: info.size for info in job.lineage.store.list("")} == before
