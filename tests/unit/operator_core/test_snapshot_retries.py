"""A savepoint that failed is tried again, as its object allows."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, job, pod, revision, running_status

from sparkstate_operator import actions, clock, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import snapshot
from sparkstate_operator.decide.snapshot_following import LONGEST_PAUSE_S, REFUSED_S

FAILED = {"status": "FAILED", "failure": "disk full"}
RUNNING = observed.Report({"phase": "RUNNING"})


class Tried:
    """One snapshot, look by look."""

    def __init__(self, limit: int | None, timeout: str = "1h", **spec: Any) -> None:
        told = {} if limit is None else {"backoffLimit": limit}
        self.spec = {"jobRef": {"name": "orders"}, "timeout": timeout, **told, **spec}
        self.status: dict[str, Any] = {}
        self.now = NOW
        self.job = job(running_status())

    def look(
        self,
        savepoint: dict[str, Any] | None = None,
        running: bool = True,
        refusal: observed.TriggerRefusal | None = None,
    ) -> actions.Decision:
        one = observed.Snapshot(
            name="one", uid="s-1", resource_version="1", generation=1, created=NOW, spec=self.spec,
            status=self.status, labels={}, annotations={}, finalizers=(labels.FINALIZER,),
        )  # fmt: skip
        report = observed.Report({"phase": "RUNNING"}, savepoint) if running else None
        seen = observed.ObservedSnapshot(one, self.now, self.job, pod(), report, refusal=refusal)
        decision = snapshot.decide(seen, revision(), Config())
        self.status = dict(decision.status)
        return decision

    def ask(self) -> str:
        """The trigger id of the try that begins."""
        self.look()
        assert self.status["phase"] == "Triggered"
        (asked,) = acts(self.look(), actions.TriggerSavepoint)
        return str(asked.trigger_id)

    def until(self, moment: str) -> float:
        """Go on to that time; the seconds until then."""
        found = clock.parse(moment)
        assert isinstance(found, datetime)
        before, self.now = self.now, found
        return (found - before).total_seconds()


def test_each_try_has_a_trigger_of_its_own_and_the_pauses_double() -> None:
    one = Tried(limit=8)
    triggers, pauses = [], []
    for number in range(1, 9):
        triggers.append(one.ask())
        failed = one.look(FAILED)
        assert (one.status["phase"], one.status["failures"]) == ("Pending", number)
        assert "disk full" in one.status["message"]
        assert [note.reason for note in failed.notes] == ["SnapshotRetried"]
        waits = one.look()
        assert (waits.status["phase"], waits.status["reason"]) == ("Pending", "SavepointFailed")
        assert waits.status["message"] == failed.status["message"], "each change is a write"
        pauses.append(one.until(one.status["retryTime"]))
        assert waits.wait_s == pauses[-1]
    assert len(set(triggers)) == 8
    assert pauses == [10, 20, 40, 80, 160, 320, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert one.ask() not in triggers
    last = one.look(FAILED)
    assert (one.status["phase"], one.status["reason"]) == ("Failed", "SavepointFailed")
    assert [note.reason for note in last.notes] == ["SnapshotFailed"]


def refused(one: Tried, for_good: bool, savepoint: dict[str, Any] | None = None) -> actions.Decision:
    """A look after the driver has not taken the trigger."""
    return one.look(savepoint, refusal=observed.TriggerRefusal("no such bucket; name another", for_good))


def test_a_savepoint_that_is_refused_for_good_fails_at_once_and_is_not_tried_again() -> None:
    one = Tried(limit=3)
    one.ask()
    failed = refused(one, for_good=True)
    assert (one.status["phase"], one.status["reason"]) == ("Failed", "SavepointRefused")
    assert one.status["message"] == "no such bucket; name another"
    assert [note.reason for note in failed.notes] == ["SnapshotFailed"]
    assert not acts(one.look(), actions.TriggerSavepoint), "it is settled"


def test_a_refusal_that_may_pass_is_told_while_the_driver_is_asked_again() -> None:
    one = Tried(limit=None)
    trigger = one.ask()
    for _ in range(2):
        asked = refused(one, for_good=False)
        assert (one.status["phase"], one.status["reason"]) == ("Triggered", "SavepointRefused")
        assert one.status["message"] == "no such bucket; name another"
        assert [action.trigger_id for action in acts(asked, actions.TriggerSavepoint)] == [trigger]
        assert not asked.notes and asked.wait_s == REFUSED_S
    one.look({"status": "COMPLETED", "location": "s3://b/savepoint-1"})
    assert one.status["phase"] == "Completed"
    assert "message" not in one.status and "reason" not in one.status


def test_a_refusal_with_other_words_each_time_is_one_write() -> None:
    """A storage names the object that could not be written, which has another name each time."""
    one = Tried(limit=None)
    one.ask()
    statuses = []
    for number in range(4):
        one.look(refusal=observed.TriggerRefusal(f"_probe/{number}: no such bucket", for_good=False))
        statuses.append(dict(one.status))
    assert statuses.count(statuses[0]) == 4
    assert statuses[0]["message"] == "_probe/0: no such bucket"


def test_a_refusal_that_lasts_until_the_timeout_stays_in_sight() -> None:
    one = Tried(limit=None, timeout="1m")
    one.ask()
    refused(one, for_good=False)
    one.now += timedelta(seconds=90)
    refused(one, for_good=False)
    assert (one.status["phase"], one.status["reason"]) == ("Failed", "Timeout")
    assert one.status["message"] == "not complete after 60 s: no such bucket; name another"
    one.now += timedelta(seconds=90)
    one.look()
    assert one.status["reason"] == "NotTaken"
    assert one.status["message"].endswith("no such bucket; name another")


def test_a_refusal_of_a_trigger_that_the_driver_follows_after_all_counts_for_nothing() -> None:
    """The answer to an earlier request was lost."""
    one = Tried(limit=None)
    one.ask()
    refused(one, for_good=True, savepoint={"status": "IN_PROGRESS"})
    assert one.status["phase"] == "InProgress"


@pytest.mark.parametrize(
    ("spec", "told"),
    [({}, {}), ({"formatType": "canonical"}, {}), ({"formatType": "native"}, {"format_type": "native"})],
)
def test_each_try_asks_for_the_format_that_the_object_names(
    spec: dict[str, Any], told: dict[str, str]
) -> None:
    """An engine from before the formats takes canonical ones, and refuses the field."""
    one = Tried(limit=1, triggerId="mine", **spec)
    one.look()
    (asked,) = acts(one.look(), actions.TriggerSavepoint)
    assert asked.request() == {"trigger_id": "mine", "stop": False, **told}


def test_a_try_that_succeeds_completes_the_snapshot() -> None:
    one = Tried(limit=2, triggerId="mine")
    assert one.ask() == "mine"
    one.look(FAILED)
    one.until(one.status["retryTime"])
    assert one.ask() not in ("mine", "")
    one.look({"status": "COMPLETED", "location": "s3://b/1", "epoch": 7})
    assert (one.status["phase"], one.status["uri"], one.status["failures"]) == ("Completed", "s3://b/1", 1)
    assert one.status.keys().isdisjoint(("reason", "message", "retryTime"))


@pytest.mark.parametrize("limit", [None, 0])
def test_without_a_limit_the_first_failure_counts(limit: int | None) -> None:
    one = Tried(limit)
    one.ask()
    one.look(FAILED)
    assert one.status["phase"] == "Failed"


def test_no_try_begins_that_could_not_end_within_the_timeout() -> None:
    one = Tried(limit=9, timeout="25s")
    one.ask()
    one.look(FAILED)
    one.until(one.status["retryTime"])
    one.ask()
    one.look(FAILED)
    assert one.status["phase"] == "Failed", "the next one would follow after 20 s"


def test_a_job_that_is_away_until_the_timeout_fails_it_with_the_reason() -> None:
    one = Tried(limit=9, timeout="60s")
    one.ask()
    one.look(FAILED)
    one.now += timedelta(seconds=30)
    assert one.look(running=False).status["reason"] == "JobNotRunning"
    one.now += timedelta(seconds=40)
    one.look()
    assert (one.status["phase"], one.status["reason"]) == ("Failed", "SavepointFailed"), "it is not asked for"
    assert "retryTime" not in one.status, "no try follows"


def test_another_job_of_the_same_name_is_not_asked_for_what_the_first_one_could_not_give() -> None:
    """The object would say of one job's state that it is the other one's."""
    one = Tried(limit=9, timeout="60s")
    one.ask()
    one.look(FAILED)
    one.until(one.status["retryTime"])
    one.job = dataclasses.replace(one.job, uid="uid-2")
    one.look()
    assert (one.status["phase"], one.status["reason"]) == ("Pending", "JobNotFound")
    one.now += timedelta(seconds=60)
    one.look()
    assert (one.status["phase"], one.status["reason"]) == ("Failed", "JobNotFound")


def test_a_time_by_a_clock_that_was_ahead_holds_nothing_up() -> None:
    one = Tried(limit=2)
    one.ask()
    one.look(FAILED)
    one.status["retryTime"] = clock.text(NOW + timedelta(days=1))
    one.ask()


def test_a_timeout_is_no_failure_that_is_tried_again() -> None:
    one = Tried(limit=2, timeout="60s")
    one.ask()
    one.now += timedelta(seconds=61)
    one.look({"status": "IN_PROGRESS"})
    assert (one.status["phase"], one.status["reason"]) == ("Failed", "Timeout"), "it may exist yet"
