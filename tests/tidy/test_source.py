"""House rules that no linter knows. The reasons stand in ``docs/STYLE.md``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.repository import tree

LONGEST = 400
LONGER_FOR_A_REASON: Mapping[str, str] = {}
"""Path to reason. Think of splitting first: most files here have 80 to 250 lines."""
SHORTER_FOR_A_REASON: Mapping[str, int] = {
    "engine/src/sparkstate/driver/job.py": 150,  # a driver's life from top to bottom (RFC 0029)
}
"""Path to the most lines: what is to be read in one go."""

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
PRIVATE = re.compile(
    r"(?<![\w.])/(root|work|home/(?!runner)\w+|Users/\w+)/"  # somebody's machine
    r"|\b(this|our|my|previous|next) session\b|\bsub-?agent|\blanguage model\b|\bthe (mission|brief)\b"
)


def test_the_engine_never_calls_the_built_in_hash() -> None:
    # It is salted per process: the same key would land in another key group after every restart. In
    # __hash__ its result stays in the process.
    found = [
        f"{tree.name(path)}:{line}"
        for path in tree.files(".py", below=tree.ENGINE)
        for line in calls_of_hash(tree.parsed(path))
    ]
    assert found == []


def calls_of_hash(node: ast.AST) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "hash":
            yield child.lineno
        if not (isinstance(child, ast.FunctionDef) and child.name == "__hash__"):
            yield from calls_of_hash(child)


def test_no_file_is_long_without_a_reason() -> None:
    lengths = {tree.name(path): lines_of(path) for path in tree.files(".py", ".sh", ".html", ".js")}
    assert too_long(lengths, LONGER_FOR_A_REASON) == {}
    assert needless(lengths, LONGER_FOR_A_REASON) == []


def test_a_file_that_is_read_in_one_go_stays_short() -> None:
    for path, most in SHORTER_FOR_A_REASON.items():
        assert lines_of(tree.ROOT / path) <= most, path


def test_a_long_file_and_an_exception_without_one_are_found() -> None:
    lengths = {"a.py": LONGEST, "b.py": LONGEST + 1, "c.py": LONGEST + 2}
    reasons = {"a.py": "it was longer once", "b.py": "one list", "gone.py": "it was there once"}
    assert too_long(lengths, reasons) == {"c.py": LONGEST + 2}
    assert needless(lengths, reasons) == ["a.py", "gone.py"]


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def too_long(lengths: Mapping[str, int], reasons: Mapping[str, str]) -> Mapping[str, int]:
    return {path: lines for path, lines in lengths.items() if lines > LONGEST and path not in reasons}


def needless(lengths: Mapping[str, int], reasons: Mapping[str, str]) -> list[str]:
    """Exceptions whose file is gone, or no longer than others."""
    return [path for path in reasons if lengths.get(path, 0) <= LONGEST]


def test_nothing_is_left_unfinished() -> None:
    assert list(lines_with(UNFINISHED)) == []


def test_no_file_speaks_of_the_machine_or_the_hour_it_was_written_on() -> None:
    assert list(lines_with(PRIVATE)) == []


def lines_with(pattern: re.Pattern[str]) -> Iterator[str]:
    for path in tree.files(".py", ".md", ".sh", ".yaml", ".yml", ".toml", ".html", ".js", ".css", ""):
        if path == Path(__file__) or (path.suffix == "" and path.name not in {"Makefile", "run", "NOTICE"}):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if pattern.search(line):
                yield f"{tree.name(path)}:{number}: {line.strip()[:100]}"


# --- what is public ----------------------------------------------------------------------------------------


def exported() -> list[tuple[str, list[str]]]:
    result = []
    for path in tree.sources():
        for node in tree.parsed(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                assert isinstance(node, ast.Assign)
                result.append((tree.name(path), list(ast.literal_eval(node.value))))
    return result


def test_every_list_of_exports_is_sorted_and_names_nothing_twice() -> None:
    def in_order(name: str) -> tuple[int, str]:  # constants, classes, functions: the order that ruff keeps
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    unsorted = [path for path, names in exported() if names != sorted(set(names), key=in_order)]
    assert unsorted == []


def public_definitions(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """Public functions and classes of a module, and the public methods of those classes."""
    if any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(tree.ROOT).parts):
        return
    for node in tree.parsed(path).body:
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ) and not node.name.startswith("_"):
            yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not inner.name.startswith(
                    "_"
                ):
                    yield inner.name, inner


@pytest.mark.parametrize(
    "package",
    [tree.ENGINE, tree.OPERATOR, tree.SPEC, tree.COMPILED],
    ids=["engine", "operator", "spec", "compiled"],
)
def test_everything_public_says_what_it_means(package: Path) -> None:
    # A method may leave it to the protocol that it implements: one docstring under that name is enough.
    definitions = [
        (path, name, node)
        for path in tree.files(".py", below=package)
        for name, node in public_definitions(path)
    ]
    told = {name for _, name, node in definitions if ast.get_docstring(node)}  # type: ignore[arg-type]
    silent = [
        f"{tree.name(path)}:{node.lineno} {name}" for path, name, node in definitions if name not in told
    ]  # type: ignore[attr-defined]
    assert silent == []
