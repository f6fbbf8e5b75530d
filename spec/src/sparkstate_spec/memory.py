"""How much memory a job needs, line by line: the sum that each container must be given.

The operator asks Kubernetes for it. The engine shows it (``sparkstate explain``), and gives each slot its share. Both
must arrive at the same sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sparkstate_spec import executors, units
from sparkstate_spec.units import MIB

MIN_JVM_OVERHEAD = 384 * MIB
JVM_OVERHEAD_PERCENT = 10
"""Spark's own rule for memory outside the heap (``spark.executor.memoryOverhead``)."""
PYTHON_PER_SLOT = 160 * MIB
"""A slot's interpreter with pyarrow loaded and room for the epoch's Arrow batches."""
PYTHON_OF_DRIVER = 192 * MIB
"""The driver's own interpreter with Spark's client, pyarrow and the control endpoint: 165 MiB when measured idle."""
PYTHON_PER_WORKER = 128 * MIB
"""One of Spark's Python workers, with pyarrow and pandas loaded: 122 MiB when measured."""
UNMANAGED_PER_SLOT = 256 * MIB
"""Room for RocksDB when nothing bounds it: an estimate and not a promise."""

Process = Literal["driver", "executor"]
PROCESSES: tuple[Process, ...] = ("driver", "executor")
"""Of Spark. Its container has the same name."""
_LONGEST_OF_JAVA = 2**63 - 1
OVERHEAD_HINT = "must be a size such as 512m or 1g"


@dataclass(frozen=True)
class Item:
    """One line: ``count`` times ``each`` bytes."""

    name: str
    each: int
    count: int = 1

    @property
    def total(self) -> int:
        """Bytes of the line."""
        return self.each * self.count


@dataclass(frozen=True)
class Part:
    """One container; ``count`` of the same. Without a cluster the driver's holds all of Spark."""

    process: Process
    name: str
    cores: int
    items: tuple[Item, ...]
    count: int = 1

    @property
    def total(self) -> int:
        """Bytes of one of them."""
        return sum(item.total for item in self.items)


@dataclass(frozen=True, kw_only=True)
class Jvm:
    """One of Spark's JVMs: cores, bytes of its heap, and of its overhead where ``sparkConf`` says it."""

    cores: int
    heap: int
    overhead: int | None = None


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The inputs of the sum; sizes in bytes. ``managed`` None and ``fixed`` None: nothing bounds the backend."""

    slots: int
    managed: int | None
    fixed: int | None
    heap_state: int | None
    """Of a slot's state itself, where it lives on the heap."""
    operator_state: int
    """Of a slot's operator state, which lies on the heap with every backend."""
    driver: Jvm
    executor: Jvm | None = None
    """None: Spark runs in the driver's process."""
    slots_per_executor: int = 1


def parts(needs: Needs) -> tuple[Part, ...]:
    """The containers of a job: one with everything, or the driver's and the executors'."""
    driver = (*_jvm("driver", needs.driver), Item("driver: Python", PYTHON_OF_DRIVER))
    if needs.executor is None:
        items = (*driver, _workers(max(needs.driver.cores, needs.slots)), *_slots(needs, needs.slots))
        return (Part("driver", "driver with local Spark", needs.driver.cores, items),)
    items = _executor(needs, needs.executor)
    count = executors.count(needs.slots, needs.slots_per_executor)
    return (
        Part("driver", "driver", needs.driver.cores, driver),
        Part("executor", "executor", needs.executor.cores, items, count),
    )


def _executor(needs: Needs, jvm: Jvm) -> tuple[Item, ...]:
    slots = min(needs.slots_per_executor, needs.slots)
    return (*_jvm("executor", jvm), _workers(jvm.cores), *_slots(needs, slots))


def overhead_key(process: Process) -> str:
    """The setting of Spark's that says how much a JVM needs beside its heap."""
    return f"spark.{process}.memoryOverhead"


def spark_bytes(text: str) -> int:
    """Bytes of Spark's sizes: ``512m``, ``1g``; a number alone counts MiB. Raises ValueError."""
    size = int(text) * MIB if text.isdecimal() else units.flink_bytes(text)
    if size > _LONGEST_OF_JAVA:
        raise ValueError(f"is {text[:80]!r}; Spark counts no more than {_LONGEST_OF_JAVA} bytes")
    return size


def jvm_overhead(heap: int) -> int:
    """Memory that a JVM needs beside its heap, by Spark's rule."""
    return max(math.ceil(heap * JVM_OVERHEAD_PERCENT / 100), MIN_JVM_OVERHEAD)


def _jvm(process: Process, jvm: Jvm) -> tuple[Item, ...]:
    if jvm.overhead is None:
        overhead = Item("JVM overhead (10 %, at least 384 MiB)", jvm_overhead(jvm.heap))
    else:
        overhead = Item(f"JVM overhead ({overhead_key(process)})", jvm.overhead)
    return (Item("JVM heap", jvm.heap), overhead)


def _workers(tasks: int) -> Item:
    # Spark keeps one for each task that runs at once: they feed the slots, and run the job's own functions.
    return Item("Spark: Python workers", PYTHON_PER_WORKER, tasks)


def _slots(needs: Needs, slots: int) -> tuple[Item, ...]:
    items = [
        _budget(needs, slots),
        Item("slots: Python", PYTHON_PER_SLOT, slots),
        Item("slots: operator state (operatorStateMemoryPerSlot)", needs.operator_state, slots),
    ]
    if needs.heap_state is not None:
        items.append(Item("slots: state on the heap (stateMemoryPerSlot)", needs.heap_state, slots))
    return tuple(items)


def _budget(needs: Needs, slots: int) -> Item:
    if needs.fixed is not None:
        return Item("slots: fixed memory", needs.fixed, slots)
    if needs.managed is not None:
        return Item("slots: managed memory", needs.managed, slots)
    return Item("slots: unmanaged (an estimate, not bounded)", UNMANAGED_PER_SLOT, slots)


def whole_mib(size: int) -> str:
    """A size as it is shown, rounded up."""
    return f"{math.ceil(size / MIB)} MiB"
