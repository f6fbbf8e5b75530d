"""A manifest, resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkstate.settings import JobSettings


@dataclass(frozen=True)
class Resolved:
    """``settings`` to run with; ``origins`` by the setting's path in the manifest; ``notices`` as sentences."""

    settings: JobSettings
    origins: Mapping[str, str]
    notices: list[str]
    values: Mapping[str, str]
    """Every effective setting as text, by its path."""


def explain_rows(resolved: Resolved) -> list[tuple[str, str, str]]:
    """(path, value, origin) of every effective setting, in the schema's order."""
    return [(path, value, resolved.origins[path]) for path, value in resolved.values.items()]
