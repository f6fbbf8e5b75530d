"""The options of a database, as RocksDB has written them down."""

from __future__ import annotations

from pathlib import Path


def options_of(database: Path) -> str:
    """The newest file in which RocksDB tells the options that it has."""
    return max(database.glob("OPTIONS-*")).read_text()


def sections_of(database: Path) -> dict[str, dict[str, str]]:
    """The same as {section: {option: value}}."""
    sections: dict[str, dict[str, str]] = {}
    for line in options_of(database).splitlines():
        text = line.strip()
        if text.startswith("["):
            section = sections.setdefault(text.strip("[]"), {})
        elif "=" in text:
            name, _, value = text.partition("=")
            section[name] = value
    return sections
