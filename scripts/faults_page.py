"""``docs/faults.md``: every fault that tests inject on purpose, and its outcome.

The rows come from the marks of the tests (``tests/support/faults.py``), the results from JUnit files; what did not run
says so. The page is its own store: a run of some of the tests renews their rows and leaves the others as they were.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sparkstate_tools.verdicts import junit

AS_EXPECTED, NOT_RUN = "as expected", "not run"
COLUMNS = ("broken", "when", "on", "expected", "outcome", "runs", "test")

HEAD = """# Faults injected on purpose, and their outcomes

`make faults` writes this page; do not edit it. Each row is one kind of fault. The row says what is broken,
when (for processes: in which phase), on which backend or storage, and what is expected. The outcome is that
of the last run; a row that has never run says so. `runs` counts the runs with that fault: parameters, seeds
and generated lives. [The glossary](GLOSSARY.md) explains the terms. [tests/README.md](../tests/README.md)
describes the tests. Faults on real nodes, such as a cut network or a pod that the kernel kills, have a page
of their own: [real-nodes.md](real-nodes.md).
"""


FULL = re.compile(
    r"^The last full run ended on (\d{4}-\d\d-\d\d), of commit ([0-9a-f]{7,40})\.$", re.MULTILINE
)
"""The line of the page that tells of ``make faults`` without a choice of files."""


class FullRun(NamedTuple):
    """When all faults ran the last time, and of which commit."""

    day: str
    commit: str


class Key(NamedTuple):
    """What makes a row: its sentences and its test."""

    broken: str
    when: str
    on: str
    expected: str
    test: str


class Result(NamedTuple):
    """The result of a row in its last run."""

    outcome: str = NOT_RUN
    runs: int = 0


def from_cases(cases: Iterable[junit.Case]) -> dict[Key, Result]:
    """The rows that ran. One failed case makes the row a failed one, one skipped case an incomplete one."""
    seen: dict[Key, list[junit.Case]] = defaultdict(list)
    for case in cases:
        for name, value in case.properties:
            row = json.loads(value) if name == "fault" else ()
            if len(row) == len(Key._fields):  # else an earlier version of the tests wrote the file
                seen[Key(*row)].append(case)
    return {key: Result(outcome(ran), sum(map(runs_of, ran))) for key, ran in seen.items()}


def outcome(cases: Sequence[junit.Case]) -> str:
    """The outcome of a row, in words: that of its worst case."""
    failed = sum(case.outcome == junit.FAILED for case in cases)
    if failed:
        return f"**failed** in {failed} of {len(cases)}"
    skipped = [case.message for case in cases if case.outcome == junit.SKIPPED]
    return f"{NOT_RUN}: {skipped[0].splitlines()[0]}" if skipped else AS_EXPECTED


def runs_of(case: junit.Case) -> int:
    """How many runs one case stands for."""
    told = [int(value) for name, value in case.properties if name == "runs"]
    return 0 if case.outcome == junit.SKIPPED else sum(told) or 1


def merge(
    registry: Collection[Key], before: Mapping[Key, Result], ran: Mapping[Key, Result]
) -> dict[Key, Result]:
    """One result per registered row: of this run, else the one known before, else ``not run``."""
    return {key: ran.get(key) or before.get(key) or Result() for key in sorted(registry, key=_order)}


def _order(key: Key) -> tuple[str, ...]:
    return (key.test.split("::")[0], key.test, key.broken, key.when, key.on)


def render(results: Mapping[Key, Result], full: FullRun | None = None) -> str:
    """The page: a table for each file of tests."""
    title, _, explained = HEAD.partition("\n\n")
    told = [f"The last full run ended on {full.day}, of commit {full.commit}."] if full else []
    parts = ["\n\n".join([title, *told, explained]), _summary(results)]
    for file in dict.fromkeys(key.test.split("::")[0] for key in results):
        parts += [f"\n## `{file}`\n", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        parts += [_line(key, result) for key, result in results.items() if key.test.split("::")[0] == file]
    return "\n".join(parts) + "\n"


def _summary(results: Mapping[Key, Result]) -> str:
    runs = sum(result.runs for result in results.values())
    good = sum(result.outcome == AS_EXPECTED for result in results.values())
    waiting = sum(result.outcome.startswith(NOT_RUN) for result in results.values())
    failed = len(results) - good - waiting
    return f"{len(results)} faults, {runs} runs: {good} as expected, {failed} failed, {waiting} not run."


def _line(key: Key, result: Result) -> str:
    return line_of(
        (key.broken, key.when, key.on, key.expected, result.outcome, str(result.runs), f"`{key.test}`")
    )


def line_of(cells: Sequence[str]) -> str:
    """A line of a table, whose last cell names the test."""
    return f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |"


def cells_of(line: str, columns: Sequence[str]) -> list[str] | None:
    """What :func:`line_of` wrote; None for every other line of the page."""
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    ours = line.startswith("|") and len(cells) == len(columns) and re.fullmatch(r"`tests/[^`]+`", cells[-1])
    return cells if ours else None


def parse(page: str) -> dict[Key, Result]:
    """What :func:`render` wrote."""
    found = {}
    for line in page.splitlines():
        if cells := cells_of(line, COLUMNS):
            found[Key(*cells[:4], cells[-1].strip("`"))] = Result(cells[4], int(cells[5]))
    return found


def full_run(page: str) -> FullRun | None:
    """The last full run that the page tells of."""
    found = FULL.search(page)
    return FullRun(*found.groups()) if found else None
