"""A spec that changes while an earlier change of it is carried out."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, revision, running_status, stored, trace

from sparkstate_operator import actions, clock, dependants, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide


@pytest.mark.parametrize("stop", ["upgrade", "restart", "suspend"])
def test_a_spec_that_changes_again_while_an_attempt_is_stopped_is_what_starts_next(stop: str) -> None:
    """Two changes, a second apart: the second was noted as seen, and forgotten."""
    intent = {"action": stop, "attempt": 1, "since": clock.text(NOW), "revision": "the first change's"}
    status = running_status(phase="Upgrading", observedGeneration=2, intent=intent)
    spec = {"image": "example/job:3", "restoreFrom": {"uri": "s3://bucket/savepoints/one"}}
    stopping = pod(deleting_at=NOW, grace_s=30)
    first = look(observed.ObservedState(job(status, generation=3, **spec), NOW, drivers=(stopping,)))
    assert first.status["observedGeneration"] == 3
    assert first.status["intent"]["revision"] == revision(**spec).name
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    second = look(observed.ObservedState(job(first.status, generation=3, **spec), NOW, drivers=(dead,)))
    assert (second.status["attempt"], second.status["revision"]) == (2, revision(**spec).name)
    assert second.status["start"]["uri"] == "s3://bucket/savepoints/one"


def test_a_spec_that_changes_while_an_attempt_is_made_is_an_upgrade_of_it() -> None:
    """Its ConfigMap is there and cannot be changed, and whether it has a pod is open."""
    intent = {"action": "start", "attempt": 2, "since": clock.text(NOW), "revision": revision().name}
    status = running_status(2, phase="Starting", intent=intent)
    spec = {"image": "example/job:2"}
    seen = observed.ObservedState(
        job(status, generation=2, **spec), NOW, config_maps=(trace(2),), unanswered=2
    )
    first = look(seen)
    assert first.status["attempt"] == 2
    assert first.status["observedGeneration"] == 1
    made = observed.ObservedState(
        job(first.status, generation=2, **spec), NOW, drivers=(pod(2),), config_maps=(trace(2),)
    )
    second = look(made)
    third = look(dataclasses.replace(made, job=job(second.status, generation=2, **spec)))
    assert third.status["intent"]["action"] == "upgrade"
    assert third.status["intent"]["revision"] == revision(**spec).name
    assert third.status["observedGeneration"] == 2


def test_an_upgrade_under_way_goes_on_as_it_was_asked_for_when_the_spec_becomes_invalid() -> None:
    """The old revision was started instead, with the start instruction of the new one."""
    spec = {"image": "example/job:2", "restoreFrom": {"uri": "s3://bucket/old"}, "upgradeCheck": False}
    newer = revision(**spec)
    known = {one.name: one for one in (revision(), newer)}
    begun = look(observed.ObservedState(job(running_status(), generation=2, **spec), NOW, drivers=(pod(),)))
    assert begun.status["intent"]["revision"] == newer.name
    dead = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    seen = observed.ObservedState(job(begun.status, generation=3, slots=0), NOW, drivers=(dead,))
    after = decide(seen, known, None, "spec.slots is 0", Config()).status
    assert (after["attempt"], after["revision"], after["intent"]["revision"]) == (2, newer.name, newer.name)
    assert after["start"]["uri"] == "s3://bucket/old"
    assert after["observedGeneration"] == 3


# -- the state to start from -------------------------------------------------------------------------------------------

OLD: dict[str, Any] = {"restoreFrom": {"uri": "s3://bucket/savepoints/old"}}
OWN = {"uri": "s3://bucket/savepoints/old", "since": 1}
"""The instruction of attempt 1, which runs: it has completed no checkpoint yet."""
NEW: dict[str, Any] = {"restoreFrom": {"uri": "s3://bucket/savepoints/new"}}
NAMED: dict[str, Any] = {"restoreFrom": {"snapshotRef": {"name": "s-1"}}}
NEWER: dict[str, Any] = {"image": "example/job:2"}
EMPTY: dict[str, Any] = {"startEmpty": True}
STATELESS: dict[str, Any] = {**OLD, **NEWER, "upgradeMode": "stateless"}
UNCHECKED: dict[str, Any] = {**OLD, **NEWER, "upgradeCheck": False}
KNOWN = {
    one.name: one
    for spec in ({}, OLD, NEW, NAMED, NEWER, EMPTY, STATELESS, UNCHECKED, {**OLD, "upgradeMode": "stateless"})
    for one in (revision(**spec),)
}
DEAD = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))


def snapshot(phase: str = "Completed") -> observed.Snapshot:
    told = {"phase": phase, **({"uri": "s3://bucket/savepoints/one"} if phase == "Completed" else {})}
    return observed.Snapshot("s-1", "s-uid", "1", 1, NOW, {}, told, {}, {}, ())


def traced(attempt: int, start: dict[str, Any], spec: dict[str, Any]) -> observed.Child:
    """The ConfigMap of an attempt."""
    meta = {
        "labels": {labels.REVISION: revision(**spec).name},
        "annotations": {labels.START: json.dumps(start)},
    }
    return dataclasses.replace(trace(attempt), body={"metadata": meta})


def step(status: Any, generation: int, spec: dict[str, Any], **seen: Any) -> actions.Decision:
    wanted = revision(**spec)
    around = observed.ObservedState(job(status, generation=generation, **spec), NOW, **seen)
    return stored(decide(around, {**KNOWN, wanted.name: wanted}, wanted, "", Config()))


def condition(decision: actions.Decision, of: str) -> str:
    return next(one["reason"] for one in decision.status["conditions"] if one["type"] == of)


def being_made(attempt: int = 1, spec: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The status while nothing of this attempt is made yet."""
    name = revision(**(spec or {})).name
    intent = {"action": "start", "attempt": attempt, "since": clock.text(NOW), "revision": name}
    return running_status(attempt, phase="Starting", intent=intent, **fields) | {"revision": name}


