"""The shards of the state bound the slots of a spec that goes on from it, and of no other."""

from __future__ import annotations

from typing import Any

import pytest
from support.scene.decisions import NOW, ended, job, pod, revision, running_status, trace

from sparkstate_operator import actions, judging, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

OLD = {"restoreFrom": {"uri": "s3://b/old"}}
EMPTY = {"startEmpty": True}


def judged(spec: dict[str, Any], before: dict[str, Any], **status: Any) -> str:
    """Why a job with 16 shards cannot run with this spec; empty if it can."""
    old = revision(**before)
    status = running_status(shards=16) | {"revision": old.name, **status}
    return judging.judge(job(status, generation=2, **spec), Config(), {old.name: old})[1]


@pytest.mark.parametrize(
    ("before", "spec"),
    [
        ({}, EMPTY),
        (OLD, EMPTY),
        ({}, OLD),
        ({"restoreFrom": {"uri": "s3://b/older"}}, OLD),
        ({}, {"restoreFrom": {"snapshotRef": {"name": "one"}}}),
        ({}, {"configuration": {"execution.state-recovery.path": "s3://b/old"}}),
    ],
)
def test_a_spec_that_asks_for_other_state_is_not_bound_by_the_shards_of_the_present_one(
    before: dict[str, Any], spec: dict[str, Any]
) -> None:
    assert judged({"slots": 32, **spec}, before) == ""
    assert judged({"slots": 32, **spec}, before, intent={"action": "upgrade", "attempt": 1}) == ""


def test_the_bound_is_told_with_all_other_findings() -> None:
    why = judged({"slots": 32, "checkpointing": {"storage": "relative"}}, {})
    assert "spec.checkpointing.storage" in why
    assert "spec.slots: must lie between 1 and the job's 16 shards" in why


@pytest.mark.parametrize(
    ("before", "spec"),
    [
        ({}, {}),
        (EMPTY, EMPTY),
        (OLD, OLD),
        (OLD, {}),
        (EMPTY, {}),
        ({}, {"restoreFrom": {"latest": True}}),
        ({}, {"startEmpty": False}),
    ],
)
def test_a_spec_that_goes_on_from_the_present_state_is(before: dict[str, Any], spec: dict[str, Any]) -> None:
    assert "16 shards" in judged({"slots": 32, **spec}, before)
    assert judged({"slots": 16, **spec}, before) == ""


def test_where_the_revision_that_runs_is_lost_the_shards_bind() -> None:
    assert "16 shards" in judged({"slots": 32, **EMPTY}, {}, revision="orders-lost")


MANY = {"shards": 400}
BEYOND = (
    "spec.shards: there are more shards than key groups: a job that begins without state has 128 of them with slots 50 "
    "and no maxParallelism; lower shards, or give a maxParallelism of at least 400 (it is 400)"
)


def test_a_job_that_is_to_begin_empty_is_refused_more_shards_than_it_would_have_key_groups() -> None:
    """Its driver refused it, after the one that ran had been stopped for it."""
    before = {**MANY, "slots": 200}
    assert judged({**MANY, **EMPTY, "slots": 50}, before, shards=400) == BEYOND
    assert judged({**MANY, **EMPTY, "slots": 50, "maxParallelism": 400}, before, shards=400) == ""
    assert judged({**MANY, **EMPTY, "slots": 200}, before, shards=400) == ""


@pytest.mark.parametrize(
    "start", [{}, EMPTY, OLD], ids=["its own state", "begun empty once", "another's state"]
)
def test_the_shards_of_state_fit_its_key_groups_whatever_its_slots_are_now(start: dict[str, Any]) -> None:
    """400 shards are from a time with 200 slots, and so with 512 key groups."""
    before = {**MANY, **start, "slots": 200}
    assert judged({**MANY, **start, "slots": 50}, before, shards=400) == ""
    assert judged({**MANY, **start, "slots": 50}, before, shards=None) == "", (
        "no checkpoint has told them yet"
    )


def verdict(status: dict[str, Any], **more: Any) -> str:
    """The verdict on a job with 400 shards of which no revision is known."""
    return judging.judge(job(status, **{"slots": 50, **MANY, **EMPTY, **more}), Config())[1]


def test_a_new_job_is_refused_them_if_it_names_no_state_that_there_may_be() -> None:
    assert verdict({}, finalizers=()) == BEYOND
    assert verdict({"phase": "Pending"}) == BEYOND
    assert verdict({}, finalizers=(), startEmpty=False) == "", "its name may have state in storage"
    assert verdict({}, finalizers=(), startEmpty=False, **OLD) == ""


def test_a_job_whose_status_or_revision_is_lost_is_not() -> None:
    assert verdict({}) == ""
    assert verdict({"phase": "Pending", "intent": {"action": "recover"}}) == ""
    assert verdict(running_status(revision="orders-lost")) == ""


def test_the_finding_is_in_the_condition_of_the_job() -> None:
    one = job(finalizers=(), **{"slots": 50, **MANY, **EMPTY})
    wanted, invalid = judging.judge(one, Config())
    decision = decide(observed.ObservedState(one, NOW), {}, wanted, invalid, Config())
    told = {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in decision.status["conditions"]
    }
    assert told["Ready"] == ("False", "SpecInvalid", BEYOND)
    assert told["Degraded"] == ("True", "SpecInvalid", BEYOND)
    assert not [each for each in decision.actions if isinstance(each, actions.StartAttempt)]


