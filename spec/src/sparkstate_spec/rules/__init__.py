"""The rules on a spec that its types cannot say: one list that reads like the specification.

The operator says each of them to the API server too, in CEL (``sparkstate_operator.model.rules``), with the words of
this list; ``tests/contract`` holds both against the same specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import croniter

from sparkstate_spec import configuration, fields
from sparkstate_spec.problems import Problem
from sparkstate_spec.rules import flink, job, state
from sparkstate_spec.rules.rule import Rule, View, name_of_later, not_too_long

ALL: tuple[Rule, ...] = (
    job.NAME,
    *job.ENTRY,
    *job.SIZE,
    *state.BACKEND,
    *state.PROGRESS,
    *state.RESTORE,
    *state.S3,
    *flink.ALL,
)
BY_NAME: Mapping[str, Rule] = {rule.name: rule for rule in ALL}


def is_for_later(path: str, value: Any) -> bool:
    """Whether a later version takes this value of a field, and this one refuses it."""
    return name_of_later(path, value) in BY_NAME


def _comes(name: str, path: str) -> Rule:
    return Rule(
        name,
        path,
        "names a time that never comes; correct the day or month",
        lambda view: view[path] is not None and not croniter.croniter.is_valid(view[path], strict=True),
        lambda view: f"it is {view[path]!r}",
    )


SCHEDULE_COMES = _comes("schedule comes", "spec.savepoints.schedule")
BESIDE: tuple[Rule, ...] = (
    SCHEDULE_COMES,
    _comes("schedule of runs comes", "spec.trigger.schedule"),
    *not_too_long(*(f"spec.{line.path}" for line in fields.TABLE if line.kind == "duration")),
)
"""Rules that stand beside the list, because CEL cannot ask them. A cron line may be spelled well and name no day that
ever comes, such as the 30th of February. A duration of more than 292 years is an error in CEL, which has no words."""


def schedule(line: str) -> Problem | None:
    """The finding about a cron line by itself, if there is one."""
    return SCHEDULE_COMES.check(View({"spec": {"savepoints": {"schedule": line}}}))


def check(document: Mapping[str, Any]) -> list[Problem]:
    """Every rule that ``document`` breaks."""
    return broken(document, ALL)


def check_part(spec: Mapping[str, Any]) -> list[Problem]:
    """The rules for a part of a spec (defaults for all jobs), which names no job and no code."""
    asked = tuple(rule for rule in ALL if rule not in (job.NAME, job.ENTRY_POINT))
    return broken({"spec": spec}, asked)


def broken(document: Mapping[str, Any], rules: tuple[Rule, ...]) -> list[Problem]:
    """The findings for those of ``rules`` that ``document`` breaks. Flink's keys are judged alike in both spellings of
    their map; a map that cannot be read is one finding."""
    spec = document.get("spec") or {}
    name = configuration.spelling(spec)
    if name == configuration.NAME:
        return _found(View(document), rules)
    if wrong := configuration.problems(spec):
        kept = {field: value for field, value in spec.items() if field != name}
        return [*_found(View({**document, "spec": kept}), rules), *wrong]
    found = _found(View({**document, "spec": configuration.plain(spec)}), rules)
    return [configuration.as_written(problem, name) for problem in found]


def _found(view: View, rules: tuple[Rule, ...]) -> list[Problem]:
    return [problem for rule in rules if (problem := rule.check(view)) is not None]
