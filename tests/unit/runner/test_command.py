from __future__ import annotations

from pathlib import Path

import pytest

from sparkstate import settings
from sparkstate.runner import command


@pytest.mark.parametrize(
    ("start_empty", "expected"),
    [(True, ("spec.slots=3", "spec.startEmpty=false")), (False, ("spec.slots=3",))],
    ids=["told to start empty", "not told to"],
)
def test_a_restart_never_begins_empty_again(start_empty: bool, expected: tuple[str, ...]) -> None:
    job = settings.JobSettings(name="job", entry=settings.EntryPoint(module="m"), start_empty=start_empty)
    arguments = command.DriverArguments(manifest=Path("job.yaml"), overrides=("spec.slots=3",))
    assert command.for_restart(arguments, job).overrides == expected
