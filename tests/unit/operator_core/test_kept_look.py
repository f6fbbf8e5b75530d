"""What a look saw is kept until something happens, and nothing but progress is decided from it."""

from __future__ import annotations

import dataclasses

import pytest
from support.scene.decisions import NOW, job, pod, revision, running_status

from sparkstate_operator import actions, kept_look, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

CHECKPOINT = {
    "id": 7,
    "path": "s3://bucket/state/chk-7",
    "state_bytes": 20_000_000,
    "trigger_ms": 1767225600000,
}


def seen(
    status: observed.Document, said: observed.Document | None, *drivers: observed.Pod
) -> observed.ObservedState:
    report = None if said is None else observed.Report(said)
    return observed.ObservedState(job(status), NOW, drivers=drivers or (pod(),), report=report)


def decided(looked: observed.ObservedState) -> actions.Decision:
    known = {revision().name: revision()}
    return decide(looked, known, revision(), "", Config())


def settled(said: observed.Document) -> observed.Document:
    """The status of a job whose driver says this, when nothing is left to do about it."""
    status: observed.Document = running_status()
    for _ in range(5):
        decision = decided(seen(status, said))
        if dict(decision.status) == dict(status):
            return status
        status = decision.status
    raise AssertionError(f"it changes for ever: {status}")


RUNNING = {"phase": "RUNNING", "restarts": 0, "last_checkpoint": {**CHECKPOINT, "id": 6}}


def test_what_is_kept_is_what_a_look_without_its_report_saw() -> None:
    looked = seen(settled(RUNNING), RUNNING, pod(), pod(2, restarts=3))
    found = kept_look.unpack(kept_look.pack(looked))
    assert found == dataclasses.replace(looked, report=None)


def test_what_is_not_looked_at_each_time_is_not_kept() -> None:
    child = observed.Child("ConfigMap", "c", "u", "1", 1, {})
    looked = dataclasses.replace(
        seen(settled(RUNNING), RUNNING),
        config_maps=(child,),
        revisions=(child,),
        children=(child,),
        sightings={1: pod()},
    )
    found = kept_look.unpack(kept_look.pack(looked))
    assert (found.config_maps, found.revisions, found.children, found.sightings) == ((), (), None, {})


def test_a_new_checkpoint_is_quiet() -> None:
    status = settled(RUNNING)
    decision = decided(seen(status, {**RUNNING, "last_checkpoint": CHECKPOINT}))
    assert decision.status["lastCheckpoint"]["id"] == 7
    assert kept_look.is_quiet(job(status), decision, Config())


@pytest.mark.parametrize(
    ("said", "driver"),
    [
        ({**RUNNING, "phase": "PAUSED"}, pod()),
        (RUNNING, pod(phase="Failed")),
        (None, pod(ready=False)),
        (RUNNING, pod(2)),
    ],
    ids=["it pauses", "its pod failed", "nobody answers", "another attempt"],
)
def test_whatever_else_changes_takes_a_look(said: observed.Document | None, driver: observed.Pod) -> None:
    status = settled(RUNNING)
    assert not kept_look.is_quiet(job(status), decided(seen(status, said, driver)), Config())


def test_no_act_and_no_event_is_quiet() -> None:
    status = settled(RUNNING)
    still = decided(seen(status, RUNNING))
    assert kept_look.is_quiet(job(status), still, Config())
    note, act = actions.Note("Reason", "text"), actions.DeletePod(pod(), "why")
    start = actions.StartAttempt(2, revision().name, actions.Start())
    for change in (
        {"notes": (note,)},
        {"actions": (act,)},
        {"before": (actions.AddFinalizer(),)},
        {"check": start},
    ):
        assert not kept_look.is_quiet(job(status), dataclasses.replace(still, **change), Config())


@pytest.mark.parametrize(
    ("mark", "operator_class"), [("ops/theirs@blue", "blue"), ("ops/ours@blue", "green"), ("", "blue")]
)
def test_nothing_is_written_from_it_about_a_job_of_another_operator(mark: str, operator_class: str) -> None:
    config = Config(mark="ops/ours@blue", operator_class="blue")
    still = decided(seen(settled(RUNNING), RUNNING))
    ours = dataclasses.replace(
        job(settled(RUNNING)),
        annotations={labels.MANAGER: config.mark},
        labels={labels.OPERATOR_CLASS: "blue"},
    )
    assert kept_look.is_quiet(ours, still, config)
    theirs = dataclasses.replace(
        ours, annotations={labels.MANAGER: mark}, labels={labels.OPERATOR_CLASS: operator_class}
    )
    assert not kept_look.is_quiet(theirs, still, config)


def test_what_a_check_has_refused_is_asked_anew() -> None:
    looked = dataclasses.replace(seen(settled(RUNNING), RUNNING), refused="the quota is full")
    assert kept_look.unpack(kept_look.pack(looked)).refused == ""
