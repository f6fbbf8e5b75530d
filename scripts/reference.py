"""The reference that is made from the code (``docs/openapi.json``, its readable forms, the lives in
``docs/operator.md``, the tables of ``docs/sizing.md``): is it current?

``python scripts/reference.py`` says which files are stale; ``--write`` writes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import life_diagrams
import sizing_tables

from sparkstate.control import openapi

DOCS = Path(__file__).resolve().parent.parent / "docs"


def stale() -> list[str]:
    """Names of the files that differ from what the code says now."""
    current = {path.name: path.read_text() for path in DOCS.iterdir() if path.is_file()}
    return [name for name, content in _render().items() if current.get(name) != content]


def _render() -> dict[str, str]:
    page = (DOCS / life_diagrams.PAGE).read_text(encoding="utf-8")
    sizing = (DOCS / sizing_tables.PAGE).read_text(encoding="utf-8")
    return {
        **openapi.render(),
        life_diagrams.PAGE: life_diagrams.with_lives(page),
        sizing_tables.PAGE: sizing_tables.with_tables(sizing),
    }


def main() -> int:
    """0 when everything is current, or was written."""
    if "--write" in sys.argv[1:]:
        for name, content in _render().items():
            (DOCS / name).write_text(content, encoding="utf-8")
            print(f"wrote docs/{name}")
        return 0
    names = stale()
    for name in names:
        print(f"docs/{name} is stale: make reference")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
