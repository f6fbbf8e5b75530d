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
