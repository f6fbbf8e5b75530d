"""docs/security.md names a test for each door, and each is there."""

from __future__ import annotations

import re

import features
from support.repository import tree

PAGE = (tree.ROOT / "docs" / "security.md").read_text()
DOORS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.split("## The doors")[1].split("\n## ")[0].splitlines()
    if line.startswith("|") and not line.startswith(("| door", "|---"))
]


def test_every_door_has_a_test_and_each_is_there() -> None:
    assert len(DOORS) >= 12
    for door, *_, tests in DOORS:
        named = re.findall(r"`(tests/[^`]+)`", tests)
        assert named, f"{door}: no test is named"
        missing = [node for node in named if not features.exists(node, tree.ROOT)]
        assert not missing, f"{door}: {missing}"
