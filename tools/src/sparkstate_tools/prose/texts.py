"""Cuts the prose out of Markdown. Every line keeps its number; everything else becomes blank.

Code within a sentence becomes a word of underscores, so that a sentence keeps its length and its shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

FENCE = re.compile(r"^ *(?:```|~~~)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
TARGET = re.compile(r"(?<=\])\([^()\s]*\)")
TITLE = re.compile(r"^#+ .*$|^\*\*[^*]+[.?:]\*\*(?= |$)", re.MULTILINE)


def markdown(page: str) -> str:
    """The prose of a page: no code blocks, no addresses of links; a title or a cell of a table ends a sentence."""
    text = COMMENT.sub(blanked, page)
    text = "\n".join(without_fences(text.split("\n")))
    text = CODE.sub(a_word, text)
    text = TARGET.sub(blanked, text)
    text = TITLE.sub(lambda title: re.sub(r"[.:?]?(\**)$", r".\1", title[0]), text)
    return re.sub(r"^\|.*\|$", lambda row: row[0].replace("|", "¦"), text, flags=re.MULTILINE)


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
