"""From a manifest to the settings of one job, with the origin of each,
and notices of fields that only a cluster can use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sparkstate import errors, keygroups, settings
from sparkstate.backends.rocksdb import keys, memory
from sparkstate.manifest import explain, notices, schema
from sparkstate.manifest import fields as table
from sparkstate.manifest.document import Manifest
from sparkstate.manifest.problems import raise_if_any
from sparkstate.manifest.resolved import Resolved
from sparkstate.storage import naming
from sparkstate_spec import answers, built_in, configuration, key_space, layers, rules, units
from sparkstate_spec.given import JOB, GivenValue, Leaves, below, nested
from sparkstate_spec.problems import Problem

CLUSTER_DEFAULT = "cluster default"
"""The origin of the caller's ``defaults``."""
# Spark sets these two in its executors' pods, whatever the pod template says.
_IMAGE_CONF = {
    "image": "spark.kubernetes.container.image",
    "imagePullPolicy": "spark.kubernetes.container.image.pullPolicy",
}


def resolve(
    manifest: Manifest,
    defaults: Mapping[str, Any] | None = None,
    base_dir: Path | None = None,
    cluster: str = "local",
    in_cluster: bool = False,
    code: Leaves = MappingProxyType({}),
    place_by_code: bool = False,
) -> Resolved:
    """Decide every setting: the job's code, then its manifest, then cluster default, then built-in.

    ``code``: what the job's function sets, once it has run. ``place_by_code``: it has not run yet, and may name the
    checkpoint storage; until then that is the empty text.
    ``defaults`` has the shape of ``spec`` (any part of it). ``base_dir`` is what relative paths mean;
    default: the manifest's folder, else the working directory. ``in_cluster`` is for a driver that an
    operator has started: elsewhere Spark runs locally whatever ``deployment`` says, and ``notices`` name what
    has no effect. Raises ``SpecInvalid`` with all findings.
    """
    base = base_dir or manifest.base_dir or Path.cwd()
    given = _effective(manifest, defaults or {}, code, base)
    missing = [] if place_by_code else _missing(given)
    raise_if_any([*notices.impossible_here(given), *missing, *_beside(given)], manifest.source)
    told = [
        *([] if in_cluster else notices.notices(given)),
        *notices.of_keys(answers.of(manifest.spec, code)),
        *notices.of_storage(given),
    ]
    given = given if in_cluster else _locally(given)
    built = _build(manifest, given, base, cluster)
    values, origins = explain.effective(given, built, _fields(given))
    told += [*_option_notices(built, manifest.source), *_scarcity(built)]
    return Resolved(built, origins, told, values, given)


def _locally(given: dict[str, GivenValue]) -> dict[str, GivenValue]:
    """``deployment: cluster`` as a machine without a cluster carries it out: locally."""
    wanted = given.get("deployment")
    if wanted is None or wanted.value == "local":
        return given
    return {**given, "deployment": GivenValue("local", "no cluster here")}


def _missing(given: Leaves) -> list[Problem]:
    path = "checkpointing.storage"
    if _in_memory(given):
        return []
    remedy = (
        "is missing; name a folder or a URL, e.g. file:///data/checkpoints or s3://bucket/prefix (with sparkstate run, "
        "the job's code may: get_checkpoint_config().set_checkpoint_storage)"
    )
    return [] if path in given else [Problem(f"spec.{path}", remedy)]


def _beside(given: Leaves) -> list[Problem]:
    return rules.broken({"spec": nested(given)}, rules.BESIDE)


def _option_notices(job: settings.JobSettings, source: str) -> tuple[str, ...]:
    """The notices of RocksDB's options; unreadable values are found here, before anything starts."""
    if job.backend.type != "rocksdb":
        return ()
    try:
        return keys.parse(job.backend.options).notices
    except errors.SpecInvalid as error:
        raise_if_any([Problem("spec.stateBackend.options", str(error))], source)
        raise


