"""Memory and disk of a job's pods, line by line. The engine reckons the same for its own limits; ``tests/contract``
holds the two against each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sparkstate_operator.core import templates
from sparkstate_operator.core.problems import Problem
from sparkstate_operator.core.settings import Resolved
from sparkstate_spec import units

MIB = 1024 * 1024
MIN_JVM_OVERHEAD = 384 * MIB
JVM_OVERHEAD_PERCENT = 10
"""Spark's own rule for memory outside the heap."""
PYTHON_PER_SLOT = 192 * MIB
"""A slot's interpreter with pyarrow loaded and room for the epoch's Arrow batches."""
PYTHON_OF_DRIVER = 192 * MIB
"""The driver's own interpreter with Spark's client, pyarrow and the control endpoint: 165 MiB when measured idle."""
PYTHON_PER_WORKER = 128 * MIB
"""One of Spark's Python workers, with pyarrow and pandas loaded: 122 MiB when measured."""
UNMANAGED_PER_SLOT = 256 * MIB
"""Room for RocksDB where nothing bounds it: an estimate, no promise."""

Role = templates.Role


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

    def __str__(self) -> str:
        times = f"{self.count} x {_mib(self.each)} = " if self.count > 1 else ""
        return f"{self.name} {times}{_mib(self.total)}"


@dataclass(frozen=True)
class PodSum:
    """What each of ``count`` pods of one role needs. Its container is named like the role."""

    role: Role
    cores: int
    items: tuple[Item, ...]
    storage_bytes: int | None
    """Size of the working volume as ephemeral storage; None where it is a claim, a path or unbounded."""
    count: int = 1

    @property
    def memory_bytes(self) -> int:
        """Memory request and limit of the container, whole MiB."""
        return math.ceil(sum(item.total for item in self.items) / MIB) * MIB

    def __str__(self) -> str:
        lines = " + ".join(str(item) for item in self.items)
        return f"{lines} = {_mib(self.memory_bytes)}"


@dataclass(frozen=True)
class Sums:
    """All pods of a job."""

    pods: tuple[PodSum, ...]

    @property
    def memory_bytes(self) -> int:
        """Of all pods together."""
        return sum(pod.memory_bytes * pod.count for pod in self.pods)

    def of(self, role: Role) -> PodSum:
        """The sum of one role's pods. Raises KeyError for executors of a local job."""
        for pod in self.pods:
            if pod.role == role:
                return pod
        raise KeyError(role)


def sums(resolved: Resolved) -> Sums:
    """The pods of a resolved spec: one with everything, or driver and executors."""
    storage = _storage(resolved)
    cores = int(resolved.get("driver.cores"))
    driver = (*_jvm(resolved, "driver"), Item("driver: Python", PYTHON_OF_DRIVER))
    if resolved.executors == 0:
        items = (*driver, _workers(max(cores, resolved.slots)), *_slots(resolved, resolved.slots))
        return Sums((PodSum("driver", cores, items, storage),))
    per_executor = min(int(resolved.get("slotsPerExecutor")), resolved.slots)
    executor_cores = int(resolved.get("executor.cores"))
    items = (*_jvm(resolved, "executor"), _workers(executor_cores), *_slots(resolved, per_executor))
    return Sums(
        (
            PodSum("driver", cores, driver, storage),
            PodSum("executor", executor_cores, items, storage, resolved.executors),
        )
    )


def problems(resolved: Resolved, needed: Sums) -> list[Problem]:
    """Limits and requests of the user's pod templates that lie below the sum."""
    return [problem for pod in needed.pods for problem in _too_small(resolved, pod)]


def _too_small(resolved: Resolved, pod: PodSum) -> Iterator[Problem]:
    given = templates.container_resources(resolved, pod.role)
    wanted = {"memory": pod.memory_bytes, "ephemeral-storage": pod.storage_bytes or 0}
    for name, least in wanted.items():
        told = given.get("limits", {}).get(name)
        if told is not None and templates.quantity_bytes(told) < least:
            field = f"spec.{pod.role}Template.spec.containers['{pod.role}'].resources.limits.{name}"
            why = f"{pod}" if name == "memory" else f"localStorage.sizeLimit {_mib(least)}"
            yield Problem(field, f"a {pod.role} pod needs {why}; raise the limit or leave it out", f"{told}")


def jvm_overhead(heap: int) -> int:
    """Memory that a JVM needs beside its heap, by Spark's rule."""
    return max(math.ceil(heap * JVM_OVERHEAD_PERCENT / 100), MIN_JVM_OVERHEAD)


def _jvm(resolved: Resolved, role: Role) -> tuple[Item, ...]:
    heap = units.quantity_bytes(resolved.get(f"{role}.memory"))
    if role == "executor":
        heap = heap // MIB * MIB  # Spark is told in whole MiB
    name = f"spark.{role}.memoryOverhead"
    told = (resolved.get("sparkConf") or {}).get(name)
    if told is None:
        return (Item("JVM heap", heap), Item("JVM overhead (10 %, at least 384 MiB)", jvm_overhead(heap)))
    size = int(told) * MIB if told.isdecimal() else units.flink_bytes(told)
    return (Item("JVM heap", heap), Item(f"JVM overhead ({name})", size))


def _workers(tasks: int) -> Item:
    """Spark keeps one for each task that runs at once: they feed the slots, and run the job's own functions."""
    return Item("Spark: Python workers", PYTHON_PER_WORKER, tasks)


def _slots(resolved: Resolved, slots: int) -> tuple[Item, ...]:
    items = [_budget(resolved, slots), Item("slots: Python", PYTHON_PER_SLOT, slots)]
    if resolved.backend == "hashmap":
        state = units.quantity_bytes(resolved.get("stateMemoryPerSlot"))
        items.append(Item("slots: state on the heap (stateMemoryPerSlot)", state, slots))
    return tuple(items)


def _budget(resolved: Resolved, slots: int) -> Item:
    fixed, managed = resolved.get("fixedMemoryPerSlot"), resolved.get("managedMemoryPerSlot")
    if fixed is not None:
        return Item("slots: fixed memory", units.quantity_bytes(fixed), slots)
    if managed is not None:
        return Item("slots: managed memory", units.quantity_bytes(managed), slots)
    return Item("slots: unmanaged (an estimate, not bounded)", UNMANAGED_PER_SLOT, slots)


def _storage(resolved: Resolved) -> int | None:
    told = resolved.get("localStorage.sizeLimit")
    return None if told is None else units.quantity_bytes(told)


def _mib(size: int) -> str:
    return f"{math.ceil(size / MIB)} MiB"
