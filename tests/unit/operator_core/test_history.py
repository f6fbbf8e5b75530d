"""Savepoints by the clock, and how restarts are counted, as decisions."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, revision, running_status

from sparkstate_operator import actions, clock, labels, observed
from sparkstate_operator.decide import history, restarts
from sparkstate_operator.decide.draft import Draft
from sparkstate_operator.model import resources
from sparkstate_operator.model.crd import build_schema
from sparkstate_operator.model.status import MOST_FAILURES

CRON = {"savepoints": {"schedule": "*/5 * * * *"}}


def running(now: datetime, *snapshots: observed.Snapshot) -> observed.ObservedState:
    status = {**running_status(), "revision": revision(**CRON).name}
    pods = (pod(revision=revision(**CRON).name),)
    return observed.ObservedState(job(status, **CRON), now, drivers=pods, snapshots=snapshots)


def made(decision: actions.Decision) -> list[str]:
    bodies = (one.body for one in acts(decision, actions.CreateSnapshot))
    return [body["metadata"]["annotations"][labels.SCHEDULED] for body in bodies]


def taken(phase: str, scheduled: str, **marks: str) -> observed.Snapshot:
    return observed.Snapshot(
        name="one",
        uid="s-1",
        resource_version="1",
        generation=1,
        created=NOW,
        spec={},
        status={"phase": phase},
        labels={labels.JOB_UID: "uid-1", **marks},
        annotations={labels.SCHEDULED: scheduled} if scheduled else {},
        finalizers=(),
    )


def test_a_savepoint_is_made_for_each_time_that_cron_names() -> None:
    first = made(look(running(NOW)))
    assert len(first) == 1
    scheduled = datetime.fromisoformat(first[0])
    assert (scheduled.minute % 5, scheduled.second, scheduled.tzinfo) == (0, 0, UTC)
    done = taken("Completed", first[0], **{labels.SNAPSHOT_TYPE: labels.PERIODIC})
    assert made(look(running(NOW, done))) == []
    # Each job is late by a part of the interval of its own.
    later = made(look(running(NOW + timedelta(minutes=5), done)))
    assert [datetime.fromisoformat(text) - scheduled for text in later] == [timedelta(minutes=5)]


def test_a_periodic_savepoint_has_the_format_that_the_job_names() -> None:
    for spec, told in (
        (CRON["savepoints"], None),
        ({**CRON["savepoints"], "formatType": "native"}, "native"),
    ):
        now = revision(savepoints=spec)
        seen = observed.ObservedState(
            job({**running_status(), "revision": now.name}, savepoints=spec),
            NOW,
            drivers=(pod(revision=now.name),),
        )
        (made_one,) = acts(look(seen), actions.CreateSnapshot)
        assert made_one.body["spec"].get("formatType") == told


@pytest.mark.parametrize(
    "edited", ["0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"]
)
def test_a_point_of_the_schedule_that_no_clock_can_have_made_is_not_believed(edited: str) -> None:
    """The annotation can be edited. Each look failed at a time that UTC does not have, or that cannot be written."""
    found = look(running(NOW, taken("Completed", edited, **{labels.SNAPSHOT_TYPE: labels.PERIODIC})))
    assert "lastScheduleTime" not in found.status
    assert len(made(found)) == 1


@pytest.mark.parametrize("phase", ["", "Pending", "Triggered", "InProgress"])
def test_none_is_made_while_one_that_somebody_else_made_is_under_way(phase: str) -> None:
    assert made(look(running(NOW, taken(phase, "")))) == []


def test_none_is_made_while_one_that_was_not_complete_in_time_may_still_be_taken() -> None:
    late = taken("Failed", "")
    for reason, number in (("Timeout", 0), ("NotTaken", 1)):
        one = dataclasses.replace(late, status={**late.status, "reason": reason})
        assert len(made(look(running(NOW, one)))) == number


def test_failures_before_a_healthy_time_count_no_more() -> None:
    strategy = {"initialBackoff": "2s", "backoffMultiplier": 2.0, "resetBackoffThreshold": "10m"}
    wanted = revision(
        restart={
            "strategy": "exponential-delay",
            "exponentialDelay": {**strategy, "attemptsBeforeResetBackoff": 2},
        }
    )
    recent = [NOW - timedelta(minutes=2), NOW - timedelta(minutes=1)]
    assert isinstance(restarts.answer(wanted, recent, NOW), restarts.NoRestart)
    assert restarts.answer(wanted, recent[1:], NOW) == restarts.Restart(4.0)
    assert restarts.answer(wanted, recent, NOW + timedelta(minutes=10)) == restarts.Restart(2.0)


def test_a_storm_of_failures_ends_the_job_and_the_same_number_spread_out_does_not() -> None:
    rate = {"maxFailuresPerInterval": 4, "failureRateInterval": "2m", "delay": "3s"}
    wanted = revision(restart={"strategy": "failure-rate", "failureRate": rate})
    storm = [NOW - timedelta(seconds=20 * number) for number in (3, 2, 1)]
    given_up = restarts.answer(wanted, storm, NOW)
    assert isinstance(given_up, restarts.NoRestart)
    assert "4 failures within 120 s" in given_up.why
    assert restarts.answer(wanted, storm[1:], NOW) == restarts.Restart(3.0)
    spread = [NOW - timedelta(minutes=number) for number in (3, 2, 1)]
    assert restarts.answer(wanted, spread, NOW) == restarts.Restart(3.0)


def test_jobs_that_failed_together_come_back_at_times_of_their_own() -> None:
    strategy = {"initialBackoff": "1s", "backoffMultiplier": 2.0, "maxBackoff": "1m", "jitterFactor": 0.2}
    wanted = revision(restart={"strategy": "exponential-delay", "exponentialDelay": strategy})
    failures = [NOW - timedelta(seconds=number) for number in (3, 2, 1)]

    def delay(spread: str, earlier: int = 3) -> float:
        verdict = restarts.answer(wanted, failures[:earlier], NOW, spread)
        assert isinstance(verdict, restarts.Restart)
        return verdict.delay_s

    delays = [delay(f"uid-{number}") for number in range(200)]
    assert 8 * 0.8 <= min(delays) < 7 < 9 < max(delays) <= 8 * 1.2
    assert delay("uid-1") == delay("uid-1")
    assert min(delay(f"uid-{number}", 0) for number in range(200)) == 1.0


@pytest.mark.parametrize(
    ("restart", "number"),
    [
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 3}}, 100),
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 250}}, 250),
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 1_000_000_000}}, MOST_FAILURES),
        ({"strategy": "failure-rate", "failureRate": {"maxFailuresPerInterval": 300}}, 300),
        ({"strategy": "exponential-delay", "exponentialDelay": {"attemptsBeforeResetBackoff": 200}}, 200),
        ({"strategy": "none"}, 100),
    ],
)
def test_as_many_failures_are_remembered_as_the_strategy_allows(
    restart: dict[str, object], number: int
) -> None:
    wanted = revision(restart=restart)
    assert restarts.kept(wanted) == number
    verdict = restarts.answer(wanted, [NOW - timedelta(seconds=1)] * number, NOW)
    assert isinstance(verdict, restarts.NoRestart) == (number < MOST_FAILURES)


def test_more_than_a_hundred_failures_fit_in_the_status() -> None:
    """The API server would refuse the status otherwise, and no attempt would ever follow."""
    spec = {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 250}}}
    recent = [clock.text(NOW - timedelta(minutes=number)) for number in range(100, 0, -1)]
    status = {**running_status(restarts={"recent": recent}), "revision": revision(**spec).name}
    crashed = pod(revision=revision(**spec).name, ready=False, phase="Failed", ended=ended(1, "StorageError"))
    decided = look(observed.ObservedState(job(status, **spec), NOW, drivers=(crashed,)))
    assert decided.status["intent"]["action"] == "start"
    assert len(decided.status["restarts"]["recent"]) == 101
    of_status = build_schema(resources.JOBS)["properties"]["status"]["properties"]
    assert of_status["restarts"]["properties"]["recent"]["maxItems"] == MOST_FAILURES


def test_a_job_that_a_person_starts_again_has_all_its_restarts() -> None:
    spec = {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 3}}}
    recent = [clock.text(NOW - timedelta(minutes=number)) for number in (3, 2, 1)]
    status = {**running_status(restarts={"recent": recent}), "revision": revision(**spec).name}
    crashed = pod(revision=revision(**spec).name, ready=False, phase="Failed", ended=ended(1, "StorageError"))
    given_up = look(observed.ObservedState(job(status, **spec), NOW, drivers=(crashed,)))
    assert (given_up.status["phase"], given_up.notes[-1].reason) == ("Failed", "RestartsExhausted")
    again = {**spec, "restartNonce": 1}
    status = {**given_up.status, "phase": "Running", "attempt": 2, "revision": revision(**again).name}
    crashed = pod(
        2, revision=revision(**again).name, ready=False, phase="Failed", ended=ended(1, "StorageError")
    )
    tried = look(observed.ObservedState(job(status, generation=2, **again), NOW, drivers=(crashed,)))
    assert tried.status["intent"]["action"] == "start", "the first failure of its new life is not the fourth"


@pytest.mark.parametrize("phase", ["Failed", "RestoreBlocked"])
def test_a_driver_that_lives_after_its_job_is_deleted_until_it_is_gone(phase: str) -> None:
    """The look that ended the job has decided so, and its act was lost."""
    loops = pod(ready=False, waiting="CrashLoopBackOff", restarts=1, last_ended=ended(1, "UserCodeError"))
    over = job(running_status(phase=phase))
    (found,) = acts(look(observed.ObservedState(over, NOW, drivers=(loops,))), actions.DeletePod)
    assert (found.pod.name, found.why) == ("orders-driver-1", f"the job has ended ({phase})")
    for kept in (
        dataclasses.replace(loops, deleting_at=NOW),
        pod(ready=False, phase="Failed", ended=ended(1, "UserCodeError")),
    ):
        assert acts(look(observed.ObservedState(over, NOW, drivers=(kept,))), actions.DeletePod) == []


def test_a_savepoint_that_is_deleted_is_not_made_again() -> None:
    """The driver knows its trigger id, and would answer with the address of data that is gone."""
    (scheduled,) = made(look(running(NOW)))
    periodic = {labels.SNAPSHOT_TYPE: labels.PERIODIC}
    seen = running(NOW, taken("Completed", scheduled, **periodic))
    status = look(seen).status
    assert status["lastScheduleTime"] == scheduled
    later = dataclasses.replace(seen, snapshots=(), job=job(status, **CRON))
    assert made(look(later)) == []
    (following,) = made(look(dataclasses.replace(later, now=NOW + timedelta(minutes=5))))
    assert following > scheduled


def test_a_point_of_a_clock_that_was_ahead_is_not_remembered() -> None:
    ahead = clock.text(NOW + timedelta(days=1))
    periodic = {labels.SNAPSHOT_TYPE: labels.PERIODIC}
    found = look(running(NOW, taken("Completed", ahead, **periodic)))
    assert "lastScheduleTime" not in found.status
    assert len(made(found)) == 1, "the gap that it would leave is a day"


def test_a_savepoint_of_a_clock_that_was_ahead_does_not_outlive_the_later_ones() -> None:
    """The operator's clock was a month ahead when it completed. Each later one was deleted as soon as it completed."""
    limits = {"savepoints": {"maxCount": 1, "interval": "1h"}}
    periodic = {labels.SNAPSHOT_TYPE: labels.PERIODIC}

    def snapshot(name: str, age_h: int, ahead: timedelta) -> observed.Snapshot:
        at = NOW - timedelta(hours=age_h)
        told = clock.text(at + ahead)
        status = {"phase": "Completed", "uri": f"s3://bucket/{name}", "completedTime": told}
        return dataclasses.replace(taken("Completed", told, **periodic), name=name, created=at, status=status)

    wanted = revision(**limits)
    seen = observed.ObservedState(
        job({**running_status(), "revision": wanted.name}, **limits),
        NOW,
        drivers=(pod(revision=wanted.name),),
        snapshots=(snapshot("ahead", 2, timedelta(days=30)), snapshot("later", 1, timedelta(0))),
    )
    gone = acts(look(seen), actions.DeleteSnapshot)
    assert [one.snapshot.name for one in gone] == ["ahead"]