def _scarcity(job: settings.JobSettings) -> list[str]:
    """A slot's share of write buffers, as far as it is known before the code declares its states: for a single one."""
    if job.backend.type != "rocksdb":
        return []
    key_groups = job.max_parallelism or key_space.default_max_parallelism(job.slots)
    shards = job.shards or keygroups.default_shards(job.slots, key_groups)
    plan = memory.plan(job.backend)
    found = memory.scarcity(plan, job.backend.write_buffer_ratio, -(-shards // job.slots), 1)
    return [found] if found else []


def _effective(
    manifest: Manifest, defaults: Mapping[str, Any], code: Leaves, base: Path
) -> dict[str, GivenValue]:
    found = schema.check(dict(defaults), schema.spec(), "spec") or rules.check_part(defaults)
    raise_if_any([replace(p, path=p.path.replace("spec", "defaults", 1)) for p in found], "cluster defaults")
    job = _mark_overridden(layers.fold(manifest.spec, JOB), manifest.overridden)
    written = _with_implied_storage(layers.merge(job, layers.fold(defaults, CLUSTER_DEFAULT)), manifest)
    raise_if_any(_elsewhere(written, code, base), manifest.source)
    given = layers.merge(code, written)
    document = {"metadata": {"name": manifest.name}, "spec": nested(given)}
    found = schema.check(document["spec"], schema.spec(), "spec") or rules.check(
        schema.with_defaults(document)
    )
    raise_if_any([_with_origin(problem, given) for problem in found], manifest.source)
    return given


def _elsewhere(written: Leaves, code: Leaves, base: Path) -> list[Problem]:
    """The code and the manifest name different places. The operator, the commands and the next start look for the
    job's state where the manifest says, so that neither may win."""
    path = "checkpointing.storage"
    told, said = _place(written, base), _place(code, base)
    if not told or not said or told == said:
        return []
    remedy = "the job's code names another place; whoever looks for the state reads the manifest: name one and the same"
    return [Problem(f"spec.{path}", remedy, f"{told}, and in code {said}")]


def _place(given: Leaves, base: Path) -> str:
    """The checkpoint storage that these leaves name; empty if they name none."""
    if _in_memory(given):
        return naming.MEMORY
    path = "checkpointing.storage"
    return naming.normalise_url(_absolute(given[path].value, base)) if path in given else ""


def _with_implied_storage(given: Leaves, manifest: Manifest) -> dict[str, GivenValue]:
    """``state.backend: jobmanager`` meant its storage too, where no other was named (Flink before 1.13)."""
    backend = given.get("stateBackend.type")
    text = configuration.keys(manifest.spec).get(backend.key, "") if backend else ""
    named = {"checkpointing.storage", "checkpointing.storageType"} & given.keys()
    if backend is None or named or not answers.means_memory(text):
        return dict(given)
    return {**given, "checkpointing.storageType": replace(backend, value="jobmanager")}


def _mark_overridden(job: Leaves, overridden: frozenset[str]) -> dict[str, GivenValue]:
    def origin(path: str, leaf: GivenValue) -> GivenValue:
        return replace(leaf, origin="--set", key="") if below(f"spec.{path}", *overridden) else leaf

    return {path: origin(path, leaf) for path, leaf in job.items()}


def _with_origin(problem: Problem, given: Leaves) -> Problem:
    leaf = given.get(problem.path.removeprefix("spec."))
    if leaf is None or leaf.source == JOB:
        return problem
    return replace(problem, message=f"{problem.message} [from {leaf.source}]")


def _build(manifest: Manifest, given: Leaves, base: Path, cluster: str) -> settings.JobSettings:
    entry = settings.EntryPoint(
        python_file=_absolute(given["pythonFile"].value, base) if "pythonFile" in given else None,
        module=given["module"].value if "module" in given else None,
        params=_map(given, "params"),
    )
    job = settings.JobSettings(name=manifest.name, namespace=manifest.namespace, cluster=cluster, entry=entry)
    for field in _fields(given):
        if field.path in given:
            job = _set(job, field.setting, field.kind.read(given[field.path].value))
    job = replace(job, spark_conf={**_executor_conf(given), **_map(given, "sparkConf")})
    job = _set(job, "backend.options", _map(given, "stateBackend.options"))
    job = _memory(_locate(job, given, base), given)
    # Whole checkpoints in the canonical form leave no files for a next slot.
    return _set(job, "backend.local_recovery", False) if _in_memory(given) else job


def _fields(given: Leaves) -> tuple[table.Field, ...]:
    strategy = (
        given["restart.strategy"].value
        if "restart.strategy" in given
        else settings.RestartSettings().strategy
    )
    return (*table.FIELDS, *table.STRATEGY_FIELDS[strategy])


def _set(target: Any, path: str, value: Any) -> Any:
    head, _, rest = path.partition(".")
    return replace(target, **{head: _set(getattr(target, head), rest, value) if rest else value})


def _map(given: Leaves, path: str) -> dict[str, str]:
    entries = {}
    for name, leaf in given.items():
        if below(name, path):
            key = name.removeprefix(path)
            entries[key[1:] if key[0] == "." else key[2:-2]] = leaf.value
    return entries


def _executor_conf(given: Leaves) -> dict[str, str]:
    if "deployment" not in given or given["deployment"].value == "local":
        return {}
    cores = given["executor.cores"].value if "executor.cores" in given else built_in.value("executor.cores")
    memory = (
        given["executor.memory"].value if "executor.memory" in given else built_in.value("executor.memory")
    )
    mebibytes = units.quantity_bytes(memory) // settings.MIB
    conf = {"spark.executor.cores": str(cores), "spark.executor.memory": f"{mebibytes}m"}
    for path, name in _IMAGE_CONF.items():
        if path in given:
            conf[name] = given[path].value
    return conf


def _locate(job: settings.JobSettings, given: Leaves, base: Path) -> settings.JobSettings:
    """Relative paths become absolute; places that follow from others are filled in."""
    local = (
        [_absolute(path, base) for path in given["localStorage.paths"].value]
        if "localStorage.paths" in given
        else []
    )
    # One path alone holds the working directory, and the stores in it, where the next driver looks for them.
    elsewhere = local if len(local) > 1 or job.deployment == "cluster" else []
    paths = tuple(_absolute(path, base) for path in job.backend.storage_paths) or tuple(elsewhere)
    return replace(
        job,
        backend=replace(job.backend, storage_paths=paths),
        checkpoint=replace(
            job.checkpoint,
            storage=naming.MEMORY if _in_memory(given) else _absolute(job.checkpoint.storage, base),
        ),
        savepoint=replace(
            job.savepoint, storage=_absolute(job.savepoint.storage, base) if job.savepoint.storage else None
        ),
        restore_from=_restore_from(given, base),
        work_dir=local[0] if local else job.work_dir,
    )


def _in_memory(given: Leaves) -> bool:
    path = "checkpointing.storageType"
    return path in given and given[path].value == "jobmanager"


def _restore_from(given: Leaves, base: Path) -> str | None:
    if "restoreFrom.uri" in given:
        return _absolute(given["restoreFrom.uri"].value, base)
    return "latest" if "restoreFrom.latest" in given else None


def _absolute(location: str, base: Path) -> str:
    """URLs stay; a path becomes absolute, relative ones from ``base``. The empty text stays empty."""
    if not location or "://" in location or location.startswith("file:"):
        return location
    return os.path.normpath(base.absolute() / location)


def _memory(job: settings.JobSettings, given: Leaves) -> settings.JobSettings:
    backend = job.backend
    if "fixedMemoryPerSlot" in given:
        fixed = units.quantity_bytes(given["fixedMemoryPerSlot"].value)
        backend = replace(backend, managed_memory_bytes=None, fixed_memory_bytes=fixed)
    elif "managedMemory" in given and not given["managedMemory"].value:
        backend = replace(backend, managed_memory_bytes=None)
    elif "managedMemoryPerSlot" in given:
        managed = units.quantity_bytes(given["managedMemoryPerSlot"].value)
        backend = replace(backend, managed_memory_bytes=managed)
    return replace(job, backend=backend)
