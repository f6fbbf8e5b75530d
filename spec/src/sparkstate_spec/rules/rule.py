"""A rule, and the kinds of rules that recur. Pure functions over a spec whose types are right.

By a rule's name another side can say the same in another language (the operator, in CEL). Its words are written here
alone. They do not name the field: its path is put before them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkstate_spec import units, values
from sparkstate_spec.problems import NOT_IN_THIS_VERSION, Problem

_LATER = re.compile(values.LATER_SCHEMES)
SECRET_NAMES = "(?i)((secret|access|account)[-._]?key|passw(or)?d|session[-._]?token)"
SECRET_REFERENCES = "(?i)secretkeyref"
"""``spark.kubernetes.driver.secretKeyRef.X`` names a Secret; it holds none."""
ACCESS_KEY_IDS = "(^|[^A-Z0-9])(AKIA|ASIA)[A-Z0-9]{16}"


class View:
    """A document read by dotted paths; what is not there is None."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def __getitem__(self, path: str) -> Any:
        node: Any = self._document
        for name in path.split("."):
            node = node.get(name) if isinstance(node, Mapping) else None
        return node

    def count(self, *paths: str) -> int:
        """How many of the paths are there."""
        return sum(self[path] is not None for path in paths)

    def entries(self, path: str) -> Mapping[str, str]:
        """A free map, empty when it is not there."""
        found: Mapping[str, str] = self[path] or {}
        return found


@dataclass(frozen=True)
class Rule:
    """``broken`` tells whether a document breaks the rule; ``note`` says which part of it does (never a secret)."""

    name: str
    path: str
    message: str
    broken: Callable[[View], bool]
    note: Callable[[View], str] = lambda view: ""
    beside: str = ""
    """The path of the other field, where the rule compares two."""

    def check(self, view: View) -> Problem | None:
        """The finding, if there is one."""
        return Problem(self.path, self.message, self.note(view)) if self.broken(view) else None


def shown(path: str) -> Callable[[View], str]:
    """A note that shows the value of ``path``."""
    return lambda view: f"it is {view[path]}"


def positive(*paths: str) -> tuple[Rule, ...]:
    """Durations that may not be zero."""

    def rule(path: str) -> Rule:
        return Rule(
            f"{path} is positive",
            path,
            "must be more than 0",
            lambda view: view[path] is not None and units.duration_ms(view[path]) == 0,
            shown(path),
        )

    return tuple(rule(path) for path in paths)


def not_too_long(*paths: str) -> tuple[Rule, ...]:
    """Durations with which the engine and the operator can calculate."""

    def rule(path: str) -> Rule:
        return Rule(
            f"{path} is not too long",
            path,
            f"must be at most {units.LONGEST} (100 years)",
            lambda view: (
                view[path] is not None and units.duration_ms(view[path]) > units.duration_ms(units.LONGEST)
            ),
            shown(path),
        )

    return tuple(rule(path) for path in paths)


def not_in_this_version(path: str, value: Any, what: str) -> Rule:
    """A field, or one value of it, that exists for a later version."""
    return Rule(
        name_of_later(path, value),
        path,
        f"{what} {NOT_IN_THIS_VERSION}",
        lambda view: view[path] is not None if value is None else view[path] == value,
    )


def name_of_later(path: str, value: Any) -> str:
    """The name of such a rule."""
    return f"{path} {value} is for later"


def location(path: str) -> tuple[Rule, ...]:
    """The forms that a storage URL may have."""

    def rule(name: str, message: str, broken: Callable[[str], object]) -> Rule:
        return Rule(
            f"{path} {name}",
            path,
            message,
            lambda v: v[path] is not None and bool(broken(v[path])),
            shown(path),
        )

    return (
        rule(
            "is for later",
            f"storage on Google Cloud, Azure or HDFS is {NOT_IN_THIS_VERSION}",
            _LATER.search,
        ),
        rule(
            "has a known scheme",
            "the scheme must be s3:// or file:// (s3a:// and s3n:// are written s3://)",
            lambda text: (
                "://" in text and not text.startswith(("s3://", "file://")) and not _LATER.search(text)
            ),
        ),
        Rule(
            f"{path} holds no credentials",
            path,
            "a URL never holds credentials; use spec.s3.secretRef",
            lambda view: bool(re.search("^[a-z0-9]+://[^/]*@", view[path] or "")),
        ),
        rule(
            "is whole",
            "write s3://bucket/prefix or file:///path, with %23 for # and %3F for ?",
            re.compile(values.NOT_WHOLE.replace("$", r"\Z")).search,
        ),
    )


def no_secrets(path: str) -> tuple[Rule, ...]:
    """Keys written into a free map, by the name of the entry or by the form of AWS's ids."""

    def named(view: View) -> list[str]:
        names = view.entries(path)
        return [
            name for name in names if re.search(SECRET_NAMES, name) and not re.search(SECRET_REFERENCES, name)
        ]

    def valued(view: View) -> list[str]:
        return [name for name, value in view.entries(path).items() if re.search(ACCESS_KEY_IDS, value)]

    return (
        Rule(
            f"{path} names no keys",
            path,
            "keys and passwords are never written into a job; use spec.s3.secretRef or serviceAccountName",
            lambda view: bool(named(view)),
            lambda view: ", ".join(named(view)),
        ),
        Rule(
            f"{path} holds no keys",
            path,
            "a value looks like an access key id; use spec.s3.secretRef or serviceAccountName",
            lambda view: bool(valued(view)),
            lambda view: ", ".join(valued(view)),
        ),
    )


def inline_keys(section: str) -> tuple[Rule, ...]:
    """Keys of S3 in the section that says how it is reached, in the URL of its endpoint too."""

    def given(field: str) -> Rule:
        path = f"{section}.{field}"
        return Rule(
            f"no {path}",
            path,
            "keys are never written into a job; put them into a Secret and name it by secretRef",
            lambda view: view[path] is not None,
        )

    endpoint = f"{section}.endpoint"
    return (
        *(given(field) for field in ("accessKey", "secretKey", "sessionToken")),
        Rule(
            f"no credentials in {endpoint}",
            endpoint,
            "a URL never holds credentials; use secretRef",
            lambda view: bool(re.search("^https?://[^/]*@", view[endpoint] or "")),
        ),
    )
