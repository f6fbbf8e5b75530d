"""The trial of a state backend of the job's own: for the class that the code chose, and once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkstate import clock, errors
from sparkstate.conformance import trial
from sparkstate.driver.backend_trial import FOLDER, BackendTrial
from sparkstate.settings import StateBackendSettings
from sparkstate_tools.drivers import driving

TESTS = Path(__file__).resolve().parents[2]
OWN = "support.backends.own_backends"
RIGHT = StateBackendSettings(type="custom", class_name=f"{OWN}:MemoryBackend")
WRONG = StateBackendSettings(type="custom", class_name=f"{OWN}:NoBackend")


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The classes that the kit was run for."""
    names: list[str | None] = []
    run = trial.run

    def counted(backend: StateBackendSettings, *rest: Any) -> trial.Passed:
        names.append(backend.class_name)
        return run(backend, *rest)

    monkeypatch.setattr(trial, "run", counted)
    return names


def begun(planned: StateBackendSettings, folder: Path, said: list[str]) -> BackendTrial:
    return BackendTrial(planned, (str(TESTS),), folder, clock.SystemClock(), said.append)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"local_recovery": not RIGHT.local_recovery},
        {"class_name": f"{OWN}.MemoryBackend"},
    ],
    ids=["as planned", "checkpoints in memory", "the other spelling"],
)
def test_the_planned_class_is_tried_once_whatever_else_the_code_sets(
    tmp_path: Path, tried: list[str | None], changed: dict[str, Any]
) -> None:
    said: list[str] = []
    begun(RIGHT, tmp_path, said).require(replace(RIGHT, **changed))
    assert tried == [RIGHT.class_name]
    assert "passes the conformance kit" in said[0]


def test_the_class_that_the_code_chose_is_tried_and_no_other_counts(
    tmp_path: Path, tried: list[str | None]
) -> None:
    with pytest.raises(errors.BackendRefused, match="NoBackend"):
        begun(RIGHT, tmp_path / "a", []).require(WRONG)
    begun(WRONG, tmp_path / "b", []).require(RIGHT)
    begun(WRONG, tmp_path / "c", []).require(StateBackendSettings(type="hashmap"))
    assert sorted(tried, key=str).count(RIGHT.class_name) == 2


@pytest.mark.parametrize(
    "chosen", [StateBackendSettings(type="hashmap"), RIGHT], ids=["hashmap", "another class"]
)
def test_the_trial_of_a_class_ends_when_the_code_chooses_another_backend(
    tmp_path: Path, chosen: StateBackendSettings
) -> None:
    hangs = StateBackendSettings(type="custom", class_name=f"{OWN}:HangingBackend")
    said: list[str] = []
    trial_of_it = begun(hangs, tmp_path, said)
    driving.wait_for(lambda: bool(driving.processes_with(str(tmp_path))), 60, "the trial's process")
    trial_of_it.require(chosen)
    driving.wait_for(lambda: not driving.processes_with(str(tmp_path)), 10, "the end of the trial's process")
    driving.wait_for(lambda: not list((tmp_path / FOLDER).iterdir()), 10, "the end of its folder")
    assert len(said) == (chosen is RIGHT)


def test_the_trial_ends_with_a_driver_that_fails_before_it_asks_for_the_verdict(tmp_path: Path) -> None:
    hangs = StateBackendSettings(type="custom", class_name=f"{OWN}:HangingBackend")
    trial_of_it = begun(hangs, tmp_path, [])
    driving.wait_for(lambda: bool(driving.processes_with(str(tmp_path))), 60, "the trial's process")
    trial_of_it.end()
    driving.wait_for(lambda: not driving.processes_with(str(tmp_path)), 10, "the end of the trial's process")


def test_nothing_is_tried_without_a_class(tmp_path: Path, tried: list[str | None]) -> None:
    begun(StateBackendSettings(), tmp_path, []).require(StateBackendSettings(type="rocksdb"))
    assert tried == []
