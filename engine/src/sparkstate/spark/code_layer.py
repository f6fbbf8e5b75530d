"""The fields of the manifest that a job's code sets: the uppermost layer of its configuration.

A setter says its field here, in the field's own spelling, so that the code's words are judged, merged and shown as the
manifest's are. Only fields that the driver needs after the job has declared itself can be set: pods, slots and Spark
are there before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkstate import errors
from sparkstate_spec import built_in, fields, layers, rules
from sparkstate_spec.given import GivenValue, Leaves, below
from sparkstate_spec.rules import flink

CODE = "code"
"""The origin of what a job's code sets."""
SETTABLE = ("stateBackend", "checkpointing", "savepoints.storage", "allowNonRestoredState")


class CodeLayer:
    """``beneath``: what the other layers give, for getters."""

    def __init__(self, beneath: Leaves | None = None) -> None:
        self._beneath = beneath or {}
        self._given: dict[str, GivenValue] = {}
        self._configuration: dict[str, str] = {}
        self._notices: dict[str, None] = {}

    def set(self, path: str, value: Any, setter: str) -> None:
        """Set a field; ``setter`` is the call, for messages. Raises ``SpecInvalid`` for one that is fixed by then."""
        self._require_settable(path, setter)
        self._given[path] = GivenValue(value, CODE, setter)

    def unset(self, setter: str) -> None:
        """Forget what calls of this name have set."""
        self._given = {path: leaf for path, leaf in self._given.items() if not leaf.key.startswith(setter)}

    def configure(self, key: str, text: str) -> None:
        """Set what one of Flink's keys means. Raises ``SpecInvalid`` for a key or value that a manifest could not have
        either; a key that means nothing here is a notice."""
        broken = rules.broken({"spec": {"configuration": {key: text}}}, flink.ALL)
        if broken:
            shown = "" if flink.SECRET.search(key) else f" is {text!r}"
            said = "; ".join(dict.fromkeys(problem.message for problem in broken))
            raise errors.SpecInvalid(f"the configuration's {key}{shown}: {said}")
        found = layers.of_keys({key: text}, CODE)
        for path in found:
            self._require_settable(path, key)
        self._configuration[key] = text
        metrics = found.get("stateBackend.nativeMetrics")
        if metrics is not None:  # each key adds one
            known = self._given.get("stateBackend.nativeMetrics")
            merged = [*(known.value if known else ()), *metrics.value]
            found["stateBackend.nativeMetrics"] = replace(metrics, value=list(dict.fromkeys(merged)))
        self._given.update(found)

    def note(self, sentence: str) -> None:
        """Tell the reader of the job's notices something, once."""
        self._notices[sentence] = None

    def get(self, path: str) -> Any:
        """The effective value in the field's spelling: the code's, that of the other layers, or the built-in one; None
        where there is none."""
        for layer in (self._given, self._beneath):
            if path in layer:
                return layer[path].value
        return fields.BY_PATH[path].built_in if path in fields.BY_PATH else None

    def plain(self, path: str) -> Any:
        """The same in plain units: durations in seconds, sizes in bytes."""
        found, read = self.get(path), built_in.reader(path)
        return found if found is None or read is None else read(found)

    @property
    def leaves(self) -> Leaves:
        """All that the code sets. RocksDB's keys beside HashMap are left out, as Flink does not read them then."""
        chosen = self._given.get("stateBackend.type")
        if chosen is None or chosen.value != "hashmap":
            return dict(self._given)
        return {path: leaf for path, leaf in self._given.items() if not below(path, *fields.ONLY_ROCKSDB)}

    @property
    def configuration(self) -> Mapping[str, str]:
        """Flink's keys that the code has set as such."""
        return dict(self._configuration)

    @property
    def notices(self) -> list[str]:
        """Sentences for a reader of the job's code."""
        return list(self._notices)

    @staticmethod
    def _require_settable(path: str, setter: str) -> None:
        if not below(path, *SETTABLE):
            raise errors.SpecInvalid(
                f"{setter} would set spec.{path}, which is needed before the job's code runs; write it into the "
                "manifest"
            )
