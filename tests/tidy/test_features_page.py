"""The check of ``docs/features.md`` finds what it shall find."""

from __future__ import annotations

from pathlib import Path

import features
import pytest
from support.repository import tree

from sparkstate_tools.verdicts import junit

PROOF = "tests/unit/test_x.py::test_it_works"


def row(state: str = features.DONE, proof: str = f"`{PROOF}`", number: str = "0.1") -> features.Row:
    return features.Row(number, "does something", state, proof)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (folder / "test_x.py").write_text(
        "def test_it_works(): pass\n"
        "def helper(): pass\n"
        "class TestGroup:\n    def test_inside(self): pass\n"
        "TestLife = Machine.TestCase\n"
    )
    return tmp_path


def test_the_page_of_this_repository_is_in_order() -> None:
    assert features.static_problems(list(features.rows(features.PAGE.read_text())), tree.ROOT) == []


def test_each_row_is_expected_once() -> None:
    assert len(features.expected_ids()) == len(set(features.expected_ids()))


def test_a_missing_a_doubled_and_an_unknown_row_are_found() -> None:
    ids = [*features.expected_ids()[1:], "F01", "9.9"]
    assert set(features.presence_problems(ids)) == {
        "0.1: missing",
        "F01: there more than once",
        "9.9: no such row",
    }


@pytest.mark.parametrize(
    "node",
    [
        pytest.param("tests/unit/test_x.py::test_it_works", id="function"),
        pytest.param("tests/unit/test_x.py::TestGroup::test_inside", id="method"),
        pytest.param("tests/unit/test_x.py::TestLife::runTest", id="state-machine"),
    ],
)
def test_tests_that_exist_are_found(node: str, repository: Path) -> None:
    assert features.exists(node, repository)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param("tests/unit/test_y.py::test_it_works", id="no-such-file"),
        pytest.param("tests/unit/test_x.py::test_another", id="no-such-function"),
        pytest.param("tests/unit/test_x.py::helper", id="not-a-test"),
        pytest.param("tests/unit/test_x.py::TestGroup::test_another", id="no-such-method"),
        pytest.param("tests/unit/test_x.py::TestOther::runTest", id="no-such-machine"),
        pytest.param("tests/unit/test_x.py", id="a-whole-file"),
    ],
)
def test_tests_that_do_not_exist_are_noticed(node: str, repository: Path) -> None:
    assert not features.exists(node, repository)


def test_a_done_row_needs_a_test_and_a_known_state() -> None:
    told = features.static_problems([row(proof=""), row(state="nearly")], tree.ROOT)
    assert "0.1: done, but no test is named" in told
    assert any("'nearly'" in problem for problem in told)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        pytest.param({}, "did not run", id="did-not-run"),
        pytest.param({PROOF: {junit.SKIPPED}}, "skipped", id="skipped"),
        pytest.param({PROOF: {junit.FAILED}}, "failed", id="failed"),
        pytest.param({PROOF: {junit.PASSED, junit.SKIPPED}}, "passed and skipped", id="partly-skipped"),
    ],
)
def test_a_proof_that_did_not_pass_whole_is_no_proof(seen: dict[str, set[str]], said: str) -> None:
    assert features.run_problems([row()], seen) == [f"0.1: {PROOF} {said}"]


def test_a_proof_that_passed_is_enough_and_other_rows_need_none() -> None:
    passed = {PROOF: {junit.PASSED}}
    assert features.run_problems([row()], passed) == []
    assert features.run_problems([row(state=features.NOT_YET)], {}) == []
    both = row(proof="`make e2e: tests/e2e/test_a.py::test_b`, `tests/unit/test_c.py::test_d`")
    assert features.run_problems([row(proof="`make e2e: tests/e2e/test_a.py::test_b`")], {}) == []
    assert features.run_problems([both], {}) == [f"{both.id}: tests/unit/test_c.py::test_d did not run"]


def test_a_proof_says_that_it_runs_in_make_e2e_and_only_then() -> None:
    assert row(proof="`tests/e2e/test_a.py::test_b`").unmarked == ["tests/e2e/test_a.py::test_b"]
    assert row(proof="`make e2e: tests/unit/test_c.py::test_d`").unmarked == ["tests/unit/test_c.py::test_d"]
    assert row(proof="`make e2e: tests/e2e/test_a.py::test_b`").unmarked == []


def test_junit_files_give_back_node_ids_and_outcomes(tmp_path: Path, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_sample="""
        import pytest

        @pytest.mark.parametrize("n", [1, 2])
        def test_numbers(n): assert n == 1

        class TestGroup:
            def test_inside(self): pass

        def test_left_out(): pytest.skip("not here")

        @pytest.fixture
        def broken(): raise OSError

        def test_with_broken_ground(broken): pass
        """
    )
    report = tmp_path / "sample.xml"
    pytester.runpytest_subprocess(
        "-o", "junit_family=xunit1", f"--junitxml={report}", "-p", "no:cacheprovider"
    )
    assert junit.outcomes(junit.read(tmp_path)) == {
        "test_sample.py::test_numbers": {junit.PASSED, junit.FAILED},
        "test_sample.py::TestGroup::test_inside": {junit.PASSED},
        "test_sample.py::test_left_out": {junit.SKIPPED},
        "test_sample.py::test_with_broken_ground": {junit.FAILED},
    }


def test_a_report_cut_short_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "cut.xml").write_text('<testsuites><testsuite><testcase name="test_a" file="a.py"')
    assert junit.read(tmp_path) == []
