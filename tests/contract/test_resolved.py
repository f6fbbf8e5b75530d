"""The operator resolves a spec once and hands it to the engine: the engine reads the same settings from it as from
the original, and both reckon the same memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.specs import near

from sparkstate import manifest
from sparkstate.settings import JobSettings
from sparkstate_operator.core import memory, revisions, settings

GOOD = sorted((Path(__file__).parent / "manifests" / "good").glob("*.yaml"))
BASE = {"image": "shop:1", "checkpointing": {"storage": "s3://bucket/prefix"}}
DEFAULTS: dict[str, dict[str, Any]] = {
    "no defaults": {},
    "backend": {"stateBackend": {"type": "rocksdb", "timerService": "heap", "transferThreads": 2}},
    "restart": {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 7}}},
    "memory": {"managedMemoryPerSlot": "512Mi", "driver": {"memory": "2Gi"}, "executor": {"memory": "1.5Gi"}},
    "operator state": {"operatorStateMemoryPerSlot": "48Mi"},
    "fixed memory": {"fixedMemoryPerSlot": "100M"},
    "unmanaged": {"managedMemory": False},
    "clock": {"savepoints": {"interval": "6h", "maxCount": 3}, "trigger": {"processingTime": "500ms"}},
    "storage": {
        "localStorage": {"sizeLimit": "5Gi"},
        "s3": {"endpoint": "http://minio:9000", "pathStyle": True},
    },
    "conf": {"sparkConf": {"spark.driver.memoryOverhead": "700m", "spark.executor.memoryOverhead": "900"}},
}
SPECS: dict[str, dict[str, Any]] = {
    **{path.stem: yaml.safe_load(path.read_text())["spec"] for path in GOOD},
    "minimal": {"pythonFile": "/job.py"},
    "cluster": {"pythonFile": "/job.py", "deployment": "cluster", "slots": 5, "slotsPerExecutor": 3},
    "rocksdb": {"pythonFile": "/job.py", "stateBackend": {"type": "rocksdb"}},
    "timers without a type": {"pythonFile": "/job.py", "stateBackend": {"timerService": "rocksdb"}},
    "cron": {"pythonFile": "/job.py", "savepoints": {"schedule": "0 3 * * *"}},
    "available now": {"pythonFile": "/job.py", "trigger": {"availableNow": True}},
    "failure rate": {"pythonFile": "/job.py", "restart": {"strategy": "failure-rate"}},
    "no restart": {"pythonFile": "/job.py", "restart": {"strategy": "none"}},
    "flink": {
        "pythonFile": "/job.py",
        "configuration": {
            "state.backend": "filesystem",
            "parallelism.default": "3",
            "execution.checkpointing.interval": "10 min",
            "restart-strategy": "fixeddelay",
        },
    },
    "options by keys": {
        "pythonFile": "/job.py",
        "stateBackend": {"type": "rocksdb"},
        "configuration": {
            "state.backend.rocksdb.thread.num": "4",
            "state.backend.rocksdb.metrics.estimate-num-keys": "true",
            "state.backend.rocksdb.localdir": "/a,/b",
            "state.backend.rocksdb.memory.fixed-per-slot": "64mb",
        },
    },
}
CASES = [(name, layer) for name, spec in SPECS.items() for layer in DEFAULTS if "configMapRef" not in spec]


def by_engine(spec: Mapping[str, Any], defaults: Mapping[str, Any]) -> JobSettings:
    document = {
        "apiVersion": "sparkstate.io/v1alpha1",
        "kind": "StatefulSparkJob",
        "metadata": {"name": "flights", "namespace": "shop"},
        "spec": dict(spec),
    }
    loaded = manifest.load(yaml.safe_dump(document))
    return manifest.resolve(loaded, defaults, base_dir=Path("/base"), in_cluster=True).settings


def restorable(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the operator replaces for each attempt, and with a storage that a pod can reach."""
    kept = {name: value for name, value in spec.items() if name != "restoreFrom"}
    for name in ("checkpointing", "savepoints"):
        told = kept.get(name, {})
        if "://" not in told.get("storage", "://") and not told["storage"].startswith("/"):
            kept[name] = {**told, "storage": f"file:///base/{name}"}
    return kept


@pytest.mark.parametrize(("name", "layer"), CASES, ids=[f"{name}-{layer}" for name, layer in CASES])
def test_the_engine_reads_the_same_from_the_resolved_spec(name: str, layer: str) -> None:
    spec = restorable(SPECS[name])
    defaults = {**DEFAULTS[layer], **BASE}
    resolved = settings.resolve(spec, defaults)
    stored = revisions.data(resolved)
    wanted = by_engine(spec, defaults)
    assert by_engine(stored["spec"], {}) == wanted
    assert by_engine(yaml.safe_load(yaml.safe_dump(stored))["spec"], {}) == wanted


@pytest.mark.parametrize(("name", "layer"), CASES, ids=[f"{name}-{layer}" for name, layer in CASES])
def test_the_pods_are_given_what_the_engine_reckons_with(name: str, layer: str) -> None:
    resolved = settings.resolve(restorable(SPECS[name]), {**DEFAULTS[layer], **BASE})
    engine = manifest.memory_sum(by_engine(revisions.data(resolved)["spec"], {}))
    operator = memory.sums(resolved)
    assert [(part.process, part.count, part.items) for part in engine.parts] == [
        (pod.role, pod.count, pod.items) for pod in operator.pods
    ]


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if "configuration" in spec])
def test_a_job_is_the_same_revision_in_either_spelling_of_flinks_keys(name: str) -> None:
    spec = restorable(SPECS[name])
    by_keys = settings.resolve(spec, BASE)
    other = {**spec, "flinkConfiguration": near.sections(spec["configuration"])}
    del other["configuration"]
    by_sections = settings.resolve(other, BASE)
    assert revisions.data(by_sections) == revisions.data(by_keys)
    assert revisions.digest(by_sections) == revisions.digest(by_keys)
    assert by_engine(other, BASE) == by_engine(spec, BASE)


def test_every_default_may_be_one() -> None:
    for name, defaults in DEFAULTS.items():
        settings.check_defaults({**defaults, **BASE})
        assert name
