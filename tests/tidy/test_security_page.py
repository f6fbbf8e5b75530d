"""docs/security.md names a test for each door, and each is there."""

from __future__ import annotations

import re

import features
from support.repository import tree

from sparkstate_operator import labels

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


def test_the_traffic_to_allow_names_everything_that_a_job_and_its_operator_need() -> None:
    """A policy made from a shorter list would cut off a purge from the storage, or every pod from DNS."""
    (paragraph,) = re.findall(r"## What the network should do\n(.+?)(?=\n## |\Z)", PAGE, re.DOTALL)
    lines = [line for line in paragraph.splitlines() if line.startswith("- ")]
    for wanted in (
        ("the operator", "API server"),
        ("the driver", "API server"),
        ("engine commands", f"{labels.ROLE}: command", "storage"),
        ("driver", "executors", "sources", "sinks"),
        ("driver", "executors", "engine commands", "DNS", "53"),
    ):
        assert [line for line in lines if all(word in line for word in wanted)], wanted
    cluster = (tree.ROOT / "docs" / "kubernetes.md").read_text()
    assert "security.md#what-the-network-should-do" in cluster
