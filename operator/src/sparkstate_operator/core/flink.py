"""``spec.configuration``: Flink's keys become the fields that they mean, in the fields' own spelling."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from sparkstate_operator.model.flink_tables import METRICS, FlinkKey, flink_keys
from sparkstate_operator.model.state import NATIVE_METRICS, ROCKSDB, ROCKSDB_OPTIONS
from sparkstate_spec import units

WORDS: Mapping[str, Mapping[str, str]] = {
    "stateBackend.type": {
        "jobmanager": "hashmap",
        "filesystem": "hashmap",
        "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory": "hashmap",
        "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory": "rocksdb",
        "org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory": "rocksdb",
        "org.apache.flink.runtime.state.memory.MemoryStateBackendFactory": "hashmap",
        "org.apache.flink.runtime.state.filesystem.FsStateBackendFactory": "hashmap",
        "org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory": "rocksdb",
    },
    "stateBackend.timerService": {"HEAP": "heap", "ROCKSDB": "rocksdb"},
    "restart.strategy": {
        "off": "none", "disable": "none", "fixeddelay": "fixed-delay",
        "exponentialdelay": "exponential-delay", "failurerate": "failure-rate",
    },
}  # fmt: skip
"""Flink's words and ours, where they differ."""

READERS: Mapping[str, Callable[[str], Any]] = {
    "duration": lambda text: units.format_duration(units.flink_duration_ms(text)),
    "memory": lambda text: units.format_bytes(units.flink_bytes(text)),
    "boolean": lambda text: text == "true",
    "integer": int,
    "number": float,
    "location": str,
    "text": str,
}
LISTS = ("stateBackend.storagePaths",)


@functools.cache
def _by_name() -> Mapping[str, FlinkKey]:
    return {key.name: key for key in flink_keys()}


def read(key: str, text: str) -> tuple[str, Any] | None:
    """The field (path below ``spec``) and value that a key means; None for keys that stand for no field."""
    known = _by_name().get(key)
    if known is None:
        return None
    if known.path in LISTS:
        return known.path, [item.strip() for item in re.split("[,:;|]", text) if item.strip()]
    return known.path, WORDS.get(known.path, {}).get(text, READERS[known.kind](text))


def options(configuration: Mapping[str, str]) -> dict[str, str]:
    """The keys that are RocksDB's options; they move to ``stateBackend.options``."""
    known = {f"{ROCKSDB}.{name}" for name in ROCKSDB_OPTIONS}
    return {key: text for key, text in configuration.items() if key in known}


def metrics(configuration: Mapping[str, str]) -> list[str]:
    """The native metrics that keys switch on."""
    names = (key.removeprefix(f"{METRICS}.") for key, text in configuration.items() if text == "true")
    return [name for name in names if name in NATIVE_METRICS]
