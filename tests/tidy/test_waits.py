"""The table of waits in ``docs/operator.md`` says every limit that stands in the code, with its value."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from sparkstate_spec import built_in, fields

ROOT = Path(__file__).parents[2]
SOURCES = ("engine/src/sparkstate", "operator/src/sparkstate_operator", "spec/src/sparkstate_spec")
TEMPLATES = ROOT / "charts" / "sparkstate-operator" / "templates"
LEAST_S = 5.0
UNITS = {"_s": 1.0, "_ms": 1000.0}
NO_WAITS = {
    "runner.progress.PLAIN_PERIOD_S": "how often a line is printed",
    "driver.operator_figures.RATE_WINDOW_S": "the window of a rate",
    "driver.series.PERIOD_S": "the width of a point",
    "driver.long_work._LONGEST_MS": "beyond it no time left is told",
    "slots.snapshotting._TRIM_S": "how often is looked",
    "phases.MAX_HOLD_S": "of tests",
    "operators.state.cleanup._MERGE_MS": "how long epochs without rows go on sweeping",
    "objects.commands.TTL_S": "how long an ended Job is kept",
    "core.schedule.MAX_CRON_JITTER_S": "of a schedule",
    "periodic.SOON_S": "of a schedule",
    "events.QUIET_S": "between two equal Events",
    "decide.recovering.POLL_S": "how often is asked",
    "decide.instructing.POLL_S": "how often is asked",
    "decide.failover.STARTING_S": "how often is asked",
    "decide.predecessors.LOOK_S": "how often is looked",
    "config.Config.listen_s": "how often is asked",
    "config.Config.progress_s": "how often progress is written",
    "settings.PodSettings.grace_s": "Kubernetes' own, for a driver that is not told its pod's",
    "sinks.publication._KEPT_MS": "the age from which a ticket may have been dropped; nobody waits for it",
    "storage.probe._LEFT_MS": "the age from which a killed process's trial is deleted; nobody waits for it",
    "log.compaction.UNGUARDED_REST_S": "how long entries are kept; nobody waits for them to go",
    "storage.local.STALE_TEMPORARY_S": "the age from which a stranger's file is deleted; nobody waits for it",
}
"""What is no wait, or none that somebody notices, and why."""


def seconds(name: str, value: ast.expr | None) -> float | None:
    """By the unit in the name. None: it is no time, or no literal."""
    found, number = re.search(r"(?<!_per)(_s|_ms)$", name.lower()), literal(value)
    return None if found is None or number is None else number / UNITS[found[1]]


def literal(value: ast.expr | None) -> float | None:
    """A number, or a product of numbers."""
    if isinstance(value, ast.Constant):
        number = value.value
        return float(number) if isinstance(number, int | float) and not isinstance(number, bool) else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        left, right = literal(value.left), literal(value.right)
        return None if left is None or right is None else left * right
    return None


def assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """What a statement gives names to; also a tuple of them."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(target.elts, node.value.elts, strict=True)]
            else:
                pairs = [(target, node.value)]
            yield from ((one.id, value) for one, value in pairs if isinstance(one, ast.Name))


def defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Of the parameters of a function."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    if given.defaults:
        for one, value in zip(positional[-len(given.defaults) :], given.defaults, strict=True):
            yield f"{node.name}.{one.arg}", value
    for keyword, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield f"{node.name}.{keyword.arg}", default


def named(body: list[ast.stmt], within: str) -> Iterator[tuple[str, ast.expr | None]]:
    """Constants of a module, fields of its classes, and defaults of its functions, by their full names."""
    for node in body:
        for name, value in assigned(node):
            yield f"{within}.{name}", value
        if isinstance(node, ast.ClassDef):
            yield from named(node.body, f"{within}.{node.name}")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((f"{within}.{name}", value) for name, value in defaults(node))


def constants() -> Iterator[tuple[str, float]]:
    """Name and seconds of every limit in the code."""
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT / source).with_suffix("").parts)
            for name, value in named(ast.parse(path.read_text(encoding="utf-8")).body, module):
                found_s = seconds(name, value)
                if found_s is not None:
                    yield name, found_s


