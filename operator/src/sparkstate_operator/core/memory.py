"""Memory and disk of a job's pods, line by line: the sum of ``sparkstate_spec.memory`` over a resolved spec."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sparkstate_operator.core import templates
from sparkstate_operator.core.problems import Problem
from sparkstate_operator.core.settings import Resolved
from sparkstate_spec import built_in, memory, units
from sparkstate_spec.memory import Item, whole_mib
from sparkstate_spec.units import MIB

Role = templates.Role


@dataclass(frozen=True)
class PodSum:
    """The needs of each of ``count`` pods of one role. Its container is named like the role."""

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
        lines = " + ".join(_line(item) for item in self.items)
        return f"{lines} = {whole_mib(self.memory_bytes)}"


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
    parts = memory.parts(_needs(resolved))
    return Sums(tuple(PodSum(one.process, one.cores, one.items, storage, one.count) for one in parts))


def _needs(resolved: Resolved) -> memory.Needs:
    on_heap, in_cluster = resolved.backend != "rocksdb", resolved.executors > 0
    return memory.Needs(
        slots=resolved.slots,
        slots_per_executor=int(resolved.get("slotsPerExecutor", built_in.value("slotsPerExecutor"))),
        managed=_size(resolved, "managedMemoryPerSlot"),
        fixed=_size(resolved, "fixedMemoryPerSlot"),
        heap_state=_size(resolved, "stateMemoryPerSlot") if on_heap else None,
        operator_state=units.quantity_bytes(
            # A revision that an older operator has stored does not have it.
            resolved.get("operatorStateMemoryPerSlot", built_in.value("operatorStateMemoryPerSlot"))
        ),
        driver=_jvm(resolved, "driver"),
        executor=_jvm(resolved, "executor") if in_cluster else None,
    )


def _jvm(resolved: Resolved, role: Role) -> memory.Jvm:
    heap = units.quantity_bytes(resolved.get(f"{role}.memory"))
    if role == "executor":
        heap = heap // MIB * MIB  # the engine gives Spark whole MiB
    told = (resolved.get("sparkConf") or {}).get(memory.overhead_key(role))
    overhead = None if told is None else memory.spark_bytes(told)
    return memory.Jvm(cores=int(resolved.get(f"{role}.cores")), heap=heap, overhead=overhead)


def _size(resolved: Resolved, path: str) -> int | None:
    told = resolved.get(path)
    return None if told is None else units.quantity_bytes(told)


def problems(resolved: Resolved, needed: Sums) -> list[Problem]:
    """Limits of the user's pod templates that lie below the sum."""
    return [problem for pod in needed.pods for problem in _too_small(resolved, pod)]


def _too_small(resolved: Resolved, pod: PodSum) -> Iterator[Problem]:
    given = templates.container_resources(resolved, pod.role)
    wanted = {"memory": pod.memory_bytes, "ephemeral-storage": pod.storage_bytes or 0}
    for name, least in wanted.items():
        told = given.get("limits", {}).get(name)
        if told is not None and templates.quantity_bytes(told) < least:
            field = f"spec.{pod.role}Template.spec.containers['{pod.role}'].resources.limits.{name}"
            why = f"{pod}" if name == "memory" else f"localStorage.sizeLimit {whole_mib(least)}"
            yield Problem(field, f"a {pod.role} pod needs {why}; raise the limit or leave it out", f"{told}")


def _storage(resolved: Resolved) -> int | None:
    return _size(resolved, "localStorage.sizeLimit")


def _line(item: Item) -> str:
    times = f"{item.count} x {whole_mib(item.each)} = " if item.count > 1 else ""
    return f"{item.name} {times}{whole_mib(item.total)}"
