"""Which jobs are taken over as if they had been looked at, when an operator begins to lead."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.scene.decisions import NOW, job, pod, running_status
from support.scene.kept_scene import too_deep

from sparkstate_operator import errors, inventory, kept_look, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.edges import kube as k
from sparkstate_operator.memories import SHOWN_S, Key, Memories

DRIVER = inventory._Pod("driver", "uid-1", pod())
EXECUTOR = inventory._Pod("executor", "uid-1", pod(name="orders-1-exec-1", uid="executor-1"))


OURS = Config(mark="ops/ours@blue", operator_class="blue")


def taken(
    found: observed.Job, *pods: inventory._Pod, config: Config | None = None
) -> inventory.FoundJob | None:
    return inventory._running(found, list(pods), (), config or Config(), NOW)


def test_a_job_that_runs_is_kept_as_a_look_would_have_seen_it() -> None:
    running = job(running_status())
    found = taken(running, DRIVER, EXECUTOR)
    assert found is not None
    assert found.endpoint == observed.DriverEndpoint("10.0.0.1", "uid-1", 1)
    assert kept_look.unpack(found.packed) == observed.ObservedState(
        running, NOW, drivers=(DRIVER.pod,), executors=(EXECUTOR.pod,)
    )
    assert found.pods == (("pod-1", "1"), ("executor-1", "1"))


OTHERS: dict[str, tuple[observed.Job, tuple[inventory._Pod, ...]]] = {
    "its status is lost": (job({}), (DRIVER,)),
    "it starts": (job(running_status(phase="Starting")), (DRIVER,)),
    "something is under way": (job(running_status(intent={"action": "upgrade"})), (DRIVER,)),
    "its spec has changed": (job(running_status(), generation=2), (DRIVER,)),
    "it is deleted": (job(running_status(), deleting=True), (DRIVER,)),
    "it has no finalizer": (job(running_status(), finalizers=()), (DRIVER,)),
    "it has no pod": (job(running_status()), ()),
    "there are two drivers": (job(running_status(2)), (DRIVER, DRIVER._replace(pod=pod(2)))),
    "the driver is of an older attempt": (job(running_status(2)), (DRIVER,)),
    "the driver is about to end": (job(running_status()), (DRIVER._replace(pod=pod(deleting_at=NOW)),)),
    "the driver is not ready": (job(running_status()), (DRIVER._replace(pod=pod(ready=False)),)),
    "the driver's node is lost": (job(running_status()), (DRIVER._replace(pod=pod(node_lost=True)),)),
    "the driver has failed": (job(running_status()), (DRIVER._replace(pod=pod(phase="Failed")),)),
    "a pod is another job's of that name": (job(running_status()), (DRIVER, EXECUTOR._replace(job_uid="uid-0"))),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_any_other_job_is_looked_at(case: str) -> None:
    found, pods = OTHERS[case]
    assert taken(found, *pods) is None


def marked(mark: str, operator_class: str) -> observed.Job:
    named = {labels.OPERATOR_CLASS: operator_class} if operator_class else {}
    notes = {labels.MANAGER: mark} if mark else {}
    return dataclasses.replace(job(running_status()), labels=named, annotations=notes)


def test_a_job_that_bears_our_mark_and_class_is_ours() -> None:
    assert taken(marked(OURS.mark, "blue"), DRIVER, config=OURS) is not None


@pytest.mark.parametrize(
    ("mark", "operator_class"),
    [("ops/theirs@blue", "blue"), ("ops/ours", "blue"), ("", "blue"), (OURS.mark, ""), (OURS.mark, "green")],
)
def test_a_job_of_another_operator_or_of_nobody_is_looked_at(mark: str, operator_class: str) -> None:
    """Whose it is, and whether that operator is still there, a look finds out."""
    assert taken(marked(mark, operator_class), DRIVER, config=OURS) is None


class Clock:
    """Goes as far as it is told."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def adopted() -> tuple[Memories, Key]:
    found = taken(job(running_status()), DRIVER, EXECUTOR)
    assert found is not None
    memories = Memories(Clock())  # type: ignore[arg-type]
    return memories, memories.adopt(found, 100.0)


