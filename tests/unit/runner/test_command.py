from __future__ import annotations

from pathlib import Path

from sparkstate.driver import __main__ as driver
from sparkstate.runner import command, workdir


def told(tmp_path: Path, attempt: int, start_since: int) -> tuple[int, int, list[str]]:
    """What the driver of ``attempt`` understands: its number, since when to start empty, the overrides."""
    arguments = command.DriverArguments(
        manifest=tmp_path / "job.yaml", overrides=("spec.slots=3",), start_since=start_since
    )
    words = command.driver_command(arguments, workdir.WorkDir(tmp_path), attempt)
    options = driver._parse(words[words.index("sparkstate.driver") + 1 :])
    return options.attempt, options.start_since, options.overrides


def test_every_attempt_of_a_run_is_told_which_one_was_to_start_empty(tmp_path: Path) -> None:
    assert told(tmp_path, 4, start_since=4) == (4, 4, ["spec.slots=3"])
    assert told(tmp_path, 5, start_since=4) == (5, 4, ["spec.slots=3"])
    assert told(tmp_path, 5, start_since=0) == (5, 0, ["spec.slots=3"])
