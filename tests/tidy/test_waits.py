"""The table of waits in ``docs/operator.md`` says every limit that stands in the code, with its value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("engine/src/sparkstate", "operator/src/sparkstate_operator", "spec/src/sparkstate_spec")
LEAST_S = 5.0
NO_WAITS = {
    "runner.progress.PLAIN_PERIOD_S",  # how often a line is printed
    "driver.view.RATE_WINDOW_S",  # of a rate
    "slots.snapshotting._TRIM_S",  # how often is looked
    "phases.MAX_HOLD_S",  # of tests
    "objects.tasks.TTL_S",  # how long an ended Job is kept
    "core.schedule.MAX_CRON_JITTER_S",  # of a schedule
    "core.schedule.SOON_S",
    "events.QUIET_S",  # between two equal Events
    "decide.recovering.POLL_S",  # how often is asked
    "decide.instructing.POLL_S",
    "decide.failover.STARTING_S",
}


def constants() -> Iterator[tuple[str, float]]:
    """Name and value of every module's limits in seconds."""
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT / source).with_suffix("").parts)
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                if isinstance(target, ast.Name) and target.id.endswith("_S"):
                    value = getattr(node, "value", None)
                    if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                        yield f"{module}.{target.id}", float(value.value)


FOUND = {name: value for name, value in constants() if value >= LEAST_S}


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "operator.md").read_text(encoding="utf-8")
    section = text.split("\n## Waits\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def told() -> dict[str, float]:
    """By the constants that the last column names."""
    found = {}
    for row in rows():
        assert len(row) == 5, row
        assert all(row), f"a row with an empty cell: {row}"
        for name in re.findall(r"`([a-z0-9_.]+\.[A-Z_]+_S)`", row[4]):
            seconds = re.match(r"([0-9.]+) s\b", row[1])
            assert seconds is not None, f"{name}: {row[1]!r} begins with no number of seconds"
            found[name] = float(seconds[1])
    return found


@pytest.mark.parametrize("name", sorted(set(FOUND) - NO_WAITS))
def test_a_limit_of_the_code_stands_in_the_table_with_its_value(name: str) -> None:
    assert told().get(name) == FOUND[name], (
        f"{name} = {FOUND[name]:g} s: add or correct its row in docs/operator.md"
    )


def test_the_table_names_nothing_that_is_not_in_the_code() -> None:
    assert set(told()) <= set(FOUND)
    assert set(FOUND) >= NO_WAITS
