"""Cuts the prose out of Markdown and Python. Every line keeps its number; what is no prose becomes blank.

Code within a sentence becomes a word of underscores, so that a sentence keeps its length and its shape.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

FENCE = re.compile(r"^ *(?:```|~~~)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
TARGET = re.compile(r"(?<=\])\([^()\s]*\)")
TITLE = re.compile(r"^#+ .*$|^\*\*[^*]+[.?:]\*\*(?= |$)", re.MULTILINE)
# Examples, drawings, and what click prints as it is written.
EXAMPLE = re.compile(r"^(?: *>>> | *\.\.\. | {8,}).*|^.*[│┌└├─▼►].*$|^ *\\b\n(?: *\S.*\n?)*", re.MULTILINE)


def markdown(page: str) -> str:
    """The prose of a page: no code blocks, no addresses of links; a title or a cell of a table ends a sentence."""
    text = COMMENT.sub(blanked, page)
    text = "\n".join(without_fences(text.split("\n")))
    text = CODE.sub(a_word, text)
    text = TARGET.sub(blanked, text)
    text = TITLE.sub(lambda title: re.sub(r"[.:?]?(\**)$", r".\1", title[0]), text)
    return re.sub(r"^\|.*\|$", lambda row: row[0].replace("|", "¦"), text, flags=re.MULTILINE)


def docstrings(source: str) -> str:
    """The prose of all docstrings of a module: no examples, no drawings."""
    lines = source.split("\n")
    kept = [""] * len(lines)
    for first, last in sorted(places(ast.parse(source))):
        text = "\n".join(lines[first:last])
        text = re.sub(r'^(\s*)[rRuU]?"""', r"\1   ", text)
        text = re.sub(r'"""\s*$', "", text)
        text = CODE.sub(a_word, EXAMPLE.sub(blanked, text))
        kept[first:last] = text.split("\n")
    return "\n".join(kept)


def places(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """First line and line behind the last, from 0, of each docstring."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            yield said.lineno - 1, said.end_lineno or said.lineno


def without_fences(lines: list[str]) -> Iterator[str]:
    """The lines, those of fenced blocks blank."""
    within = False
    for line in lines:
        fence = bool(FENCE.match(line))
        yield "" if within or fence else line
        within ^= fence


def blanked(match: re.Match[str]) -> str:
    """Spaces of the same length; line ends stay."""
    return re.sub(r"[^\n]", " ", match[0])


def a_word(match: re.Match[str]) -> str:
    """One word in the place of code, of the same length; line ends stay."""
    return "`" + re.sub(r"[^\n]", "_", match[0][1:-1]) + "`"


READERS: dict[str, Callable[[str], str]] = {".md": markdown, ".py": docstrings}
