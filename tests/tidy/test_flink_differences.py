"""The page of differences to Flink: every row has its reason, and the tests that it names exist."""

from __future__ import annotations

import re

import features
import pytest
from support.repository import tree

PAGE = (tree.ROOT / "docs" / "flink-differences.md").read_text()
HEADS = ("what", "---")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.strip("| ").startswith(HEADS)
]


def test_every_row_says_what_flink_does_what_is_done_here_and_why() -> None:
    assert len(ROWS) > 20
    assert [row for row in ROWS if len(row) != 5 or not all(row[:4])] == []


def test_every_row_names_a_test() -> None:
    assert [row[0] for row in ROWS if not re.search(r"`tests/[^`]+`", row[4])] == []


@pytest.mark.parametrize("node", sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE))))
def test_the_tests_that_it_names_exist(node: str) -> None:
    assert features.exists(node, tree.ROOT)


def test_the_readme_and_the_page_of_state_lead_there() -> None:
    for page in ("README.md", "docs/state-backends.md", "docs/features.md"):
        assert "flink-differences.md" in (tree.ROOT / page).read_text()