class Started:
    """A job that is started empty with more slots, look by look, each judged anew as by an operator that restarts."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = running_status(shards=16, slots=4)
        self.known: dict[str, plan.Revision] = {revision().name: revision()}

    def look(self, generation: int, spec: dict[str, Any], **seen: Any) -> str:
        one = job(self.status, generation=generation, upgradeCheck=False, **spec)
        wanted, invalid = judging.judge(one, Config(), self.known)
        known = {**self.known, **({wanted.name: wanted} if wanted else {})}
        decision = decide(
            observed.ObservedState(one, NOW, config_maps=(trace(1),), **seen),
            known,
            wanted,
            invalid,
            Config(),
        )
        self.known, self.status = known, dict(decision.status)
        return invalid


def test_the_shards_of_the_state_that_is_left_go_with_it_and_those_of_the_new_one_bind_the_next_spec() -> (
    None
):
    one, more = Started(), {"slots": 32, **EMPTY}
    over = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    assert not one.look(2, more, drivers=(pod(),))
    assert (one.status["phase"], one.status["shards"]) == ("Upgrading", 16)
    assert not one.look(2, more, drivers=(over,))
    assert one.status["attempt"] == 2
    assert not one.look(2, more, drivers=(over,)), "it is judged anew while its pod is made"
    assert not one.look(3, {**more, "slots": 40}, drivers=(over,)), "so is the next spec"
    assert not one.look(4, more, drivers=(over,))
    new = pod(2, revision=one.status["revision"])
    assert not one.look(4, more, drivers=(new,))
    assert "shards" not in one.status
    slots = [{"shards": [number]} for number in range(32)]
    report = observed.Report({"phase": "RUNNING", "slots": slots, "checkpoints_completed": 1})
    assert not one.look(4, more, drivers=(new,), report=report)
    assert (one.status["phase"], one.status["shards"]) == ("Running", 32)
    assert not one.look(4, more, drivers=(new,), report=report)
    assert "32 shards" in one.look(5, {**more, "slots": 33}, drivers=(new,), report=report)


def test_an_instruction_that_is_taken_back_before_its_attempt_is_made_leaves_the_shards_known() -> None:
    """They were dropped with the attempt's number. A spec with other shards was accepted, and stopped at the engine."""
    one = Started()
    over = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    one.look(2, EMPTY, drivers=(pod(),))
    one.look(2, EMPTY, drivers=(over,))
    assert (one.status["attempt"], one.status["start"]["empty"]) == (2, True)
    for _ in range(3):
        one.look(3, {**EMPTY, "state": "suspended"}, drivers=(over,))
    assert (one.status["phase"], one.status["shards"]) == ("Suspended", 16)
    assert "16 shards" in one.look(4, {"slots": 32}, drivers=(over,))
    assert one.look(5, {"slots": 32, **EMPTY}, drivers=(over,)) == ""


# -- a version that begins without state because of its upgradeMode ----------------------------------------------------

STATELESS = {"upgradeMode": "stateless"}


def upgraded(
    spec: dict[str, Any], status: dict[str, Any] | None = None, *, generation: int = 2, **seen: Any
) -> actions.Decision:
    """A look at a job with 400 shards and 200 slots that runs, and whose spec has changed to this one."""
    old = revision(**MANY, slots=200)
    told = status or running_status(shards=400, revision=old.name)
    one = job(told, generation=generation, **{**MANY, **spec})
    wanted, invalid = judging.judge(one, Config(), {old.name: old})
    assert wanted is not None, invalid
    around = {"drivers": (pod(revision=old.name),), **seen}
    return decide(observed.ObservedState(one, NOW, **around), {old.name: old}, wanted, invalid, Config())


def test_a_stateless_scale_below_the_slots_that_its_shards_need_leaves_the_old_version_running() -> None:
    """Its driver refused it, after the one that ran had been stopped for it."""
    found = upgraded({**STATELESS, "slots": 50})
    assert (found.status["phase"], "intent" in found.status, found.check) == ("Running", False, None)
    (degraded,) = (one for one in found.status["conditions"] if one["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "UpgradeRefused")
    assert degraded["message"].startswith(f"{BEYOND}; or choose another upgradeMode")
    assert {note.reason for note in found.notes} == {"UpgradeRefused"}
    again = upgraded({"slots": 50, "upgradeMode": "last-state"}, dict(found.status), generation=3)
    assert again.status["phase"] == "Upgrading"
    assert "refused" not in again.status


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({**STATELESS, "slots": 50, "maxParallelism": 400}, id="with enough key groups"),
        pytest.param({**STATELESS, "slots": 200, "image": "example/job:2"}, id="with enough slots"),
        pytest.param({**STATELESS, **OLD, "slots": 50}, id="from state that it names"),
        pytest.param({"slots": 50}, id="from its own state"),
    ],
)
def test_any_other_upgrade_with_as_many_shards_is_made(spec: dict[str, Any]) -> None:
    found = upgraded({"upgradeCheck": False, **spec})
    assert (found.status["phase"], found.status["intent"]["action"]) == ("Upgrading", "upgrade")


def test_where_nothing_runs_such_a_version_goes_on_from_the_state() -> None:
    over = pod(phase="Failed", ready=False, ended=ended(1, "UserCodeError"))
    old = revision(**MANY, slots=200)
    status = running_status(shards=400, revision=old.name, phase="Failed")
    found = upgraded({**STATELESS, "slots": 50}, status, drivers=(over,))
    assert (found.status["attempt"], found.status["intent"]["action"]) == (2, "start")
    assert "empty" not in (found.status.get("start") or {})
