"""The answer to each key of a Flink configuration: the field that it sets, or a sentence that says why it sets none.

A value is shown only for a key that sets a field: any other may be a password of something that is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkstate_spec import configuration, fields, layers, rules
from sparkstate_spec.flink_tables import FIXED, LATER, NOT_APPLICABLE
from sparkstate_spec.given import JOB, Leaves, below
from sparkstate_spec.problems import NOT_IN_THIS_VERSION
from sparkstate_spec.rules import flink

Outcome = Literal["applied", "overridden", "no meaning here", "not yet", "refused"]
"""``refused`` stops the job; so does ``not yet``, if its text says so. The others do not."""

_OLD_NAMES = ("jobmanager", "filesystem", "memorystatebackend", "fsstatebackend", ".rocksdbstatebackend")


@dataclass(frozen=True)
class Answer:
    """``text`` names the field (``spec.slots``), or says why there is none. ``value`` is Flink's text, as given."""

    key: str
    outcome: Outcome
    text: str
    value: str = ""
    spelling: str = configuration.NAME
    """The map that holds the key: ``configuration`` or ``flinkConfiguration``."""

    def __str__(self) -> str:
        return f"{self.key}: {self.outcome}: {self.text}"


def of(spec: Mapping[str, Any], above: Leaves | None = None) -> list[Answer]:
    """An answer for each key of ``spec.configuration`` or ``spec.flinkConfiguration``, in the order given. The types
    of ``spec`` are right. Raises ValueError for a map that cannot be read.

    ``above``: fields that other layers set over those of ``spec``, such as the job's code.
    """
    told, spelling = configuration.keys(spec), configuration.spelling(spec)
    kept = layers.fold({name: value for name, value in spec.items() if name not in configuration.NAMES}, JOB)
    return [replace(_answer(key, told, kept, above or {}), spelling=spelling) for key in told]


def _answer(key: str, told: Mapping[str, str], kept: Leaves, above: Leaves) -> Answer:
    text = told[key]
    alone = rules.broken({"spec": {configuration.NAME: {key: text}}}, flink.ALL)
    if alone:
        notes = {problem.note for problem in alone} - {key, ""}
        said = "; ".join((*(problem.message for problem in alone), *notes))
        if all(NOT_IN_THIS_VERSION in problem.message for problem in alone):
            return Answer(key, "not yet", f"{said}, so the job is refused")
        return Answer(key, "refused", said)
    found = layers.of_keys({key: text}, JOB)
    for path in found:
        if path in above:
            return Answer(key, "overridden", f"{above[path].origin} sets spec.{path}", text)
        if path in kept:
            return Answer(key, "overridden", f"spec.{path} is given, and counts more", text)
        if below(path, *fields.ONLY_ROCKSDB) and _is_on_heap(told, kept):
            return Answer(key, "no meaning here", "applies only to RocksDB, and the state backend is hashmap")
        twin = [other for other in _spellings(key) if other != key and other in told]
        if twin:
            return Answer(key, "refused", f"{twin[0]} means the same; keep one", text)
        return Answer(key, "applied", f"spec.{path}{_renamed(key, text)}", text)
    return _without_field(key)


def _is_on_heap(told: Mapping[str, str], kept: Leaves) -> bool:
    line = fields.BY_PATH["stateBackend.type"]
    named = [line.words.get(told[key]) for key in line.flink if key in told]
    return ([kept[line.path].value] if line.path in kept else named)[:1] == ["hashmap"]


def _spellings(key: str) -> tuple[str, ...]:
    return fields.BY_KEY[key].flink if key in fields.BY_KEY else ()


def _renamed(key: str, text: str) -> str:
    """A deprecation that names the new form, for names of backends from before Flink 1.13."""
    known = fields.BY_KEY.get(key)
    if known is None or known.path != "stateBackend.type" or not is_old_name(text):
        return ""
    return f" (deprecated: {deprecation(text)})"


def is_old_name(text: str) -> bool:
    """Whether a name of a state backend is from before Flink 1.13."""
    folded = f".{text.strip().lower()}"
    return any(name in folded for name in _OLD_NAMES)


def means_memory(text: str) -> bool:
    """Whether such a name meant checkpoints in the coordinator's memory too."""
    folded = text.strip().lower()
    return folded == "jobmanager" or "memorystatebackend" in folded


def deprecation(text: str) -> str:
    """The new form of such a name, as Flink's keys say it."""
    kind = fields.BY_PATH["stateBackend.type"].words[text]
    storage = "jobmanager" if means_memory(text) else "filesystem"
    return (
        f"{text} is a name from before Flink 1.13; write state.backend.type: {kind} and "
        f"{fields.C}.storage: {storage}"
    )


def _without_field(key: str) -> Answer:
    if any(key in keys for keys, _, _ in FIXED):
        return Answer(key, "no meaning here", "it asks for what happens anyway")
    for family, message in NOT_APPLICABLE:
        if key.startswith(family):
            return Answer(key, "no meaning here", message)
    for later, message in LATER:
        if key.startswith(later):
            return Answer(key, "not yet", message)
    return Answer(key, "no meaning here", "the metric is off, as without the key")
