"""The shards of the state bound the slots of a spec that goes on from it, and of no other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.scene.decisions import NOW, ended, job, pod, revision, running_status, trace

from sparkstate_operator import actions, judging, labels, observed, plan
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


# -- a spec that changes again, before anything is made of the change before it ----------------------------------------

FEWER = {**STATELESS, "slots": 50}
"""400 shards of 128 key groups."""
LARGE = {**MANY, "slots": 200, "upgradeCheck": False}
OVER = pod(phase="Succeeded", ready=False, ended=ended(0, "Terminated"))


class Changed:
    """A job with 400 shards and 200 slots whose spec changes again and again, look by look."""

    def __init__(self) -> None:
        self.old = revision(**LARGE)
        self.status: dict[str, Any] = running_status(shards=400, revision=self.old.name)
        self.known: dict[str, plan.Revision] = {self.old.name: self.old}
        self.notes: list[str] = []
        self.trace = dataclasses.replace(
            trace(1), body={"metadata": {"labels": {labels.REVISION: self.old.name}}}
        )

    def look(self, generation: int, spec: dict[str, Any], **seen: Any) -> dict[str, Any]:
        one = job(self.status, generation=generation, **{**LARGE, **spec})
        wanted, invalid = judging.judge(one, Config(), self.known)
        assert wanted is not None, invalid
        self.known = {**self.known, wanted.name: wanted}
        around = {"config_maps": (self.trace,), "drivers": (pod(revision=self.old.name),), **seen}
        decision = decide(observed.ObservedState(one, NOW, **around), self.known, wanted, invalid, Config())
        self.notes = [note.message for note in decision.notes if note.reason == "UpgradeRefused"]
        self.status = dict(decision.status)
        return self.status

    def is_degraded(self) -> bool:
        (told,) = (one for one in self.status["conditions"] if one["type"] == "Degraded")
        return (told["status"], told["reason"]) == ("True", "UpgradeRefused")


NEWER = {"image": "example/job:2"}


@pytest.mark.parametrize("first", [NEWER, {**NEWER, **STATELESS}], ids=["with state", "stateless"])
def test_a_spec_that_comes_during_the_stop_is_judged_as_the_one_before_it_was(first: dict[str, Any]) -> None:
    """Its driver refused it, and nothing ran."""
    one = Changed()
    second = one.look(2, first)["intent"]["revision"]
    start = one.status.get("start")
    stopping = one.look(3, {**first, **FEWER})
    (told,) = one.notes
    assert told.startswith(f"{BEYOND}; or choose another upgradeMode")
    assert told.endswith("; the version before it is started")
    assert (stopping["intent"]["revision"], stopping.get("start")) == (second, start)
    assert (stopping["observedGeneration"], one.is_degraded()) == (3, True)
    begun = one.look(3, {**first, **FEWER}, drivers=(OVER,))
    assert (begun["attempt"], begun["revision"]) == (2, second)
    newest = pod(2, revision=second)
    one.look(3, {**first, **FEWER}, drivers=(newest,))
    report = observed.Report({"phase": "RUNNING", "slots": [], "checkpoints_completed": 1})
    running = one.look(3, {**first, **FEWER}, drivers=(newest,), report=report)
    assert (running["phase"], one.is_degraded()) == ("Running", True), "the newest spec does not run"
    tries = one.status["refused"]["tries"]
    one.status["refused"].pop("nextTime")
    again = one.look(3, {**first, **FEWER}, drivers=(newest,), report=report)
    assert (again["phase"], again["refused"]["tries"]) == ("Running", tries + 1)
    assert one.notes[0].endswith("; the old version runs on")
    mended = one.look(4, {**first, **FEWER, "maxParallelism": 400}, drivers=(newest,), report=report)
    assert (mended["intent"]["action"], "refused" in mended) == ("upgrade", False)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({**FEWER, "maxParallelism": 400}, id="with enough key groups"),
        pytest.param({"slots": 50}, id="from its own state"),
        pytest.param({**FEWER, "state": "suspended"}, id="suspended, so from its own state later"),
    ],
)
def test_any_other_spec_that_comes_during_the_stop_is_followed(spec: dict[str, Any]) -> None:
    one = Changed()
    second = one.look(2, NEWER)["intent"]["revision"]
    third = one.look(3, {**NEWER, **spec})["intent"]["revision"]
    assert (third != second, one.notes) == (True, [])
    over = one.look(3, {**NEWER, **spec}, drivers=(OVER,))
    assert (over["phase"] == "Suspended", over["attempt"] == 2) == ("state" in spec, "state" not in spec)


@pytest.mark.parametrize("lost", [False, True], ids=["the version before is known", "it is lost"])
@pytest.mark.parametrize("refused", [False, True], ids=["nothing is made", "its pod is refused"])
@pytest.mark.parametrize("newest", [STATELESS, EMPTY], ids=["stateless", "startEmpty"])
def test_a_spec_that_comes_while_an_attempt_is_made_is_judged(
    newest: dict[str, Any], refused: bool, lost: bool
) -> None:
    one = Changed()
    first = {**NEWER, **newest}
    second = one.look(2, first)["intent"]["revision"]
    begun = one.look(2, first, drivers=(OVER,))
    assert (begun["attempt"], begun["start"]) == (2, {"empty": True, "since": 2})
    one.trace = trace(1) if lost else one.trace
    made = {"config_maps": (one.trace, trace(2)), "never_made": 2} if refused else {}
    third = one.look(3, {**first, "slots": 50}, drivers=(OVER,), **made)
    (told,) = one.notes
    assert told.startswith(BEYOND)
    assert ("upgradeMode" in told) == (newest is STATELESS)
    assert (third["attempt"], third["revision"], third["observedGeneration"]) == (2, second, 3)
    assert one.is_degraded()
    one.look(3, {**first, "slots": 50}, drivers=(OVER,), **made)
    assert (one.notes, one.status["revision"], one.is_degraded()) == ([], second, True)
    mended = one.look(4, {**first, "slots": 50, "maxParallelism": 400}, drivers=(OVER,), **made)
    assert mended["revision"] not in (second, one.old.name)
    assert (mended["attempt"], mended["start"]["empty"]) == (3 if refused else 2, True)


# -- a spec that suspends the job during the stop is not judged, so no attempt starts by it ----------------------------

REFUSED = {**NEWER, **FEWER}
NOT_THERE = {"restoreFrom": {"snapshotRef": {"name": "not-there"}}}


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([NEWER], id="with state"),
        pytest.param([{**NEWER, **STATELESS}], id="stateless"),
        pytest.param([NEWER, REFUSED], id="first refused"),
        pytest.param(
            [NEWER, {**REFUSED, "image": "example/job:3", "state": "suspended"}], id="suspended twice"
        ),
    ],
)
@pytest.mark.parametrize(
    ("suspended", "resumed"),
    [
        pytest.param(REFUSED, REFUSED, id="refused"),
        pytest.param({**NEWER, **STATELESS}, {**NEWER, **NOT_THERE}, id="its state is missing"),
    ],
)
def test_what_a_suspended_spec_asks_for_never_starts(
    before: list[dict[str, Any]], suspended: dict[str, Any], resumed: dict[str, Any]
) -> None:
    """It started as the version before a spec that could not begin: without state, or with too few key groups."""
    one = Changed()
    for generation, spec in enumerate(before, 2):
        one.look(generation, spec)
    newest = len(before) + 3
    one.look(newest - 1, {**suspended, "state": "suspended"})
    one.look(newest, resumed)
    assert one.is_degraded() == (resumed is REFUSED)
    begun = one.look(newest, resumed, drivers=(OVER,))
    assert (begun["attempt"], begun["intent"]["action"]) == (2, "start")
    assert (begun["revision"], begun.get("start")) == (one.old.name, None)


def test_nor_does_it_where_the_stop_is_for_a_suspension() -> None:
    one = Changed()
    one.look(2, {"state": "suspended"})
    one.look(3, {**NEWER, **STATELESS, "state": "suspended"})
    one.look(4, {**NEWER, **NOT_THERE})
    begun = one.look(4, {**NEWER, **NOT_THERE}, drivers=(OVER,))
    assert (begun["attempt"], begun["revision"], begun.get("start")) == (2, one.old.name, None)


def test_where_such_a_spec_is_followed_by_another_that_suspends_a_spec_that_does_not_count_resumes_nothing() -> (
    None
):
    one = Changed()
    one.look(2, NEWER)
    one.look(3, {**REFUSED, "state": "suspended"})
    one.look(4, {**NEWER, **NOT_THERE, "state": "suspended"})
    over = one.look(5, NEWER, drivers=(OVER,), unkept="exceeded quota")
    assert (over["phase"], over["revision"], over.get("start")) == ("Suspended", one.old.name, None)
