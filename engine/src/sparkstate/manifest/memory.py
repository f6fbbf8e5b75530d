"""How much memory a job needs, line by line: the sum that a container must be given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sparkstate import errors
from sparkstate.settings import MIB, JobSettings, StateBackendSettings
from sparkstate_spec import units

MIN_JVM_OVERHEAD = 384 * MIB
JVM_OVERHEAD_PERCENT = 10
"""Spark's own rule for memory outside the heap (``spark.executor.memoryOverhead``)."""
PYTHON_PER_SLOT = 192 * MIB
"""A slot's interpreter with pyarrow loaded and room for the epoch's Arrow batches."""
PYTHON_OF_DRIVER = 192 * MIB
"""The driver's own interpreter with Spark's client, pyarrow and the control endpoint: 165 MiB when measured idle."""
PYTHON_PER_WORKER = 128 * MIB
"""One of Spark's Python workers, with pyarrow and pandas loaded: 122 MiB when measured."""
UNMANAGED_PER_SLOT = 256 * MIB
"""Room for RocksDB when nothing bounds it: an estimate, no promise."""


@dataclass(frozen=True)
class MemoryItem:
    """One line: ``count`` times ``each`` bytes."""

    name: str
    each: int
    count: int = 1

    @property
    def total(self) -> int:
        return self.each * self.count


@dataclass(frozen=True)
class MemoryPart:
    """One container, or with ``count`` as many of the same."""

    name: str
    items: tuple[MemoryItem, ...]
    count: int = 1

    @property
    def total(self) -> int:
        """Bytes of one of them."""
        return sum(item.total for item in self.items)


@dataclass(frozen=True)
class MemorySum:
    """All containers of a job. ``str()`` is the table that ``explain`` prints."""

    parts: tuple[MemoryPart, ...]

    @property
    def total(self) -> int:
        """Bytes of the whole job."""
        return sum(part.total * part.count for part in self.parts)

    def __str__(self) -> str:
        lines = []
        for part in self.parts:
            lines.append(part.name if part.count == 1 else f"{part.name} (each of {part.count})")
            for item in part.items:
                times = f"{item.count} x {_mib(item.each)}" if item.count > 1 else ""
                lines.append(f"  {item.name:<44} {times:>18} {_mib(item.total):>12}")
            lines.append(f"  {'sum':<44} {'':>18} {_mib(part.total):>12}")
        if len(self.parts) > 1:
            lines.append(f"{'all containers':<46} {'':>18} {_mib(self.total):>12}")
        return "\n".join(lines)


def _mib(size: int) -> str:
    return f"{math.ceil(size / MIB)} MiB"


def jvm_overhead(heap: int) -> int:
    """Memory that a JVM needs beside its heap, by Spark's rule."""
    return max(math.ceil(heap * JVM_OVERHEAD_PERCENT / 100), MIN_JVM_OVERHEAD)


def _jvm(heap: int, process: str, conf: Mapping[str, str]) -> tuple[MemoryItem, ...]:
    given = conf.get(f"spark.{process}.memoryOverhead")
    if given is None:
        overhead = MemoryItem("JVM overhead (10 %, at least 384 MiB)", jvm_overhead(heap))
    else:
        overhead = MemoryItem(f"JVM overhead (spark.{process}.memoryOverhead)", _spark_size(process, given))
    return (MemoryItem("JVM heap", heap), overhead)


def _spark_size(process: str, text: str) -> int:
    """Spark's sizes: ``512m``, ``1g``; a number alone counts MiB."""
    try:
        return int(text) * MIB if text.isdecimal() else units.flink_bytes(text)
    except ValueError as error:
        name = f"spec.sparkConf['spark.{process}.memoryOverhead']"
        raise errors.SpecInvalid(f"{name} is {text!r}; it must be a size such as 512m or 1g") from error


def _driver(settings: JobSettings) -> tuple[MemoryItem, ...]:
    heap = _jvm(settings.jvm_memory_bytes, "driver", settings.spark_conf)
    return (*heap, MemoryItem("driver: Python", PYTHON_OF_DRIVER))


def _workers(tasks: int) -> MemoryItem:
    """Spark keeps one for each task that runs at once: they feed the slots, and run the job's own functions."""
    return MemoryItem("Spark: Python workers", PYTHON_PER_WORKER, tasks)


def _slots(backend: StateBackendSettings, slots: int) -> tuple[MemoryItem, ...]:
    items = [_budget(backend, slots), MemoryItem("slots: Python", PYTHON_PER_SLOT, slots)]
    if backend.type == "hashmap":
        items.append(
            MemoryItem("slots: state on the heap (stateMemoryPerSlot)", backend.heap_state_bytes, slots)
        )
    return tuple(items)


def _budget(backend: StateBackendSettings, slots: int) -> MemoryItem:
    if backend.fixed_memory_bytes is not None:
        return MemoryItem("slots: fixed memory", backend.fixed_memory_bytes, slots)
    if backend.managed_memory_bytes is not None:
        return MemoryItem("slots: managed memory", backend.managed_memory_bytes, slots)
    return MemoryItem("slots: unmanaged (an estimate, not bounded)", UNMANAGED_PER_SLOT, slots)


def memory_sum(settings: JobSettings) -> MemorySum:
    """The sum for the whole job; a cluster deployment has a driver and executors, a local one a single
    container."""
    if settings.deployment == "local":
        items = (
            *_driver(settings),
            _workers(max(settings.cores, settings.slots)),
            *_slots(settings.backend, settings.slots),
        )
        return MemorySum((MemoryPart("driver with local Spark", items),))
    return MemorySum(
        (
            MemoryPart("driver", _driver(settings)),
            MemoryPart("executor", _executor(settings), settings.executors),
        )
    )


def _executor(settings: JobSettings) -> tuple[MemoryItem, ...]:
    per_executor = min(settings.slots_per_executor, settings.slots)
    return (
        *_jvm(_executor_heap(settings), "executor", settings.spark_conf),
        _workers(int(settings.spark_conf.get("spark.executor.cores", "1"))),
        *_slots(settings.backend, per_executor),
    )


def _executor_heap(settings: JobSettings) -> int:
    return units.flink_bytes(settings.spark_conf.get("spark.executor.memory", "1g"))


def executor_bytes(settings: JobSettings) -> tuple[int, int]:
    """An executor's heap, and all that its container needs, the heap included."""
    return _executor_heap(settings), sum(item.total for item in _executor(settings))
