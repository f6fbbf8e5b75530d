"""CEL rules: everything about a spec that can be judged without a cluster and that types cannot say.

Rules on ``spec.configuration`` (Flink's keys) are made in ``flink_rules``. The engine repeats each rule in
Python with
the same words; ``tests/contract`` holds both against the same manifests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """One ``x-kubernetes-validations`` entry of the schema node ``at``; ``field`` is the path below it that
    is named."""

    at: str
    rule: str
    message: str
    field: str = ""

    def as_validation(self) -> dict[str, Any]:
        entry = {"rule": self.rule, "message": self.message}
        return {**entry, "fieldPath": self.field} if self.field else entry


ALL: tuple[Rule, ...] = ()
