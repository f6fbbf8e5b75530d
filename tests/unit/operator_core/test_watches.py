"""What the process is ready for, by what the requests of its watches came to; and where they go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sparkstate_operator import labels
from sparkstate_operator.edges import kube
from sparkstate_operator.watching import handlers
from sparkstate_operator.watching.watches import LISTS_S, STEADY_S, Watches

JOBS, PODS = kube.JOBS.path("shop"), kube.PODS.path("shop")


class Clock:
    """Goes as far as it is told."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_nothing_is_ready_before_every_watch_is_answered() -> None:
    watches = Watches([JOBS, PODS], Clock())
    watches.answered(JOBS, 200, watch=True)
    assert watches.wrong() == f"the watch of {PODS} is not connected yet"
    watches.answered(PODS, 200, watch=False)
    assert watches.wrong(), "a list is no watch"
    watches.answered("/prefix/of/a/proxy" + PODS, 200, watch=True)
    assert watches.wrong() == ""


def test_a_watch_that_breaks_and_cannot_come_back_is_not_ready() -> None:
    watches = Watches([JOBS, PODS], Clock())
    for path in (JOBS, PODS):
        watches.answered(path, 200, watch=True)
    watches.failed(JOBS, "connection refused")
    watches.answered(PODS, 403, watch=True)
    watches.failed("/api/v1/elsewhere", "connection refused")
    assert "connection refused" in watches.wrong()
    assert "status 403" in watches.wrong()
    for path in (JOBS, PODS):
        watches.answered(path, 200, watch=True)
    assert watches.wrong() == ""


def test_watches_that_ended_with_another_one_are_not_live_and_nobody_waits_for_their_lists() -> None:
    watches = Watches([JOBS, PODS], Clock())
    watches.begin()
    watches.answered(JOBS, 200, watch=True)
    watches.answered(PODS, 200, watch=True)
    watches.answered(PODS, 404, watch=True)
    watches.ended()
    assert "status 404" in watches.wrong()
    assert f"the watch of {JOBS} has ended with another one" in watches.wrong()
    assert not watches.lists()
    watches.begin()
    assert watches.lists()


def test_watches_are_steady_once_all_were_live_for_a_while_on_end() -> None:
    clock = Clock()
    watches = Watches([JOBS, PODS], clock)
    watches.begin()
    watches.answered(JOBS, 200, watch=True)
    clock.now_s += STEADY_S
    assert not watches.were_steady(), "only one was live"
    watches.answered(PODS, 200, watch=True)
    clock.now_s += STEADY_S - 1.0
    watches.answered(PODS, 200, watch=True)
    watches.failed(PODS, "connection refused")
    watches.answered(PODS, 200, watch=True)
    clock.now_s += STEADY_S - 1.0
    assert not watches.were_steady(), "not on end"
    clock.now_s += 1.0
    assert watches.were_steady()
    watches.ended()
    assert watches.were_steady(), "they were before"
    watches.begin()
    assert not watches.were_steady()


def test_the_lists_that_nothing_asks_for_are_known_from_each_beginning_on() -> None:
    watches = Watches([JOBS, PODS], Clock())
    for _ in range(2):
        watches.begin()
        watches.asked("/prefix/of/a/proxy" + PODS)
        assert watches.unasked() == [JOBS]
        watches.asked(JOBS)
        assert watches.unasked() == []


def test_while_nothing_can_be_watched_only_that_is_told_and_polls_do_not_wait() -> None:
    watches = Watches([JOBS, PODS], Clock())
    watches.hold("there are no definitions")
    assert watches.wrong() == "there are no definitions"
    assert not watches.lists()
    watches.begin()
    assert watches.wrong().count("is not connected yet") == 2


def test_a_watch_without_requests_is_silent_unless_nothing_can_be_watched() -> None:
    clock = Clock()
    watches = Watches([JOBS, PODS], clock)
    clock.now_s += 1000.0
    assert watches.silent_s() == 0.0, "they have not begun"
    watches.begin()
    clock.now_s += 100.0
    watches.answered(JOBS, 200, watch=True)
    assert watches.silent_s() == 100.0, "that of the pods"
    watches.failed(PODS, "connection refused")
    clock.now_s += 10.0
    assert watches.silent_s() == 10.0
    watches.hold("there are no definitions")
    assert watches.silent_s() == 0.0


