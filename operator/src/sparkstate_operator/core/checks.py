"""Judgements on a spec with defaults merged in: what the CRD's rules say of one object, said of the sum of two
layers; and what must be there to run at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import croniter
import pydantic

from sparkstate_operator.core.problems import Problem
from sparkstate_operator.model import helm
from sparkstate_operator.model.spec import StatefulSparkJobSpec
from sparkstate_spec import layers, memory, units
from sparkstate_spec.given import JOB, Given, Leaves, join, leaves
from sparkstate_spec.values import LATER_SCHEMES

HELM = "helm"
"""The origin of the chart's ``defaults``."""


def _value(given: Leaves, path: str, default: Any = None) -> Any:
    return given[path].value if path in given else default


def _told(given: Leaves, path: str) -> str:
    leaf = given[path]
    return f"{leaf.value}" if leaf.origin == JOB else f"{leaf.value}, from {_source(path, leaf)}"


def _source(path: str, leaf: Given) -> str:
    return f"Helm value defaults.{path}" if leaf.origin == HELM else "the built-in value"


def _at_most(low: str, high: str, message: str, read: Callable[[Any], float] = float) -> Any:
    def check(given: Leaves) -> Iterator[Problem]:
        if low in given and high in given and read(given[low].value) > read(given[high].value):
            told = f"{_told(given, low)}; spec.{high} is {_told(given, high)}"
            yield Problem(f"spec.{low}", message, told)

    return check


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
        message = "deployment cluster needs a URL that every pod reaches, not a plain path"
        yield Problem(f"spec.{path}", message, _told(given, path))
    elif plain and not given[path].value.startswith("/"):
        yield Problem(
            f"spec.{path}",
            "a relative path means nothing in a pod; write it from the root",
            _told(given, path),
        )


def _schedule(given: Leaves) -> Iterator[Problem]:
    path = "savepoints.schedule"
    if path in given and not croniter.croniter.is_valid(given[path].value, strict=True):
        yield Problem(f"spec.{path}", "names no time that ever comes", _told(given, path))


def _only_rocksdb(given: Leaves) -> Iterator[Problem]:
    if _value(given, "stateBackend.type") != "hashmap":
        return
    for path in ("predefinedOptions", "options", "optionsFactory", "storagePaths", "nativeMetrics"):
        where = f"stateBackend.{path}"
        for found in given:
            if found == where or found.startswith((f"{where}.", f"{where}[")):
                yield Problem(f"spec.{where}", "applies to type rocksdb only", _told(given, found))
                break
    timer = "stateBackend.timerService"
    if _value(given, timer) == "rocksdb":
        yield Problem(f"spec.{timer}", "with type hashmap timers live on the heap", _told(given, timer))


def _ratios(given: Leaves) -> Iterator[Problem]:
    low, high = "stateBackend.highPrioPoolRatio", "stateBackend.writeBufferRatio"
    if low in given and high in given and given[low].value + given[high].value >= 1.0:
        told = f"{_told(given, low)}; spec.{high} is {_told(given, high)}"
        message = "writeBufferRatio and highPrioPoolRatio together must be less than 1"
        yield Problem(f"spec.{low}", message, told)


def _overhead(given: Leaves) -> Iterator[Problem]:
    for process in memory.PROCESSES:
        path = join("sparkConf", memory.overhead_key(process))
        text = _value(given, path)
        try:
            text is None or memory.spark_bytes(text)
        except ValueError:
            yield Problem(f"spec.{path}", memory.OVERHEAD_HINT, _told(given, path))


MERGED: tuple[Callable[[Leaves], Iterator[Problem]], ...] = (
    _image,
    _storage,
    _at_most("slots", "shards", "there are more slots than shards; a slot holds at least one shard"),
    _at_most("slots", "maxParallelism", "there are more slots than key groups (maxParallelism)"),
    _at_most("shards", "maxParallelism", "there are more shards than key groups (maxParallelism)"),
    _at_most(
        "restart.exponentialDelay.initialBackoff",
        "restart.exponentialDelay.maxBackoff",
        "initialBackoff is longer than maxBackoff",
        units.duration_s,
    ),
    _only_rocksdb,
    _ratios,
    _schedule,
    _overhead,
)


def merged(given: Leaves) -> list[Problem]:
    """All findings about merged and filled leaves."""
    return [problem for check in MERGED for problem in check(given)]


def defaults(values: Mapping[str, Any]) -> list[Problem]:
    """All findings about the chart's ``defaults`` alone: types, values, and fields that are each job's own."""
    own = [
        Problem(f"defaults.{path}", "is each job's own and has no cluster-wide default; take it out")
        for path, _ in leaves(values)
        if not helm.has_value(path)
    ]
    try:
        StatefulSparkJobSpec.model_validate(dict(values))
    except pydantic.ValidationError as error:
        return [*own, *(_typed(found) for found in error.errors())]
    given = layers.fold(values, HELM)
    judged = (problem for check in DEFAULTS for problem in check(given))
    return [*own, *(replace(found, field=found.field.replace("spec", "defaults", 1)) for found in judged)]


LOCATIONS = ("checkpointing.storage", "savepoints.storage")
PLACES: tuple[tuple[str, bool, str], ...] = (
    (LATER_SCHEMES, False, "storage on Google Cloud, Azure or HDFS is not in this version"),
    (f"^(?!.*://)|^(s3|file)://|{LATER_SCHEMES}", True, "the scheme must be s3:// or file://"),
    ("^[a-z0-9]+://[^/]*@", False, "a URL never holds credentials; use s3.secretRef"),
)
"""(pattern, whether it must match, message): what the CRD's rules say of a job's own URLs."""
LEAST_DURATIONS = {"fenceTimeout": "3s", "sinkTimeout": "1ms", "checkpointing.interval": "1ms"}
LEAST_SIZES = {
    "managedMemoryPerSlot": "1Mi", "fixedMemoryPerSlot": "1Mi", "driver.memory": "512Mi",
    "executor.memory": "512Mi",
}  # fmt: skip


def _places(given: Leaves) -> Iterator[Problem]:
    for path in LOCATIONS:
        url = _value(given, path)
        for pattern, wanted, message in PLACES if isinstance(url, str) else ():
            if bool(re.search(pattern, url)) != wanted:
                # Not with the value: it may hold a key.
                yield Problem(f"spec.{path}", message)


def _least(given: Leaves) -> Iterator[Problem]:
    bounds = [(path, least, units.duration_ms) for path, least in LEAST_DURATIONS.items()]
    bounds += [(path, least, units.quantity_bytes) for path, least in LEAST_SIZES.items()]
    for path, least, read in bounds:
        if path in given and read(given[path].value) < read(least):
            yield Problem(f"spec.{path}", f"must be at least {least}", _told(given, path))


DEFAULTS = (_places, _least, _ratios, _schedule)


def _typed(found: Any) -> Problem:
    path = ".".join(str(part) for part in found["loc"])
    return Problem(f"defaults.{path}", found["msg"], repr(found["input"])[:80])
