"""Checks ``docs/features.md``: the list of everything promised, and what proves it.

Two halves. The static one (``make check``) needs no run: each row is there exactly once, and each row that
says ``done`` names tests that exist. The other (end of ``make test``) reads the JUnit files and proves that
each named test ran and passed; a skipped test proves nothing. A row proven by ``make e2e`` names its test in
the form ``make e2e: tests/e2e/...``; it must exist but does not run in ``make test``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkstate_tools.verdicts import junit

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "features.md"
DONE, NOT_YET = "done", "not yet"
E2E_PREFIX = "make e2e: "


def expected_ids() -> list[str]:
    """The rows that must be there: what Flink's documents name, the engine's features, its speed, the operator's."""
    documents = [f"{part}.{n}" for part, last in enumerate((28, 50, 17, 18, 11)) for n in range(1, last + 1)]
    features = [f"F{n:02}" for n in range(1, 56)]
    speed = [f"S{n:02}" for n in range(1, 6)]
    return documents + features + speed + [f"O{n:02}" for n in range(1, 96)]


@dataclass(frozen=True)
class Row:
    """One line of the page."""

    id: str
    feature: str
    state: str
    proof: str

    @property
    def tests(self) -> list[str]:
        """The node ids named as proof."""
        return re.findall(r"`(?:make e2e: )?(tests/[^`]+)`", self.proof)

    @property
    def unmarked(self) -> list[str]:
        """Proofs that ``make test`` does not run, and that do not say so."""
        marked = re.findall(rf"`{E2E_PREFIX}(tests/[^`]+)`", self.proof)
        return [node for node in self.tests if is_e2e(node) != (node in marked)]


def is_e2e(node: str) -> bool:
    """Whether a test runs in ``make e2e`` and not in ``make test``."""
    return node.startswith("tests/e2e/")


def rows(text: str) -> Iterator[Row]:
    """The rows of all tables whose first cell looks like a row's id."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and re.fullmatch(r"\d\.\d+|[FOS]\d\d", cells[0]):
            yield Row(*cells)


def static_problems(listed: Sequence[Row], root: Path) -> list[str]:
    """What is wrong with the page itself."""
    problems = presence_problems([row.id for row in listed])
    for row in listed:
        if row.state not in {DONE, NOT_YET}:
            problems.append(f"{row.id}: state {row.state!r}; it is `{DONE}` or `{NOT_YET}`")
        if not row.feature:
            problems.append(f"{row.id}: says nothing")
        if row.state == DONE and not row.tests:
            problems.append(f"{row.id}: done, but no test is named")
        problems += [
            f"{row.id}: {node}: `{E2E_PREFIX}` stands before tests of tests/e2e, and only there"
            for node in row.unmarked
        ]
        problems += [f"{row.id}: {node} does not exist" for node in row.tests if not exists(node, root)]
    return problems


def presence_problems(ids: Sequence[str]) -> list[str]:
    """Rows that are missing, unknown or there twice."""
    expected = expected_ids()
    problems = [f"{row}: missing" for row in expected if row not in ids]
    problems += [f"{row}: no such row" for row in ids if row not in expected]
    problems += [f"{row}: there more than once" for row in sorted(set(ids)) if ids.count(row) > 1]
    return problems


def exists(node: str, root: Path) -> bool:
    """Whether a node id names a test function (or a method of a test class) of the tree."""
    path, *names = node.split("::")
    file = root / path
    if not names or not file.is_file():
        return False
    body: Sequence[ast.stmt] = ast.parse(file.read_text()).body
    for name in names:
        found = [statement for statement in body if getattr(statement, "name", None) == name]
        if not found:
            return is_state_machine(body, name)
        body = getattr(found[0], "body", [])
    return names[-1].startswith("test")


def is_state_machine(body: Sequence[ast.stmt], name: str) -> bool:
    """Hypothesis' state machines become tests by an assignment: ``TestLife = Machine.TestCase``."""
    assigned = [target for item in body if isinstance(item, ast.Assign) for target in item.targets]
    inherited = name == "runTest"
    return inherited or any(isinstance(target, ast.Name) and target.id == name for target in assigned)


def run_problems(listed: Sequence[Row], outcomes: dict[str, set[str]]) -> list[str]:
    """Which proofs of done rows did not run, or did not pass."""
    problems = []
    for row in listed:
        if row.state != DONE:
            continue
        for node in (each for each in row.tests if not is_e2e(each)):
            seen = outcomes.get(node, set())
            if seen != {junit.PASSED}:
                problems.append(f"{row.id}: {node} {' and '.join(sorted(seen)) or 'did not run'}")
    return problems


def compare_with_run(cases: Sequence[junit.Case]) -> list[str]:
    """Both halves against the last run; called at the end of ``make test``."""
    listed = list(rows(PAGE.read_text()))
    return static_problems(listed, ROOT) + run_problems(listed, junit.outcomes(cases))


def main() -> int:
    """The static half; prints how much is done."""
    listed = list(rows(PAGE.read_text()))
    problems = static_problems(listed, ROOT)
    for problem in problems:
        print(problem)
    done = sum(row.state == DONE for row in listed)
    print(f"{len(listed)} rows, {done} done, {len(listed) - done} not yet, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
