"""Judges a spec as the engine will judge it, first the job alone, then with the defaults merged in. The API server has
judged the job alone, but two layers that are each valid may break a rule together, and one of Flink's keys may give a
field a value that the schema refuses there. It also says which fields a job cannot run without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkstate_operator.core import shapes
from sparkstate_operator.core.problems import Problem
from sparkstate_operator.model import helm
from sparkstate_spec import configuration, layers, memory, rules
from sparkstate_spec.given import JOB, GivenValue, Leaves, join, leaves, nested
from sparkstate_spec.rules import flink, job
from sparkstate_spec.rules.rule import Rule, View

HELM = "helm"
"""The origin of the chart's ``defaults``."""


def _value(given: Leaves, path: str, default: Any = None) -> Any:
    return given[path].value if path in given else default


def _told(given: Leaves, path: str) -> str:
    """The value where it may be shown, and who gave it if the job's own field did not."""
    leaf = given[path]
    return _with_source(f"{leaf.value}" if shapes.is_harmless(path, leaf.value) else "", path, leaf)


def _with_source(value: str, path: str, leaf: GivenValue) -> str:
    source = _source(path, leaf)
    return ", ".join(filter(None, (value, source and f"from {source}")))


def _source(path: str, leaf: GivenValue) -> str:
    if leaf.key:
        return f"{leaf.spelling}['{leaf.key}']"
    if leaf.origin == JOB:
        return ""
    return f"Helm value defaults.{path}" if leaf.origin == HELM else "the built-in value"


def _noted(given: Leaves, rule: Rule, view: View) -> str:
    """The words of the layers on a rule's fields. A rule on a section or a map has words of its own."""
    first, *others = (path.removeprefix("spec.") for path in (rule.path, rule.beside) if path)
    if first not in given:
        return rule.note(view).removeprefix("it is ")
    return "; ".join((_told(given, first), *(f"spec.{path} is {_told(given, path)}" for path in others)))


def _broken(given: Leaves, judged: Iterable[Rule]) -> Iterator[Problem]:
    view = View({"spec": nested(given)})
    for rule in judged:
        if rule.broken(view):
            yield Problem(rule.path, rule.message, _noted(given, rule, view))


def _image(given: Leaves) -> Iterator[Problem]:
    if "image" not in given:
        yield Problem("spec.image", "is missing; name an image, or set Helm value defaults.image")


def _storage(given: Leaves) -> Iterator[Problem]:
    path = "checkpointing.storage"
    if _value(given, "checkpointing.storageType") == "jobmanager":
        yield Problem(
            "spec.checkpointing.storageType",
            "checkpoints in the driver's memory are not in this version on Kubernetes, where a pod may end at any "
            "time; name checkpointing.storage",
            _told(given, "checkpointing.storageType"),
        )
        return
    if path not in given:
        yield Problem(
            f"spec.{path}",
            f"is missing; name a URL such as s3://bucket/prefix, or set Helm value defaults.{path}",
        )
        return
    if _value(given, "deployment") != "cluster":  # there is a rule that asks for a URL
        yield from _relative(given, path)


def _relative(given: Leaves, path: str) -> Iterator[Problem]:
    told = str(_value(given, path, ""))
    if told and "://" not in told and not told.startswith("/"):
        yield Problem(
            f"spec.{path}",
            "a relative path has no meaning in a pod; write an absolute one",
            _told(given, path),
        )


def _savepoints(given: Leaves) -> Iterator[Problem]:
    """The driver would look below the folder of its ConfigMap, which nobody can write to. The operator knows by its
    place which snapshot a job still has to restore."""
    for path in ("savepoints.storage", "restoreFrom.uri"):
        yield from _relative(given, path)


def _overhead(given: Leaves) -> Iterator[Problem]:
    for process in memory.PROCESSES:
        path = join("sparkConf", memory.overhead_key(process))
        text = _value(given, path)
        try:
            text is None or memory.spark_bytes(text)
        except ValueError:
            yield Problem(
                f"spec.{path}", memory.OVERHEAD_HINT, _with_source(f"{text[:80]!r}", path, given[path])
            )


def own(spec: Mapping[str, Any]) -> list[Problem]:
    """All findings about the job alone that have to be known before it is merged: types, and the values of Flink's
    keys. The API server has asked for both, but perhaps by the CRD of another version. It asks for no key of a
    ``flinkConfiguration``, which is an object without a schema there."""
    found = list(shapes.problems(spec))
    if found or not any(spec.get(name) for name in configuration.NAMES):
        return found
    return [Problem(one.path, one.message, one.note) for one in rules.broken({"spec": spec}, flink.ALL)]


def shaped(given: Leaves) -> list[Problem]:
    """All findings about the types and bounds of merged and filled leaves."""
    found = []
    for problem in shapes.problems(nested(given)):
        path = problem.field.removeprefix("spec.").partition("[")[0]
        told = _with_source(problem.value, path, given[path]) if path in given else problem.value
        found.append(replace(problem, value=told))
    return found


OF_MERGED = (*(rule for rule in rules.ALL if rule is not job.NAME and rule not in flink.ALL), *rules.BESIDE)
"""The rules on a spec in which Flink's keys have become fields. The engine asks them of the spec that it is handed."""


def _rules(given: Leaves) -> Iterator[Problem]:
    yield from _broken(given, OF_MERGED)


MERGED: tuple[Callable[[Leaves], Iterator[Problem]], ...] = (_image, _storage, _savepoints, _rules, _overhead)


def merged(given: Leaves) -> list[Problem]:
    """All findings about merged and filled leaves whose types are right."""
    return [problem for check in MERGED for problem in check(given)]


def defaults(values: Mapping[str, Any]) -> list[Problem]:
    """All findings about the chart's ``defaults`` alone: types, values, and fields that are each job's own."""
    own = [
        Problem(f"defaults.{path}", "belongs to each job and cannot have a cluster-wide default; remove it")
        for path, _ in leaves(values)
        if not helm.has_value(path)
    ]
    if wrong := list(shapes.problems(values, "defaults")):
        return [*own, *wrong]
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


def _named(*names: str) -> tuple[Rule, ...]:
    return tuple(rules.BY_NAME[name] for name in names)


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
    *rules.BESIDE,
)
"""Rules for the chart's defaults by themselves, checked once at the start. An operator that refuses them manages no
job, so the list holds only rules without which no job could run."""
