"""Containers that the kubelet has started again: which failures count for the restart strategy, and of which time."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, pod, revision, running_status, stored

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import decide

RATE: dict[str, Any] = {
    "strategy": "failure-rate",
    "failureRate": {"maxFailuresPerInterval": 3, "failureRateInterval": "10m", "delay": "1s"},
}
ONCE: dict[str, Any] = {"strategy": "fixed-delay", "fixedDelay": {"attempts": 1, "delay": "1s"}}
REBOOT = observed.Termination(255, "Unknown", "", NOW)


class Crashes:
    """A job whose driver runs in one pod, look by look. The kubelet starts its container again at once."""

    def __init__(self, restart: dict[str, Any]) -> None:
        self.spec: dict[str, Any] = {"restart": restart}
        self.generation = 1
        self.pod = pod(revision=revision(**self.spec).name)
        self.status: dict[str, Any] = running_status() | {"revision": self.pod.revision}
        self.known = {self.pod.revision: revision(**self.spec)}

    def crash(self, at: datetime, end: observed.Termination | None = None) -> None:
        last = dataclasses.replace(end or ended(1, "SlotLost"), at=at)
        self.pod = dataclasses.replace(self.pod, restarts=self.pod.restarts + 1, last_ended=last)

    def look(self, at: datetime, **seen: Any) -> actions.Decision:
        wanted = revision(**self.spec)
        self.known[wanted.name] = wanted
        one = job(self.status, generation=self.generation, **self.spec)
        around = observed.ObservedState(one, at, **{"drivers": (self.pod,), **seen})
        found = stored(decide(around, self.known, wanted, "", Config()))
        self.status = dict(found.status)
        return found

    @property
    def recent(self) -> list[str]:
        return list(self.status["restarts"].get("recent") or ())


def minutes(count: float) -> datetime:
    return NOW + timedelta(minutes=count)


def test_failures_that_an_operator_was_away_for_count_at_their_time() -> None:
    """All of them seemed to be of its first look, and the next failure was one too many."""
    found = Crashes(RATE)
    found.crash(minutes(20))
    found.crash(minutes(70))
    found.look(minutes(120))
    assert found.recent == [clock.text(minutes(70))] * 2
    found.crash(minutes(128))
    found.look(minutes(128))
    assert found.status["phase"] == "Running"
    found.crash(minutes(130))
    found.crash(minutes(131))
    found.look(minutes(131))
    found.crash(minutes(132))
    found.look(minutes(132))
    assert found.status["phase"] == "Failed"


@pytest.mark.parametrize(
    ("told", "counts_at"),
    [(minutes(-60), minutes(20)), (minutes(90), minutes(30)), (None, minutes(30))],
    ids=["a clock that is behind", "a clock that is ahead", "no time"],
)
def test_a_failure_counts_between_the_one_before_and_now(told: datetime | None, counts_at: datetime) -> None:
    found = Crashes(RATE)
    found.crash(minutes(20))
    found.look(minutes(20))
    found.crash(minutes(30))
    assert found.pod.last_ended is not None
    found.pod = dataclasses.replace(found.pod, last_ended=dataclasses.replace(found.pod.last_ended, at=told))
    found.look(minutes(30))
    assert found.recent == [clock.text(minutes(20)), clock.text(counts_at)]


def once_too_often() -> Crashes:
    """One restart was allowed, and has been made."""
    found = Crashes(ONCE)
    found.crash(minutes(20))
    found.look(minutes(20))
    assert (found.status["phase"], found.status["restarts"]["kubelet"]) == ("Running", 1)
    return found


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"image": "example/job:2"}, {"refused": "a webhook says no"}),
        ({"image": "example/job:2"}, {}),
        ({"progressDeadlineSeconds": 700}, {}),
    ],
    ids=["its pod is refused", "it is checked", "it needs no attempt"],
)
def test_a_restart_too_many_ends_the_job_though_it_comes_with_a_new_version(
    change: dict[str, Any], seen: dict[str, Any]
) -> None:
    """The look that counted it was busy with the new version, and the next one did not know of it."""
    found = once_too_often()
    found.status["lastCheckpoint"] = {"id": 3, "uri": "s3://b/chk-3"}
    found.spec, found.generation = {**found.spec, **change}, 2
    found.crash(minutes(40))
    found.look(minutes(40), **seen)
    assert found.status["phase"] == "Running"
    found.spec, found.generation = ({"restart": ONCE}, 3) if "image" in change else (found.spec, 2)
    ends = found.look(minutes(41))
    assert found.status["phase"] == "Failed" and acts(ends, actions.DeletePod)
    assert found.status["restarts"]["kubelet"] == 2 and not found.recent


def test_a_restart_too_many_is_counted_where_its_attempt_is_stopped_anyway() -> None:
    found = once_too_often()
    found.spec, found.generation = {**found.spec, "state": "suspended"}, 2
    found.crash(minutes(40))
    found.look(minutes(40))
    assert (found.status["phase"], found.status["restarts"]["kubelet"]) == ("Suspending", 2)


@pytest.mark.parametrize("reason", ["Unknown", "ContainerStatusUnknown"])
def test_a_container_that_its_node_lost_has_not_failed(reason: str) -> None:
    """A node that was started anew ended the job as its last failure."""
    found = once_too_often()
    found.crash(minutes(40), dataclasses.replace(REBOOT, reason=reason))
    found.look(minutes(40))
    assert (found.status["phase"], found.status["restarts"]["kubelet"]) == ("Running", 2)
    assert found.recent == [clock.text(minutes(20))]
    found.crash(minutes(60))
    found.look(minutes(60))
    assert found.status["phase"] == "Failed"


def test_failures_before_the_end_of_a_node_count() -> None:
    found = once_too_often()
    found.crash(minutes(40))
    found.crash(minutes(50), REBOOT)
    found.look(minutes(50))
    assert found.status["phase"] == "Failed"


def test_a_last_word_counts_whatever_reason_its_node_gives() -> None:
    found = once_too_often()
    found.crash(minutes(40), dataclasses.replace(ended(1, "SlotLost"), reason="Unknown"))
    found.look(minutes(40))
    assert found.status["phase"] == "Failed"
