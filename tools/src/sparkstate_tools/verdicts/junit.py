"""Reads the JUnit files that ``make test`` leaves under ``build/junit``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Case:
    """One test of one run."""

    node: str
    """pytest's node id without parameters: ``tests/unit/test_x.py::test_y``."""
    name: str
    """The function's name with its parameters."""
    outcome: str
    seconds: float
    message: str
    properties: tuple[tuple[str, str], ...] = ()
    """The facts that the test recorded about itself, as (name, value)."""

    @property
    def address(self) -> str:
        """pytest's node id with the parameters: what runs this case and no other."""
        return f"{self.node.rsplit('::', 1)[0]}::{self.name}"


def read(directory: Path) -> list[Case]:
    """All cases of all files of a directory, in the order of the file names."""
    return [case for path in sorted(directory.glob("*.xml")) for case in read_file(path)]


def read_file(path: Path) -> Iterator[Case]:
    """The cases of one file; one that is missing or was cut short by a crash counts as having none."""
    try:
        tree = ElementTree.parse(path)
    except (FileNotFoundError, ElementTree.ParseError):
        return
    for element in tree.iter("testcase"):
        yield _case(element)


def _case(element: ElementTree.Element) -> Case:
    name = element.get("name", "")
    outcome, message = PASSED, ""
    for kind, result in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        found = element.find(kind)
        if found is not None:
            outcome, message = result, found.get("message", "")
            break
    return Case(
        node=node_id(element.get("file", ""), element.get("classname", ""), name),
        name=name,
        outcome=outcome,
        seconds=float(element.get("time", "0")),
        message=message,
        properties=tuple((p.get("name", ""), p.get("value", "")) for p in element.iter("property")),
    )


def node_id(file: str, classname: str, name: str) -> str:
    """pytest's node id, rebuilt from what the ``xunit1`` family writes.

    ``classname`` is the module's dotted path, followed by the test class if there is one.
    """
    module = file.removesuffix(".py").replace("/", ".")
    inner = classname.removeprefix(module).strip(".")
    parts = [file, *([inner.replace(".", "::")] if inner else []), name.split("[", 1)[0]]
    return "::".join(parts)


def outcomes(cases: Iterable[Case]) -> dict[str, set[str]]:
    """The outcomes of each node: a set, because parameters make several cases of one function."""
    result: dict[str, set[str]] = {}
    for case in cases:
        result.setdefault(case.node, set()).add(case.outcome)
    return result