def stopping(first: dict[str, Any], **seen: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attempt 1 runs what OLD asks for, and a first change stops it: the status, and whatever else is seen."""
    around = {"drivers": (pod(),), "config_maps": (traced(1, OWN, OLD),), **seen}
    status = running_status(start=OWN) | {"revision": revision(**OLD).name}
    begun = step(status, 2, first, **around)
    assert begun.status["intent"]["action"] == "upgrade"
    return dict(begun.status), around


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        pytest.param(
            NEW, {"uri": "s3://bucket/savepoints/new", "fresh": True, "since": 1}, id="from a place"
        ),
        pytest.param({"startEmpty": True}, {"empty": True, "since": 1}, id="empty"),
        pytest.param(NEWER, None, id="another change"),
    ],
)
def test_a_start_instruction_counts_that_comes_before_anything_is_made(
    spec: dict[str, Any], start: dict[str, Any] | None
) -> None:
    """The job took over the new revision without it, and began with other state than its spec says."""
    first = step(being_made(), 2, spec)
    assert (first.status["attempt"], first.status["revision"]) == (1, revision(**spec).name)
    assert first.status.get("start") == start
    (made,) = acts(first, actions.StartAttempt)
    assert made.start == actions.Start.of(start)


def test_a_start_instruction_counts_that_comes_while_the_pod_is_refused() -> None:
    refused = {"never_made": 2, "config_maps": (traced(2, {}, {}),)}
    first = step(being_made(2), 2, NEW, **refused)
    wanted = {"uri": "s3://bucket/savepoints/new", "fresh": True, "since": 3}
    assert (first.status["attempt"], first.status["start"]) == (3, wanted)


@pytest.mark.parametrize(
    "seen",
    [{}, {"never_made": 1, "config_maps": (traced(1, {}, {}),)}],
    ids=["nothing is made", "its pod is refused"],
)
def test_a_change_whose_state_is_missing_waits_while_an_attempt_is_made(seen: dict[str, Any]) -> None:
    waits = step(being_made(), 2, NAMED, snapshots=(snapshot("InProgress"),), **seen)
    assert waits.status["revision"] == revision().name
    assert [one.revision for one in acts(waits, actions.StartAttempt)] == [revision().name]
    assert waits.status["observedGeneration"] == 1, "the next look asks again"
    assert condition(waits, "Degraded") == "RestoreBlocked"
    there = step(waits.status, 2, NAMED, snapshots=(snapshot(),), **seen)
    assert there.status["revision"] == revision(**NAMED).name
    assert there.status["start"]["uri"] == "s3://bucket/savepoints/one"
    assert there.status["observedGeneration"] == 2


def test_a_change_whose_state_is_missing_does_not_follow_the_attempt_that_is_stopped() -> None:
    """The next attempt was of that revision, and began without the state that it names."""
    status, around = stopping(UNCHECKED)
    missing = {"snapshots": (snapshot("InProgress"),)}
    waits = step(status, 3, NAMED, **{**around, **missing, "drivers": (DEAD,)})
    assert waits.status["revision"] == revision(**UNCHECKED).name
    assert (waits.status["attempt"], waits.status["start"]) == (2, OWN)
    assert waits.status["observedGeneration"] == 2, "the next look asks again"
    assert condition(waits, "Degraded") == "RestoreBlocked"


@pytest.mark.parametrize(
    "first", [STATELESS, {**NEW, "upgradeCheck": False}], ids=["stateless", "another place"]
)
@pytest.mark.parametrize("mode", ["last-state", "stateless"])
def test_a_change_that_is_taken_back_during_the_stop_leaves_the_state_as_it_was(
    first: dict[str, Any], mode: str
) -> None:
    """It began anew all the same: without state, or once more from the place of long ago."""
    status, around = stopping(first)
    assert status["start"] != OWN
    back = step(status, 3, {**OLD, "upgradeMode": mode}, **around)
    assert back.status["start"] == OWN
    after = step(back.status, 3, {**OLD, "upgradeMode": mode}, **{**around, "drivers": (DEAD,)})
    assert (after.status["attempt"], after.status["start"]) == (2, OWN)


@pytest.mark.parametrize("first", [STATELESS, NEW], ids=["stateless", "another place"])
def test_a_change_that_is_taken_back_before_anything_is_made_leaves_the_state_as_it_was(
    first: dict[str, Any],
) -> None:
    start = {"empty": True, "since": 2} if first is STATELESS else {"uri": "s3://b/new", "since": 2}
    seen = {"drivers": (DEAD,), "config_maps": (traced(1, OWN, OLD),)}
    back = step(being_made(2, first, start=start), 3, OLD, **seen)
    assert (back.status["attempt"], back.status["revision"]) == (2, revision(**OLD).name)
    assert back.status["start"] == OWN


@pytest.mark.parametrize("spec", [{}, NEWER], ids=["taken back", "another version"])
def test_a_place_that_could_not_be_restored_is_not_forgotten_with_its_field(spec: dict[str, Any]) -> None:
    """Its attempt has begun a lineage in which there is nothing. Without the instruction the next one would go on in
    it, and begin empty."""
    told = {"uri": "s3://bucket/savepoints/new", "fresh": True, "since": 2}
    status = running_status(2, phase="RestoreBlocked", start=told, lastCheckpoint={"uri": "s3://b/chk-9"})
    over = pod(2, phase="Failed", ready=False, ended=ended(3, "RestoreBlocked"))
    back = step(status | {"revision": revision(**NEW).name}, 2, spec, drivers=(over,))
    assert (back.status["attempt"], back.status["start"]) == (3, told)


def test_a_stateless_upgrade_that_changes_again_stays_one() -> None:
    newest = {**STATELESS, "image": "example/job:3"}
    status, around = stopping(STATELESS)
    assert step(status, 3, newest, **around).status["start"] == {"empty": True}
    seen = {"drivers": (DEAD,), "config_maps": (traced(1, OWN, OLD),)}
    again = step(being_made(2, STATELESS, start={"empty": True, "since": 2}), 3, newest, **seen)
    assert again.status["start"] == {"empty": True, "since": 2}


def test_a_place_that_was_named_while_the_job_was_suspended_and_taken_back_does_not_count() -> None:
    rests = {**OLD, "state": "suspended"}
    around = {"drivers": (pod(),), "config_maps": (traced(1, OWN, OLD),)}
    status = running_status(start=OWN) | {"revision": revision(**OLD).name}
    begun = step(status, 2, rests, **around)
    changed = step(begun.status, 3, {**NEW, "state": "suspended"}, **around)
    over = step(changed.status, 3, {**NEW, "state": "suspended"}, **{**around, "drivers": (DEAD,)})
    assert over.status["phase"] == "Suspended"
    resumed = step(over.status, 4, OLD, **{**around, "drivers": (DEAD,)})
    assert (resumed.status["attempt"], resumed.status["start"]) == (2, OWN)
    elsewhere = step(over.status, 4, NEW, **{**around, "drivers": (DEAD,)})
    assert elsewhere.status["start"]["uri"] == "s3://bucket/savepoints/new"


@pytest.mark.parametrize("named", [NEW, NAMED], ids=["by place", "by name"])
def test_state_that_a_suspended_job_has_to_start_from_is_needed_until_it_goes_on(
    named: dict[str, Any],
) -> None:
    """Its spec is accepted at once, and nothing in the status told of that state: it was deleted."""
    around = {"drivers": (DEAD,), "config_maps": (traced(1, {}, {}),), "snapshots": (snapshot(),)}
    place = "s3://bucket/savepoints/new" if named is NEW else "s3://bucket/savepoints/one"

    def needs(decision: actions.Decision, generation: int, spec: dict[str, Any]) -> bool:
        return dependants.needs(job(decision.status, generation=generation, **spec), "s-1", place)

    rests = {**named, "state": "suspended"}
    status = running_status(phase="Suspended", observedGeneration=1, lastCheckpoint={"uri": "s3://b/chk-9"})
    first = step(status, 2, rests, **around)
    again = step(first.status, 2, rests, **around)
    assert again.status["observedGeneration"] == 2
    assert needs(first, 2, rests) and needs(again, 2, rests)
    assert not needs(step(again.status, 3, {"state": "suspended"}, **around), 3, {"state": "suspended"})
    resumed = step(again.status, 3, named, **around)
    assert "restorePending" not in resumed.status and needs(resumed, 3, named)
    carried_out = status | {"revision": revision(**named).name}
    assert not needs(step(carried_out, 2, rests, **around), 2, rests)


# -- a suspension in between -------------------------------------------------------------------------------------------

WITH_STATE: dict[str, Any] = {**NEW, "upgradeCheck": False}
GOES_ON = {"drivers": (DEAD,), "config_maps": (traced(1, OWN, OLD),)}


def suspended(status: dict[str, Any], spec: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """The status once generation 3 has suspended the job."""
    for _ in range(5):
        found = step(status, 3, {**spec, "state": "suspended"}, **seen)
        assert not acts(found, actions.StartAttempt)
        status = dict(found.status)
    assert (status["phase"], "intent" in status) == ("Suspended", False)
    return status


def interrupted(first: dict[str, Any], moment: str) -> dict[str, Any]:
    """The status after a suspension that came between a first change and its attempt."""
    status, around = stopping(first)
    if moment == "it is stopped":
        status = dict(step(status, 3, {**first, "state": "suspended"}, **around).status)
    else:
        status = dict(step(status, 2, first, **GOES_ON).status)
        assert (status["attempt"], status["start"]["since"]) == (2, 2)
    return suspended(status, first, GOES_ON)


MOMENTS = ["it is stopped", "its successor has its number"]


@pytest.mark.parametrize("first", [STATELESS, WITH_STATE], ids=["stateless", "another place"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_change_that_is_taken_back_during_a_suspension_leaves_the_state_as_it_was(
    first: dict[str, Any], moment: str
) -> None:
    """The number of an attempt of which nothing was made passed for an attempt: the job began anew."""
    over = interrupted(first, moment)
    assert (over["revision"], over["start"]) == (revision(**OLD).name, OWN)
    back = step(over, 4, OLD, **GOES_ON)
    assert (back.status["revision"], back.status["start"]) == (revision(**OLD).name, OWN)
    (made,) = acts(step(back.status, 4, OLD, **GOES_ON), actions.StartAttempt)
    assert made.start == actions.Start.of(OWN)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_place_that_is_still_named_after_a_suspension_counts(moment: str) -> None:
    over = interrupted(WITH_STATE, moment)
    assert dependants.needs(job(over, generation=3, **WITH_STATE), "", "s3://bucket/savepoints/new")
    resumed = step(over, 4, WITH_STATE, **GOES_ON)
    assert resumed.status["start"] == {
        "uri": "s3://bucket/savepoints/new",
        "fresh": True,
        "since": resumed.status["attempt"],
    }


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_stateless_upgrade_that_a_suspension_interrupts_keeps_the_state(moment: str) -> None:
    resumed = step(interrupted(STATELESS, moment), 4, STATELESS, **GOES_ON)
    assert (resumed.status["revision"], resumed.status["start"]) == (revision(**STATELESS).name, OWN)


@pytest.mark.parametrize("made", ["its ConfigMap", "its pod"])
def test_a_suspension_takes_nothing_back_from_an_attempt_that_was_made(made: str) -> None:
    """Its driver may have begun the new lineage: the job's own state is there from now on."""
    given = {"empty": True, "since": 2}
    rests = {**STATELESS, "state": "suspended"}
    newest = pod(2, phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    seen = {
        "drivers": (newest,) if made == "its pod" else (),
        "config_maps": (traced(1, OWN, OLD), traced(2, given, STATELESS)),
        "sightings": {2: newest},
    }
    intent = {"action": "suspend", "attempt": 2, "since": clock.text(NOW)}
    status = running_status(2, phase="Suspending", start=given, intent=intent)
    over = suspended(status | {"revision": revision(**STATELESS).name}, rests, seen)
    assert (over["revision"], over["start"]) == (revision(**STATELESS).name, given)


def test_a_void_instruction_does_not_come_back_with_a_suspension() -> None:
    """The job has completed checkpoints since, and its next attempt was to go on from them."""
    seen = {"config_maps": (traced(1, OWN, OLD),), "sightings": {1: DEAD}}
    assert "start" not in suspended(being_made(2, OLD), OLD, seen)


@pytest.mark.parametrize("edit", [NEW, EMPTY], ids=["another place", "empty"])
def test_state_that_a_suspended_spec_named_for_a_while_is_not_started_from(edit: dict[str, Any]) -> None:
    """The stop waits for an older driver, which is ending. The instruction of that edit had no number yet, and stayed
    when the edit was taken back."""
    ending = {"drivers": (pod(deleting_at=NOW, grace_s=30),), "config_maps": (traced(1, {}, {}),)}
    rests = {"state": "suspended"}
    begun = step(being_made(2, NEWER, observedGeneration=2), 3, {**NEWER, **rests}, **ending)
    edited = step(begun.status, 4, {**NEWER, **edit, **rests}, **ending)
    assert edited.status["intent"]["action"] == "suspend"
    over = step(edited.status, 4, {**NEWER, **edit, **rests}, **{**ending, "drivers": (DEAD,)})
    assert (over.status["phase"], over.status["revision"]) == ("Suspended", revision().name)
    resumed = step(over.status, 5, NEWER, **{**ending, "drivers": (DEAD,)})
    assert "start" not in resumed.status
    asked = step(over.status, 5, {**NEWER, **edit}, **{**ending, "drivers": (DEAD,)})
    assert asked.status["start"]["since"] == asked.status["attempt"]


def test_a_suspension_gives_no_state_up_for_an_attempt_whose_pod_was_refused() -> None:
    """Its ConfigMap was made, and that of the attempt before it is gone."""
    given = {"empty": True, "since": 2}
    refused = {"config_maps": (traced(2, given, STATELESS),), "never_made": 2, "sightings": {1: DEAD}}
    rests = {**STATELESS, "state": "suspended"}
    begun = step(being_made(2, STATELESS, start=given), 3, rests, **refused)
    assert begun.status["intent"]["action"] == "suspend"
    assert "start" not in begun.status
    kept = step(being_made(2, EMPTY, start=given), 3, {**EMPTY, "state": "suspended"}, **refused)
    assert kept.status["start"] == given, "its spec asks for that"
