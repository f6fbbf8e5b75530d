"""Every effective setting as text, and where it comes from, by its path in the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkstate import keygroups
from sparkstate.manifest import schema
from sparkstate.manifest.fields import PLAIN, Field
from sparkstate.settings import JobSettings
from sparkstate_spec import fields as spec_fields
from sparkstate_spec import key_space, units
from sparkstate_spec.given import BUILT_IN, Leaves


def effective(
    given: Leaves, job: JobSettings, fields: Sequence[Field]
) -> tuple[dict[str, str], dict[str, str]]:
    """Values and origins by path, in the schema's order. Built-in values that the job's backend or deployment cannot
    use are left out."""
    by_path = {field.path: field for field in fields}
    derived = _derived(job)
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for path in _ordered([*by_path, *derived, *given]):
        if path not in given and not _applies(path, job):
            continue
        values[path] = derived.get(path) or _shown(path, given, by_path, job)
        origins[path] = given[path].source if path in given else BUILT_IN
    return values, origins


def _shown(path: str, given: Leaves, by_path: Mapping[str, Field], job: JobSettings) -> str:
    if path not in by_path:
        return PLAIN.show(given[path].value)
    value: Any = job
    for name in by_path[path].setting.split("."):
        value = getattr(value, name)
    return by_path[path].kind.show(value)


def _derived(job: JobSettings) -> dict[str, str]:
    """Values that are more than one setting: places made absolute, numbers that follow from others."""
    key_groups = job.max_parallelism or key_space.default_max_parallelism(job.slots)
    shards = job.shards or keygroups.default_shards(job.slots, key_groups)
    found = {
        "maxParallelism": f"{key_groups}" if job.max_parallelism else f"{key_groups} for a new job",
        "shards": f"{shards}" if job.shards else f"{shards} for a new job",
        "savepoints.storage": job.savepoint.storage or "savepoints/ under the checkpoint storage",
        **_memory(job),
    }
    if job.entry.python_file:
        found["pythonFile"] = job.entry.python_file
    if job.restore_from and job.restore_from != "latest":
        found["restoreFrom.uri"] = job.restore_from
    if job.deployment == "cluster":
        found["executor.cores"] = job.spark_conf["spark.executor.cores"]
        memory = units.flink_bytes(job.spark_conf["spark.executor.memory"])
        found["executor.memory"] = units.format_bytes(memory)
    return found


def _memory(job: JobSettings) -> dict[str, str]:
    if job.backend.fixed_memory_bytes is not None:
        return {"fixedMemoryPerSlot": units.format_bytes(job.backend.fixed_memory_bytes)}
    if job.backend.managed_memory_bytes is not None:
        return {"managedMemoryPerSlot": units.format_bytes(job.backend.managed_memory_bytes)}
    return {"managedMemory": "false"}


def _applies(path: str, job: JobSettings) -> bool:
    if path == "stateMemoryPerSlot":
        return job.backend.type != "rocksdb"
    if path == "slotsPerExecutor":
        return job.deployment == "cluster"
    only_rocksdb = (*spec_fields.ONLY_ROCKSDB, "stateBackend.incremental")
    return job.backend.type == "rocksdb" or not path.startswith(only_rocksdb)


def _ordered(paths: Sequence[str]) -> list[str]:
    order = {name: index for index, name in enumerate(schema.spec()["properties"])}
    return sorted(dict.fromkeys(paths), key=lambda path: order[path.split(".")[0].split("[")[0]])
