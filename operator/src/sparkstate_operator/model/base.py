"""What every model of the API shares: frozen, strict, camelCase, unknown fields refused, one change kind per
field."""

from __future__ import annotations

import enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ChangeKind(enum.StrEnum):
    """What a change of a field asks of a running job. Ordered: the strongest kind of all changed fields
    counts."""

    IGNORE = "ignore"
    """Taken over by the operator; the running attempt stays."""
    SCALE = "scale"
    """State moves to another number of slots."""
    UPGRADE = "upgrade"
    """A new attempt, by the job's ``upgradeMode``."""
    SAVEPOINT = "savepoint"
    """A new attempt from the state that the field names."""
    IMMUTABLE = "immutable"
    """Fixed when the job is created."""


class Model(BaseModel):
    """Base of all parts of the API."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


def spec_field(
    description: str,
    change: ChangeKind,
    *,
    default: Any = None,
    flink: tuple[str, ...] = (),
    **constraints: Any,
) -> Any:
    """A field of the spec.

    ``change`` says what a change means; ``flink`` lists Flink's keys for the same setting, newest first (they
    may stand in ``spec.configuration``); ``constraints`` are pydantic's (``ge``, ``pattern``, ``max_length``,
    …).
    """
    text = f"{description} Flink: {' or '.join(flink)}." if flink else description
    extra: dict[str, Any] = {"x-change": change.value, "x-flink": list(flink)}
    return Field(default, description=text, json_schema_extra=extra, **constraints)


def status_field(description: str, *, default: Any = None, **constraints: Any) -> Any:
    """A field of the status: written by the operator only."""
    return Field(default, description=description, **constraints)