@pytest.mark.fault_on("the operator")
@pytest.mark.fault(
    broken="the lists of the watches take longer than the API server remembers what came after them",
    when="thousands of drivers are due to be polled",
    expected="the polls wait for the lists, but not for ever, and the operator is not ready meanwhile",
)
def test_what_can_wait_waits_for_lists_but_not_for_ever() -> None:
    clock = Clock()
    watches = Watches([JOBS, PODS], clock)
    assert watches.lists(), "none was read yet"
    watches.answered(PODS, 403, watch=False)
    watches.answered(JOBS, 200, watch=False)
    assert watches.lists()
    watches.answered(JOBS, 200, watch=True)
    assert not watches.lists(), "one that is refused is not waited for"
    watches.answered(JOBS, 200, watch=False)
    assert "begins anew" in watches.wrong(), "it was told 410"
    clock.now_s += LISTS_S - 1.0
    watches.answered(JOBS, 200, watch=False)
    assert watches.lists()
    clock.now_s += 1.0
    watches.answered(JOBS, 200, watch=False)
    assert not watches.lists()


@pytest.mark.parametrize(
    ("host", "address"),
    [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
def test_the_watches_go_where_every_pod_is_told_the_api_server_is(host: str, address: str) -> None:
    told = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}
    assert handlers.service_address(told) == address


@pytest.mark.parametrize(
    ("status", "spec", "settled"),
    [
        ({"phase": "Completed"}, {"jobRef": {"name": "orders"}}, True),
        ({"phase": "Failed", "reason": "SavepointFailed"}, {"jobRef": {"name": "orders"}}, True),
        ({"phase": "Failed", "reason": "Timeout"}, {"jobRef": {"name": "orders"}}, False),
        ({"phase": "InProgress"}, {"jobRef": {"name": "orders"}}, False),
        ({"phase": "Failed", "reason": "NotRestorable"}, {"uri": "s3://bucket/one"}, True),
        ({"phase": "Completed", "observedGeneration": 1}, {"uri": "s3://bucket/one"}, False),
    ],
)
def test_a_restarted_operator_looks_at_each_snapshot_that_is_not_settled(
    status: dict[str, Any], spec: dict[str, Any], settled: bool
) -> None:
    """One that was not complete in time is still asked about: its savepoint may complete yet."""
    meta = {
        "name": "one",
        "uid": "s-1",
        "resourceVersion": "1",
        "generation": 2,
        "creationTimestamp": "2026-01-01T12:00:00Z",
        "finalizers": [labels.FINALIZER],
    }
    body = {"metadata": meta, "spec": spec, "status": {"observedGeneration": 2, **status}}
    assert handlers._settled(body) is settled
    assert not handlers._settled({**body, "metadata": {**meta, "finalizers": []}})
    assert not handlers._settled({**body, "metadata": {**meta, "deletionTimestamp": "2026-01-01T12:00:00Z"}})


@pytest.mark.parametrize("kind", [None, "ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("news", [True, False])
def test_a_snapshot_of_a_list_is_told_to_its_job_where_it_is_news_and_any_other_always(
    kind: str | None, news: bool
) -> None:
    told: list[Any] = []
    heard = handlers.Listeners(lambda key, version="": told.append(key), lambda *_: True, lambda *_: news)
    found = handlers.registry(heard, None, Watches([], Clock()))
    event = next(one.fn for one in found._watching.get_all_handlers() if one.id.endswith("snapshot_event"))
    meta = {"name": "one", "uid": "s-1", "resourceVersion": "1", "labels": {labels.JOB: "orders"}}
    body = {"metadata": {**meta, "creationTimestamp": "2026-01-01T12:00:00Z"}, "spec": {}}
    asyncio.run(event(namespace="shop", name="one", body=body, event={"type": kind}))
    assert (("job", "shop", "orders") in told) is (kind is not None or news)
