"""The repository's own files, for tests about the repository."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ENGINE = ROOT / "engine" / "src" / "sparkstate"
OPERATOR = ROOT / "operator" / "src" / "sparkstate_operator"
SPEC = ROOT / "spec" / "src" / "sparkstate_spec"
COMPILED = ROOT / "compiled" / "src" / "sparkstate_compiled"
TOOLS = ROOT / "tools" / "src" / "sparkstate_tools"
PROJECTS = ("engine", "operator", "spec", "compiled")
"""Folders of the distributions that are published."""

PLACES = (*PROJECTS, "tools", "tests", "scripts", "examples", "benchmarks", "docs", "crds", ".ci")
NOT_OURS = {"__pycache__", ".venv", "build", "dist", "node_modules", ".hypothesis", ".pytest_cache"}


def files(*suffixes: str, below: Path | None = None) -> Iterator[Path]:
    """Files with one of the suffixes, below a folder or everywhere in the repository."""
    if below is None:
        places = [ROOT / place for place in PLACES]
        yield from (path for path in sorted(ROOT.iterdir()) if path.suffix in suffixes)
    else:
        places = [below]
    for place in places:
        for path in sorted(place.rglob("*")):
            if path.is_file() and path.suffix in suffixes and not NOT_OURS & set(path.parts):
                yield path


def sources() -> Iterator[Path]:
    """The Python files of all distributions."""
    for package in (ENGINE, OPERATOR, SPEC, COMPILED):
        yield from files(".py", below=package)


def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), str(path))


def name(path: Path) -> str:
    """The path as one writes it: relative to the repository."""
    return path.relative_to(ROOT).as_posix()
