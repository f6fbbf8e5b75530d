"""CEL rules on ``spec.configuration``, generated from the tables of ``sparkstate_spec``."""

from __future__ import annotations

from collections.abc import Iterator

from sparkstate_operator.model.rule import Rule, given, named, no_secrets
from sparkstate_spec import configuration, fields
from sparkstate_spec.flink_tables import (
    CHOICES,
    FIXED,
    LATER,
    LOCATIONS,
    METRICS,
    NATIVE_METRICS,
    NOT_APPLICABLE,
    SECRETS,
    VALUES,
    understood,
)
from sparkstate_spec.rules.rule import SECRET_NAMES


def _judged(name: str, expression: str) -> Rule:
    return named(name, "spec", f"!has(self.configuration) || {expression}")


def _twice() -> Iterator[Rule]:
    """Both spellings of one key."""
    for known in (one for one in fields.TABLE if len(one.flink) > 1):
        counted = [f"'{key}' in self.configuration" for key in known.flink]
        yield _judged(f"{known.path} once", f"[{', '.join(counted)}].filter(given, given).size() <= 1")


def _starts(prefixes: tuple[str, ...]) -> str:
    return " || ".join(f"key.startsWith('{prefix}')" for prefix in prefixes)


def _fixed(keys: tuple[str, ...], value: str, name: str) -> Rule:
    conditions = " && ".join(
        f"(!('{key}' in self.configuration) || self.configuration['{key}'] == '{value}')" for key in keys
    )
    return _judged(name, f"({conditions})")


def _unknown() -> Rule:
    answered = [prefix for prefixes, _ in (*NOT_APPLICABLE, *LATER) for prefix in prefixes]
    listed = ", ".join(f"'{key}'" for key in understood())
    starts = _starts((*answered, *SECRETS))
    return _judged("known keys", f"self.configuration.all(key, key in [{listed}] || {starts})")


def _each(name: str, keys: list[str], test: str) -> Rule:
    """A test of the value of every key that is there."""
    listed = ", ".join(f"'{key}'" for key in keys)
    condition = f"!(key in self.configuration) || {test.replace('{value}', 'self.configuration[key]')}"
    return _judged(name, f"[{listed}].all(key, {condition})")


def _values() -> Iterator[Rule]:
    by_kind: dict[str, list[str]] = {"boolean": [f"{METRICS}.{name}" for name in NATIVE_METRICS]}
    for key, known in fields.BY_KEY.items():
        by_kind.setdefault(known.kind, []).append(key)
    for kind, (pattern, _) in VALUES.items():
        yield _each(f"values: {kind}", by_kind[kind], f"{{value}}.matches('{pattern}')")
    for keys, values, _ in CHOICES:
        words = ", ".join(f"'{value}'" for value in values)
        yield _each(f"values of {keys[0]}", list(keys), f"{{value}} in [{words}]")
    for pattern, wanted, message in LOCATIONS:
        test = f"{'' if wanted else '!'}{{value}}.matches('{pattern}')"
        yield _each(f"locations: {message}", by_kind["location"], test)


def _secrets() -> Rule:
    condition = f"{_starts(SECRETS)} || key.matches('{SECRET_NAMES}')"
    return _judged("no keys of S3", f"!self.configuration.exists(key, {condition})")


ALL = (
    named("one configuration", "spec", f"{given(*configuration.NAMES)} <= 1"),
    *_twice(),
    _judged(
        "class or key",
        "!has(self.stateBackend) || !has(self.stateBackend.class) || "
        f"!{list(fields.BY_PATH[fields.BACKEND_TYPE].flink)}.exists(key, key in self.configuration)",
    ),
    *(_fixed(keys, value, message) for keys, value, message in FIXED),
    _secrets(),
    no_secrets("configuration")[1],
    _unknown(),
    *_values(),
)
