"""Savepoints by the clock, and how restarts are counted, as decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.scene.decisions import NOW, acts, job, look, pod, revision, running_status

from sparkstate_operator import actions, labels, observed
from sparkstate_operator.decide import restarts

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


@pytest.mark.parametrize("phase", ["", "Pending", "Triggered", "InProgress"])
def test_none_is_made_while_one_that_somebody_else_made_is_under_way(phase: str) -> None:
    assert made(look(running(NOW, taken(phase, "")))) == []


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
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 1_000_000_000}}, restarts.MOST_KEPT),
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
    assert isinstance(verdict, restarts.NoRestart) == (number < restarts.MOST_KEPT)
