"""The lives of jobs, snapshots and drivers: the page has them as the code does, and no decision goes past a table."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import life_diagrams
import pytest
from support.repository import tree

PAGE = (tree.ROOT / "docs" / life_diagrams.PAGE).read_text(encoding="utf-8")


def test_the_page_has_the_lives_as_the_code_does() -> None:
    assert life_diagrams.with_lives(PAGE) == PAGE, "stale: make reference"


def test_a_page_without_a_life_is_refused() -> None:
    with pytest.raises(ValueError, match="0 blocks of a driver"):
        life_diagrams.with_lives(PAGE.replace("<!-- life of a driver -->", ""))


def test_every_arrow_is_drawn_or_told_beside_the_diagram() -> None:
    for life in life_diagrams.LIVES:
        drawn = life_diagrams.diagram(life)
        for row in life.rows:
            assert row.when in drawn and f"| {row.when} | {row.who} |" in life_diagrams.table(life)
            assert ":" not in row.when and ";" not in row.when, "Mermaid reads them as its own"


def test_a_new_arrow_makes_the_page_stale() -> None:
    job = life_diagrams.LIVES[0]
    more = life_diagrams.Life(
        "job",
        [*job.rows, life_diagrams.Row("user", "x", "Pending", frozenset({"Failed"}))],
        job.title,
        job.group,
    )
    assert "    Failed --> Pending: x\n" in life_diagrams.diagram(more)


def test_only_the_walk_along_the_table_sets_a_phase() -> None:
    found = [
        f"{tree.name(path)}:{line}"
        for path in tree.files(".py", below=tree.OPERATOR / "decide")
        for line in phases_set_in(tree.parsed(path))
    ]
    assert len(found) == 1 and found[0].startswith("operator/src/sparkstate_operator/decide/draft.py:"), found


def phases_set_in(module: ast.Module) -> Iterator[int]:
    """Lines that put ``phase`` into a status, or set an attribute of that name."""
    for node in ast.walk(module):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == "phase":
                yield node.lineno
            if isinstance(target, ast.Subscript) and is_phase(target.slice):
                yield node.lineno
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("put", "fill"):
            named = any(one.arg == "phase" for one in node.keywords)
            if named or any(is_phase(one) for one in node.args[:1]):
                yield node.lineno


def is_phase(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "phase"


@pytest.mark.parametrize(
    "code",
    ['draft.phase = "Running"', 'draft.status["phase"] = x', 'draft.put("phase", x)', "draft.fill(phase=x)"],
)
def test_a_phase_that_is_set_past_the_table_is_found(code: str) -> None:
    assert list(phases_set_in(ast.parse(code))) == [1]
