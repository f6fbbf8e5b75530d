"""A spec that comes while the job is being stopped, or while its next attempt is made, is judged by its key groups."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.scene.decisions import NOW, ended, job, pod, revision, running_status, trace

from sparkstate_operator import judging, labels, observed, plan
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

EMPTY = {"startEmpty": True}
STATELESS = {"upgradeMode": "stateless"}
MANY = {"shards": 400}
BEYOND = (
    "spec.shards: there are more shards than key groups: a job that begins without state has 128 of them with slots 50 "
    "and no maxParallelism; lower shards, or give a maxParallelism of at least 400 (it is 400)"
)
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
