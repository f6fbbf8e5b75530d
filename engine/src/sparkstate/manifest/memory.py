"""How much memory a job needs: the sum of ``sparkstate_spec.memory`` over a job's settings, as a table."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate import errors
from sparkstate.settings import JobSettings
from sparkstate_spec import memory, units
from sparkstate_spec.memory import Part, whole_mib


@dataclass(frozen=True)
class MemorySum:
    """All containers of a job. ``str()`` is the table that ``explain`` prints."""

    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """Bytes of the whole job."""
        return sum(part.total * part.count for part in self.parts)

    def __str__(self) -> str:
        lines = []
        for part in self.parts:
            lines.append(part.name if part.count == 1 else f"{part.name} (each of {part.count})")
            for item in part.items:
                times = f"{item.count} x {whole_mib(item.each)}" if item.count > 1 else ""
                lines.append(f"  {item.name:<50} {times:>18} {whole_mib(item.total):>12}")
            lines.append(f"  {'sum':<50} {'':>18} {whole_mib(part.total):>12}")
        if len(self.parts) > 1:
            lines.append(f"{'all containers':<52} {'':>18} {whole_mib(self.total):>12}")
        return "\n".join(lines)


def memory_sum(settings: JobSettings) -> MemorySum:
    """The sum for the whole job; a cluster deployment has a driver and executors, a local one a single container."""
    return MemorySum(memory.parts(_needs(settings)))


def executor_bytes(settings: JobSettings) -> tuple[int, int]:
    """An executor's heap, and all that its container needs, the heap included. ``deployment: cluster`` only."""
    _, executor = memory_sum(settings).parts
    return _executor_heap(settings), executor.total


def _needs(settings: JobSettings) -> memory.Needs:
    backend = settings.backend
    return memory.Needs(
        slots=settings.slots,
        slots_per_executor=settings.slots_per_executor,
        managed=backend.managed_memory_bytes,
        fixed=backend.fixed_memory_bytes,
        heap_state=backend.heap_state_bytes if backend.type != "rocksdb" else None,
        operator_state=backend.operator_state_bytes,
        driver=_jvm(settings, "driver", settings.cores, settings.jvm_memory_bytes),
        executor=None if settings.deployment == "local" else _executor(settings),
    )


def _executor(settings: JobSettings) -> memory.Jvm:
    cores = int(settings.spark_conf.get("spark.executor.cores", "1"))
    return _jvm(settings, "executor", cores, _executor_heap(settings))


def _jvm(settings: JobSettings, process: memory.Process, cores: int, heap: int) -> memory.Jvm:
    key = memory.overhead_key(process)
    told = settings.spark_conf.get(key)
    try:
        return memory.Jvm(cores=cores, heap=heap, overhead=None if told is None else memory.spark_bytes(told))
    except ValueError as error:
        raise errors.SpecInvalid(f"spec.sparkConf['{key}'] is {told!r}; it {memory.OVERHEAD_HINT}") from error


def _executor_heap(settings: JobSettings) -> int:
    return units.flink_bytes(settings.spark_conf.get("spark.executor.memory", "1g"))
