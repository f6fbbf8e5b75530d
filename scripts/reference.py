"""The reference that is made from the code (``docs/openapi.json`` and its readable forms): is it current?

``python scripts/reference.py`` says which files are stale; ``--write`` writes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sparkstate.control import openapi

DOCS = Path(__file__).resolve().parent.parent / "docs"


def stale() -> list[str]:
    """Names of the files that differ from what the code says now."""
    current = {path.name: path.read_text() for path in DOCS.iterdir() if path.is_file()}
    return [name for name, content in openapi.render().items() if current.get(name) != content]


def main() -> int:
    """0 when everything is current, or was written."""
    if "--write" in sys.argv[1:]:
        for path in openapi.write(DOCS):
            print(f"wrote {path.relative_to(DOCS.parent)}")
        return 0
    names = stale()
    for name in names:
        print(f"docs/{name} is stale: make reference")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
