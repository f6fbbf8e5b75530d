"""How results are printed: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
import yaml

Command = TypeVar("Command", bound=Callable[..., Any])
Format = str
"""``table``, ``json`` or ``yaml``; commands list the ones they know."""


def format_option(*formats: str, default: str = "table") -> Callable[[Command], Command]:
    """The option ``-o``/``--output``, as kubectl has it."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([default, *formats]),
        default=default,
        show_default=True,
        help="How to print the result.",
    )


def emit(document: Any, form: Format) -> None:
    """Print ``document`` (lists, dicts, scalars) as JSON or YAML; keys stay in their order."""
    if form == "yaml":
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns two blanks apart, as wide as their widest cell; None is shown as ``-``."""
    cells = [[str(cell) for cell in header], *[["-" if c is None else str(c) for c in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def pairs(entries: Sequence[tuple[str, object]]) -> None:
    """Print ``name: value`` lines with the values below one another; entries with None are left out."""
    shown = [(name, value) for name, value in entries if value is not None]
    width = max((len(name) for name, _ in shown), default=0) + 1
    for name, value in shown:
        click.echo(f"{name + ':':<{width}}  {value}")


def moment(ms: int | None) -> str | None:
    """Milliseconds since the Unix epoch as text: UTC, to the second. A time outside the years 1 to 9999, such as that
    of an event in microseconds, stays a number."""
    if ms is None:
        return None
    try:
        return f"{datetime.fromtimestamp(ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
