"""Finds paragraphs of docstrings that are wrapped so that a word or two stay alone on the last line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from sparkstate_tools.prose import literals, texts

FEWEST_WORDS = 3
ITEM = re.compile(r" *(?:[-*]|\d+\.) ")
TABLE = re.compile(r"=+(?: +=+)+")


def orphans(source: str) -> Iterator[tuple[int, str]]:
    """Line number and content of each last line that has fewer than ``FEWEST_WORDS`` words."""
    lines = source.split("\n")
    for node in literals.docstrings(ast.parse(source)):
        prose = literals.EXAMPLE.sub(texts.blanked, literals.dedented(literals.cut(lines, node))).split("\n")
        for first, last in paragraphs(prose):
            if last > first and len(prose[last].split()) < FEWEST_WORDS:
                yield node.lineno + last, prose[last].strip()


def paragraphs(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line, counted from 0, of each paragraph and of each item of a list. Tables are left out."""
    first = 0
    for number, line in enumerate([*lines, ""]):
        if number > first and (not line.strip() or ITEM.match(line)):
            if not any(TABLE.match(one) for one in lines[first:number]):
                yield first, number - 1
            first = number
        if not line.strip():
            first = number + 1