def of_chart() -> Iterator[tuple[str, float]]:
    """Name and seconds of every limit in the chart's objects: the file, and the field in its parent."""
    for path in sorted(TEMPLATES.rglob("*.yaml")):
        above: dict[int, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            if (found := re.match(r"( *)(?:- )?(\w+):(?: ([0-9]+)$)?", line)) is None:
                continue
            indent, key, number = len(found[1]), found[2], found[3]
            above = {**{deep: name for deep, name in above.items() if deep < indent}, indent: key}
            if key.endswith("Seconds") and number:
                yield f"{path.name} {'.'.join(list(above.values())[-2:])}", float(number)


ALL = [*constants(), *of_chart()]
FOUND = {name: value for name, value in ALL if value >= LEAST_S}


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "operator.md").read_text(encoding="utf-8")
    section = text.split("\n## Waits\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def begins_with_s(row: list[str]) -> float:
    found = re.match(r"([0-9.]+) s\b", row[1])
    assert found is not None, f"{row[0]}: {row[1]!r} begins with no number of seconds"
    return float(found[1])


def told() -> Mapping[str, float]:
    """By the names in the last column."""
    found = {}
    for row in rows():
        assert len(row) == 5, row
        assert all(row), f"a row with an empty cell: {row}"
        names = re.findall(r"`([^`]+)`", row[4])
        assert names or row[4] in ("settings", "no limit"), f"a row that is held against nothing: {row}"
        for name in names:
            found[name] = begins_with_s(row)
    return found


def test_every_limit_is_found_once() -> None:
    assert len(dict(ALL)) == len(ALL)


@pytest.mark.parametrize("name", sorted(set(FOUND) - set(NO_WAITS)))
def test_a_limit_of_the_code_stands_in_the_table_with_its_value(name: str) -> None:
    assert told().get(name) == FOUND[name], (
        f"{name} = {FOUND[name]:g} s: add or correct its row in docs/operator.md"
    )


def test_the_table_names_nothing_that_is_not_in_the_code() -> None:
    assert set(told()) <= set(FOUND)
    assert set(FOUND) >= set(NO_WAITS)


WAITING = {
    "acquire",
    "call_later",
    "join",
    "poll",
    "result",
    "select",
    "settimeout",
    "sleep",
    "wait",
    "wait_for",
}
"""Calls whose arguments are times, unless they have a name that says so."""


def unnamed(module: ast.AST) -> Iterator[tuple[int, float]]:
    """Line and seconds of limits that are written where they are used, so that no name finds them."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            by_place = [(1.0, value) for value in node.args if name in WAITING]
            by_name = [
                (UNITS[found[1] or "_s"], one.value)
                for one in node.keywords
                if (found := re.search(r"(?<!_per)(_s|_ms)$|timeout$|[sS]econds$", one.arg or ""))
            ]
            for unit, value in (*by_place, *by_name):
                number = literal(value)
                if number is not None and number / unit >= LEAST_S:
                    yield node.lineno, number / unit


def test_no_limit_is_written_where_it_is_used() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {limit_s:g} s"
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        if path.name != "examples.py"  # what REST answers look like
        for line, limit_s in unnamed(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == [], "give it a name that ends in _S, and a row in docs/operator.md"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("event.wait(30)", [30.0]),
        ("socket.settimeout(2 * 30)", [60.0]),
        ("run(timeout=7)", [7.0]),
        ("call(limit_ms=7000)", [7.0]),
        ("call(graceSeconds=7)", [7.0]),
        ("event.wait(LIMIT_S)\nevent.wait(1)\nqueue.get(30)\ncall(rows_per_s=50)", []),
    ],
)
def test_how_a_limit_without_a_name_may_be_written(text: str, found: list[float]) -> None:
    assert [limit_s for _, limit_s in unnamed(ast.parse(text))] == found


@pytest.mark.parametrize("row", [row for row in rows() if row[4] == "settings"], ids=lambda row: str(row[0]))
def test_a_setting_has_its_built_in_value_in_the_table(row: list[str]) -> None:
    setting = re.match(r"`([^`]+)`", row[2])
    assert setting is not None, f"{row[0]}: names no setting"
    assert fields.BY_PATH[setting[1]].kind == "duration"
    assert begins_with_s(row) == built_in.plain(setting[1])


def test_a_value_of_the_chart_is_the_one_in_the_table() -> None:
    given = yaml.safe_load((TEMPLATES.parent / "values.yaml").read_text(encoding="utf-8"))
    named = {
        path: begins_with_s(row) for row in rows() for path in re.findall(r"`([\w.]+)` of the chart", row[2])
    }
    assert set(named) == {"resyncSeconds", "leaderElection.leaseSeconds"}
    for path, value_s in named.items():
        assert functools.reduce(operator.getitem, path.split("."), given) == value_s


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A_S = 7", {"m.A_S": 7.0}),
        ("A_S: Final = 7.0", {"m.A_S": 7.0}),
        ("A_S, B_S = 7, 8.0", {"m.A_S": 7.0, "m.B_S": 8.0}),
        ("_A_MS = 2 * 3600 * 1000", {"m._A_MS": 7200.0}),
        ("class C:\n    a_s: int = 7", {"m.C.a_s": 7.0}),
        ("def f(a, b_s=7, *, c_s: float = 8): ...", {"m.f.b_s": 7.0, "m.f.c_s": 8.0}),
        ("class C:\n    async def f(self, a_s: float = 7): ...", {"m.C.f.a_s": 7.0}),
        ("A_S = True\nSIZE = 7\nB_S = other\nlooks_per_s = 7", {}),
    ],
)
def test_how_a_limit_may_be_written(text: str, found: dict[str, float]) -> None:
    all_named = ((name, seconds(name, value)) for name, value in named(ast.parse(text).body, "m"))
    assert {name: value for name, value in all_named if value is not None} == found