def test_a_lowered_limit_deletes_a_few_at_a_time_and_slow_deletions_hold_up_no_others() -> None:
    """Each deletion is a Job with a pod: maxCount from 5,000 to 5 made thousands of them at once."""
    limits = {"savepoints": {"maxCount": 5, "interval": "1h"}}
    periodic = {labels.SNAPSHOT_TYPE: labels.PERIODIC}
    wanted = revision(**limits)

    def snapshot(age_h: int, deleting_at: datetime | None = None) -> observed.Snapshot:
        at = NOW - timedelta(hours=age_h)
        one = taken("Completed", clock.text(at), **periodic)
        return dataclasses.replace(one, name=f"s{age_h}", created=at, deleting_at=deleting_at)

    def gone(began: dict[int, datetime]) -> list[str]:
        seen = observed.ObservedState(
            job({**running_status(), "revision": wanted.name}, **limits),
            NOW,
            drivers=(pod(revision=wanted.name),),
            snapshots=tuple(snapshot(age_h, began.get(age_h)) for age_h in range(100)),
        )
        return [one.snapshot.name for one in acts(look(seen), actions.DeleteSnapshot)]

    assert gone({}) == [f"s{age_h}" for age_h in range(99, 79, -1)], "the oldest ones"
    assert gone(dict.fromkeys(range(80, 100), NOW)) == []
    assert gone(dict.fromkeys(range(88, 100), NOW)) == [f"s{age_h}" for age_h in range(87, 79, -1)]
    refused = NOW - timedelta(minutes=10)
    assert gone(dict.fromkeys(range(80, 100), refused)) == [f"s{age_h}" for age_h in range(79, 59, -1)]
    assert gone(dict.fromkeys(range(5, 100), NOW)) == []


