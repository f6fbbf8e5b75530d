"""A run with more shards than key groups: refused before Spark starts, unless state may have more of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.storage.stored_job import StoredJob

from sparkstate import clock, errors, settings
from sparkstate.cli import main
from sparkstate.runner import running
from sparkstate.storage import naming
from sparkstate.stored import lineages

NAME = "rotations"


def begins(storage: str, **fields: Any) -> None:
    """The check that a run makes of this job before it starts a driver."""
    job = settings.JobSettings(
        name=NAME,
        entry=settings.EntryPoint(),
        checkpoint=settings.CheckpointSettings(storage=storage),
        **{"shards": 200, **fields},
    )
    found = lineages.find(job, clock.SystemClock()) if lineages.has_storage(job) else None
    running.require_key_space(job, found)


def refused(storage: str, **fields: Any) -> None:
    with pytest.raises(errors.SpecInvalid, match=r"spec\.shards: .*at least 200 \(it is 200\)"):
        begins(storage, **fields)


def test_without_state_they_are_refused(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    refused(url)
    begins(url, max_parallelism=200)
    begins(url, slots=100)
    StoredJob(url, NAME, 1)
    refused(url)


def test_state_may_have_more_key_groups(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    stored = StoredJob(url, NAME, 1)
    stored.take_savepoint("t-1", 1)
    begins(url)
    refused(url, start_empty=True)
    begins((tmp_path / "elsewhere").as_uri(), restore_from="file:///kept/savepoint-012345-a")


def test_where_nobody_knows_yet_whether_there_is_state_the_driver_decides() -> None:
    begins("")
    begins(naming.MEMORY, restore_from="file:///kept/savepoint-012345-a")
    refused(naming.MEMORY)


def test_the_command_ends_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "job.yaml"
    spec = {"pythonFile": "job.py", "shards": 200, "checkpointing": {"storage": "state"}}
    head = {"apiVersion": "sparkstate.io/v1alpha1", "kind": "StatefulSparkJob", "metadata": {"name": NAME}}
    manifest.write_text(yaml.safe_dump({**head, "spec": spec}))
    assert main.main(["run", str(manifest), "--work-dir", str(tmp_path / "work"), "--no-progress"]) == 2
    assert "spec.shards: there are more shards than key groups" in capsys.readouterr().err
    assert not list((tmp_path / "work").rglob("*.log"))
