"""``docs/faults.md`` lists what the tests break, no less and no more, and claims nothing that did not run."""

from __future__ import annotations

import json
from pathlib import Path

import faults_page
import pytest
import run_faults
from faults_page import Key, Result
from support import faults
from support.repository import tree

from sparkstate_tools.verdicts import junit

FIRST = Key("a slot is killed", "in the phase feed", "hashmap", "output exact", "tests/x/test_a.py::test_one")
SECOND = Key("a file is cut", "before a restore", "S3", "CorruptData", "tests/x/test_b.py::test_two")


def case(node: str, outcome: str = junit.PASSED, *properties: tuple[str, str]) -> junit.Case:
    fault = ("fault", json.dumps(["a slot is killed", "in the phase feed", "hashmap", "output exact", node]))
    return junit.Case(node, node, outcome, 1.0, "no root", (fault, *properties))


def test_the_page_has_a_row_for_every_fault_of_the_tests_and_no_other() -> None:
    rows = faults_page.parse(run_faults.PAGE.read_text())
    assert set(rows) == run_faults.registry(run_faults.fault_files()), (
        "scripts/run_faults.py --page renews it"
    )


def test_no_row_of_the_page_failed() -> None:
    rows = faults_page.parse(run_faults.PAGE.read_text())
    assert [key for key, result in rows.items() if "failed" in result.outcome] == []


def test_the_page_gives_back_what_was_written_into_it() -> None:
    rows = {FIRST: Result(faults_page.AS_EXPECTED, 12), SECOND: Result()}
    assert faults_page.parse(faults_page.render(rows)) == rows


def test_the_page_says_when_all_faults_ran_and_a_run_of_some_does_not_change_that() -> None:
    assert faults_page.full_run(run_faults.PAGE.read_text()) is not None, "make faults, in full"
    full = faults_page.FullRun("2026-01-31", "0123abcd")
    page = faults_page.render({FIRST: Result(faults_page.AS_EXPECTED, 12)}, full)
    assert faults_page.full_run(page) == full
    assert faults_page.full_run(faults_page.render({FIRST: Result()})) is None


def test_what_did_not_run_says_so_and_keeps_what_an_earlier_run_said() -> None:
    before = {FIRST: Result(faults_page.AS_EXPECTED, 12)}
    assert faults_page.merge({FIRST, SECOND}, before, {}) == {**before, SECOND: Result("not run", 0)}
    assert faults_page.merge({SECOND}, before, {}) == {SECOND: Result("not run", 0)}


def test_one_failed_case_among_many_makes_the_row_a_failed_one() -> None:
    ran = faults_page.from_cases([case(FIRST.test), case(FIRST.test, junit.FAILED), case(FIRST.test)])
    assert ran == {FIRST: Result("**failed** in 1 of 3", 3)}


def test_a_skipped_case_counts_as_no_run() -> None:
    assert faults_page.from_cases([case(FIRST.test, junit.SKIPPED)]) == {FIRST: Result("not run: no root", 0)}


def test_a_case_that_holds_many_runs_says_how_many() -> None:
    ran = faults_page.from_cases([case(FIRST.test, junit.PASSED, ("runs", "150")), case(FIRST.test)])
    assert ran == {FIRST: Result("as expected", 151)}


@pytest.mark.parametrize(
    ("text", "wanted"), [("3", [0, 1, 2]), ("17-18", [17, 18])], ids=["how-many", "which"]
)
def test_seeds_are_a_number_of_them_or_a_range(text: str, wanted: list[int]) -> None:
    assert faults.seeds(text) == wanted


@pytest.fixture
def plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tree.ROOT / "tests"))
    pytester.makeconftest("pytest_plugins = ['support.faults']")


SAMPLE = """
import pytest

pytestmark = pytest.mark.fault_on("a disk")

@pytest.mark.fault(broken="a {what} is cut", when="at once", expected="an error")
@pytest.mark.parametrize("what", ["file", "line"])
@pytest.mark.parametrize("backend", ["hashmap"])
def test_cut(what, backend, fault_seed): assert fault_seed < 2 or what == "file"
"""


