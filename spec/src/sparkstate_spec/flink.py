"""Flink's keys become the fields that they mean, in the fields' own spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sparkstate_spec import fields, units


def _paths(text: str) -> list[str]:
    return [item.strip() for item in re.split("[,:;|]", text) if item.strip()]


READERS: Mapping[fields.Kind, Callable[[str], Any]] = {
    "duration": lambda text: units.format_duration(units.flink_duration_ms(text)),
    "memory": lambda text: units.format_bytes(units.flink_bytes(text)),
    "boolean": lambda text: text.lower() == "true",
    "integer": int,
    "number": float,
    "location": str,
    "paths": _paths,
    "text": str,
}
"""How Flink's value of each kind is read. ``rules.flink`` has judged its spelling before."""


def read(known: fields.Field, text: str) -> Any:
    """Flink's text as the field's value. Raises ValueError."""
    return known.words.get(text, READERS[known.kind](text))