@pytest.mark.parametrize("place", ["spec", "intent", "refused"])
@pytest.mark.parametrize(
    "named",
    [
        {"restoreFrom": {"uri": "s3://bucket/old"}},
        {"restoreFrom": {"uri": "s3://bucket//old/_metadata"}},
        {"configuration": {"execution.state-recovery.path": "s3://bucket/old/"}},
    ],
    ids=["field", "other spelling", "Flink's key"],
)
def test_a_savepoint_that_the_job_is_to_start_from_is_kept(place: str, named: dict[str, object]) -> None:
    """The version that asks for it may not run yet: it is refused, checked, or its spec is not valid."""
    asking = {**named, "image": "example/job:2"}
    limits = {"savepoints": {"maxCount": 1, "interval": "1h"}}
    periodic = {labels.SNAPSHOT_TYPE: labels.PERIODIC}

    def snapshot(name: str, age_h: int) -> observed.Snapshot:
        at = NOW - timedelta(hours=age_h)
        made_at = taken("Completed", clock.text(at), **periodic)
        status = {"phase": "Completed", "uri": f"s3://bucket/{name}", "completedTime": clock.text(at)}
        return dataclasses.replace(made_at, name=name, created=at, status=status)

    running_one, asked = revision(**limits), revision(**limits, **asking)
    status = {**running_status(), "revision": running_one.name}
    if place != "spec":
        status[place] = {"intent": {"action": "upgrade", "attempt": 1}, "refused": {"message": "no"}}[place]
        status[place]["revision"] = asked.name
    spec = {**limits, **(asking if place == "spec" else {})}
    seen = observed.ObservedState(
        job(status, **spec),
        NOW,
        drivers=(pod(revision=running_one.name),),
        snapshots=(snapshot("new", 1), snapshot("old", 2)),
    )
    known = {one.name: one for one in (running_one, asked)}
    draft = Draft(seen, known, running_one)
    history.keep(draft, running_one)
    assert acts(draft.decision({}), actions.DeleteSnapshot) == []
    draft = Draft(dataclasses.replace(seen, job=job(running_status(), **limits)), known, running_one)
    history.keep(draft, running_one)
    assert [one.snapshot.name for one in acts(draft.decision({}), actions.DeleteSnapshot)] == ["old"]
