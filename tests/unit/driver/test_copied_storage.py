"""A job on a copy of its checkpoint storage: what lies elsewhere is the original's."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.slots import slots
from support.slots.running import Running, stored_job

from sparkstate.driver.job_storage import JobStorage
from sparkstate.log.log import ClaimedLog


@pytest.mark.parametrize("is_copied", [False, True], ids=["its own", "a copy"])
def test_output_that_the_original_has_staged_stays(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_copied: bool
) -> None:
    """The job on the copy has another sink. The folder of the one before is that of a job that may still run."""
    running.slot.epoch(0, slots.rows(("a", 1)))
    running.start(0).settle()
    monkeypatch.setattr(ClaimedLog, "is_copied", is_copied)
    job_storage = JobStorage(running.claimed, stored_job(sum=tmp_path / "new"))
    folder = running.out / "_sparkstate_staging" / job_storage.lineage.id / "00001"
    staged = folder / "000000007-000-sum.json"
    folder.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(b"{}")
    job_storage.begin_incarnation(job_storage.restore_point(), lambda number: None)
    job_storage.leftovers.settle()
    assert staged.exists() == is_copied
