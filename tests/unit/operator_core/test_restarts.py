"""When the next attempt follows a failure, and which failures count for that."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from support.scene.decisions import NOW, acts, ended, job, look, pod, revision, running_status

from sparkstate_operator import actions, clock, observed
from sparkstate_operator.config import Config
from sparkstate_operator.decide import restarts
from sparkstate_operator.model.status import MOST_FAILURES
from sparkstate_operator.objects import children, driver, parts

FOR_EVER = {"strategy": "fixed-delay", "fixedDelay": {"attempts": 10**9, "delay": "5m"}}


@pytest.mark.parametrize("crashes", [1, 6, 1024, 1025, 100_000])
def test_a_container_that_crashes_for_days_is_left_to_the_kubelet_like_one_that_crashes_for_hours(
    crashes: int,
) -> None:
    """The kubelet never waits longer than this strategy. From the 1,025th crash on, each look raised."""
    spec = {"restart": FOR_EVER}
    wanted = revision(**spec)
    assert not restarts.kubelet_is_too_slow(wanted, crashes, [], NOW)
    loops = pod(
        revision=wanted.name,
        ready=False,
        waiting="CrashLoopBackOff",
        restarts=crashes,
        last_ended=ended(1, "SlotLost"),
    )
    status = {**running_status(), "revision": wanted.name}
    found = look(observed.ObservedState(job(status, **spec), NOW, drivers=(loops,)))
    assert (found.status["phase"], found.status["attempt"]) == ("Starting", 1)


OLD_FAILURES = [clock.text(NOW - timedelta(days=30 * months)) for months in range(5, 0, -1)]
THREE: dict[str, Any] = {"restart": {"strategy": "fixed-delay", "fixedDelay": {"attempts": 3}}}


def test_failures_of_an_earlier_spec_do_not_count_for_the_next_one() -> None:
    """They were counted for another strategy, and the first failure of the changed job ended it."""
    old = revision()
    stops = {"action": "upgrade", "attempt": 1, "since": clock.text(NOW), "revision": revision(**THREE).name}
    status = running_status(phase="Upgrading", intent=stops, restarts={"operator": 5, "recent": OLD_FAILURES})
    over = pod(revision=old.name, phase="Succeeded", ready=False, ended=ended(0, "Terminated"))
    upgraded = look(observed.ObservedState(job(status, generation=2, **THREE), NOW, drivers=(over,))).status
    assert (upgraded["attempt"], upgraded["revision"]) == (2, revision(**THREE).name)
    assert upgraded["restarts"] == {"engine": 0, "kubelet": 0, "operator": 5, "total": 5}
    made = {**upgraded, "phase": "Running"}
    del made["intent"]
    failed = pod(
        2, revision=revision(**THREE).name, phase="Failed", ready=False, ended=ended(1, "StorageError")
    )
    again = look(observed.ObservedState(job(made, generation=2, **THREE), NOW, drivers=(failed,))).status
    assert (again["intent"]["action"], again["restarts"]["recent"]) == ("start", [clock.text(NOW)])


def test_failures_do_not_count_for_a_spec_that_changes_before_the_next_attempt_is_made() -> None:
    starts = {"action": "start", "attempt": 2, "since": clock.text(NOW), "revision": revision().name}
    pause = {"notBefore": clock.text(NOW + timedelta(minutes=1))}
    status = running_status(
        2, phase="Failing", intent={**starts, **pause}, restarts={"operator": 5, "recent": OLD_FAILURES}
    )
    failed = pod(phase="Failed", ready=False, ended=ended(1, "StorageError"))
    changed = look(observed.ObservedState(job(status, generation=2, **THREE), NOW, drivers=(failed,))).status
    assert changed["revision"] == revision(**THREE).name
    assert "recent" not in changed["restarts"]


def test_failures_count_on_through_attempts_of_one_spec_and_changes_that_need_none() -> None:
    recent = [clock.text(NOW - timedelta(minutes=minutes)) for minutes in (2, 1)]
    status = running_status(restarts={"operator": 2, "recent": recent})
    failed = pod(phase="Failed", ready=False, ended=ended(1, "StorageError"))
    found = look(observed.ObservedState(job(status), NOW, drivers=(failed,))).status
    assert found["restarts"]["recent"] == [*recent, clock.text(NOW)]
    adopted = {"savepoints": {"maxCount": 3}}
    found = look(observed.ObservedState(job(status, generation=2, **adopted), NOW, drivers=(pod(),))).status
    assert (found["revision"], found["restarts"]["recent"]) == (revision(**adopted).name, recent)


@pytest.mark.parametrize(
    ("restart", "may"),
    [
        ({"strategy": "none"}, False),
        ({"strategy": "fixed-delay"}, True),
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 0}}, False),
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 1}}, True),
        ({"strategy": "failure-rate"}, False),
        ({"strategy": "failure-rate", "failureRate": {"maxFailuresPerInterval": 1}}, False),
        ({"strategy": "failure-rate", "failureRate": {"maxFailuresPerInterval": 2}}, True),
        ({"strategy": "exponential-delay"}, True),
        ({"strategy": "exponential-delay", "exponentialDelay": {"attemptsBeforeResetBackoff": 1}}, True),
    ],
)
def test_the_kubelet_starts_no_driver_again_whose_first_failure_ends_the_job(
    restart: dict[str, Any], may: bool
) -> None:
    wanted = revision(restart=restart)
    assert isinstance(restarts.answer(wanted, [], NOW), restarts.Restart) is may
    context = parts.Context(job(restart=restart), wanted, Config())
    assert driver.pod(context, 1)["spec"]["restartPolicy"] == ("OnFailure" if may else "Never")


def crash_loop(spec: dict[str, Any]) -> dict[str, Any]:
    """The status in the end of a job whose driver crashes 5 s after each start, with the pauses of the kubelet."""
    wanted, now = revision(**spec), NOW
    status, attempt, restarted = {**running_status(), "revision": wanted.name}, 1, 0
    while status["phase"] != "Failed":
        now += timedelta(seconds=5)
        loops = pod(
            attempt,
            revision=wanted.name,
            ready=False,
            waiting="CrashLoopBackOff" if restarted else "",
            restarts=restarted,
            last_ended=dataclasses.replace(ended(137, "OOMKilled"), at=now),
        )
        status = dict(look(observed.ObservedState(job(status, **spec), now, drivers=(loops,))).status)
        if "intent" in status:
            attempt, restarted, now = status["attempt"], 0, now + timedelta(minutes=1)
            del status["intent"]
            status["phase"] = "Starting"
        elif status["phase"] != "Failed":
            now += timedelta(seconds=min(10 * 2**restarted, 300))
            restarted += 1
            runs = dataclasses.replace(loops, waiting="", restarts=restarted)
            status = dict(look(observed.ObservedState(job(status, **spec), now, drivers=(runs,))).status)
    return status


@pytest.mark.parametrize(
    ("restart", "allowed"),
    [
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 3, "delay": "1s"}}, 3),
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 3, "delay": "10m"}}, 3),
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 10, "delay": "1m"}}, 10),
        ({"strategy": "exponential-delay", "exponentialDelay": {"attemptsBeforeResetBackoff": 7}}, 7),
        (
            {
                "strategy": "failure-rate",
                "failureRate": {"maxFailuresPerInterval": 5, "failureRateInterval": "24h", "delay": "1s"},
            },
            4,
        ),
    ],
    ids=["short delay", "long delay", "many attempts", "growing delay", "failure rate"],
)
def test_a_strategy_allows_as_many_restarts_by_kubelet_and_operator_together_as_it_says(
    restart: dict[str, Any], allowed: int
) -> None:
    """Those of the kubelet were forgotten with their pod: a job with 10 attempts was restarted 65 times. The first one
    in each pod comes before anybody can look, so there may be one more."""
    status = crash_loop({"restart": restart})
    assert status["restarts"]["total"] - allowed in (0, 1)
    assert status["restarts"]["kubelet"] > 0 and "recent" not in status["restarts"]


def test_restarts_by_the_kubelet_count_at_their_time() -> None:
    """A container that crashes once a week is no storm of failures."""
    rate = {"maxFailuresPerInterval": 3, "failureRateInterval": "1h", "delay": "1s"}
    spec = {"restart": {"strategy": "failure-rate", "failureRate": rate}}
    wanted, now = revision(**spec), NOW
    status: dict[str, Any] = {**running_status(), "revision": wanted.name}
    for restarted in range(1, 8):
        now += timedelta(days=7)
        crashed = pod(
            revision=wanted.name, restarts=restarted, last_ended=dataclasses.replace(ended(137), at=now)
        )
        status = dict(look(observed.ObservedState(job(status, **spec), now, drivers=(crashed,))).status)
    assert (status["phase"], status["restarts"]["kubelet"]) == ("Running", 7)
    loops = dataclasses.replace(crashed, ready=False, waiting="CrashLoopBackOff")
    found = look(observed.ObservedState(job(status, **spec), now, drivers=(loops,))).status
    assert found["intent"]["action"] == "start", "the kubelet would wait for 300 s"


def crash_now_and_then(
    restart: dict[str, Any], crashes: int, every: timedelta, *, at_once: int = 1
) -> observed.Document:
    """The status after so many crashes of a container that the kubelet starts again at once, because it ran for longer
    than ten minutes before each. ``at_once``: as many come between two looks."""
    spec = {"restart": restart}
    wanted, now = revision(**spec), NOW
    status: dict[str, Any] = {**running_status(), "revision": wanted.name}
    for restarted in range(at_once, crashes + 1, at_once):
        now += every
        last = dataclasses.replace(ended(137, "OOMKilled"), at=now)
        runs = pod(revision=wanted.name, restarts=restarted, last_ended=last)
        found = look(observed.ObservedState(job(status, **spec), now, drivers=(runs,)))
        assert (found.status["phase"] == "Failed") == bool(acts(found, actions.DeletePod))
        status = dict(found.status)
        if status["phase"] == "Failed":
            break
    return status


@pytest.mark.parametrize(
    ("restart", "allowed"),
    [
        ({"strategy": "none"}, 0),
        ({"strategy": "fixed-delay", "fixedDelay": {"attempts": 3, "delay": "10s"}}, 3),
        ({"strategy": "exponential-delay", "exponentialDelay": {"attemptsBeforeResetBackoff": 4}}, 4),
    ],
    ids=["none", "fixed delay", "growing delay"],
)
def test_a_driver_that_crashes_now_and_then_is_not_started_again_for_ever(
    restart: dict[str, Any], allowed: int
) -> None:
    """The kubelet makes no pause after ten quiet minutes, and only a container in a pause was given up."""
    status = crash_now_and_then(restart, 9, timedelta(minutes=15))
    assert (status["phase"], status["restarts"]["kubelet"]) == ("Failed", allowed + 1)
    assert "recent" not in status["restarts"], "a job that a person starts again has all its restarts"
    assert status["message"].endswith("; the last failure: OOMKilled happened")


def test_restarts_of_which_nobody_knows_the_times_end_no_job() -> None:
    """Nobody looked for three weeks. The crashes were a week apart, but all seem to be of now."""
    rate = {"maxFailuresPerInterval": 3, "failureRateInterval": "1h", "delay": "1s"}
    status = crash_now_and_then(
        {"strategy": "failure-rate", "failureRate": rate}, 6, timedelta(weeks=3), at_once=3
    )
    assert (status["phase"], status["restarts"]["kubelet"]) == ("Running", 6)


def test_restarts_of_a_lost_status_do_not_count() -> None:
    rate = {"maxFailuresPerInterval": 3, "failureRateInterval": "1h", "delay": "1s"}
    spec = {"restart": {"strategy": "failure-rate", "failureRate": rate}}
    runs = pod(revision=revision(**spec).name, restarts=5, last_ended=ended(137))
    found = look(observed.ObservedState(job({}, **spec), NOW, drivers=(runs,))).status
    assert found["restarts"]["attemptKubelet"] == 5 and "recent" not in found["restarts"]


LONG = {"initialBackoff": "1m", "maxBackoff": "2h", "backoffMultiplier": 2.0, "jitterFactor": 0.0}


def follow_ups(spec: dict[str, Any], failures: int, ran_s: int) -> list[tuple[float, int]]:
    """The delays of attempts that each fail after so long, and how many failures the status has then."""
    wanted, now, found = revision(**spec), NOW, []
    status = {**running_status(), "revision": wanted.name}
    for number in range(1, failures + 1):
        now += timedelta(seconds=ran_s)
        failed = pod(
            number, revision=wanted.name, phase="Failed", ready=False, ended=ended(1, "StorageError")
        )
        status = dict(look(observed.ObservedState(job(status, **spec), now, drivers=(failed,))).status)
        begins = clock.parse(status.pop("intent")["notBefore"])
        assert begins is not None
        found.append(((begins - now).total_seconds(), len(status["restarts"]["recent"])))
        status["phase"], now = "Running", begins
    return found


def test_a_delay_as_long_as_the_quiet_time_does_not_begin_the_delays_anew() -> None:
    """The delay itself counted as time without a failure, so a job that never came up was tried each minute again."""
    spec = {"restart": {"strategy": "exponential-delay", "exponentialDelay": LONG}}
    delays = [60, 120, 240, 480, 960, 1920, 3840, 7200, 7200, 7200]
    assert follow_ups(spec, 10, 5) == [(delay, 1 + place) for place, delay in enumerate(delays)]
    assert follow_ups(spec, 3, 3600) == [(60, 1)] * 3, "it ran for an hour each time"


def test_as_many_failures_are_kept_as_lead_to_the_longest_delay() -> None:
    slow = {"initialBackoff": "1s", "maxBackoff": "1h", "backoffMultiplier": 1.05, "jitterFactor": 0.0}
    wanted = revision(restart={"strategy": "exponential-delay", "exponentialDelay": slow})
    assert restarts.kept(wanted) == 168
    assert restarts.answer(wanted, [NOW] * 168, NOW) == restarts.Restart(3600.0)
    assert restarts.kept(revision()) == 100


def test_a_strategy_that_allows_more_than_the_status_keeps_never_gives_up() -> None:
    wanted = revision(
        restart={"strategy": "exponential-delay", "exponentialDelay": {"attemptsBeforeResetBackoff": 1500}}
    )
    recent = [NOW] * MOST_FAILURES
    assert restarts.answer(wanted, recent, NOW, "uid-1") == restarts.answer(wanted, recent[1:], NOW, "uid-1")
    assert len(restarts.remembered(wanted, recent, NOW)) == MOST_FAILURES


def test_the_manifest_of_an_attempt_has_nothing_that_the_operator_alone_needs() -> None:
    """An engine from before such a field would refuse the manifest, and the job would fail at its next start."""
    own = {
        "progressDeadlineSeconds": 600,
        "ttlSecondsAfterFinished": 60,
        "savepoints": {"formatType": "native", "interval": "1h"},
        "trigger": {"availableNow": True, "schedule": "@daily"},
    }
    context = parts.Context(job(**own), revision(**own), Config())
    spec = children.manifest(context, actions.Start())["spec"]
    assert spec["savepoints"]["interval"] == "1h" and spec["trigger"] == {"availableNow": True}
    assert "formatType" not in spec["savepoints"]
    assert not {"progressDeadlineSeconds", "ttlSecondsAfterFinished"} & set(spec)
