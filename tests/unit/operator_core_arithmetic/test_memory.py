"""The sum of a pod's memory, and limits of the user's that lie below it."""

from __future__ import annotations

from typing import Any

import pytest

from sparkstate_operator.core import memory, settings
from sparkstate_spec.units import MIB

BASE: dict[str, Any] = {
    "image": "shop:1",
    "pythonFile": "/job.py",
    "checkpointing": {"storage": "s3://bucket/prefix"},
}


def sums(**spec: Any) -> memory.Sums:
    return memory.sums(settings.resolve({**BASE, **spec}))


def limited(role: str, **limits: str) -> dict[str, Any]:
    containers = [{"name": "sidecar"}, {"name": role, "resources": {"limits": limits}}]
    return {f"{role}Template": {"spec": {"containers": containers}}}


def test_one_pod_holds_everything_of_a_local_job() -> None:
    (pod,) = sums(slots=3).pods
    assert pod.memory_bytes == (1024 + 384 + 192 + 3 * 128 + 3 * (256 + 192 + 256)) * MIB
    assert (pod.role, pod.count, pod.cores, pod.storage_bytes) == ("driver", 1, 2, None)


def test_a_cluster_has_a_driver_and_executors_of_one_size() -> None:
    found = sums(
        deployment="cluster",
        slots=5,
        slotsPerExecutor=2,
        executor={"memory": "2Gi", "cores": 4},
        stateBackend={"type": "rocksdb"},
        localStorage={"sizeLimit": "10Gi"},
    )
    driver, executor = found.of("driver"), found.of("executor")
    assert driver.memory_bytes == (1024 + 384 + 192) * MIB
    assert executor.memory_bytes == (2048 + 384 + 4 * 128 + 2 * (256 + 192)) * MIB
    assert (executor.count, executor.cores, executor.storage_bytes) == (3, 4, 10 * 1024 * MIB)
    assert found.memory_bytes == driver.memory_bytes + 3 * executor.memory_bytes


def test_each_task_at_once_has_a_python_worker_of_sparks() -> None:
    def workers(**spec: Any) -> int:
        role = "executor" if spec.get("deployment") == "cluster" else "driver"
        return next(
            item.count for item in sums(**spec).of(role).items if item.name == "Spark: Python workers"
        )

    assert workers(slots=3, driver={"cores": 2}) == 3
    assert workers(slots=3, driver={"cores": 5}) == 5
    assert workers(deployment="cluster", slots=8, slotsPerExecutor=4, executor={"cores": 2}) == 2


def test_a_local_job_has_no_executors() -> None:
    with pytest.raises(KeyError):
        sums().of("executor")


def test_the_overhead_is_ten_percent_where_that_is_more() -> None:
    assert sums(driver={"memory": "10Gi"}).of("driver").items[1].each == 1024 * MIB


def test_a_container_is_asked_for_in_whole_mebibytes() -> None:
    pod = sums(fixedMemoryPerSlot="100000001").of("driver")
    assert pod.memory_bytes % MIB == 0
    assert 0 <= pod.memory_bytes - sum(item.total for item in pod.items) < MIB


def test_a_limit_below_the_sum_is_refused_with_the_sum() -> None:
    resolved = settings.resolve({**BASE, **limited("driver", memory="1Gi")})
    (problem,) = memory.problems(resolved, memory.sums(resolved))
    assert problem.field == "spec.driverTemplate.spec.containers['driver'].resources.limits.memory"
    assert "JVM heap 1024 MiB + JVM overhead" in problem.message
    assert "slots: managed memory 2 x 256 MiB = 512 MiB" in problem.message
    assert "= 3264 MiB; raise the limit" in problem.message
    assert problem.value == "1Gi"


@pytest.mark.parametrize(
    "limits", [{"memory": "4Gi"}, {"cpu": "1"}, {}, {"ephemeral-storage": "2Gi"}], ids=str
)
def test_a_limit_that_leaves_room_is_fine(limits: dict[str, str]) -> None:
    resolved = settings.resolve({**BASE, "localStorage": {"sizeLimit": "1Gi"}, **limited("driver", **limits)})
    assert memory.problems(resolved, memory.sums(resolved)) == []


def test_an_executors_limit_and_the_disk_count_too() -> None:
    spec = {"deployment": "cluster", "localStorage": {"sizeLimit": "5Gi"}}
    resolved = settings.resolve(
        {**BASE, **spec, **limited("executor", **{"memory": "64Mi", "ephemeral-storage": "1Gi"})}
    )
    found = memory.problems(resolved, memory.sums(resolved))
    assert [problem.field.rsplit(".", 1)[1] for problem in found] == ["memory", "ephemeral-storage"]
    assert "5120 MiB" in found[1].message
