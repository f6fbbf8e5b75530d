"""Decisions are lists of rules: the first that applies counts, each says why it stands there, and none is dead."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from support.scene import snapshot_lives
from support.scene.decisions import NOW, ended, job, look, pod, revision, running_status
from support.scene.job_lives import Life

from sparkstate_operator import labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.core import job_life, naming, transitions
from sparkstate_operator.decide import (
    checking,
    deletion,
    failover,
    job_steps,
    last_words,
    precedence,
    recovering,
    snapshot,
    snapshot_asking,
    snapshot_commanding,
    snapshot_deletion,
    snapshot_following,
    snapshot_registering,
    starting,
    stopping,
    troubles,
    upgrading,
)
from sparkstate_operator.decide import job as deciding
from sparkstate_operator.decide.draft import Draft, Pending
from sparkstate_operator.decide.last_words import End, Failure, Meaning

LISTS: dict[str, Sequence[Callable[..., Any]]] = {
    "steps": job_steps.STEPS,
    "a deletion": deletion.STEPS,
    "a purge": deletion.PURGED,
    "a start": starting.STEPS,
    "a stop": stopping.STEPS,
    "an upgrade": upgrading.STEPS,
    "a check of the state": checking.ANSWERS,
    "a lost status": recovering.STEPS,
    "a spec": deciding.SPECS,
    "a watched attempt": failover.WATCHED,
    "an attempt whose pod is gone": failover.GONE,
    "a driver that lives": failover.LIVING,
    "the meaning of an end": last_words.MEANINGS,
    "a failed container": last_words.FAILURES,
    "troubles": troubles.TROUBLES,
    "a snapshot": snapshot.STEPS,
    "the deletion of a snapshot": snapshot_deletion.STEPS,
    "the command of that deletion": snapshot_commanding.COMMANDED,
    "what a savepoint waits for": snapshot_asking.HINDRANCES,
    "a savepoint that is there": snapshot_registering.REGISTERED,
    "a savepoint": snapshot_following.FOLLOWED,
    "a savepoint that is late": snapshot_following.FOLLOWED_LATE,
}


def test_the_first_rule_that_gives_anything_counts_and_no_later_one_is_asked() -> None:
    asked: list[int] = []

    def rule(number: int, answer: int | None) -> Callable[[str], int | None]:
        def judge(_: str) -> int | None:
            asked.append(number)
            return answer

        return judge

    assert precedence.first((rule(1, None), rule(2, 0), rule(3, 3)), "seen") == 0
    assert asked == [1, 2]
    assert precedence.first((rule(1, None),), "seen") is None


@pytest.mark.parametrize("rules", LISTS.values(), ids=LISTS)
def test_every_rule_says_why_it_stands_where_it_does(rules: Sequence[Callable[..., Any]]) -> None:
    assert [rule.__name__ for rule in rules if not (rule.__doc__ or "").rstrip().endswith(".")] == []


LATE = {"phase": "Failed", "reason": "Timeout", "triggerId": "t-1", "jobUid": "uid-1"}
"""A savepoint that was not complete in time."""
PURGED = running_status(
    phase="Deleting",
    intent={"action": "delete", "attempt": 1, "policy": "purge", "since": "2026-01-01T12:00:00Z"},
)
"""A job whose data is to go: no life by chance has that policy."""
SAVING = running_status(
    phase="Upgrading",
    intent={"action": "upgrade", "attempt": 1, "triggerId": "t-1", "since": "2026-01-01T12:00:00Z"},
)
"""A job that is stopped with a savepoint: no driver of a life by chance says anything of one."""
STARTING = running_status(2, phase="Pending", intent={"action": "start", "since": "2026-01-01T12:00:00Z"})
"""An attempt that is made beside an older driver: a life by chance has one driver at a time."""
LOST = running_status(phase="Pending", intent={"action": "recover", "since": "2026-01-01T12:00:00Z"})
UNPURGED = observed.Command(
    naming.command_job("orders", "uid-1", "purge"), "p", "1", "", False, True, ended_at=NOW
)
"""Data that could not be deleted: in a life by chance it always can be."""
DELETED = dataclasses.replace(UNPURGED, succeeded=True, failed=False)
MANY = tuple(
    observed.Snapshot(f"s{number}", f"s-{number}", "1", 1, NOW, {}, {}, {labels.JOB_UID: "uid-1"}, {}, ())
    for number in range(21)
)
"""More snapshots than are deleted at once: a job of a life by chance has one, and is not purged."""
UNREAD = observed.Command(naming.command_job("orders", "uid-1", "restore-info"), "t", "1", "", False, True)
"""A lost status, and a storage that could not be read: in a life by chance it always can be."""


STORED = running_status(lastCheckpoint={"id": 1, "uri": "s3://b/1"})
CHECKING = STORED | {
    "intent": {
        "action": "check",
        "attempt": 1,
        "revision": revision(image="example/job:2").name,
        "since": "2026-01-01T12:00:00Z",
    }
}
"""An upgrade whose new version is asked about the state: a life by chance has no checkpoint."""
CHECKED: tuple[tuple[float, dict[str, Any] | None], ...] = (
    (1, None),
    (1, {}),
    (1, {"failed": True, "result": {"ok": True, "compatible": False, "message": "no"}}),
    (1, {"failed": True, "result": {"message": "Error: No such command 'check'."}}),
    (700, {"pod": pod(phase="Pending", ready=False), "had_pod": True}),
    (200, {}),
    (590, {"pod": pod(), "had_pod": True}),
    (100, {"pod": pod(phase="Pending", ready=False, waiting="ImagePullBackOff")}),
    (1, {"failed": True, "result": {"ok": False, "message": "away"}}),
)


DAILY: dict[str, Any] = {"trigger": {"availableNow": True, "schedule": "@daily"}}
OVER = running_status(
    phase="Finished", completionTime="2025-12-30T00:00:00Z", revision=revision(**DAILY).name
)
"""A run that is over, of a job that runs again by a schedule."""


def fail_and_rest() -> None:
    """A savepoint that failed and is tried again, and one that is refused: few lives by chance come to that."""
    spec, status = (
        {"jobRef": {"name": "orders"}, "backoffLimit": 2},
        {"phase": "Triggered", "jobUid": "uid-1"},
    )
    one = observed.Snapshot("one", "s-1", "1", 1, NOW, spec, {**status, "triggerId": "t"}, {}, {}, ())
    report = observed.Report({"phase": "RUNNING"}, {"status": "FAILED"})
    seen = observed.ObservedSnapshot(one, NOW, job(running_status()), pod(), report)
    rests = dataclasses.replace(one, status=snapshot.decide(seen, revision(), Config()).status)
    snapshot.decide(dataclasses.replace(seen, snapshot=rests), revision(), Config())
    refusal = observed.TriggerRefusal("no such folder", for_good=True)
    silent = observed.Report({"phase": "RUNNING"})
    snapshot.decide(dataclasses.replace(seen, report=silent, refusal=refusal), revision(), Config())


def newer_than(status: dict[str, Any]) -> observed.Job:
    return job(status, generation=2, image="example/job:2")


def live(lives: int) -> None:
    """So many lives by chance, and looks at what no life by chance shows."""
    for seed in range(lives):
        list(Life(random.Random(seed).choice, forgets=seed % 2 == 0).steps(12))
    for seed in range(2 * lives):
        list(snapshot_lives.Life(random.Random(seed).choice, dict(LATE) if seed % 2 else {}).steps(6))
    look(observed.ObservedState(job(PURGED, deleting=True), NOW))
    look(observed.ObservedState(job(PURGED, deleting=True), NOW, needed_by="other"))
    for after_s in (1, 60):
        now = NOW + timedelta(seconds=after_s)
        look(observed.ObservedState(job(PURGED, deleting=True), now, commands=(UNPURGED,)))
    unknown = {**PURGED, "revision": "gone"}
    look(
        observed.ObservedState(job(unknown, deleting=True), NOW, drivers=(pod(),)),
        invalid="the spec is wrong",
    )
    for after_s, saved in ((1, {"status": "COMPLETED"}), (1, {"status": "FAILED"}), (3600, {})):
        report = observed.Report({"phase": "RUNNING"}, saved)
        now = NOW + timedelta(seconds=after_s)
        look(observed.ObservedState(job(SAVING), now, drivers=(pod(),), report=report))
    look(observed.ObservedState(job(STARTING), NOW, drivers=(pod(1),)))
    look(observed.ObservedState(job(LOST), NOW, commands=(UNREAD,)))
    # A life by chance changes the image alone, and its pods are always taken.
    for change in ({"upgradeMode": "savepoint"}, {"shards": 400, "upgradeMode": "stateless"}):
        changed = job(running_status(), generation=2, **change)
        look(observed.ObservedState(changed, NOW, drivers=(pod(),)))
    newer = job(running_status(), generation=2, image="example/job:2")
    look(observed.ObservedState(newer, NOW, drivers=(pod(),), refused="no such class"))
    look(observed.ObservedState(newer, NOW, drivers=(pod(),), unkept="a full quota"))
    look(observed.ObservedState(job(PURGED, deleting=True), NOW, commands=(DELETED,), snapshots=MANY))
    asked = checking.command_name(Draft(observed.ObservedState(job(CHECKING), NOW), {}, None))
    known = observed.Command(asked, "c", "1", "check", False, False)
    for after_s, fields in CHECKED:
        commands = () if fields is None else (dataclasses.replace(known, **fields),)
        now = NOW + timedelta(seconds=after_s)
        look(observed.ObservedState(newer_than(CHECKING), now, drivers=(pod(),), commands=commands))
    refusal, late = observed.CommandRefusal(asked, "no Jobs"), NOW + timedelta(seconds=checking.ROOM_S + 1)
    look(observed.ObservedState(newer_than(CHECKING), late, drivers=(pod(),), unasked=refusal))
    look(observed.ObservedState(newer_than(STORED), NOW, drivers=(pod(),)))
    look(observed.ObservedState(newer_than(CHECKING), NOW, drivers=(pod(deleting_at=NOW),)))
    large = job(STORED, generation=2, params={str(number): "x" * 8000 for number in range(20)})
    look(observed.ObservedState(large, NOW, drivers=(pod(),)))
    ending = pod(ready=False, deleting_at=NOW)
    look(observed.ObservedState(job(running_status()), NOW, drivers=(ending,)))
    look(observed.ObservedState(job(OVER, **DAILY), NOW))
    none = {"restart": {"strategy": "none"}}  # a life by chance restarts for ever
    crashed = pod(revision=revision(**none).name, restarts=1)
    left = job(running_status() | {"revision": crashed.revision}, **none)
    look(observed.ObservedState(left, NOW, drivers=(crashed,)))
    fail_and_rest()
    never_placed = {1: pod(phase="Pending", ready=False, node="", deleting_at=NOW)}
    look(observed.ObservedState(job(running_status()), NOW, sightings=never_placed))


def test_no_rule_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: set[Callable[..., Any]] = set()

    def first(rules: Sequence[Callable[..., Any]], *seen: Any) -> Any:
        for rule in rules:
            if (found := rule(*seen)) is not None:
                decided.add(rule)
                return found
        return None

    monkeypatch.setattr(precedence, "first", first)
    live(200)
    for shown in TROUBLED.values():
        assert troubles.of(PLANNED, *shown) is not None
    assert [rule.__name__ for rules in LISTS.values() for rule in rules if rule not in decided] == []


def written(seen: Any) -> str:
    """All that a rule is given, to the last field."""
    return repr(vars(seen)) if isinstance(seen, Pending) else repr(seen)


def changing(rules: Sequence[Callable[..., Any]], seen: Sequence[Any]) -> list[str]:
    """The rules that change what they are given. All are asked, not only those before the first that applies."""
    found = []
    before = [written(one) for one in seen]
    for rule in rules:
        rule(*seen)
        after = [written(one) for one in seen]
        if after != before:
            found.append(rule.__name__)
            before = after
    return found


def test_no_rule_changes_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[Callable[..., Any]] = set()
    found: set[str] = set()
    honest = precedence.first

    def first(rules: Sequence[Callable[..., Any]], *seen: Any) -> Any:
        answer = honest(rules, *seen)
        asked.update(rules)
        found.update(changing(rules, seen))
        return answer

    monkeypatch.setattr(precedence, "first", first)
    live(40)
    assert found == set()
    assert [name for name, rules in LISTS.items() if not asked.issuperset(rules)] == []


def test_a_rule_that_changes_what_it_is_given_is_found() -> None:
    draft = Draft(observed.ObservedState(job(running_status()), NOW), {}, None)

    def asks(_: Draft) -> None:
        return None

    def waits(given: Draft) -> None:
        given.wait(5.0)

    def forgets(given: Draft) -> None:
        given.intent.clear()
        given.status["restarts"] = {"attemptKubelet": 1}

    assert changing((asks, waits, forgets), (draft,)) == ["waits", "forgets"]


# -- troubles ----------------------------------------------------------------------------------------------------------

PLANNED = revision(stateBackend={"type": "rocksdb"})
TROUBLED: dict[str, tuple[observed.Pod, observed.Report | None]] = {
    "StorageUnavailable": (pod(), observed.Report({"phase": "PAUSED"})),
    "ErrImagePull": (pod(waiting="ErrImagePull"), None),
    "Unschedulable": (pod(unschedulable="no node fits"), None),
    "NodeLost": (pod(node_lost=True), None),
    "InitContainerFailed": (pod(trouble=("InitContainerFailed", "init 'fetch' failed")), None),
    "CrashLoopBackOff": (pod(waiting="CrashLoopBackOff"), None),
    "BackendUnplanned": (pod(), observed.Report({"phase": "RUNNING", "backend": "hashmap"})),
}
"""In their order. By the reason: what shows this trouble alone."""


@pytest.mark.parametrize("reason", TROUBLED)
def test_a_trouble_is_told_by_its_reason(reason: str) -> None:
    found = troubles.of(PLANNED, *TROUBLED[reason])
    assert found is not None and found[0] == reason and found[1]


TOGETHER = [
    (first, second)
    for first, second in itertools.combinations(TROUBLED, 2)
    if {first, second} != {"ErrImagePull", "CrashLoopBackOff"}
    and {first, second} != {"StorageUnavailable", "BackendUnplanned"}
]
"""A container waits for one reason, and a driver is in one phase."""


@pytest.mark.parametrize(("first", "second"), TOGETHER)
def test_of_two_troubles_the_one_that_tells_more_is_told(first: str, second: str) -> None:
    (one, said), (other, also) = TROUBLED[first], TROUBLED[second]
    plain = pod()
    changed = {name: value for name, value in vars(other).items() if value != getattr(plain, name)}
    both = pod(
        **{name: value for name, value in vars(one).items() if value != getattr(plain, name)} | changed
    )
    found = troubles.of(PLANNED, both, said or also)
    assert found is not None and found[0] == first


def test_without_trouble_nothing_is_told() -> None:
    assert troubles.of(PLANNED, pod(), observed.Report({"phase": "RUNNING"})) is None


# -- ends --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "disturbed", "meaning"),
    [
        pytest.param(None, False, Meaning.TAKEN_AWAY, id="without a word"),
        pytest.param(ended(1, "SlotLost"), False, Meaning.FAILED, id="failed"),
        pytest.param(ended(1, "SlotLost"), True, Meaning.TAKEN_AWAY, id="failed in a drain"),
        pytest.param(ended(1, "UserCodeError"), True, Meaning.FAILED, id="failed for good in a drain"),
        pytest.param(ended(0, "Finished"), True, Meaning.FINISHED, id="finished in a drain"),
        pytest.param(ended(1, "Finished"), False, Meaning.FAILED, id="finished, by its word alone"),
        pytest.param(ended(0, "Suspended"), True, Meaning.TAKEN_AWAY, id="stopped in a drain"),
        pytest.param(ended(0, "Suspended"), False, Meaning.STOPPED, id="stopped"),
        pytest.param(ended(4), True, Meaning.FENCED, id="fenced, by its code"),
        pytest.param(ended(0, "Fenced"), True, Meaning.FENCED, id="fenced, by its word"),
        pytest.param(ended(0), False, Meaning.FAILED, id="code 0 and no word"),
    ],
)
def test_what_an_end_means(end: observed.Termination | None, disturbed: bool, meaning: Meaning) -> None:
    assert last_words.meaning(End(pod(ended=end), disturbed)) is meaning


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        pytest.param(ended(3, "RestoreBlocked"), Failure.NOT_RESTORED, id="nothing to restore"),
        pytest.param(ended(2, "SpecInvalid"), Failure.FINAL, id="spec invalid"),
        pytest.param(ended(5, "CorruptData"), Failure.FINAL, id="storage damaged"),
        pytest.param(ended(5, "StorageUnavailable"), Failure.MAY_PASS, id="storage away"),
        pytest.param(ended(5), Failure.MAY_PASS, id="a storage's code without a word"),
        pytest.param(ended(137), Failure.MAY_PASS, id="killed"),
    ],
)
def test_what_the_failure_of_a_container_means(end: observed.Termination, failure: Failure) -> None:
    assert last_words.failure(end) is failure


# -- a driver that lives -----------------------------------------------------------------------------------------------

CRASHED = "CrashLoopBackOff"


@pytest.mark.parametrize(
    ("shown", "phase", "cause"),
    [
        pytest.param({}, "RUNNING", job_life.RUNS, id="it says that it runs"),
        pytest.param({"ready": False}, "PAUSED", job_life.RUNS, id="it pauses"),
        pytest.param({}, None, job_life.RUNS, id="it does not answer, and is ready"),
        pytest.param(
            {"waiting": "PodInitializing"}, "RUNNING", job_life.RUNS, id="it runs, its container waits"
        ),
        pytest.param({"waiting": CRASHED}, "RUNNING", job_life.WAITS, id="it ran, and crashed again"),
        pytest.param({}, "RECOVERING", job_life.RECOVERS, id="it recovers"),
        pytest.param({"waiting": CRASHED}, "RECOVERING", job_life.RECOVERS, id="it recovers after a crash"),
        pytest.param({"waiting": "ErrImagePull", "ready": False}, None, job_life.WAITS, id="it has no image"),
        pytest.param({}, "STARTING", None, id="it starts"),
        pytest.param({"ready": False}, None, None, id="nothing is known"),
    ],
)
def test_what_a_driver_that_lives_does(
    shown: dict[str, Any], phase: str | None, cause: transitions.Cause | None
) -> None:
    report = observed.Report({"phase": phase}) if phase is not None else None
    assert precedence.first(failover.LIVING, pod(**shown), report) is cause
