"""The sum of a job's memory, line by line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkstate_spec import memory
from sparkstate_spec.memory import Jvm, Needs
from sparkstate_spec.units import MIB

LOCAL = Needs(
    slots=3,
    managed=128 * MIB,
    fixed=None,
    heap_state=None,
    operator_state=32 * MIB,
    driver=Jvm(cores=2, heap=1024 * MIB),
)
CLUSTER = replace(LOCAL, slots=5, slots_per_executor=2, executor=Jvm(cores=4, heap=2048 * MIB))


def lines(part: memory.Part) -> dict[str, tuple[int, int]]:
    return {item.name: (item.count, item.each // MIB) for item in part.items}


def test_without_a_cluster_one_container_holds_the_jvm_and_all_slots() -> None:
    (part,) = memory.parts(LOCAL)
    assert (part.process, part.name, part.cores, part.count) == ("driver", "driver with local Spark", 2, 1)
    assert lines(part) == {
        "JVM heap": (1, 1024),
        "JVM overhead (10 %, at least 384 MiB)": (1, 384),
        "driver: Python": (1, 192),
        "Spark: Python workers": (3, 128),
        "slots: managed memory": (3, 128),
        "slots: Python": (3, 160),
        "slots: operator state (operatorStateMemoryPerSlot)": (3, 32),
    }
    assert part.total == (1024 + 384 + 192 + 3 * (128 + 128 + 192)) * MIB


def test_a_cluster_has_a_driver_without_slots_and_executors_for_all_of_them() -> None:
    driver, executor = memory.parts(CLUSTER)
    assert not {name for name in lines(driver) if name.startswith("slots")}
    assert (executor.process, executor.name, executor.cores, executor.count) == ("executor", "executor", 4, 3)
    assert lines(executor)["Spark: Python workers"] == (4, 128)
    assert lines(executor)["slots: managed memory"] == (2, 128)


def test_an_executor_has_no_more_slots_than_the_job() -> None:
    _, executor = memory.parts(replace(CLUSTER, slots=1))
    assert executor.count == 1
    assert lines(executor)["slots: Python"] == (1, 160)


def test_a_worker_of_sparks_for_each_task_at_once() -> None:
    (part,) = memory.parts(replace(LOCAL, driver=Jvm(cores=5, heap=MIB)))
    assert lines(part)["Spark: Python workers"] == (5, 128)


def test_fixed_memory_wins_over_managed_and_none_of_them_is_an_estimate() -> None:
    (fixed,) = memory.parts(replace(LOCAL, fixed=64 * MIB))
    assert lines(fixed)["slots: fixed memory"] == (3, 64)
    assert "slots: managed memory" not in lines(fixed)
    (free,) = memory.parts(replace(LOCAL, managed=None))
    assert lines(free)["slots: unmanaged (an estimate, not bounded)"] == (3, 256)


def test_on_the_heap_the_state_itself_counts() -> None:
    (part,) = memory.parts(replace(LOCAL, heap_state=500 * MIB))
    assert lines(part)["slots: state on the heap (stateMemoryPerSlot)"] == (3, 500)


def test_the_jvms_overhead_is_a_tenth_and_at_least_384_mib_unless_it_is_told() -> None:
    assert memory.jvm_overhead(1024 * MIB) == 384 * MIB
    assert memory.jvm_overhead(10_000 * MIB) == 1000 * MIB
    (part,) = memory.parts(replace(LOCAL, driver=Jvm(cores=2, heap=1024 * MIB, overhead=700 * MIB)))
    assert lines(part)["JVM overhead (spark.driver.memoryOverhead)"] == (1, 700)


@pytest.mark.parametrize(("text", "mebibytes"), [("512", 512), ("1g", 1024), ("600m", 600)])
def test_sparks_sizes_count_mebibytes_where_they_have_no_unit(text: str, mebibytes: int) -> None:
    assert memory.spark_bytes(text) == mebibytes * MIB


@pytest.mark.parametrize("text", ["9" * 400, f"{2**63}", "9" * 400 + "k", "-1", "1.5g"])
def test_a_size_that_spark_cannot_hold_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is "):
        memory.spark_bytes(text)


def test_a_size_is_shown_rounded_up() -> None:
    assert memory.whole_mib(MIB + 1) == "2 MiB"
