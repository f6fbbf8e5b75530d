"""A CEL rule, and the kinds of rules that recur. The words of a rule come from ``sparkstate_spec.rules``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkstate_spec import rules as spec
from sparkstate_spec.rules import rule as kinds
from sparkstate_spec.rules.rule import ACCESS_KEY_IDS, SECRET_NAMES, SECRET_REFERENCES
from sparkstate_spec.values import LATER_SCHEMES, NOT_WHOLE


@dataclass(frozen=True)
class Rule:
    """One ``x-kubernetes-validations`` entry of the schema node ``at``. ``field``: the path
    below it that errors name."""

    at: str
    rule: str
    message: str
    field: str = ""

    def as_validation(self) -> dict[str, Any]:
        """The entry as the CRD holds it."""
        entry = {"rule": self.rule, "message": self.message}
        return {**entry, "fieldPath": self.field} if self.field else entry


def said(known: kinds.Rule, at: str, expression: str) -> Rule:
    """A rule of the spec in CEL: ``expression`` holds at the schema node ``at`` where the rule is kept."""
    # CEL accepts no fieldPath to metadata.name, so that rule belongs to the root and names no field.
    field = known.path.removeprefix(at) if at else ""
    return Rule(at, expression, known.message, field)


def named(name: str, at: str, expression: str) -> Rule:
    """The same by the name of a job's rule."""
    return said(spec.BY_NAME[name], at, expression)


def count(*conditions: str) -> str:
    """How many of the conditions hold."""
    return f"[{', '.join(conditions)}].filter(given, given).size()"


def given(*fields: str) -> str:
    """How many of the fields are there."""
    return count(*(f"has(self.{field})" for field in fields))


def positive(at: str, *fields: str) -> tuple[Rule, ...]:
    """Durations that may not be zero."""
    known = kinds.positive(*(f"{at}.{field}" for field in fields))
    return tuple(
        said(one, at, f"!has(self.{field}) || duration(self.{field}) > duration('0s')")
        for one, field in zip(known, fields, strict=True)
    )


def not_in_this_version(at: str, field: str, value: Any, condition: str) -> Rule:
    """A field, or one value of it, that exists for a later version."""
    name = f"{at}.{field} {value} is for later"
    return named(name, at, f"!has(self.{field}) || !({condition})")


def location(at: str, field: str) -> tuple[Rule, ...]:
    """The rules for a storage URL."""
    value = f"self.{field}"
    expressions = (
        f"!({value}.matches('{LATER_SCHEMES}'))",
        f"!{value}.contains('://') || {value}.matches('^(s3|file)://|{LATER_SCHEMES}')",
        f"!{value}.matches('^[a-z0-9]+://[^/]*@')",
        f"!{value}.matches('{NOT_WHOLE}')",
    )
    known = kinds.location(f"{at}.{field}")
    return tuple(
        said(one, at, f"!has({value}) || {expression}")
        for one, expression in zip(known, expressions, strict=True)
    )


def no_secrets(field: str) -> tuple[Rule, ...]:
    """Keys written into a free map, by the name of the entry or by what AWS's ids look like."""
    entries = f"self.{field}"
    expressions = (
        f"!{entries}.exists(name, name.matches('{SECRET_NAMES}') && !name.matches('{SECRET_REFERENCES}'))",
        f"!{entries}.exists(name, {entries}[name].matches('{ACCESS_KEY_IDS}'))",
    )
    known = kinds.no_secrets(f"spec.{field}")
    return tuple(
        said(one, "spec", f"!has({entries}) || {expression}")
        for one, expression in zip(known, expressions, strict=True)
    )


def s3_rules(at: str) -> tuple[Rule, ...]:
    """Keys are never written inline, not in the endpoint's URL either."""
    *inline, endpoint = kinds.inline_keys(at)
    return (
        *(said(one, at, f"!has(self{one.path.removeprefix(at)})") for one in inline),
        said(endpoint, at, "!has(self.endpoint) || !self.endpoint.matches('^https?://[^/]*@')"),
    )


def fixed(field: str, message: str) -> Rule:
    """A field of ``spec`` that nobody can change, add or remove later."""
    return Rule(
        "spec",
        f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})",
        message,
        f".{field}",
    )
