"""An object is what it is from its birth: no attribute is None, or missing, only because the object is half built.

An attribute that is empty when ``__init__`` ends, and whose emptiness a method refuses, belongs to another class: the
one that a start, a claim or a configuration returns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from support.repository import tree

EMPTY_FOR_A_REASON: Mapping[str, str] = {
    "sparkstate/backends/rocksdb/store.py: RocksDBShardStore._db": "opened when first used, because a restore opens "
    "it with the column families of its snapshot; a store that is closed has no database",
    "sparkstate/operators/rows/sorting.py: _Head.batch": "None at the end of its run; the merge takes from heads that "
    "have one",
}
"""``file: Class.attribute`` to the reason why no other class can hold it."""


def test_no_object_of_engine_operator_or_spec_is_half_built() -> None:
    found = {
        f"{path.relative_to(package.parent)}: {name}"
        for package in (tree.ENGINE, tree.OPERATOR, tree.SPEC)
        for path in tree.files(".py", below=package)
        for name in half_built(tree.parsed(path))
    }
    assert sorted(found - set(EMPTY_FOR_A_REASON)) == []
    assert sorted(set(EMPTY_FOR_A_REASON) - found) == [], "a reason that nothing needs any more"


def half_built(module: ast.AST) -> Iterator[str]:
    """``Class.attribute`` of all that is empty at birth and refused while it is."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            refused = {name for method in methods(node) for name in refused_in(method)}
            yield from (f"{node.name}.{name}" for name in sorted(unset_in(node)))
            yield from (f"{node.name}.{name}" for name in sorted(empty_in(node) & refused))


def methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def assignments(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Attributes with what they are at first: of ``__init__``, and a dataclass's fields that it does not take."""
    for method in methods(node):
        for one in ast.walk(method) if method.name == "__init__" else ():
            if isinstance(one, ast.AnnAssign):
                yield from ((name, one.value) for name in own(one.target))
            elif isinstance(one, ast.Assign):
                yield from ((name, one.value) for target in one.targets for name in own(target))
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None:
            yield one.target.id, one.value


def own(target: ast.AST) -> Iterator[str]:
    """``x`` of ``self.x``."""
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        yield target.attr


def empty_in(node: ast.ClassDef) -> set[str]:
    """Attributes that are None at first."""
    return {name for name, value in assignments(node) if value is not None and is_none(value)}


def unset_in(node: ast.ClassDef) -> set[str]:
    """Attributes of which ``__init__`` gives the type alone, and no method that it calls gives a value."""
    found = list(assignments(node))
    called = {
        name
        for method in methods(node)
        if method.name == "__init__"
        for one in ast.walk(method)
        if isinstance(one, ast.Call)
        for name in own(one.func)
    }
    given = {
        name
        for method in methods(node)
        if method.name in called
        for one in ast.walk(method)
        if isinstance(one, ast.Assign)
        for target in one.targets
        for name in own(target)
    }
    return {name for name, value in found if value is None} - {name for name, value in found if value} - given


def is_none(value: ast.AST) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def refused_in(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Attributes, or names of them, of which the method asserts that they are there, or raises where they are not."""
    aliases = {
        target.id: name
        for one in ast.walk(method)
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
        for name in own(one.value)
    }

    def named(value: ast.AST) -> Iterator[str]:
        yield from own(value)
        if isinstance(value, ast.Name) and value.id in aliases:
            yield aliases[value.id]

    for one in ast.walk(method):
        if isinstance(one, ast.Assert):
            yield from (name for value in needed(one.test) for name in named(value))
        elif isinstance(one, ast.If) and any(
            isinstance(part, ast.Raise) for inner in one.body for part in ast.walk(inner)
        ):
            yield from (name for value in missing(one.test) for name in named(value))


def needed(test: ast.expr) -> Iterator[ast.expr]:
    """The values that are there where ``test`` holds."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from needed(value)
    elif (
        isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and is_none(test.comparators[0])
    ):
        yield test.left
    else:
        yield test


def missing(test: ast.expr) -> Iterator[ast.expr]:
    """The values that are None, or false, where ``test`` holds."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from missing(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield test.operand
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and is_none(test.comparators[0]):
        yield test.left


HALF_BUILT = """
class Server:
    def __init__(self):
        self._socket: int | None = None
        self._plan = None
        self._last: int | None = None
        self._name: str
        self._size: int
        self.clear()
        self.thread = None
        self._work = None

    def send(self):
        assert self._work is None
        assert self._socket is not None and self._socket > 0
        plan = self._plan
        if plan is None or not plan:
            raise ValueError("not configured yet")
        if not self.thread:
            raise ValueError("not started")
        if self._last is None:
            return 0

    def clear(self):
        self._size = 0
"""


def test_what_is_refused_while_it_is_empty_is_found_and_nothing_else() -> None:
    assert list(half_built(ast.parse(HALF_BUILT))) == [
        "Server._name",
        "Server._plan",
        "Server._socket",
        "Server.thread",
    ]