def body(version: str, uid: str = "pod-1") -> dict[str, Any]:
    marks = {**labels.of_job("orders", "uid-1", "driver", 1)}
    meta = {"name": "orders-driver-1", "uid": uid, "resourceVersion": version, "labels": marks}
    return {"metadata": meta, "status": {"phase": "Running"}}


def test_what_the_first_list_of_a_watch_repeats_is_no_news() -> None:
    memories, key = adopted()
    assert not memories.stir(key, job(running_status()).resource_version)
    assert not memories.saw_pod(key, body("1"))
    assert memories.of(key).last.kept is not None


def test_what_has_changed_since_is_news_and_what_was_kept_is_dropped() -> None:
    memories, key = adopted()
    assert memories.saw_pod(key, body("2"))
    assert memories.stir(key)
    assert memories.of(key).last.kept is None
    memories, key = adopted()
    assert memories.stir(key, "8")
    assert memories.of(key).last.kept is None


def test_a_second_event_of_a_pod_is_news() -> None:
    memories, key = adopted()
    assert not memories.saw_pod(key, body("1"))
    assert memories.saw_pod(key, body("1")), "deleted, perhaps"


def test_a_pod_that_went_before_the_watch_began_is_missed() -> None:
    """Its deletion is no event: the watch lists what is there. Of a driver the unanswered question tells as well."""
    memories, key = adopted()
    memory = memories.of(key)
    assert not memories.saw_pod(key, body("1"))
    assert not memories.unshown(memory), "the watch may be about to show the other one"
    memories._clock.now_s += SHOWN_S  # type: ignore[attr-defined]
    assert memories.unshown(memory)
    assert not memories.saw_pod(key, body("1", "executor-1"))
    assert not memories.unshown(memory)


HANGS = object()


class Server:
    """An API server's three lists; notes how they were asked for."""

    def __init__(self, pods: list[Any], snapshots: list[Any], jobs: list[Any]) -> None:
        self._lists = {"pods": pods, "statesnapshots": snapshots, "statefulsparkjobs": jobs}
        self.asked: list[tuple[str, str | None, str]] = []
        self.refused = ""

    async def each(self, kind: k.Kind, namespace: str | None, selector: str = "") -> AsyncIterator[Any]:
        self.asked.append((kind.plural, namespace, selector))
        for one in self._lists[kind.plural]:
            if one is HANGS:
                await asyncio.sleep(3600)
            if isinstance(one, Exception):
                raise one
            yield one


def listed(name: str = "orders", uid: str = "uid-1", **status: Any) -> dict[str, Any]:
    notes = {labels.MANAGER: OURS.mark}
    meta = {
        "name": name, "namespace": "shop", "uid": uid, "resourceVersion": "7", "generation": 1,
        "creationTimestamp": "2026-01-01T11:00:00Z", "finalizers": [labels.FINALIZER], "annotations": notes,
        "labels": {labels.OPERATOR_CLASS: "blue"},
    }  # fmt: skip
    return {"metadata": meta, "spec": {}, "status": {**running_status(), **status}}


def listed_pod(name: str = "orders", uid: str = "uid-1") -> dict[str, Any]:
    meta = {"name": f"{name}-driver-1", "namespace": "shop", "uid": "pod-1", "resourceVersion": "1"}
    marks = {**labels.of_job(name, uid, "driver", 1)}
    ready = [{"type": "Ready", "status": "True"}]
    runs = [{"name": "driver", "ready": True, "state": {"running": {}}}]
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": ready, "containerStatuses": runs}
    return {"metadata": {**meta, "labels": marks}, "spec": {}, "status": status}


def listed_snapshot(uid: str = "uid-1") -> dict[str, Any]:
    meta = {"name": "first", "namespace": "shop", "uid": "s-1", "resourceVersion": "1"}
    marks = {labels.JOB_UID: uid}
    return {"metadata": {**meta, "labels": marks, "creationTimestamp": "2026-01-01T11:00:00Z"}}


def take(server: Server, *namespaces: str) -> list[inventory.FoundJob]:
    config = dataclasses.replace(OURS, namespaces=namespaces)
    taking = inventory.take(server, config, NOW, 2.0)  # type: ignore[arg-type]
    return asyncio.run(asyncio.wait_for(taking, 10.0))


