"""The pages that lead through the code name files, functions and tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.repository import tree

ENGINE = tree.ROOT / "engine" / "src" / "sparkstate"
PACKAGES = {
    "sparkstate_operator": tree.ROOT / "operator" / "src",
    "sparkstate_spec": tree.ROOT / "spec" / "src",
}
WALKS = {
    "docs/ARCHITECTURE.md": "## Four walks through the code",
    "CONTRIBUTING.md": "## Four first changes",
}
"""The section of each page that is held to the code, by its heading."""
PLACE = re.compile(r"`([\w/.-]+\.(?:py|md|sh|toml))(?::([\w.]+))?`")
"""`path` or `path:name`. A path starts at the package's folder for the engine, else at the repository's root or with
the name of the package."""


def section(page: str) -> str:
    text = (tree.ROOT / page).read_text()
    heading = WALKS[page]
    assert text.count(f"{heading}\n") == 1, f"{page} has no section {heading!r}"
    return re.split(r"^## ", text.split(f"{heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def found(path: str) -> Path:
    package = PACKAGES.get(path.split("/", maxsplit=1)[0])
    candidates = [package / path] if package else [tree.ROOT / path, ENGINE / path]
    return next((one for one in candidates if one.exists()), candidates[-1])


def names_in(source: str) -> set[str]:
    """Every class, function and constant of a file, methods and fields as ``Class.name``."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for one in body:
            if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + one.name
            if isinstance(one, ast.ClassDef):
                yield from walk(one.body, f"{prefix}{one.name}.")
            elif isinstance(one, ast.Assign):
                yield from (prefix + target.id for target in one.targets if isinstance(target, ast.Name))
            elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                yield prefix + one.target.id

    return set(walk(ast.parse(source).body, ""))


def wrong_places(text: str) -> list[str]:
    """The places that a text names and that are not there."""
    wrong = []
    for path, name in PLACE.findall(text):
        file = found(path)
        if not file.exists() or (name and name not in names_in(file.read_text())):
            wrong.append(f"{path}:{name}" if name else path)
    return wrong


@pytest.mark.parametrize("page", WALKS)
def test_every_place_that_a_walk_names_is_there(page: str) -> None:
    assert wrong_places(section(page)) == []


@pytest.mark.parametrize(("page", "least"), [("docs/ARCHITECTURE.md", 40), ("CONTRIBUTING.md", 20)])
def test_a_walk_names_places_by_file_and_function(page: str, least: int) -> None:
    assert len(PLACE.findall(section(page))) >= least


def test_a_place_that_is_gone_is_found() -> None:
    text = "`clock.py:Clock`, `clock.py:Sundial`, `sundial.py`, `sparkstate_spec/fields.py:TABLE`"
    assert wrong_places(text) == ["clock.py:Sundial", "sundial.py"]


def targets(page: str) -> Mapping[str, list[str]]:
    """What each pytest command of a page runs."""
    commands = re.findall(r"^\.venv/bin/pytest (.+)$", section(page), re.MULTILINE)
    return {command: [word for word in command.split() if word.startswith("tests/")] for command in commands}


def test_every_recipe_runs_tests_that_are_there() -> None:
    recipes = targets("CONTRIBUTING.md")
    assert len(recipes) >= 4
    for command, paths in recipes.items():
        assert paths, command
        assert [path for path in paths if not (tree.ROOT / path.split("::")[0]).exists()] == []
