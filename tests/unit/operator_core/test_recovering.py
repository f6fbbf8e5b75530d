"""What follows when the status is lost: what the children know, then the storage, and never an empty start by it."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import DEATH_S, NOW, acts, job, look, pod, revision, running_status, trace

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.core import naming

POINT: dict[str, Any] = {
    "kind": "savepoint",
    "url": "s3://bucket/savepoints/savepoint-1",
    "id": 9,
    "epoch": 90,
    "timestamp_ms": 1_767_268_800_000,
}
STORED = {"ok": True, "found": True, "lineage": "00aa", "attempt": 5, "problem": None, "restore_point": POINT}


def command(*, failed: bool = False, **result: Any) -> observed.Command:
    name = naming.command_job("orders", "uid-1", "restore-info")
    return observed.Command(name, "command-1", "1", "restore-info", not failed, failed, result)


def recovering(**spec: Any) -> observed.ObservedState:
    """The look after the one that found the status lost."""
    first = look(observed.ObservedState(job(**spec), NOW))
    assert (first.status["intent"]["action"], "attempt" in first.status) == ("recover", False)
    asked = look(observed.ObservedState(job(first.status, **spec), NOW))
    assert [one.does for one in acts(asked, actions.CreateCommand)] == ["restore-info"]
    assert not acts(asked, actions.StartAttempt)
    return observed.ObservedState(job(asked.status, **spec), NOW)


def test_a_new_job_asks_no_storage() -> None:
    assert look(observed.ObservedState(job(finalizers=()), NOW)).status["intent"]["action"] == "start"


def test_a_new_job_whose_first_status_could_not_be_written_asks_no_storage() -> None:
    unwritten = observed.ObservedState(job(), NOW, unwritten=True)
    assert look(unwritten).status["intent"]["action"] == "start"
    assert look(dataclasses.replace(unwritten, unwritten=False)).status["intent"]["action"] == "recover"


def test_the_state_in_storage_counts_more_than_an_old_instruction() -> None:
    seen = recovering(startEmpty=True)
    found = look(dataclasses.replace(seen, commands=(command(**STORED),)))
    assert found.status["attempt"] == 5
    assert "start" not in found.status
    assert found.status["lastSavepoint"]["uri"] == POINT["url"]
    follows = look(observed.ObservedState(job(found.status, startEmpty=True), NOW))
    assert (follows.status["attempt"], follows.status.get("start")) == (6, None)
    begin = clock.parse(follows.status["intent"]["notBefore"])
    assert begin is not None
    assert begin >= NOW + timedelta(seconds=DEATH_S), "the driver may live where nobody sees it"


@pytest.mark.parametrize(
    ("answer", "start"),
    [
        pytest.param({"ok": True, "found": False}, {"empty": True, "since": 1}, id="nothing stored"),
        pytest.param({**STORED, "restore_point": None}, {"empty": True}, id="nothing completed"),
        pytest.param({**STORED, "restore_point": None, "problem": "chk-7 is gone"}, None, id="damaged"),
    ],
)
def test_an_instruction_counts_only_where_nothing_was_completed(
    answer: dict[str, Any], start: dict[str, Any] | None
) -> None:
    seen = recovering(startEmpty=True)
    found = look(dataclasses.replace(seen, commands=(command(**answer),)))
    if not answer["found"]:
        found = look(observed.ObservedState(job(found.status, startEmpty=True), NOW))
    assert found.status.get("start") == start


def test_a_job_whose_input_had_ended_is_not_run_again() -> None:
    answer = {**STORED, "restore_point": {**POINT, "kind": "checkpoint", "drained": True}}
    found = look(dataclasses.replace(recovering(), commands=(command(**answer),)))
    assert found.status["phase"] == "Finished"
    rests = look(observed.ObservedState(job(found.status), NOW))
    assert (rests.status["phase"], rests.status["attempt"]) == ("Finished", 5)
    assert "intent" not in rests.status


def test_nothing_is_started_while_the_storage_cannot_be_read() -> None:
    failed = command(failed=True, ok=False, message="no bucket")
    seen = dataclasses.replace(recovering(), commands=(failed,), config_maps=(trace(0),))
    decision = look(seen)
    assert decision.status["intent"]["action"] == "recover"
    assert "no bucket" in decision.status["message"]
    assert acts(decision, actions.DeleteCommand)
    assert [one.child.attempt for one in acts(decision, actions.DeleteAttempt)] == [0], "it is written anew"
    again = look(observed.ObservedState(job(decision.status), NOW))
    assert acts(again, actions.CreateCommand)
    assert again.status["message"] == decision.status["message"]


def test_a_command_is_given_as_long_as_it_has_been_tried() -> None:
    seen = dataclasses.replace(recovering(), now=NOW + timedelta(seconds=1260))
    assert [one.limit_s for one in acts(look(seen), actions.CreateCommand)] == [1260]


def test_a_command_that_was_stopped_at_its_limit_is_told_as_such() -> None:
    stopped = dataclasses.replace(command(failed=True), cut_off_s=600)
    told = look(dataclasses.replace(recovering(), commands=(stopped,)))
    assert "had not ended after 600 s" in told.status["message"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(command(), id="no answer"),
        pytest.param(command(**{**STORED, "attempt": "five"}), id="not what a command answers"),
        pytest.param(command(failed=True, **STORED), id="an answer of a command that failed"),
    ],
)
def test_a_command_that_ended_without_an_answer_is_made_again(answer: observed.Command) -> None:
    decision = look(dataclasses.replace(recovering(), commands=(answer,)))
    assert [one.command for one in acts(decision, actions.DeleteCommand)] == [answer]
    assert ([note.reason for note in decision.notes], "attempt" in decision.status) == (
        ["StorageUnknown"],
        False,
    )


def test_a_spec_that_cannot_run_does_not_make_a_lost_status_a_new_job() -> None:
    lost = look(observed.ObservedState(job(), NOW), invalid="spec.slots is 0")
    mended = look(observed.ObservedState(job(lost.status, generation=2), NOW))
    assert mended.status["intent"]["action"] == "recover"


def test_a_lost_status_turns_no_default_of_the_chart_into_an_empty_start() -> None:
    spec = {"upgradeMode": "stateless", "image": "example/job:2"}
    decision = look(observed.ObservedState(job(**spec), NOW, drivers=(pod(),), config_maps=(trace(1),)))
    assert decision.status["intent"]["action"] == "upgrade"
    assert "start" not in decision.status


def test_a_revision_accepted_for_this_generation_runs_on_whatever_the_chart_says_now() -> None:
    child = observed.Child("ControllerRevision", revision().name, "r-1", "1", None, {"revision": 1})
    seen = observed.ObservedState(
        job(image="example/job:2"), NOW, drivers=(pod(),), config_maps=(trace(1),), revisions=(child,)
    )
    decision = look(seen)
    assert (decision.status["revision"], decision.check) == (revision().name, None)


def test_a_changed_spec_does_not_shorten_the_wait_for_a_pod_that_vanished() -> None:
    seen = observed.ObservedState(job(running_status(), generation=2, image="example/job:2"), NOW)
    begin = clock.parse(look(seen).status["intent"]["notBefore"])
    assert begin is not None
    assert begin >= NOW + timedelta(seconds=DEATH_S)


def test_a_purge_that_finds_nothing_of_a_lost_job_says_what_stays() -> None:
    decision = look(observed.ObservedState(job(deleting=True, deletion={"policy": "purge"}), NOW))
    assert [note.reason for note in decision.notes] == ["DeletionDegraded"]


def test_a_job_that_waited_for_its_snapshot_starts_when_that_is_complete() -> None:
    """The storage knows an attempt of it, and no state; what the spec starts from comes later."""
    spec = {"restoreFrom": {"snapshotRef": {"name": "s-1"}}}
    answered = dataclasses.replace(
        recovering(**spec), commands=(command(**{**STORED, "restore_point": None}),)
    )
    waits = look(answered)
    assert (waits.status["phase"], waits.status["intent"]["action"]) == ("RestoreBlocked", "recover")
    snapshot = observed.Snapshot(
        "s-1",
        "s-uid",
        "1",
        1,
        NOW,
        {},
        {"phase": "Completed", "uri": "s3://bucket/savepoints/one"},
        {},
        {},
        (),
    )
    there = dataclasses.replace(answered, job=job(waits.status, **spec), snapshots=(snapshot,))
    found = look(there)
    assert (found.status["phase"], found.status["attempt"], "intent" in found.status) == ("Pending", 5, False)
    later = dataclasses.replace(
        there, job=job(found.status, **spec), commands=(), now=NOW + timedelta(seconds=DEATH_S + 1)
    )
    goes_on = look(later)
    assert goes_on.status["phase"] == "Failing", "attempt 5 is gone, and another one follows"
    assert goes_on.status["intent"]["action"] == "start"