def test_three_lists_are_read_and_of_jobs_those_of_our_class_alone() -> None:
    server = Server([listed_pod()], [], [listed()])
    assert [(one.name, one.driver.uid) for one in take(server)] == [("orders", "pod-1")]
    assert server.asked == [
        ("pods", None, labels.JOB),
        ("statesnapshots", None, labels.JOB_UID),
        ("statefulsparkjobs", None, f"{labels.OPERATOR_CLASS}=blue"),
    ]


def test_a_list_that_is_refused_costs_its_namespace_the_inventory_and_nothing_else() -> None:
    server = Server([errors.Forbidden(403, "pods is forbidden")], [], [listed()])
    assert take(server, "shop", "till") == []
    assert [namespace for _, namespace, _ in server.asked] == ["shop", "till"]


def without_time(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "creationTimestamp": None}}


def with_odd_condition(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "status": {**body["status"], "conditions": [{"status": "True"}]}}


def with_deep_spec(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "spec": {"driver": {"template": {"spec": too_deep()}}}}


UNREADABLE: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = {
    "its pod": (with_odd_condition(listed_pod()), [], listed()),
    "its snapshot": (listed_pod(), [without_time(listed_snapshot())], listed()),
    "the job": (listed_pod(), [], without_time(listed())),
    "its spec, for its depth": (listed_pod(), [], with_deep_spec(listed())),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_job_of_which_something_cannot_be_read_is_looked_at_and_costs_the_others_nothing(what: str) -> None:
    bad_pod, snapshots, bad_job = UNREADABLE[what]
    other = listed("carts", "uid-2")
    server = Server(
        [bad_pod, listed_pod("carts", "uid-2")], [*snapshots, listed_snapshot("uid-2")], [bad_job, other]
    )
    assert [one.name for one in take(server)] == ["carts"]


def test_a_list_that_cannot_be_read_at_all_keeps_no_operator_from_starting() -> None:
    server = Server([], [], [listed(), RecursionError("in the list itself")])
    assert take(server, "shop", "till") == []
    assert {namespace for _, namespace, _ in server.asked} == {"shop", "till"}


def test_what_was_found_before_a_list_broke_off_is_taken_over() -> None:
    server = Server([listed_pod()], [], [listed(), errors.ApiError(500, "etcd is away")])
    assert [one.name for one in take(server)] == ["orders"]


def test_lists_that_hang_hold_nothing_up_for_ever_and_what_was_found_counts() -> None:
    server = Server([listed_pod()], [], [listed(), HANGS])
    assert [one.name for one in take(server, "shop", "till")] == ["orders"]
    assert {namespace for _, namespace, _ in server.asked} == {"shop"}


def test_a_snapshot_that_a_watch_lists_is_news_in_another_version_than_the_inventory_had() -> None:
    """What became of it between a watch's end and its next list was no event."""
    memories = Memories(Clock())  # type: ignore[arg-type]
    [one] = take(Server([listed_pod()], [listed_snapshot()], [listed()]))
    key = memories.adopt(one, 100.0)
    assert not memories.listed_snapshot(key, listed_snapshot())
    assert not memories.listed_snapshot(key, listed_snapshot("uid-0")), "of an earlier job of that name"
    changed = listed_snapshot()
    changed["metadata"]["resourceVersion"] = "2"
    assert memories.listed_snapshot(key, changed)
    del changed["metadata"]["labels"]
    assert memories.listed_snapshot(key, changed), "its job has to mark it"
    assert not memories.listed_snapshot(Key("job", "shop", "carts"), changed), "has its own event"
    assert memories.of(key).is_about("uid-1")
    memories.of(key).is_about("uid-2")
    assert memories.of(key).last.snapshots == ()


def test_what_is_kept_is_that_of_one_job() -> None:
    memories, key = adopted()
    memory = memories.of(key)
    assert not memory.is_about("uid-2")
    assert (memory.last.kept, memory.driver.endpoint) == (None, None)
    assert dataclasses.asdict(memory.attempts)["sightings"] == {}
