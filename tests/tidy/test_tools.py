"""Who may import the tools, and what they may import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.repository import tree

SHARED = tree.TOOLS.name
USERS = {name: tree.ROOT / name for name in ("scripts", "benchmarks", "tests")}
ARCHITECTURE = (tree.ROOT / "docs" / "ARCHITECTURE.md").read_text()
DRAWING = ARCHITECTURE.split("`tools/` is")[1].split("```")[1]
FLOORS = [re.findall(r"\w+", line[:27]) for line in DRAWING.strip().splitlines()]
"""The highest first. What stands further right in a line says what is there."""


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports; of ``from a import b`` it is ``a.b``, which may be more than a module."""
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module: str) -> str:
    """The folder or file of the tools that a module belongs to."""
    return module.split(".")[1]


def found(folder: Path, wanted: set[str]) -> list[str]:
    """Imports of one of these in the folder's files, by the first part of their names."""
    return [
        f"{tree.name(path)}: {module}"
        for path in tree.files(".py", below=folder)
        for module in imported(path)
        if module.split(".")[0] in wanted
    ]


def test_the_tools_know_none_of_those_who_use_them() -> None:
    names = {path.stem for name in ("scripts", "benchmarks") for path in USERS[name].glob("*.py")}
    assert found(tree.TOOLS, {"support", *names}) == []


@pytest.mark.parametrize("folder", ["scripts", "benchmarks"])
def test_scripts_and_benchmarks_take_from_the_tools_and_not_from_the_tests(folder: str) -> None:
    assert found(USERS[folder], {"support"}) == []
    assert found(USERS[folder], {SHARED})


@pytest.mark.parametrize("folder", [tree.TOOLS, *USERS.values()], ids=lambda folder: folder.name)
def test_nobody_puts_a_folder_on_the_path_of_imports(folder: Path) -> None:
    changes = re.compile(r"\bsys\.path\b|\bsyspath_prepend\b")
    files = [path for path in tree.files(".py", below=folder) if path != Path(__file__)]
    assert [tree.name(path) for path in files if changes.search(path.read_text())] == []


def test_each_room_of_the_tools_knows_only_those_that_are_drawn_below_it() -> None:
    height = {name: number for number, floor in enumerate(reversed(FLOORS)) for name in floor}
    rooms = {path.stem for path in tree.TOOLS.iterdir() if path.name not in (*tree.NOT_OURS, "py.typed")} - {
        "__init__"
    }
    assert set(height) == rooms
    upwards = {
        f"{tree.name(path)}: {module}"
        for path in tree.files(".py", below=tree.TOOLS)
        for module in imported(path)
        if module.startswith(f"{SHARED}.")
        and room(module) != (own := Path(path.relative_to(tree.TOOLS).parts[0]).stem)
        and height[room(module)] >= height[own]
    }
    assert upwards == set()
