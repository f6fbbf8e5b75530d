"""A driver whose pod is gone, and whose end nobody has confirmed: whatever comes next, the job waits for it."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import (
    DEATH_S,
    NOW,
    acts,
    ended,
    job,
    look,
    pod,
    revision,
    running_status,
    trace,
)

from sparkstate_operator import actions, observed

OVER = pod(phase="Failed", ready=False, ended=ended(1, "SlotLost"))


class Lives:
    """A job, look by look. ``seen`` is what is there besides its status."""

    def __init__(self, status: dict[str, Any], **seen: Any) -> None:
        self.status, self.seen = status, seen
        self.spec: dict[str, Any] = {}
        self.generation, self.deleting = 1, False

    def change(self, **spec: Any) -> None:
        self.spec, self.generation = spec, self.generation + 1

    def look(self, after_s: float, **seen: Any) -> actions.Decision:
        self.seen |= seen
        one = job(self.status, generation=self.generation, deleting=self.deleting, **self.spec)
        found = look(observed.ObservedState(one, NOW + timedelta(seconds=after_s), **self.seen))
        self.status = dict(found.status)
        return found

    def looks(self, *after_s: float) -> list[actions.Decision]:
        return [self.look(moment) for moment in after_s]


def lost() -> Lives:
    """The pod of attempt 1 has vanished, and attempt 2 has its number."""
    found = Lives(running_status(), sightings={1: pod()}, config_maps=(trace(1),))
    found.look(0)
    assert found.status["intent"]["action"] == "start"
    return found


def made(looks: list[actions.Decision]) -> bool:
    return any(acts(one, actions.StartAttempt) for one in looks)


def test_a_suspension_and_its_end_do_not_end_the_wait_for_a_lost_driver() -> None:
    found = lost()
    found.change(state="suspended")
    found.looks(1, 2, 3)
    assert found.status["phase"] == "Suspending"
    found.change(state="running")
    assert not made(found.looks(4, 5, 6, DEATH_S - 1))
    assert made(found.looks(DEATH_S + 1, DEATH_S + 2, DEATH_S + 3))


def test_a_suspension_is_over_after_the_wait_for_a_lost_driver() -> None:
    found = lost()
    found.change(state="suspended")
    found.looks(1, 2, DEATH_S - 1)
    assert found.status["phase"] == "Suspending"
    found.looks(DEATH_S + 1)
    assert found.status["phase"] == "Suspended"
    assert "unconfirmed" not in found.status


def test_nothing_is_purged_while_a_lost_driver_may_write() -> None:
    found = lost()
    found.change(deletion={"policy": "purge"})
    found.deleting = True
    for one in found.looks(1, 2, 3, DEATH_S - 1):
        assert one.actions == ()
    purged = found.look(DEATH_S + 1)
    assert [one.does for one in acts(purged, actions.CreateCommand)] == ["purge"]


@pytest.mark.parametrize("deleting", [False, True], ids=["suspended", "deleted"])
def test_a_pause_of_the_restart_strategy_holds_neither(deleting: bool) -> None:
    found = Lives(running_status(), drivers=(OVER,), config_maps=(trace(1),), sightings={1: OVER})
    found.look(0)
    assert "notBefore" in found.status["intent"]
    found.change(state="suspended", deletion={"policy": "retain"})
    found.deleting = deleting
    *_, last = found.looks(1, 1, 1)
    assert found.status["phase"] == ("Deleting" if deleting else "Suspended")
    assert bool(acts(last, actions.RemoveFinalizer)) is deleting


def test_a_number_that_may_have_run_unseen_is_waited_for_through_a_suspension() -> None:
    status = running_status(2, phase="Starting", intent={"action": "start", "attempt": 2})
    found = Lives(status, config_maps=(trace(2),))
    found.look(0)
    assert found.status["attempt"] == 3
    found.change(state="suspended")
    found.looks(1, 2)
    found.change(state="running")
    assert not made(found.looks(3, 4, DEATH_S - 1))
    assert made(found.looks(DEATH_S + 1, DEATH_S + 2, DEATH_S + 3))


def test_a_confirmed_end_ends_the_wait_of_a_suspension() -> None:
    found = lost()
    found.change(state="suspended")
    found.looks(1, 2)
    found.look(3, sightings={1: OVER})
    assert found.status["phase"] == "Suspended"


# -- drivers of older attempts -----------------------------------------------------------------------------------------

END = NOW + timedelta(seconds=120)
DRAINED = pod(deleting_at=END, grace_s=120.0)
CUT_OFF = pod(deleting_at=END, grace_s=120.0, ready=False, node_silent=True)


def drained() -> Lives:
    """The pod of attempt 1 is drained, attempt 2 has its number, and then node 1 is cut off."""
    found = Lives(running_status(), drivers=(DRAINED,), sightings={1: DRAINED})
    found.look(0)
    assert not made([found.look(5, drivers=(CUT_OFF,), sightings={1: CUT_OFF})])
    return found


def test_an_older_driver_that_is_forced_away_is_waited_for_from_then_on() -> None:
    found = drained()
    assert not made([found.look(10, drivers=())])
    assert "the driver of attempt 1 has ended" in found.look(11).status["message"]
    assert not made([found.look(10 + DEATH_S - 1)])
    assert made([found.look(10 + DEATH_S + 1)])
    assert "unconfirmed" not in found.status


def test_so_it_is_by_an_operator_that_has_never_seen_it() -> None:
    found = drained()
    assert not made([found.look(10, drivers=(), sightings={}), *found.looks(11, 10 + DEATH_S - 1)])
    assert made([found.look(10 + DEATH_S + 1)])


def test_an_older_driver_that_was_seen_to_end_is_not_waited_for() -> None:
    found = drained()
    assert made([found.look(10, drivers=(), sightings={1: OVER})])
    assert "unconfirmed" not in found.status


def test_an_older_driver_that_vanishes_while_its_successor_waits_is_waited_for_by_the_third() -> None:
    """Attempt 2 was made beside attempt 1, and fails before it has claimed the state."""
    found = Lives(running_status(), drivers=(DRAINED,), sightings={1: DRAINED})
    assert made(found.looks(0, 1))
    second = pod(2, ready=False)
    found.look(3, drivers=(DRAINED, second), config_maps=(trace(2),))
    found.look(10, drivers=(second,))
    failed = pod(2, phase="Failed", ready=False, ended=ended(1, "SlotLost"))
    found.look(20, drivers=(failed,))
    assert found.status["attempt"] == 3
    assert not made(found.looks(24, 60, 10 + DEATH_S - 1))
    assert made([found.look(10 + DEATH_S + 1)])


FAILED = pod(2, phase="Failed", ready=False, ended=ended(1, "SlotLost"))


def beside() -> Lives:
    """Attempt 2 was made beside attempt 1, whose pod has vanished since."""
    found = Lives(running_status(), drivers=(DRAINED,), sightings={1: DRAINED})
    found.looks(0, 1)
    second = pod(2, ready=False)
    both = (trace(1), trace(2))
    found.look(3, drivers=(DRAINED, second), config_maps=both)
    assert acts(found.look(10, drivers=(second,)), actions.DeleteAttempt) == []
    assert [one["attempt"] for one in found.status["unconfirmed"]] == [1]
    return found


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the status, while a driver whose end nobody has confirmed may still write",
    when="the next attempt is due",
    expected="it waits for that driver all the same: the ConfigMap of the driver's attempt has stayed",
)
def test_a_lost_status_does_not_forget_an_older_driver_that_vanished() -> None:
    found = beside()
    found.status = {}
    found.look(20, drivers=(FAILED,), sightings={})
    assert [one["attempt"] for one in found.status["unconfirmed"]] == [1]
    assert found.status["attempt"] == 3
    assert not made(found.looks(24, 60, 20 + DEATH_S - 1))
    assert made(found.looks(20 + DEATH_S + 2, 20 + DEATH_S + 3))


def test_a_lost_status_brings_no_driver_back_that_was_seen_to_end() -> None:
    found = beside()
    found.status = {}
    found.look(20, drivers=(FAILED,), sightings={1: OVER})
    assert "unconfirmed" not in found.status


def test_the_trace_of_a_driver_goes_when_it_can_do_no_more_harm() -> None:
    gone = beside().look(10 + DEATH_S + 1)
    assert [one.child.attempt for one in acts(gone, actions.DeleteAttempt)] == [1]
    ended_ = beside().look(11, sightings={1: OVER})
    assert [one.child.attempt for one in acts(ended_, actions.DeleteAttempt)] == [1]


LAST: dict[str, Any] = {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 0, "delay": "1s"}}}


def given_up() -> Lives:
    """The job has failed: the kubelet has started its container again, and no restart was left. The container runs."""
    crashed = pod(restarts=1, last_ended=ended(1, "SlotLost"), revision=revision(**LAST).name)
    status = running_status() | {"revision": revision(**LAST).name}
    found = Lives(status, drivers=(crashed,), sightings={1: crashed}, config_maps=(trace(1),))
    found.spec = LAST
    assert acts(found.look(0), actions.DeletePod) and found.status["phase"] == "Failed"
    found.look(
        1, drivers=(dataclasses.replace(crashed, deleting_at=NOW + timedelta(seconds=30), grace_s=30),)
    )
    return found


@pytest.mark.parametrize("change", [{"restartNonce": 1}, {"image": "example/job:2"}], ids=["nonce", "image"])
@pytest.mark.parametrize("rests", [False, True], ids=["at once", "after a suspension"])
def test_a_job_that_was_given_up_waits_for_its_driver_that_vanished(
    change: dict[str, Any], rests: bool
) -> None:
    """The container ran when the job was given up. Its successor began at once, as if that had been its end."""
    found = given_up()
    found.seen["drivers"] = ()
    if rests:
        found.change(**LAST, state="suspended")
        found.looks(2, 2)
        assert found.status["phase"] == "Suspended"
    found.change(**LAST, **change)
    assert not made(found.looks(3, 4, 5, DEATH_S))
    assert made(found.looks(DEATH_S + 4, DEATH_S + 5, DEATH_S + 6))


def test_a_job_that_was_given_up_waits_for_no_driver_that_was_seen_to_end() -> None:
    found = given_up()
    found.look(2, drivers=(), sightings={1: OVER})
    assert "unconfirmed" not in found.status
    found.change(**LAST, restartNonce=1)
    assert made(found.looks(3, 4))
