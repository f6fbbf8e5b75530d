"""The registry of faults: a pytest plugin, loaded by ``tests/conftest.py``.

A test that breaks something on purpose says so, and so becomes a row of ``docs/faults.md``::

    @pytest.mark.fault(
        broken="the driver is killed (SIGKILL)",
        when="in the phase {phase}",
        expected="the next attempt goes on from the last checkpoint; output exact",
    )
    @pytest.mark.parametrize("phase", ["feed", "commit"])
    def test_a_driver_killed_in_a_phase_…(phase): …

``{name}`` stands for the value of that parameter, so this makes two rows. The mark may also stand on a single
``pytest.param(…, marks=pytest.mark.fault(…))``, and several times on one test. On what it was tried (which backend,
which storage) is read from parameters of the names in ``PLACES``, else said by ``pytest.mark.fault_on("S3")``. Cases
with equal sentences on the same ground are one row, their number is its number of runs. A test with many lives in one
case says how many by ``record_property("runs", n)``.

Marked ``extra``, a case runs in ``make faults`` only. A test that takes ``fault_seed`` runs once per seed: a fixed
sample in ``make test``, ``--fault-seeds=200`` in ``make faults``, ``--fault-seeds=17-17`` for one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

SENTENCES = ("broken", "when", "expected")
PROPERTY = "fault"
PLACES: Mapping[str, Mapping[object, str]] = {
    "backend": {},
    "stores": {},
    "snapshot": {False: "checkpoint", True: "savepoint"},
    "root": {"local": "a folder", "s3": "S3"},
}
"""Parameters that say on what a fault is tried, and words for their values where they are not words."""
SAMPLE = 10
"""Seeds in ``make test``."""


class Fault(NamedTuple):
    """One row: what is broken, when, on what, and what must come of it."""

    broken: str
    when: str
    on: str
    expected: str


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--fault-seeds", default=str(SAMPLE), metavar="N|A-B", help="how many seeds, or which")
    group.addoption(
        "--faults-list", type=Path, metavar="FILE", help="write the registry of what was collected"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(broken, when, expected): a row of docs/faults.md")
    config.addinivalue_line("markers", "fault_on(what): the backend or storage that its faults are tried on")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault_seed" in metafunc.fixturenames:
        metafunc.parametrize("fault_seed", seeds(metafunc.config.getoption("--fault-seeds")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        rows = [(*fault, function_of(item)) for fault in faults_of(item)]
        # The test's name as well: JUnit files show a state machine under the file of its library.
        item.user_properties.extend((PROPERTY, json.dumps(row)) for row in rows)


def pytest_collection_finish(session: pytest.Session) -> None:
    target: Path | None = session.config.getoption("--faults-list")
    if target is not None:
        rows = {(*fault, function_of(item)) for item in session.items for fault in faults_of(item)}
        cases = [
            {
                "node": item.nodeid,
                "alone": item.get_closest_marker("extra") is not None,
                "seeded": "fault_seed" in getattr(item, "fixturenames", ()),
            }
            for item in session.items
        ]
        target.write_text(json.dumps({"rows": sorted(rows), "cases": cases}, indent=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and any(report.when == "call" for _ in item.iter_markers("fault")):
        report.sections.append(("repeat it", f"{repeat_command(item)}"))
    return report


def in_full(many: int, *, else_: int) -> int:
    """How many examples Hypothesis tries: ``many`` in ``make faults``, ``else_`` in ``make test``."""
    return many if settings.get_current_profile_name() == "faults" else else_


def tried(many: int) -> int:
    """How many examples Hypothesis tries: ``many`` on a developer's machine, where they differ from run to run, and a
    third of them in continuous integration, where they are always the same."""
    return max(3, many // 3) if settings.get_current_profile_name() == "ci" else many


def extras(*values: object) -> list[Any]:
    """These values of a parameter, each left out of ``make test``."""
    return [pytest.param(value, marks=pytest.mark.extra) for value in values]


def seeds(text: str) -> list[int]:
    """``12`` means 0 to 11, ``3-5`` means 3, 4, 5."""
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else list(range(int(first)))


def faults_of(item: pytest.Item) -> list[Fault]:
    """The rows of one case, its parameters filled in."""
    callspec = getattr(item, "callspec", None)
    values = dict(callspec.params) if callspec else {}
    found = []
    for mark in item.iter_markers("fault"):
        if mark.args or set(mark.kwargs) != set(SENTENCES):
            raise pytest.UsageError(f"{item.nodeid}: pytest.mark.fault takes {', '.join(SENTENCES)}, by name")
        said = {name: text.format(**values) for name, text in mark.kwargs.items()}
        found.append(Fault(on=_on(item, values), **said))
    return found


def _on(item: pytest.Item, values: Mapping[str, object]) -> str:
    mark = item.get_closest_marker("fault_on")
    said = [str(mark.args[0])] if mark else []
    said += [words.get(values[name], str(values[name])) for name, words in PLACES.items() if name in values]
    if not said:
        raise pytest.UsageError(f"{item.nodeid}: on which backend or storage? pytest.mark.fault_on says it")
    return ", ".join(said)


def function_of(item: pytest.Item) -> str:
    """The node id without parameters."""
    return item.nodeid.partition("[")[0]


def repeat_command(item: pytest.Item) -> str:
    """What runs this one case again."""
    callspec = getattr(item, "callspec", None)
    seed = callspec.params.get("fault_seed") if callspec else None
    option = f"--fault-seeds={seed}-{seed} " if seed is not None else ""
    return f".venv/bin/pytest {option}'{item.nodeid}'"
