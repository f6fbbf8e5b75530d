"""CEL rules of a StateSnapshot, for everything that types cannot say and nobody needs a cluster to judge."""

from __future__ import annotations

from sparkstate_operator.model.rule import Rule, fixed, given, location, positive, s3_rules
from sparkstate_operator.model.snapshot import StateSnapshotSpec

NAME_LIMIT = 63
"""The name becomes a label's value, which is the limit. Children have names of their own, shortened if need be."""

NAME = Rule(
    "",
    f"self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{{0,{NAME_LIMIT - 2}}}[a-z0-9])?$')",
    f"metadata.name must have at most {NAME_LIMIT} characters of a-z, 0-9 and '-', and begin and end with a "
    "letter or digit, so that labels can hold it",
)

ORIGIN = (
    Rule(
        "spec",
        f"{given('jobRef', 'uri')} == 1",
        "give exactly one of jobRef (to take a savepoint) and uri (to register one that exists)",
    ),
    *(
        Rule("spec", f"!has(self.{field}) || has(self.jobRef)", "applies only with jobRef", f".{field}")
        for field in ("storage", "formatType", "triggerId", "timeout", "backoffLimit")
    ),
)

FROZEN = tuple(
    fixed(
        name,
        "is fixed when the snapshot is created; create another one",
    )
    for name in (
        str(field.alias)
        for field in StateSnapshotSpec.model_fields.values()
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra["x-change"] == "immutable"
    )
)

ALL: tuple[Rule, ...] = (
    NAME,
    *ORIGIN,
    *location("spec", "uri"),
    *location("spec", "storage"),
    *positive("spec", "timeout", "deadline"),
    *s3_rules("spec.s3"),
    *FROZEN,
)
