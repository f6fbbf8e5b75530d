from __future__ import annotations

from dataclasses import replace

import pytest

from sparkstate import errors, settings
from sparkstate.manifest import memory_sum
from sparkstate_spec.memory import (
    PYTHON_OF_DRIVER,
    PYTHON_PER_SLOT,
    PYTHON_PER_WORKER,
    UNMANAGED_PER_SLOT,
    jvm_overhead,
)

MIB = settings.MIB
ROCKSDB = settings.StateBackendSettings(type="rocksdb", managed_memory_bytes=128 * MIB)
OPERATOR_STATE = 32 * MIB
"""The built-in value of ``operatorStateMemoryPerSlot``."""
JOB = settings.JobSettings(name="flights", entry=settings.EntryPoint(), slots=3, backend=ROCKSDB)


def test_the_jvms_overhead_is_a_tenth_and_at_least_384_mib() -> None:
    assert jvm_overhead(1024 * MIB) == 384 * MIB
    assert jvm_overhead(10_000 * MIB) == 1000 * MIB


@pytest.mark.parametrize(("text", "mebibytes"), [("512", 512), ("1g", 1024), ("600m", 600)])
def test_an_overhead_that_spark_was_told_counts(text: str, mebibytes: int) -> None:
    told = replace(JOB, spark_conf={"spark.driver.memoryOverhead": text})
    assert memory_sum(told).total - memory_sum(JOB).total == (mebibytes - 384) * MIB


def test_an_overhead_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(
        errors.SpecInvalid, match=r"memoryOverhead'\] is 'much'; it must be a size such as 512m"
    ):
        memory_sum(replace(JOB, spark_conf={"spark.driver.memoryOverhead": "much"}))


def test_one_container_holds_the_jvm_and_all_slots() -> None:
    (part,) = memory_sum(JOB).parts
    assert [(item.name, item.total) for item in part.items] == [
        ("JVM heap", 1024 * MIB),
        ("JVM overhead (10 %, at least 384 MiB)", 384 * MIB),
        ("driver: Python", PYTHON_OF_DRIVER),
        ("Spark: Python workers", 3 * PYTHON_PER_WORKER),
        ("slots: managed memory", 3 * 128 * MIB),
        ("slots: Python", 3 * PYTHON_PER_SLOT),
        ("slots: operator state (operatorStateMemoryPerSlot)", 3 * OPERATOR_STATE),
    ]
    assert memory_sum(JOB).total == (1024 + 384 + 384) * MIB + PYTHON_OF_DRIVER + 3 * (
        PYTHON_PER_WORKER + PYTHON_PER_SLOT + OPERATOR_STATE
    )


def test_on_the_heap_the_state_itself_counts() -> None:
    backend = settings.StateBackendSettings(heap_state_bytes=500 * MIB)
    on_heap = memory_sum(replace(JOB, backend=backend))
    python = PYTHON_OF_DRIVER + 3 * (PYTHON_PER_WORKER + PYTHON_PER_SLOT + OPERATOR_STATE)
    assert on_heap.total == (1024 + 384 + 3 * (256 + 500)) * MIB + python


def test_more_memory_for_operator_state_makes_the_container_larger_by_as_much_for_each_slot() -> None:
    more = replace(ROCKSDB, operator_state_bytes=100 * MIB)
    assert memory_sum(replace(JOB, backend=more)).total - memory_sum(JOB).total == 3 * (100 - 32) * MIB


def test_fixed_memory_stands_for_managed_memory_and_unmanaged_is_an_estimate() -> None:
    fixed = replace(ROCKSDB, managed_memory_bytes=None, fixed_memory_bytes=64 * MIB)
    off = replace(ROCKSDB, managed_memory_bytes=None)
    difference = memory_sum(replace(JOB, backend=off)).total - memory_sum(replace(JOB, backend=fixed)).total
    assert difference == 3 * (UNMANAGED_PER_SLOT - 64 * MIB)
    assert "not bounded" in str(memory_sum(replace(JOB, backend=off)))


def test_a_cluster_has_a_driver_and_executors_for_all_slots() -> None:
    cluster = replace(
        JOB,
        deployment="cluster",
        slots=5,
        slots_per_executor=2,
        spark_conf={"spark.executor.memory": "2048m", "spark.executor.cores": "4"},
    )
    driver, executor = memory_sum(cluster).parts
    assert driver.total == (1024 + 384) * MIB + PYTHON_OF_DRIVER
    assert executor.count == 3
    slots = 2 * (128 * MIB + PYTHON_PER_SLOT + OPERATOR_STATE)
    assert executor.total == (2048 + 384) * MIB + 4 * PYTHON_PER_WORKER + slots
    assert memory_sum(cluster).total == driver.total + 3 * executor.total


def test_the_sum_can_be_read() -> None:
    text = str(memory_sum(JOB))
    assert "3 x 128 MiB" in text
    assert text.splitlines()[-1].split() == ["sum", "2944", "MiB"]
