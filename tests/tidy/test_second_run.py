"""Which failures of ``make test`` are tried once more, and what then counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import run_tests

from sparkstate_tools.verdicts import junit, second_run
from sparkstate_tools.verdicts.second_run import Selection


def case(name: str, outcome: str = "failed", message: str = "Failed: Timeout") -> junit.Case:
    return junit.Case(f"tests/x/test_x.py::{name.split('[', maxsplit=1)[0]}", name, outcome, 1.0, message)


SLOW, WRONG = case("test_slow"), case("test_wrong", message="AssertionError: assert 1 == 2")


@pytest.mark.parametrize(
    ("which", "failed", "again"),
    [
        pytest.param(Selection.NONE, [SLOW], [], id="never"),
        pytest.param(Selection.SLOW, [SLOW], [SLOW], id="slow"),
        pytest.param(Selection.SLOW, [SLOW, WRONG], [], id="a-wrong-result-is-final"),
        pytest.param(Selection.SLOW, [case("test_c", message="assert 1 == 2")], [], id="also-without-a-name"),
        pytest.param(
            Selection.SLOW,
            [case("test_d", message='failed on setup with "AssertionError: no"')],
            [],
            id="in-setup",
        ),
        pytest.param(Selection.ANY, [SLOW, WRONG], [SLOW, WRONG], id="any"),
        pytest.param(Selection.ANY, [SLOW] * (second_run.AT_MOST + 1), [], id="too-many-for-an-accident"),
    ],
)
def test_what_a_slow_machine_may_have_caused_is_tried_once_more(
    which: Selection, failed: list[junit.Case], again: list[junit.Case]
) -> None:
    assert second_run.worth_it(which, failed) == again


def test_only_what_passes_the_second_time_stops_counting_as_failed() -> None:
    good, twice, unreached = case("test_a[1]"), case("test_a[2]"), case("test_b")
    teardown = case("test_c")
    second = [
        case("test_a[1]", "passed"),
        twice,
        case("test_c", "passed"),
        case("test_c", "failed", "failed on teardown"),
    ]
    cases, accidents = second_run.merge([good, twice, unreached, teardown], second)
    assert [each.outcome for each in cases] == ["passed", "failed", "failed", "failed"]
    assert accidents == [good]


@pytest.mark.parametrize(("second_try", "exit_code"), [("pass", 0), ("fail", run_tests.TESTS_FAILED)])
def test_a_failed_test_runs_again_by_its_own_address(
    second_try: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests" / "shaky").mkdir(parents=True)
    (tmp_path / "tests" / "shaky" / "test_x.py").write_text(
        "import pathlib, pytest\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_shaky(n):\n"
        "    with pathlib.Path('runs').open('a') as runs:\n"
        "        runs.write(str(n))\n"
        f"    if n == 1 and (pathlib.Path('runs').read_text() == '1' or {second_try == 'fail'}):\n"
        "        raise TimeoutError('slow')\n"
    )
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path / "build")
    monkeypatch.setattr(run_tests, "PYTEST", (*run_tests.PYTEST, "-p", "no:cacheprovider", "--rootdir=."))
    result = run_tests.try_again(
        run_tests.run_stage(run_tests.Stage("shaky", 60, again=Selection.SLOW), extras=True)
    )
    assert (tmp_path / "runs").read_text() == "121"
    assert result.exit_code == exit_code
    assert [each.name for each in result.accidents] == (["test_shaky[1]"] if second_try == "pass" else [])


def test_a_log_can_end_with_the_names_of_what_failed_and_why() -> None:
    stage = run_tests.Stage("unit", 1)
    failed = run_tests.Result(stage, 1, 1.0, [SLOW, case("test_fine", "passed"), WRONG])
    said = run_tests.failed_in_short([failed], ["F01: missing"])
    assert said.splitlines()[:4] == [
        "stage unit ended with 1",
        "x/test_x.py::test_slow",
        "x/test_x.py::test_wrong",
        "F01: missing",
    ]
    assert "assert 1 == 2" in said
    assert "test_fine" not in said
    assert len(run_tests.failed_in_short([failed] * 100, [], characters=300)) == 301
    assert run_tests.failed_in_short([run_tests.Result(stage, 0, 1.0, [])], []) == ""
