"""What one CEL rule is, and the kinds of rules that recur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkstate_spec.values import LATER_SCHEMES

SECRET_NAMES = "(?i)((secret|access|account)[-._]?key|passw(or)?d|session[-._]?token)"
SECRET_REFERENCES = "(?i)secretkeyref"
"""``spark.kubernetes.driver.secretKeyRef.X`` names a Secret; it holds none."""
ACCESS_KEY_IDS = "(^|[^A-Z0-9])(AKIA|ASIA)[A-Z0-9]{16}"


@dataclass(frozen=True)
class Rule:
    """One ``x-kubernetes-validations`` entry of the schema node ``at``;

    ``field`` is the path below that is named.
    """

    at: str
    rule: str
    message: str
    field: str = ""

    def as_validation(self) -> dict[str, Any]:
        """The entry as the CRD holds it."""
        entry = {"rule": self.rule, "message": self.message}
        return {**entry, "fieldPath": self.field} if self.field else entry


def count(*conditions: str) -> str:
    """How many of the conditions hold."""
    return f"[{', '.join(conditions)}].filter(given, given).size()"


def given(*fields: str) -> str:
    """How many of the fields are there."""
    return count(*(f"has(self.{field})" for field in fields))


def positive(at: str, *fields: str) -> tuple[Rule, ...]:
    """Durations that may not be zero."""
    return tuple(
        Rule(
            at,
            f"!has(self.{field}) || duration(self.{field}) > duration('0s')",
            "must be more than 0",
            f".{field}",
        )
        for field in fields
    )


def not_in_this_version(at: str, field: str, condition: str, what: str) -> Rule:
    """A field, or one value of it, that exists for a later version."""
    return Rule(at, f"!has(self.{field}) || !({condition})", f"{what} not in this version", f".{field}")


def location(at: str, field: str) -> tuple[Rule, ...]:
    """What a storage URL may be."""
    value = f"self.{field}"
    return (
        not_in_this_version(
            at,
            field,
            f"{value}.matches('{LATER_SCHEMES}')",
            "storage on Google Cloud, Azure or HDFS is",
        ),
        Rule(
            at,
            f"!has({value}) || !{value}.contains('://') || {value}.matches('^(s3|file)://|{LATER_SCHEMES}')",
            "the scheme must be s3:// or file:// (s3a:// and s3n:// are written s3://)",
            f".{field}",
        ),
        Rule(
            at,
            f"!has({value}) || !{value}.matches('^[a-z0-9]+://[^/]*@')",
            "a URL never holds credentials; use spec.s3.secretRef",
            f".{field}",
        ),
        Rule(
            at,
            f"!has({value}) || !{value}.matches('^(file://[^/]|s3:///|s3://$|file:///?$)')",
            "write s3://bucket/prefix or file:///path",
            f".{field}",
        ),
    )


def no_secrets(field: str) -> tuple[Rule, ...]:
    """Keys written into a free map, by the name of the entry or by what AWS's ids look like."""
    entries = f"self.{field}"
    named = f"name.matches('{SECRET_NAMES}') && !name.matches('{SECRET_REFERENCES}')"
    return (
        Rule(
            "spec",
            f"!has({entries}) || !{entries}.exists(name, {named})",
            "keys and passwords are never written into a job; use spec.s3.secretRef or serviceAccountName",
            f".{field}",
        ),
        Rule(
            "spec",
            f"!has({entries}) || !{entries}.exists(name, {entries}[name].matches('{ACCESS_KEY_IDS}'))",
            "a value looks like an access key id; use spec.s3.secretRef or serviceAccountName",
            f".{field}",
        ),
    )


def s3_rules(at: str) -> tuple[Rule, ...]:
    """Keys are never written inline, not in the endpoint's URL either."""
    inline = tuple(
        Rule(
            at,
            f"!has(self.{field})",
            "keys are never written into a job; put them into a Secret and name it by secretRef",
            f".{field}",
        )
        for field in ("accessKey", "secretKey", "sessionToken")
    )
    return (
        *inline,
        Rule(
            at,
            "!has(self.endpoint) || !self.endpoint.matches('^https?://[^/]*@')",
            "a URL never holds credentials; use secretRef",
            ".endpoint",
        ),
    )


def fixed(field: str, message: str) -> Rule:
    """A field of ``spec`` that can neither be changed, nor be added or taken away later."""
    return Rule(
        "spec",
        f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})",
        message,
        f".{field}",
    )
