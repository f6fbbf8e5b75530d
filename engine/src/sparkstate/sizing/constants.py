"""The forms of the measured costs of a row, a key and a checkpoint; ``known`` has the values.

``docs/sizing.md`` shows the values and says how to measure them again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Backend = Literal["hashmap", "rocksdb"]
Function = Literal["record", "record-compiled", "batch", "batch-per-key"]
"""``record``: called for every record. ``record-compiled``: the same, on the path of ``sparkstate-compiled``.
``batch``: called with Arrow batches, and answers every record. ``batch-per-key``: the same, with one answer for each
key of the batch."""
FUNCTIONS: tuple[Function, ...] = get_args(Function)
Values = Literal["any", "numbers"]
"""``numbers``: value states with whole-number keys and numbers or booleans as values. HashMap has them in columns."""
VALUES: tuple[Values, ...] = get_args(Values)
NUMBER_BYTES = 9
"""The most that a number takes when it is encoded: so many bytes of a key's values are an entry."""


@dataclass(frozen=True)
class Source:
    """The measurement that a constant comes from."""

    command: str
    commit: str
    date: str
    machine: str


@dataclass(frozen=True)
class Constant:
    """A measured value. ``within``: how far another machine or job may be off, as a share of the value; 0: exact."""

    value: float
    unit: str
    meaning: str
    source: Source
    within: float


@dataclass(frozen=True)
class KeyCost:
    """Bytes or µs of a key: those that every key costs, and those for each byte of its values."""

    each: Constant
    per_byte: Constant | None = None

    def of(self, key_bytes: int) -> float:
        """Of a key with so many bytes of values."""
        return self.each.value + (self.per_byte.value * key_bytes if self.per_byte is not None else 0.0)


@dataclass(frozen=True)
class EntryCost:
    """Bytes or µs of each entry of numbers: a key has one in each of its value states."""

    each: Constant

    def of(self, key_bytes: int) -> float:
        """Of a key with so many bytes of numbers."""
        return self.each.value * -(-key_bytes // NUMBER_BYTES)


@dataclass(frozen=True)
class ColumnConstants:
    """The costs of numbers in columns (RFC 0035)."""

    memory: EntryCost
    store_us: EntryCost
    restore_us: EntryCost


@dataclass(frozen=True)
class BackendConstants:
    """The costs of a backend in its slots."""

    slots_us: Mapping[Function, Constant]
    touch_us: Constant
    """Of a slot, for each key that an epoch touches, while its state is in memory."""
    memory: KeyCost | EntryCost | None
    """None: bounded by managed memory, whatever the state is."""
    disk: KeyCost | None
    """None: the state is on no disk."""
    checkpoint: KeyCost
    store_us: KeyCost | EntryCost
    """Of a slot, for each key that a checkpoint stores."""
    restore_us: KeyCost | EntryCost
    columns: ColumnConstants | None = None
    """None: numbers cost what other values do."""

    def of_values(self, values: Values) -> BackendConstants:
        """The costs of keys with such values."""
        if values == "any" or self.columns is None:
            return self
        columns = self.columns
        return dataclasses.replace(
            self, memory=columns.memory, store_us=columns.store_us, restore_us=columns.restore_us
        )


@dataclass(frozen=True)
class RequestConstants:
    """Requests to S3, by how they are billed: of the driver for each checkpoint, of each object, of each look."""

    put: Constant
    list: Constant
    delete: Constant
    shard_objects: Constant
    """Objects that each changed shard of RocksDB stores in a checkpoint, with one state."""
    object_put: Constant
    object_get: Constant
    fence_get: Constant
    fence_list: Constant


@dataclass(frozen=True)
class Constants:
    """Everything that an estimate rests on."""

    spark_us: Mapping[Function, Constant]
    backends: Mapping[Backend, BackendConstants]
    miss_us: Constant
    """Of a slot with RocksDB, for each key that an epoch touches and whose state is not in memory."""
    upload: Constant
    """Bytes that incremental checkpoints upload for each byte of the keys that changed: merged files come again."""
    requests: RequestConstants
    restore_mib_per_s: Constant
    restart_s: Mapping[str, Constant]
    """By deployment."""

    def of_values(self, values: Values) -> Constants:
        """The costs of keys with such values."""
        return dataclasses.replace(
            self, backends={name: costs.of_values(values) for name, costs in self.backends.items()}
        )
