"""No file of the repository leads back to itself by its imports, nor by those that are for types alone.

Two files in a circle can only be understood, tested and replaced together. An import under ``TYPE_CHECKING`` starts no
interpreter trouble, and hides the circle from every tool that follows what is executed: here it counts like any other,
and so does one within a function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from support.repository import tree


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def graph(root: Path) -> dict[str, set[str]]:
    """Which module imports which, of the packages in a folder."""
    paths = {module_name(path, root): path for path in sorted(root.rglob("*.py"))}
    return {name: set(imports(name, path, set(paths))) - {name} for name, path in paths.items()}


def imports(name: str, path: Path, known: set[str]) -> Iterator[str]:
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(tree.parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - (node.level - 1)] if node.level else []
            home = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                submodule = f"{home}.{alias.name}"
                if submodule in known or home in known:
                    yield submodule if submodule in known else home


def circles(imported: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules of which each leads to each other one."""
    reached: dict[str, set[str]] = {}
    for module in imported:
        seen: set[str] = set()
        ahead = list(imported[module])
        while ahead:
            each = ahead.pop()
            if each not in seen:
                seen.add(each)
                ahead += imported[each]
        reached[module] = seen
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in imported
        if module in reached[module]
    }


def test_no_file_is_part_of_a_circle() -> None:
    packages = [package.parent for package in (tree.ENGINE, tree.OPERATOR, tree.SPEC, tree.TOOLS)]
    programs = [tree.ROOT / place for place in ("benchmarks", "scripts", "tests")]
    graphs = [graph(root) for root in (*packages, *programs)]
    assert all(any(imported.values()) for imported in graphs), "a folder in which nothing is found to import"
    assert [sorted(circle) for imported in graphs for circle in circles(imported)] == []


def test_a_planted_circle_is_found_also_where_it_is_for_types_alone(tmp_path: Path) -> None:
    lines = {
        "house/__init__.py": "",
        "house/low.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.high import Roof",
        "house/middle.py": "from . import low",
        "house/high.py": "def roof():\n    from house import middle",
        "house/beside.py": "import house.low\nfrom .high import roof",
        "house/room/__init__.py": "",
        "house/room/wall.py": "from ..room import door",
        "house/room/door.py": "from .wall import brick",
    }
    for name, text in lines.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(graph(tmp_path)) == {
        frozenset({"house.low", "house.middle", "house.high"}),
        frozenset({"house.room.wall", "house.room.door"}),
    }
