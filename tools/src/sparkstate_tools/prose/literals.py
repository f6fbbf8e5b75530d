"""Cuts the prose out of Python: docstrings, those of attributes too, and every other string that a person may read.

Descriptions of fields, help of commands, errors, log lines and Events are such strings, so all strings of at least
``WORDS`` words count. Raw strings are patterns, and strings in three quotes are templates of files or pages, so
neither is read. Each text keeps the numbers of its lines, but loses its indentation: rules look for the beginning of a
line. It ends like a cell of a table, because not every text has a full stop.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sparkstate_tools.prose import texts

WORDS = 3
# Examples, drawings, and what click prints as it is written.
EXAMPLE = re.compile(
    r"^>>> .*(?:\n.*\S.*)*|^(?:\.\.\. | {4,}).*|^.*[│┌└├─▼►].*$|^\\b\n(?: *\S.*\n?)*", re.MULTILINE
)
_DOCSTRING = re.compile(r"^[rRuU]*(\"\"\"|'''|\"|')(.*)\1$", re.DOTALL)
_PART = re.compile(r"^\s*[fFuU]*([\"'])(.*)\1\s*(?:#.*)?$")
_NOT_READ = re.compile(r"[fFuU]*(?:\"\"\"|'''|[rR])")
_FILLED_IN = re.compile(r"\{[^{}]*\}")


def python(source: str) -> str:
    """The prose of a module: no examples, no drawings, no values that are filled in."""
    lines = source.split("\n")
    kept = [""] * len(lines)
    tree = ast.parse(source)
    for said in docstrings(tree):
        _put(kept, said, EXAMPLE.sub(texts.blanked, dedented(cut(lines, said))))
    for node in messages(tree):
        text = cut(lines, node)
        if not _NOT_READ.match(text.lstrip()) and len(text.split()) >= WORDS:
            _put(kept, node, _FILLED_IN.sub(texts.a_word, _joined(text)))
    return "\n".join(kept)


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """All strings that are statements: docstrings, and strings below attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as said):
                yield said


def messages(node: ast.AST) -> Iterator[ast.expr]:
    """All other strings below ``node``; one that is formatted comes as a whole."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.JoinedStr() | ast.Constant(value=str()):
                yield child
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                yield from messages(child)


def cut(lines: list[str], node: ast.expr) -> str:
    """The source of ``node``, its first line at the column where it was."""
    kept = lines[node.lineno - 1 : node.end_lineno]
    kept[-1] = kept[-1].encode()[: node.end_col_offset].decode()
    kept[0] = " " * node.col_offset + kept[0].encode()[node.col_offset :].decode()
    return "\n".join(kept)


def dedented(docstring: str) -> str:
    """The content of a docstring, without its quotes and the indentation of its first line."""
    margin = len(docstring) - len(docstring.lstrip())
    content = _DOCSTRING.sub(r"\2", docstring.strip())
    return re.sub(rf"^ {{1,{margin}}}", "", content, flags=re.MULTILINE) if margin else content


def _joined(message: str) -> str:
    """The content of adjacent literals, one a line."""
    return "\n".join(_PART.sub(r"\2", line).rstrip() for line in message.split("\n")).replace('\\"', '"')


def _put(kept: list[str], node: ast.expr, text: str) -> None:
    said = texts.CODE.sub(texts.a_word, text) + " ¦"
    for number, line in enumerate(said.split("\n"), node.lineno - 1):
        kept[number] = f"{kept[number]} {line}" if kept[number] else line
