"""A manifest, resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkstate.settings import JobSettings
from sparkstate_spec.given import Leaves


@dataclass(frozen=True)
class Resolved:
    """``settings`` to run with; ``origins`` by the setting's path in the manifest; ``notices`` as sentences."""

    settings: JobSettings
    origins: Mapping[str, str]
    notices: list[str]
    values: Mapping[str, str]
    """Every effective setting as text, by its path."""
    given: Leaves = field(default_factory=dict)
    """The fields that some layer gives, in the manifest's spelling."""


def explain_rows(resolved: Resolved) -> list[tuple[str, str, str]]:
    """(path, value, origin) of every effective setting, in the schema's order."""
    return [(path, value, resolved.origins[path]) for path, value in resolved.values.items()]
