"""Judges a spec with the defaults merged in: the API server has judged the job alone, and two layers that are each
valid may break a rule together. It also says which fields a job cannot run without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pydantic

from sparkstate_operator.core.problems import Problem
from sparkstate_operator.model import helm
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_spec import layers, memory, rules
from sparkstate_spec.fields import REFUSED_ON_HEAP
from sparkstate_spec.given import JOB, GivenValue, Leaves, below, join, leaves, nested
from sparkstate_spec.rules import job
from sparkstate_spec.rules.rule import Rule, View

HELM = "helm"
"""The origin of the chart's ``defaults``."""


def _value(given: Leaves, path: str, default: Any = None) -> Any:
    return given[path].value if path in given else default


def _told(given: Leaves, path: str) -> str:
    leaf = given[path]
    return f"{leaf.value}" if leaf.origin == JOB else f"{leaf.value}, from {_source(path, leaf)}"


def _source(path: str, leaf: GivenValue) -> str:
    return f"Helm value defaults.{path}" if leaf.origin == HELM else "the built-in value"


def _noted(given: Leaves, rule: Rule) -> str:
    """What the layers say of a rule's fields: the values, and who gave those that the job did not."""
    first, *others = (path.removeprefix("spec.") for path in (rule.path, rule.beside) if path)
    leaf = next(path for path in given if below(path, first))
    return "; ".join((_told(given, leaf), *(f"spec.{path} is {_told(given, path)}" for path in others)))


def _broken(given: Leaves, judged: Iterable[Rule]) -> Iterator[Problem]:
    view = View({"spec": nested(given)})
    for rule in judged:
        if rule.broken(view):
            yield Problem(rule.path, rule.message, _noted(given, rule))


def _image(given: Leaves) -> Iterator[Problem]:
    if "image" not in given:
        yield Problem("spec.image", "is missing; name an image, or set Helm value defaults.image")


def _storage(given: Leaves) -> Iterator[Problem]:
    path = "checkpointing.storage"
    if path not in given:
        yield Problem(
            f"spec.{path}",
            f"is missing; name a URL such as s3://bucket/prefix, or set Helm value defaults.{path}",
        )
        return
    plain = "://" not in given[path].value
    if plain and _value(given, "deployment") == "cluster":
        yield from _broken(given, [rules.BY_NAME["storage for a cluster"]])
    elif plain and not given[path].value.startswith("/"):
        yield Problem(
            f"spec.{path}",
            "a relative path has no meaning in a pod; write an absolute one",
            _told(given, path),
        )


def _overhead(given: Leaves) -> Iterator[Problem]:
    for process in memory.PROCESSES:
        path = join("sparkConf", memory.overhead_key(process))
        text = _value(given, path)
        try:
            text is None or memory.spark_bytes(text)
        except ValueError:
            yield Problem(f"spec.{path}", memory.OVERHEAD_HINT, _told(given, path))


def _named(*names: str) -> tuple[Rule, ...]:
    return tuple(rules.BY_NAME[name] for name in names)


OF_TWO_LAYERS = (
    *_named("slots fit shards", "slots fit key groups", "shards fit key groups", "backoffs agree"),
    *_named(*(f"{field} for rocksdb" for field in REFUSED_ON_HEAP), "heap timers on the heap", "ratios fit"),
    rules.SCHEDULE_COMES,
)
"""Rules that the API server has judged for the job alone, and that the chart's defaults may break together with it."""


def _two_layers(given: Leaves) -> Iterator[Problem]:
    yield from _broken(given, OF_TWO_LAYERS)


MERGED: tuple[Callable[[Leaves], Iterator[Problem]], ...] = (_image, _storage, _two_layers, _overhead)


def merged(given: Leaves) -> list[Problem]:
    """All findings about merged and filled leaves."""
    return [problem for check in MERGED for problem in check(given)]


def defaults(values: Mapping[str, Any]) -> list[Problem]:
    """All findings about the chart's ``defaults`` alone: types, values, and fields that are each job's own."""
    own = [
        Problem(f"defaults.{path}", "belongs to each job and cannot have a cluster-wide default; remove it")
        for path, _ in leaves(values)
        if not helm.has_value(path)
    ]
    try:
        StatefulSparkJobSpec.model_validate(dict(values))
    except pydantic.ValidationError as error:
        return [*own, *(_typed(found) for found in error.errors())]
    given = layers.fold(values, HELM)
    found = [*_secret(given, PLACES), *_broken(given, OF_DEFAULTS)]
    return [*own, *(_of_chart(problem) for problem in found)]


def _secret(given: Leaves, judged: Iterable[Rule]) -> Iterator[Problem]:
    """Without the value: a URL may hold a key."""
    return (replace(problem, value="") for problem in _broken(given, judged))


def _of_chart(found: Problem) -> Problem:
    """The path and the remedy below ``defaults``, where there is no ``spec``."""
    field = found.field.replace("spec", "defaults", 1)
    return replace(found, field=field, message=found.message.replace("spec.", ""))


PLACES = _named(
    *(
        f"spec.{path} {name}"
        for path in ("checkpointing.storage", "savepoints.storage")
        for name in ("is for later", "has a known scheme", "holds no credentials")
    )
)
OF_DEFAULTS = (
    *_named("fence timeout", "spec.sinkTimeout is positive", "spec.checkpointing.interval is positive"),
    *_named(*(f"{path} is large enough" for path in job.LEAST_MEMORY), "ratios fit"),
    rules.SCHEDULE_COMES,
)
"""What is asked of the chart's defaults by themselves, once at the start. An operator that refuses them manages no job,
so the list holds only rules without which no job could run."""


def _typed(found: Any) -> Problem:
    path = ".".join(str(part) for part in found["loc"])
    return Problem(f"defaults.{path}", found["msg"], repr(found["input"])[:80])
