"""Code that a page takes from a file is the file's: a comment before the block names the file and the definition."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"<!-- (\S+\.py): (?:class|def) (\w+) -->\n```python\n(.*?)\n```", re.DOTALL)
FOUND = [
    (page.name, *found)
    for page in sorted((ROOT / "docs").glob("*.md"))
    for found in BLOCK.findall(page.read_text())
]


@pytest.mark.parametrize(
    ("page", "path", "name", "shown"), FOUND, ids=[f"{page}-{path}-{name}" for page, path, name, _ in FOUND]
)
def test_a_page_shows_the_code_that_runs(page: str, path: str, name: str, shown: str) -> None:
    source = (ROOT / path).read_text()
    (node,) = (each for each in ast.parse(source).body if getattr(each, "name", None) == name)
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    assert shown == "\n".join(lines), f"{page}: copy {name} from {path} again"


def test_pages_take_code_from_files() -> None:
    assert len(FOUND) >= 3


PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
TYPED = [
    (page.relative_to(ROOT), number, code)
    for page in PAGES
    for number, code in enumerate(PYTHON.findall(page.read_text()))
]


def test_the_python_on_pages_can_be_parsed() -> None:
    assert len(TYPED) >= 30
    for page, number, code in TYPED:
        try:
            ast.parse(code)
        except SyntaxError as error:
            pytest.fail(f"{page}, block {number}: {error}")


SHOWN = [
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md",
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "engine/src/sparkstate/cli/templates").glob("*.py.txt")),
]
SOURCE = re.compile(
    r"\breadStream\s*\.(?:(?!readStream).)*?\.(?:parquet|json|csv|orc|text|load)\(", re.DOTALL
)
BOUND = re.compile(r"max\w+PerTrigger|rowsPerBatch")
SOURCES = [(page.relative_to(ROOT), found) for page in SHOWN for found in SOURCE.findall(page.read_text())]


def test_every_source_that_is_shown_has_the_bound_that_keyed_demands() -> None:
    assert len(SOURCES) >= 15
    assert [(str(page), found) for page, found in SOURCES if not BOUND.search(found)] == []
