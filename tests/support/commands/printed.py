"""The commands that the documents print, as a reader would type them."""

from __future__ import annotations

import re

from support.repository import tree


def commands(page: str, section: str = "") -> list[str]:
    """Those of all blocks of a page, or of those below the heading ``## section``: each on one line, no comments."""
    text = (tree.ROOT / page).read_text(encoding="utf-8")
    if section:
        (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M)).replace("\\\n", " ")
    lines = (line.partition(" #")[0].strip() for line in blocks.splitlines())
    return [line for line in lines if line]
