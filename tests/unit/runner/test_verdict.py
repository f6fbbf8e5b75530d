"""What the end of a driver means for the job."""

from pathlib import Path

import pytest

from sparkstate.runner import verdict


def judge(code: int, reason: str | None = None) -> verdict.Verdict:
    termination = None if reason is None else verdict.Termination(reason, "what happened")
    return verdict.judge(verdict.DriverExit(code, termination))


def test_exit_code_zero_is_the_end_of_the_job() -> None:
    assert judge(0, "Finished") == verdict.Finished("what happened")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "JobFailed"),
        (1, "UserCodeError"),
        (2, "SpecInvalid"),
        (3, "RestoreBlocked"),
        (4, "Fenced"),
        (5, "CorruptData"),
        (5, "StorageError"),
    ],
)
def test_what_would_fail_again_is_not_started_again(code: int, reason: str) -> None:
    assert judge(code, reason) == verdict.Failed(code, reason, "what happened")


@pytest.mark.parametrize(
    ("code", "reason"),
    [(1, None), (1, "Py4JNetworkError"), (5, "StorageUnavailable"), (137, None), (-9, None)],
)
def test_what_may_pass_is_a_crash(code: int, reason: str | None) -> None:
    assert isinstance(judge(code, reason), verdict.Crashed)


def test_a_crash_by_signal_names_it_and_ignores_an_earlier_last_word() -> None:
    assert judge(-9, "JobFailed") == verdict.Crashed("the driver was killed by SIGKILL")
    assert judge(-200) == verdict.Crashed("the driver was killed by signal 200")


def test_a_torn_or_missing_termination_log_is_none(tmp_path: Path) -> None:
    log = tmp_path / "termination.json"
    assert verdict.read_termination(log) is None
    for torn in ('{"reason": "Fen', "[]", ""):
        log.write_text(torn)
        assert verdict.read_termination(log) is None
    log.write_text('{"reason": "Fenced", "message": "m", "exit_code": 4}')
    assert verdict.read_termination(log) == verdict.Termination("Fenced", "m")
