"""What is done by what a look saw, and when there is another look: the reconciler, with a script of the world."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.scene.decisions import NOW, ended, job, pod
from support.scene.kept_scene import KEY, SETTLED, Scene, said, too_deep

from sparkstate_operator import kept_look, observed
from sparkstate_operator.edges import kube as k
from sparkstate_operator.memories import UNHEARD
from sparkstate_operator.model.status import PROGRESS_FIELDS


def test_progress_is_one_write_and_no_look() -> None:
    scene = Scene()
    scene.world.report = said(7)
    scene.step(60)
    assert (scene.world.looks, scene.world.done) == (0, [("status", 0)])
    assert scene.world.written[-1]["lastCheckpoint"]["id"] == 7


PODS = st.builds(
    pod,
    st.sampled_from([1, 2]),
    phase=st.sampled_from(["Running", "Failed", "Succeeded", "Pending"]),
    ready=st.booleans(),
    restarts=st.sampled_from([0, 0, 2]),
    ended=st.sampled_from([None, None, ended(0, "Finished"), ended(1, "SlotLost"), ended(1)]),
    deleting_at=st.sampled_from([None, None, NOW]),
    node_lost=st.booleans(),
)
JOBS = st.builds(
    job,
    st.sampled_from(
        [
            SETTLED,
            {**SETTLED, "intent": {"action": "upgrade", "since": "2026-01-01T12:00:00Z"}},
            {**SETTLED, "phase": "Failing"},
            {**SETTLED, "attempt": 2},
            {},
        ]
    ),
    generation=st.sampled_from([1, 1, 2]),
    deleting=st.booleans(),
    state=st.sampled_from(["running", "suspended"]),
    image=st.sampled_from(["example/job:1", "example/job:2"]),
)
REPORTS = st.builds(
    said,
    st.sampled_from([5, 6, 7]),
    phase=st.sampled_from(["RUNNING", "PAUSED", "RECOVERING", "FAILED", "FINISHED"]),
    restarts=st.sampled_from([0, 3]),
    lineage=st.sampled_from(["lineage-1", "lineage-2"]),
    state_bytes=st.sampled_from([0, 10**9]),
    checkpoints_completed=st.sampled_from([0, 4]),
)


@pytest.mark.fault_on("Kubernetes")
@pytest.mark.fault(
    broken="the watches are late, or lose events",
    when="what was seen of a job is no longer true in any way",
    expected="no act, and no field of the status but progress, before the job was looked at",
)
@given(JOBS, st.lists(PODS, max_size=2), st.lists(PODS, max_size=1), REPORTS)
@example(job(SETTLED), [pod()], [pod(2, name="orders-2-exec-1")], said(7))  # nothing but an act is to be done
def test_whatever_was_kept_no_act_and_no_other_field_comes_before_a_look(
    stale: observed.Job, pods: list[observed.Pod], executors: list[observed.Pod], report: observed.Report
) -> None:
    """What is kept may be as wrong as it likes."""
    scene = Scene()
    seen = observed.ObservedState(stale, NOW, drivers=tuple(pods), executors=tuple(executors))
    scene.memory.last.kept, scene.world.report = kept_look.pack(seen), report
    scene.world.written.clear()
    scene.step(60)
    before = [act for act, looks in scene.world.done if looks == 0]
    assert before in ([], ["status"])
    if before:
        assert kept_look.changed(stale, scene.world.written[0]) <= set(PROGRESS_FIELDS)


def test_a_spec_that_is_nested_too_deeply_to_be_kept_is_looked_at_and_nothing_fails() -> None:
    scene = Scene()
    driver = {"template": {"spec": too_deep()}}
    scene.world.job = dataclasses.replace(scene.world.job, spec={**scene.world.job.spec, "driver": driver})
    scene.hear("1234")
    scene.step()
    assert (scene.world.looks, scene.memory.last.kept, scene.memory.stirred) == (1, None, False)
    scene.world.report = said(7)
    scene.step(60)
    assert scene.world.written[-1]["lastCheckpoint"]["id"] == 7


def test_what_a_look_saw_that_compared_the_children_is_kept_too() -> None:
    scene = Scene()
    scene.memory.last.deep_s = None
    scene.hear("1234")
    scene.step(1)
    assert ("carry_out", 1) in scene.world.done, "the children are made again"
    assert scene.memory.last.kept is not None
    scene.memory.last.deep_s = None
    scene.world.pods = (pod(), pod(0, phase="Succeeded", node=""))
    scene.hear("1235")
    scene.step()
    assert scene.memory.last.kept is None, "a pod is deleted"


def test_what_caused_a_look_is_not_done_with_while_a_pod_of_an_earlier_job_is_waited_for() -> None:
    """The spec has changed; the pod goes without an event that says so."""
    scene = Scene()
    driver = {"metadata": {"name": "orders-driver-9", "uid": "pod-9", "resourceVersion": "1"}}
    scene.world.strays = ((k.PODS, observed.child_of(driver, "Pod")),)
    scene.hear("1234")
    assert scene.step() == 2.0
    assert scene.world.done == [("delete_stray", 1)]
    scene.world.strays = ()
    scene.step(2.0)
    assert scene.world.looks == 2


AWAY = [{"url": "s3://b", "doing": "store a checkpoint", "failures": 3}]


@pytest.mark.parametrize(("before", "after"), [([], AWAY), (AWAY, [])], ids=["goes", "comes back"])
def test_a_storage_that_goes_or_comes_back_is_told_at_once(before: list[Any], after: list[Any]) -> None:
    """Also where the job goes on running, and thousands of jobs wait for a look without a reason."""
    scene = Scene(jobs=5000)
    scene.world.report = said(storage_away=before)
    scene.hear("1234")
    scene.step()
    scene.world.looks = 0
    scene.world.report = said(storage_away=after)
    scene.step(50)
    assert scene.world.looks == 1
    told = {one["type"]: one for one in scene.world.written[-1]["conditions"]}
    assert (told["Degraded"]["reason"] == "StorageUnavailable") is bool(after)


def test_a_driver_that_is_gone_is_looked_for_though_no_event_came() -> None:
    scene = Scene(jobs=5000)
    scene.world.report, scene.world.pods = None, ()
    scene.step(50)
    assert scene.world.looks == 1
    assert scene.world.done
    assert {looks for _, looks in scene.world.done} == {1}


def test_a_job_whose_driver_does_not_answer_waits_for_no_pace() -> None:
    """It was there at the look that its silence took, and its pod went after that, unheard of."""
    scene = Scene(jobs=5000)
    scene.world.report = None
    scene.step(50)
    looks, waited_s = scene.world.looks, 0.0
    while scene.world.looks == looks and waited_s < 2000:
        waited_s += (later_s := max(1.0, scene.step()))
        scene.clock.now_s += later_s
    assert waited_s <= scene.config.resync_s + 50


def test_a_job_whose_driver_answers_is_looked_at_within_its_round() -> None:
    scene = Scene(jobs=5000)
    waited_s = 0.0
    while not scene.world.looks and waited_s < 5000:
        later_s = scene.step()
        scene.clock.now_s += later_s
        waited_s += later_s
    assert 950 <= waited_s <= 1000 + 100


def test_of_many_looks_few_compare_the_children() -> None:
    """Also where events ask for the looks: they would wait for lists that go through the objects of all jobs."""
    scene = Scene()
    keys = [KEY._replace(name=f"job-{number}") for number in range(50)]
    for _ in range(60):
        for key in keys:
            scene.reconciler.memories.stir(key)
            asyncio.run(scene.reconciler.reconcile(key))
        scene.clock.now_s += 1.0
        if scene.world.compared > len(keys):
            break
    assert scene.world.looks > 20 * len(keys)
    wanted = 1 + scene.clock.now_s - 1000.0
    assert wanted <= scene.world.compared <= 2 * wanted + 2


def test_each_of_many_jobs_has_its_children_compared_in_its_turn() -> None:
    scene = Scene()
    compared: dict[str, int] = {}
    for _ in range(60):
        for number in range(50):
            before = scene.world.compared
            key = KEY._replace(name=f"job-{number}")
            scene.reconciler.memories.stir(key)
            asyncio.run(scene.reconciler.reconcile(key))
            compared[key.name] = compared.get(key.name, 0) + scene.world.compared - before
        scene.clock.now_s += 1.0
    assert set(compared.values()) == {1}, "twice in a minute is not due, and 50 have their turn in 25 s"


def test_after_a_write_that_came_too_late_there_is_a_look() -> None:
    scene = Scene()
    scene.world.report, scene.world.conflicts = said(7), 1
    scene.step(60)
    assert (scene.world.looks, scene.world.done) == (0, [])
    scene.reconciler._writes.take(
        "another"
    )  # so that no progress may be written now: the look does not wait for that
    scene.step(0.0)
    assert scene.world.looks == 1


@pytest.mark.parametrize("version", ["", "1234"], ids=["a pod's", "the job's"])
def test_an_event_during_the_write_takes_a_look(version: str) -> None:
    scene = Scene()
    scene.world.report = said(7)
    scene.world.meanwhile = lambda: scene.hear(version)
    assert scene.step(60) == 0.0
    assert scene.memory.last.kept is None
    scene.step()
    assert scene.world.looks == 1


def test_what_comes_back_of_the_write_takes_none() -> None:
    scene = Scene()
    scene.world.report = said(7)
    scene.step(60)
    assert not scene.reconciler.memories.stir(KEY, scene.world.job.resource_version)
    assert scene.step(10) > 0.0
    assert scene.world.looks == 0
    assert scene.reconciler.memories.stir(KEY, "1234")
    scene.step()
    assert scene.world.looks == 1


def test_a_pod_that_the_watch_has_never_shown_takes_a_look() -> None:
    scene = Scene()
    scene.memory.last.listed, scene.memory.last.listed_s = {"executor-1": "1"}, scene.clock.now_s
    scene.step(100)
    assert scene.world.looks == 0
    scene.step(30)
    assert scene.world.looks == 1
    assert scene.memory.last.listed == {}


@pytest.mark.parametrize(("phase", "looks"), [("RUNNING", 0), ("PAUSED", 1), ("RECOVERING", 1)])
def test_after_a_start_a_driver_that_does_not_run_waits_for_no_turn_to_write(phase: str, looks: int) -> None:
    scene = Scene()
    scene.memory.driver.news = UNHEARD
    scene.reconciler._writes.take("another")
    scene.world.report = said(7, phase=phase)
    scene.step(0.0)
    assert scene.world.looks == looks


def test_polls_let_all_else_pass_but_for_what_is_timed_and_drivers_that_did_not_answer() -> None:
    """Those have few connections: if their polls took the places of others, they would wait there for each other."""
    scene = Scene()
    assert scene.result().patient
    scene.memory.dues.timed_s = scene.clock.now_s + 1.0
    assert not scene.result().patient
    scene = Scene()
    scene.world.report = None
    scene.step(10)
    assert scene.memory.driver.endpoint is not None
    assert not scene.result().patient


def test_while_events_wait_progress_and_looks_without_a_reason_leave_the_api_server_to_them() -> None:
    scene = Scene(jobs=2000)
    scene.behind = True
    for pace in (scene.reconciler._looks, scene.reconciler._writes):
        assert pace.take("the turn of this second"), "one a second passes"
        pace.end("the turn of this second")
        assert not pace.take("waits before it")
    scene.world.report = said(7)
    scene.memory.dues.resync_s = scene.clock.now_s
    scene.step(0.0)
    assert (scene.world.looks, scene.world.done) == (0, [])
    scene.behind = False
    scene.step(1.0)
    assert scene.world.looks == 1
