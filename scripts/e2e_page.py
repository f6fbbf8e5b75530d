"""``docs/real-nodes.md``: every test on real nodes, and its result in the last run.

The rows are the functions of ``tests/e2e``, the results come from JUnit files. The page is its own store, as
``docs/faults.md`` is: a run of some of the tests renews their rows and leaves the others as they were.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import faults_page

from sparkstate_tools.verdicts import junit

COLUMNS = ("expected", "result", "runs", "last run", "test")

HEAD = """# Tests on real nodes, and their results

`make e2e` writes this page; do not edit it. Each row is one test on real nodes. Kubelets and containerd run
containers of our images, with the operator as its chart installs it, a real S3 server and real Spark
([tests/README.md](../tests/README.md) describes the setup). A row shows the result and the date of the last
run of the test. `runs` counts the parameter sets of the test.

`make bench-nodes` measures on such a node how much CPU time a row takes with 1, 2, 4 and 8 slots
([sizing.md](sizing.md#on-a-node-with-executors-in-pods-of-their-own) has the figures).
"""


class Result(NamedTuple):
    """The result of a test in its last run."""

    outcome: str = faults_page.NOT_RUN
    runs: int = 0
    day: str = "-"


def registry(folder: Path, root: Path) -> list[str]:
    """Node ids, without parameters, of the test functions in the files of ``folder``, in the order of the files."""
    return [
        f"{path.relative_to(root)}::{found.name}"
        for path in sorted(folder.glob("test_*.py"))
        for found in ast.parse(path.read_text()).body
        if isinstance(found, ast.FunctionDef) and found.name.startswith("test_")
    ]


def from_cases(cases: Iterable[junit.Case], day: str) -> dict[str, Result]:
    """What ran, by node id."""
    seen: dict[str, list[junit.Case]] = defaultdict(list)
    for case in cases:
        seen[case.node].append(case)
    return {
        node: Result(
            faults_page.outcome(ran),
            sum(case.outcome != junit.SKIPPED for case in ran),
            day,
        )
        for node, ran in seen.items()
    }


def merge(
    tests: Collection[str], before: Mapping[str, Result], ran: Mapping[str, Result]
) -> dict[str, Result]:
    """One result per test: of this run, else the one known before, else ``not run``."""
    return {node: ran.get(node) or before.get(node) or Result() for node in tests}


def render(results: Mapping[str, Result]) -> str:
    """The page: one table."""
    good = sum(result.outcome == faults_page.AS_EXPECTED for result in results.values())
    waiting = sum(result.outcome.startswith(faults_page.NOT_RUN) for result in results.values())
    said = f"{len(results)} tests: {good} as expected, {len(results) - good - waiting} failed, {waiting} not run."
    lines = [HEAD, said, "", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*lines, *(_line(node, result) for node, result in results.items())]) + "\n"


def _line(node: str, result: Result) -> str:
    said = node.rpartition("::test_")[2].replace("_", " ")
    return faults_page.line_of((said, result.outcome, str(result.runs), result.day, f"`{node}`"))


def parse(page: str) -> dict[str, Result]:
    """What :func:`render` wrote."""
    found = {}
    for line in page.splitlines():
        if cells := faults_page.cells_of(line, COLUMNS):
            found[cells[-1].strip("`")] = Result(cells[1], int(cells[2]), cells[3])
    return found
