"""``docs/real-nodes.md`` has a line for every test on real nodes, and claims nothing that did not run."""

from __future__ import annotations

from pathlib import Path

import e2e_page
import run_e2e
from e2e_page import Result

from sparkstate_tools.verdicts import junit

ONE, TWO = "tests/e2e/test_a.py::test_one_goes", "tests/e2e/test_b.py::test_two_goes"


def case(node: str, outcome: str = junit.PASSED) -> junit.Case:
    return junit.Case(node, node, outcome, 7.0, "no root")


def test_the_page_has_a_line_for_every_test_on_nodes_and_no_other() -> None:
    written = e2e_page.parse(run_e2e.PAGE.read_text())
    assert list(written) == e2e_page.registry(run_e2e.TESTS, run_e2e.ROOT), (
        "scripts/run_e2e.py --page renews it"
    )


def test_no_line_of_the_page_failed() -> None:
    written = e2e_page.parse(run_e2e.PAGE.read_text())
    assert [node for node, result in written.items() if "failed" in result.outcome] == []


def test_the_page_gives_back_what_was_written_into_it() -> None:
    ran = e2e_page.from_cases([case(ONE), case(ONE), case(TWO, junit.SKIPPED)], "2026-01-31")
    assert ran == {
        ONE: Result("as expected", 2, "2026-01-31"),
        TWO: Result("not run: no root", 0, "2026-01-31"),
    }
    page = e2e_page.render(ran)
    assert e2e_page.parse(page) == ran
    assert "2 tests: 1 as expected, 0 failed, 1 not run." in page
    assert "| one goes | as expected |" in page


def test_a_run_of_some_tests_leaves_the_lines_of_the_others() -> None:
    before = {ONE: Result("as expected", 1, "2026-01-30"), "tests/e2e/test_gone.py::test_x": Result()}
    ran = {TWO: Result("**failed** in 1 of 2", 2, "2026-01-31")}
    assert e2e_page.merge([ONE, TWO], before, ran) == {ONE: before[ONE], **ran}
    assert e2e_page.merge([ONE, TWO], {}, {}) == {ONE: Result(), TWO: Result()}


def test_tests_are_found_in_their_files_and_helpers_are_not(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def helper(): ...\ndef test_one_goes(): ...\n")
    (tmp_path / "conftest.py").write_text("def test_not(): ...\n")
    assert e2e_page.registry(tmp_path, tmp_path) == ["test_a.py::test_one_goes"]