@pytest.mark.usefixtures("plugin")
def test_marks_reach_the_results_with_their_parameters_filled_in(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    pytester.makepyfile(test_sample=SAMPLE)
    report = tmp_path / "sample.xml"
    said = pytester.runpytest_subprocess(
        "--fault-seeds=3", "-o", "junit_family=xunit1", f"--junitxml={report}", "-p", "no:cacheprovider"
    )
    node = "test_sample.py::test_cut"
    assert faults_page.from_cases(junit.read(tmp_path)) == {
        Key("a file is cut", "at once", "a disk, hashmap", "an error", node): Result("as expected", 3),
        Key("a line is cut", "at once", "a disk, hashmap", "an error", node): Result(
            "**failed** in 1 of 3", 3
        ),
    }
    said.stdout.fnmatch_lines([".venv/bin/pytest --fault-seeds=2-2 'test_sample.py::test_cut[[]*"])


@pytest.mark.usefixtures("plugin")
def test_a_mark_without_its_three_sentences_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.fault(broken='x')\ndef test_it(): pass")
    said = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert said.ret == pytest.ExitCode.USAGE_ERROR
    said.stderr.fnmatch_lines(["*pytest.mark.fault takes broken, when, expected, by name"])


@pytest.mark.usefixtures("plugin")
def test_a_fault_that_does_not_say_on_what_it_is_tried_is_refused(pytester: pytest.Pytester) -> None:
    mark = "@pytest.mark.fault(broken='x', when='y', expected='z')"
    pytester.makepyfile(f"import pytest\n{mark}\ndef test_it(): pass")
    said = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert said.ret == pytest.ExitCode.USAGE_ERROR
    said.stderr.fnmatch_lines(["*on which backend or storage*"])


def test_long_cases_and_fifty_seeds_each_are_parts_of_a_run_and_the_short_ones_of_a_file_are_one() -> None:
    cases = [
        {"node": "tests/x/test_a.py::test_one[b-c]", "alone": True, "seeded": False},
        {"node": "tests/x/test_a.py::test_two", "alone": False, "seeded": False},
        {"node": "tests/x/test_a.py::test_three[d]", "alone": False, "seeded": False},
        {"node": "tests/x/test_s.py::test_life[0]", "alone": False, "seeded": True},
    ]
    found = {part.name: (part.targets, part.seeds) for part in run_faults.parts(cases, range(10, 70))}
    assert found == {
        "tests.x.test_a": (("tests/x/test_a.py::test_two", "tests/x/test_a.py::test_three[d]"), ""),
        "tests.x.test_a.b-c": (("tests/x/test_a.py::test_one[b-c]",), ""),
        "tests.x.test_s.10-59": (("tests/x/test_s.py",), "10-59"),
        "tests.x.test_s.60-69": (("tests/x/test_s.py",), "60-69"),
    }


REPORT = """<testsuites><testsuite name="pytest"><testcase file="a.py" classname="a" name="test_one" time="1">{}
</testcase></testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("inside", "well"), [("", True), ("<failure message='x'/>", False), ("<skipped message='x'/>", False)]
)
def test_only_a_part_that_ran_and_passed_is_left_out_when_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, well: bool
) -> None:
    monkeypatch.setattr(run_faults, "REPORTS", tmp_path)
    part = run_faults.Part("a", ("a.py",))
    assert not part.ended_well()
    part.report.write_text(REPORT.format(inside))
    assert part.ended_well() is well
    part.report.write_text(REPORT.format(inside)[:60])  # it was killed while it wrote
    assert not part.ended_well()


def test_a_run_says_beforehand_how_long_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_faults, "REPORTS", tmp_path)
    parts = [run_faults.Part(name, (f"{name}.py",)) for name in ("a", "b", "c")]
    assert run_faults.forecast(parts, parts[1:]) == (
        "2 of 3 parts to run; all parts take about 70 minutes on two processors"
    )
    parts[1].report.write_text(REPORT.format("").replace('time="1"', 'time="120"'))
    assert run_faults.forecast(parts, parts[1:]).endswith("1 of those to run took 2 minutes the last time")
