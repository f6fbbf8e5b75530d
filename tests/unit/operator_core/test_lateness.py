"""A job that is not ready within its progress deadline says so, as a Deployment does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, job, look, pod, revision, running_status

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

DEADLINE: dict[str, Any] = {"progressDeadlineSeconds": 120}
RUNNING = observed.Report({"phase": "RUNNING"})


class Watched:
    """A job with the deadline, look by look; ``ready``: its driver answers that it runs."""

    def __init__(self, phase: str = "Starting", **spec: Any) -> None:
        self.spec = {**DEADLINE, **spec}
        self.revision = revision(**self.spec).name
        self.status: dict[str, Any] = running_status(phase=phase, revision=self.revision)
        self.now, self.generation = NOW, 1

    def look(
        self, after_s: float = 0.0, *, ready: bool = False, of_pod: dict[str, Any] | None = None
    ) -> actions.Decision:
        self.now += timedelta(seconds=after_s)
        driver = pod(ready=ready, revision=self.revision, **(of_pod or {}))
        around = observed.ObservedState(
            job(self.status, generation=self.generation, **self.spec),
            self.now,
            drivers=(driver,),
            report=RUNNING if ready else None,
        )
        decision = look(around)
        self.status = dict(decision.status)
        return decision

    def conditions(self) -> dict[str, tuple[str, str]]:
        return {one["type"]: (one["status"], one["reason"]) for one in self.status["conditions"]}


def told(decision: actions.Decision) -> list[str]:
    return [note.message for note in decision.notes if note.reason == "ProgressDeadlineExceeded"]


def test_a_job_that_is_not_ready_in_time_says_so_once_and_goes_on_trying() -> None:
    one = Watched()
    first = one.look()
    assert first.wait_s is not None and first.wait_s <= 120
    before = one.look(after_s=119)
    assert before.wait_s is not None and before.wait_s <= 1
    assert one.conditions()["Progressing"] == ("True", "Starting") and not told(before)
    late = one.look(after_s=1)
    assert told(late) == ["not ready for more than 2m (progressDeadlineSeconds); the job is Starting"]
    assert one.status["phase"] == "Starting"
    found = one.conditions()
    assert found["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert found["Degraded"] == ("True", "ProgressDeadlineExceeded")
    assert found["Stalled"] == ("True", "ProgressDeadlineExceeded") and "Reconciling" not in found
    assert found["Ready"] == ("False", "Starting")
    assert not told(one.look(after_s=60)), "an Event for each look"


def test_a_job_that_becomes_ready_is_late_no_more_and_has_the_whole_time_again() -> None:
    one = Watched()
    one.look()
    one.look(after_s=200)
    one.look(after_s=10, ready=True)
    found = one.conditions()
    assert found["Ready"] == ("True", "Running") and found["Progressing"] == ("False", "Running")
    assert found["Degraded"] == ("False", "AsWanted") and "Stalled" not in found
    one.status["phase"] = "Failing"
    one.look(after_s=500)
    assert one.conditions()["Progressing"][0] == "True"
    one.look(after_s=119)
    assert one.conditions()["Progressing"][0] == "True"
    assert told(one.look(after_s=2))


@pytest.mark.parametrize("spec", [{"progressDeadlineSeconds": None}, {"state": "suspended"}])
def test_without_a_deadline_and_on_the_way_to_its_end_no_job_is_late(spec: dict[str, Any]) -> None:
    one = Watched("Running" if "state" in spec else "Starting", **spec)
    for _ in range(3):
        one.look(after_s=3600)
        assert "Stalled" not in one.conditions()


def test_another_trouble_stays_in_sight() -> None:
    one = Watched()
    one.look()
    waiting = {"waiting": "ImagePullBackOff", "waiting_message": "no such image"}
    one.look(after_s=200, of_pod=waiting)
    found = one.conditions()
    assert found["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert found["Degraded"] == ("True", "ImagePullBackOff")


@pytest.mark.parametrize("before", ["Failed", "RestoreBlocked", "Running"])
def test_time_in_which_nothing_was_to_progress_does_not_count(before: str) -> None:
    """A job that failed yesterday, and one whose newest spec could not run, are not late as soon as they start."""
    one = Watched()
    old = clock.text(NOW - timedelta(days=1))
    kinds = (("Ready", before), ("Progressing", before))
    one.status["conditions"] = [
        {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": old}
        for kind, reason in kinds
    ]
    first = one.look()
    assert one.conditions()["Progressing"] == ("True", "Starting") and not told(first)
    one.look(after_s=119)
    assert one.conditions()["Progressing"] == ("True", "Starting")
    assert told(one.look(after_s=2))


class Changed(Watched):
    """The same job, whose spec is changed while it is not ready."""

    def change(self, after_s: float, **spec: Any) -> actions.Decision:
        self.now += timedelta(seconds=after_s)
        old, self.spec = revision(**self.spec), {**self.spec, **spec}
        self.generation = self.status["observedGeneration"] + 1
        driver, new = pod(ready=False, revision=old.name), revision(**self.spec)
        around = observed.ObservedState(
            job(self.status, generation=self.generation, **self.spec), self.now, drivers=(driver,)
        )
        decision = decide(around, {old.name: old}, new, "", Config())
        self.status = {**decision.status, "phase": "Starting", "revision": new.name}
        self.status.pop("intent", None)
        self.revision = new.name
        return decision


MENDED = {"image": "example/job:2", "upgradeCheck": False}


def test_a_job_that_was_late_has_the_whole_time_again_for_the_spec_that_mends_it() -> None:
    """Tools that wait for the new generation gave up at once: it was Stalled from the first look on."""
    one = Changed()
    one.look()
    assert told(one.look(after_s=130))
    changed = one.change(3600, **MENDED)
    found = one.conditions()
    assert found["Progressing"] == ("True", "Upgrading") and "Stalled" not in found
    assert not told(changed) and changed.wait_s is not None
    assert {each["observedGeneration"] for each in one.status["conditions"]} == {2}
    one.look(after_s=119)
    assert "Stalled" not in one.conditions()
    assert told(one.look(after_s=2))


def test_a_new_spec_has_the_whole_time_though_the_one_before_was_not_late_yet() -> None:
    one = Changed()
    one.look()
    one.change(100, **MENDED)
    one.look(after_s=60)
    assert "Stalled" not in one.conditions()
    assert told(one.look(after_s=61))


@pytest.mark.parametrize(
    "spec", [{"slots": 0}, {"state": "running"}], ids=["a spec that cannot run", "a spec that is the same"]
)
def test_a_spec_that_changes_nothing_gives_no_more_time(spec: dict[str, Any]) -> None:
    one = Watched()
    one.look()
    one.look(after_s=130)
    invalid = "" if "state" in spec else "spec.slots is 0"
    known = {one.revision: revision(**one.spec)}
    changed = job(one.status, generation=2, **{**one.spec, **spec})
    seen = observed.ObservedState(changed, one.now, drivers=(pod(ready=False, revision=one.revision),))
    found = decide(seen, known, None if invalid else known[one.revision], invalid, Config())
    assert "Stalled" in {each["type"] for each in found.status["conditions"]}
