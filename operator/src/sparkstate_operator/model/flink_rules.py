"""CEL rules on ``spec.configuration``, made from the tables of ``sparkstate_spec``."""

from __future__ import annotations

from collections.abc import Iterator

from sparkstate_operator.model.rule import Rule
from sparkstate_spec import fields
from sparkstate_spec.flink_tables import (
    CHOICES,
    FIXED,
    LATER,
    LOCATIONS,
    METRICS,
    NATIVE_METRICS,
    NOT_APPLICABLE,
    VALUES,
    understood,
)


def _has(path: str) -> str:
    parts = path.split(".")
    return " && ".join(f"has(self.{'.'.join(parts[: index + 1])})" for index in range(len(parts)))


def _twice() -> Iterator[Rule]:
    """A field given as such and by one of Flink's keys, or by both spellings."""
    for known in (one for one in fields.TABLE if one.flink):
        counted = [f"({_has(known.path)})", *(f"'{key}' in self.configuration" for key in known.flink)]
        names = [f"spec.{known.path}", *(f"configuration['{key}']" for key in known.flink)]
        yield Rule(
            "spec",
            f"!has(self.configuration) || [{', '.join(counted)}].filter(given, given).size() <= 1",
            f"{', '.join(names[:-1])} and {names[-1]} say the same; keep one",
            ".configuration",
        )


MORE_TWICE = (
    Rule(
        "spec",
        "!has(self.configuration) || !has(self.stateBackend) || !has(self.stateBackend.nativeMetrics) || "
        f"!self.configuration.exists(key, key.startsWith('{METRICS}.') && "
        f"key != '{METRICS}.column-family-as-variable')",
        f"spec.stateBackend.nativeMetrics and {METRICS}.* say the same; keep one",
        ".configuration",
    ),
    Rule(
        "spec",
        "!has(self.configuration) || !has(self.stateBackend) || !has(self.stateBackend.options) || "
        "!self.stateBackend.options.exists(key, key in self.configuration)",
        "an option stands in stateBackend.options too; keep one",
        ".configuration",
    ),
)


def _prefixes(prefixes: tuple[str, ...], message: str) -> Rule:
    matches = " || ".join(f"key.startsWith('{prefix}')" for prefix in prefixes)
    return Rule(
        "spec",
        f"!has(self.configuration) || !self.configuration.exists(key, {matches})",
        message,
        ".configuration",
    )


def _later(prefixes: tuple[str, ...], message: str) -> Rule:
    matches = " || ".join(f"key.startsWith('{prefix}')" for prefix in prefixes)
    condition = f"({matches}) && !(key.endsWith('.enabled') && self.configuration[key] == 'false')"
    return Rule(
        "spec",
        f"!has(self.configuration) || !self.configuration.exists(key, {condition})",
        message,
        ".configuration",
    )


def _fixed(keys: tuple[str, ...], value: str, message: str) -> Rule:
    conditions = " && ".join(
        f"(!('{key}' in self.configuration) || self.configuration['{key}'] == '{value}')" for key in keys
    )
    return Rule("spec", f"!has(self.configuration) || ({conditions})", message, ".configuration")


def _unknown() -> Rule:
    answered = [prefix for prefixes, _ in (*NOT_APPLICABLE, *LATER) for prefix in prefixes]
    listed = ", ".join(f"'{key}'" for key in understood())
    starts = " || ".join(f"key.startsWith('{prefix}')" for prefix in (*answered, "s3.access", "s3.secret"))
    return Rule(
        "spec",
        f"!has(self.configuration) || self.configuration.all(key, key in [{listed}] || {starts})",
        "a key is none that this version understands; the fields name their keys (kubectl explain ssj.spec)",
        ".configuration",
    )


def _each(keys: list[str], test: str, message: str) -> Rule:
    """A test of the value of every key that is there."""
    listed = ", ".join(f"'{key}'" for key in keys)
    condition = f"!(key in self.configuration) || {test.replace('{value}', 'self.configuration[key]')}"
    return Rule(
        "spec", f"!has(self.configuration) || [{listed}].all(key, {condition})", message, ".configuration"
    )


def _values() -> Iterator[Rule]:
    by_kind: dict[str, list[str]] = {"boolean": [f"{METRICS}.{name}" for name in NATIVE_METRICS]}
    for key, known in fields.BY_KEY.items():
        by_kind.setdefault(known.kind, []).append(key)
    for kind, (pattern, message) in VALUES.items():
        yield _each(by_kind[kind], f"{{value}}.matches('{pattern}')", message)
    for keys, values, message in CHOICES:
        yield _each(list(keys), "{value} in [" + ", ".join(f"'{value}'" for value in values) + "]", message)
    for pattern, wanted, message in LOCATIONS:
        yield _each(by_kind["location"], f"{'' if wanted else '!'}{{value}}.matches('{pattern}')", message)


ALL = (
    *_twice(),
    *MORE_TWICE,
    *(_prefixes(prefixes, message) for prefixes, message in NOT_APPLICABLE),
    *(_later(prefixes, message) for prefixes, message in LATER),
    *(_fixed(keys, value, message) for keys, value, message in FIXED),
    Rule(
        "spec",
        "!has(self.configuration) || !self.configuration.exists(key, key.startsWith('s3.access') || "
        "key.startsWith('s3.secret'))",
        "keys are never written into a job; put them into a Secret and name it by s3.secretRef",
        ".configuration",
    ),
    _unknown(),
    *_values(),
)
