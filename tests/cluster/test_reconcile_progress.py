"""What a driver and an engine command tell of themselves, as ``kubectl get`` shows it on a real API server.

A purge is the engine's own process on the loopback, over a real S3 server whose deletions wait for the test. The
operator asks it with the command's key.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from support.storage import held_deletions

from sparkstate.control.documents import OperatorStateNotice
from sparkstate_operator.core import keys
from sparkstate_tools.operating import operator_process
from sparkstate_tools.operating.operated_namespace import OperatedNamespace

LARGE, SMALL = b"x" * 60_000, b"x" * 40_000
"""Contents of two savepoints; beside them each has a file of some kilobytes."""

pytestmark = pytest.mark.usefixtures("running_operator")


def answer(operated: OperatedNamespace, key: str) -> int:
    """The status with which the command's own endpoint answers a caller with that key."""
    request = urllib.request.Request(f"http://127.0.0.1:{operated.port}/v1/progress")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=10) as found:
            return int(found.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_purge_shows_how_far_it_is_to_an_operator_that_has_its_key_and_to_nobody_else(
    operated: OperatedNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held_deletions.running(monkeypatch) as held:
        operated.apply(**held.spec(deletion={"policy": "purge"}))
        operated.running()
        job = held.stored(operated.namespace)
        urls = job.take_savepoint("a", 5, content=LARGE), job.take_savepoint("b", 6, content=SMALL)
        operated.delete()
        operated.until_deleting("orders-driver-1")
        operated.kubelet.finish_deletion("orders-driver-1")
        with operated.running_command("purge") as command:
            operated.until_shown("ssj", "orders", "purge 0 %: 0 of ")
            own = keys.of_command(operator_process.KEY.encode(), operated.namespace, command)
            others = keys.of_command(b"another operator's", operated.namespace, command)
            wrong = ("", keys.digest(own), others)
            assert [answer(operated, key) for key in (own, *wrong)] == [200, 401, 401, 401]
            made = operated.cluster.get("job", command, operated.namespace)
            assert keys.digest(own) in json.dumps(made)
            assert operated.operator
            for text in (json.dumps(made), operated.operator.log.read_text()):
                assert own not in text and operator_process.KEY not in text
            held.let_pass(1)
            operated.until_shown("ssj", "orders", "purge 50 %: ")

            operated.operator.stop()
            operated.start(own_key="the key of an operator that was installed anew")
            operated.cluster.until(
                lambda: "progress" not in operated.status(), "an operator with another key shows nothing", 30
            )
            assert operated.status()["phase"] == "Deleting"
            held.let_pass()
        operated.cluster.until_gone("ssj", "orders", operated.namespace)
        assert [held.is_there(url) for url in urls] == [False, False]


def nearly_full(used_bytes: int, limit_bytes: int) -> OperatorStateNotice:
    return OperatorStateNotice(
        slot=1,
        operator="judged",
        state="rules",
        used_bytes=used_bytes,
        limit_bytes=limit_bytes,
        since_ms=5,
        seen_ms=5,
    )


def test_progress_of_the_driver_is_told(operated: OperatedNamespace) -> None:
    operated.apply()
    operated.until_pod(1)
    with operated.driver() as driver:
        driver.checkpoints_done(3)
        driver.update(operator_state_notice=nearly_full(30 << 20, 32 << 20))
        operated.running()
        status = operated.cluster.until(
            lambda: operated.status() if operated.status().get("lastCheckpoint") else None,
            "the checkpoint is told",
        )
        until = operated.cluster.until
        until(lambda: "MemoryPressure" in operated.conditions(), "operator state that is nearly too large")
        told = operated.conditions()["MemoryPressure"]
        assert told["reason"] == "OperatorStateNearLimit"
        assert "90 % or more of spec.operatorStateMemoryPerSlot (32Mi) in slot 1" in told["message"]
        assert operated.conditions()["Ready"]["status"] == "True"
        until(lambda: "OperatorStateNearLimit" in operated.reasons(), "an Event")
        driver.update(operator_state_notice=None)
        operated.apply(savepoints={"maxCount": 2})  # a look does not wait for the next poll then
        until(lambda: "MemoryPressure" not in operated.conditions(), "the condition ends", 20)
    assert status["lastCheckpoint"]["id"] == 3
    assert status["backend"] == "hashmap"
    assert status["lineage"] == "00aa11bb22cc33dd"


def test_a_job_that_is_not_ready_by_its_deadline_says_so(operated: OperatedNamespace) -> None:
    operated.apply(progressDeadlineSeconds=2)
    operated.until_pod(1)
    waited = ("wait", "ssj", "orders", "-n", operated.namespace, "--for=condition=Stalled", "--timeout=30s")
    operated.cluster.kubectl(*waited)
    found = operated.conditions()
    assert {found[kind]["reason"] for kind in ("Progressing", "Stalled")} == {"ProgressDeadlineExceeded"}
    assert found["Degraded"]["status"] == "True"
    assert found["Progressing"]["status"] == "False" and operated.status()["phase"] == "Starting"
    operated.cluster.until(lambda: "ProgressDeadlineExceeded" in operated.reasons(), "an Event")
    with operated.driver():
        operated.running()
        operated.cluster.until(lambda: "Stalled" not in operated.conditions(), "the job is late no more")
    assert operated.conditions()["Degraded"]["status"] == "False"
