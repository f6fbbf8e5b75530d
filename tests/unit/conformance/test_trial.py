"""The trial of a backend before a job starts: the reason for which it is refused, and a process that harms nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkstate import clock, errors
from sparkstate.conformance import chapters, trial
from sparkstate.settings import StateBackendSettings

TESTS = Path(__file__).resolve().parents[2]
OWN = "support.backends.own_backends"

REFUSED = {
    "no-module": (
        "nowhere_at_all:Backend",
        "there is no module nowhere_at_all; put its file beside the job's",
    ),
    "no-module-inside": ("support.nowhere.Backend", "there is no module support.nowhere; put its file"),
    "no-class": (f"{OWN}:Backned", "has no class Backned; it has the backend AliasingBackend"[:35]),
    "no-name": ("Backend", "write the module and the class, as in my_backend:MyBackend"),
    "a-function": ("os.path:join", "the module os.path has no class join"),
    "wrong-base": (
        f"{OWN}:NoBackend",
        "does not derive from sparkstate.backend_api.BackendFactory (its bases: object)",
    ),
    "unfinished": (f"{OWN}.UnfinishedBackend", "does not implement create; write every abstract method"),
    "constructor": (
        f"{OWN}:RaisingBackend",
        "its constructor raised ValueError: unknown option (it was given no options)",
    ),
    "kit": (
        f"{OWN}:KeepsDeletedBackend",
        "it fails the conformance kit at commit_makes_all_kinds_of_changes (chapter state): values: expected",
    ),
    "crash": (f"{OWN}:CrashingBackend", "was ended by signal 6 in the check missing_state_reads_as_empty"),
    "exit": (f"{OWN}:LeavingBackend", "ended with exit code 3 in the check missing_state_reads_as_empty"),
}


def run(name: str | None, folder: Path, budget_s: float = 120.0, **options: str) -> trial.Passed:
    backend = StateBackendSettings(type="custom", class_name=name, options=options)
    return trial.run(backend, [str(TESTS)], folder, clock.SystemClock(), budget_s)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_backend_is_refused_with_its_name_and_the_reason(case: str, tmp_path: Path) -> None:
    name, why = REFUSED[case]
    with pytest.raises(errors.BackendRefused) as refused:
        run(name, tmp_path)
    assert f"the state backend {name!r} (spec.stateBackend.class): " in str(refused.value)
    assert why in str(refused.value)
    assert refused.value.exit_code == 2
    assert refused.value.reason == "BackendRefused"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "import nowhere_at_all",
            "importing broken raised ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
        ("1 / 0", "importing broken raised ZeroDivisionError"),
        ("raise SystemExit(0)", "importing broken raised SystemExit"),
        ("def (", "importing broken raised SyntaxError"),
    ],
    ids=["its-own-import", "raises", "exits", "syntax"],
)
def test_a_module_that_cannot_be_imported_is_named(code: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(f"{code}\n")
    backend = StateBackendSettings(type="custom", class_name="broken:Backend")
    with pytest.raises(errors.BackendRefused) as refused:
        trial.run(backend, [str(tmp_path)], tmp_path / "work", clock.SystemClock())
    assert why in str(refused.value)


def test_the_end_of_a_crashed_process_s_output_is_told(tmp_path: Path) -> None:
    with pytest.raises(errors.BackendRefused, match="the end of its output:\nabout to crash"):
        run(f"{OWN}:CrashingBackend", tmp_path)


def test_the_right_backend_passes_every_check(tmp_path: Path) -> None:
    passed = run(f"{OWN}:MemoryBackend", tmp_path, any="option")
    assert passed.checks == len(chapters.CHECKS)
    assert passed.seconds > 0


def test_an_error_names_the_options_and_never_their_values(tmp_path: Path) -> None:
    with pytest.raises(errors.BackendRefused) as refused:
        run(f"{OWN}:RaisingBackend", tmp_path, url="db://user:hunter2@host")
    assert "it was given the options url" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_what_is_away_may_come_back(tmp_path: Path) -> None:
    with pytest.raises(errors.BackendUnavailable, match="ConnectionRefusedError: nobody listens") as away:
        run(f"{OWN}:AwayBackend", tmp_path)
    assert away.value.exit_code == 1


def test_a_backend_that_hangs_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    before = _children()
    with pytest.raises(errors.BackendUnavailable, match="within 5 s, and was in the check missing_state"):
        run(f"{OWN}:HangingBackend", tmp_path, budget_s=5.0)
    assert _children() == before


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
