"""A backend that the job's code has chosen and the pods have no memory for is told."""

from __future__ import annotations

from typing import Any

import pytest
from support.scene.decisions import NOW, job, look, pod, revision, running_status

from sparkstate_operator import observed
from sparkstate_operator.core import memory

ROCKSDB = {"stateBackend": {"type": "rocksdb"}}


def degraded(document: dict[str, Any], **spec: Any) -> dict[str, Any]:
    report = observed.Report({"phase": "RUNNING", **document})
    status = running_status(revision=revision(**spec).name)
    decision = look(observed.ObservedState(job(status, **spec), NOW, drivers=(pod(),), report=report))
    found = {one["type"]: one for one in decision.status["conditions"]}
    return dict(found["Degraded"])


def test_state_on_the_heap_under_a_sum_for_rocksdb_is_told() -> None:
    told = degraded({"backend": "hashmap"}, **ROCKSDB)
    assert (told["status"], told["reason"]) == ("True", "BackendUnplanned")
    assert "stateBackend.type: hashmap" in told["message"]
    heap = "slots: state on the heap (stateMemoryPerSlot)"
    lines = {item.name for item in memory.sums(revision(**ROCKSDB).resolved).pods[0].items}
    assert heap not in lines, "the sum has room for it, so there is nothing to tell"
    assert heap in {item.name for item in memory.sums(revision().resolved).pods[0].items}


def test_a_class_of_the_codes_choice_under_a_sum_for_rocksdb_is_told() -> None:
    told = degraded({"backend": "custom"}, **ROCKSDB)
    assert (told["status"], told["reason"]) == ("True", "BackendUnplanned")
    assert "set stateBackend.class in the manifest" in told["message"]
    heap = "slots: state on the heap (stateMemoryPerSlot)"
    planned = revision(stateBackend={"class": "m:C"})
    assert heap in {item.name for item in memory.sums(planned.resolved).pods[0].items}


@pytest.mark.parametrize(
    ("document", "spec"),
    [
        ({"backend": "rocksdb"}, ROCKSDB),
        ({"backend": "rocksdb"}, {}),
        ({"backend": "hashmap"}, {}),
        ({}, ROCKSDB),
        ({"backend": "hashmap", "phase": "STARTING"}, ROCKSDB),
        ({"backend": "custom"}, {"stateBackend": {"class": "m:C"}}),
        ({"backend": "custom"}, {}),
    ],
    ids=["as planned", "needs less", "the default", "not said", "not declared yet", "class", "class on heap"],
)
def test_what_fits_is_not_told(document: dict[str, Any], spec: dict[str, Any]) -> None:
    assert degraded(document, **spec)["status"] == "False"
