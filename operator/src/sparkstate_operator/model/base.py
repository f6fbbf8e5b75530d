"""The base of every model of the API: frozen, strict, in camelCase, without unknown fields, and with one kind of change
for each field."""

from __future__ import annotations

import enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from sparkstate_spec import built_in, fields


class ChangeKind(enum.StrEnum):
    """The effect of a changed field on a running job, from weakest to strongest: of all changed
    fields, the strongest kind counts."""

    IGNORE = "ignore"
    """Taken over by the operator; the running attempt stays."""
    SCALE = "scale"
    """A new attempt, by the job's ``upgradeMode``, to whose number of slots the state moves."""
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
        strict=True,  # the API server bends no value into its type either, and both have to judge a spec alike
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


def spec_field(
    description: str,
    change: ChangeKind,
    *,
    path: str = "",
    default: Any = None,
    **constraints: Any,
) -> Any:
    """A field of the spec.

    ``change`` says what a change means; ``path`` names the field's line in ``sparkstate_spec.fields``, whose built-in
    value stands for ``{built_in}`` in the description, and whose Flink keys are added to it; ``constraints`` are
    pydantic's (``ge``, ``pattern``, ``max_length``, …).
    """
    extra: dict[str, Any] = {"x-change": change.value, "x-path": path}
    return Field(default, description=_told(description, path), json_schema_extra=extra, **constraints)


def _told(description: str, path: str) -> str:
    if "{built_in}" in description:
        description = description.replace("{built_in}", built_in.shown(path))
    keys = fields.BY_PATH[path].flink if path else ()
    return f"{description} Flink: {' or '.join(keys)}." if keys else description


def status_field(description: str, *, default: Any = None, **constraints: Any) -> Any:
    """A field of the status: written by the operator only."""
    return Field(default, description=description, **constraints)
