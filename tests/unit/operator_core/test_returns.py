"""A namespace that is deleted and comes back, and a job that takes the name of another."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, cast

import kopf
import pytest
from support.scene import decisions

from sparkstate_operator import labels, observed
from sparkstate_operator.edges import kube as k
from sparkstate_operator.edges.neighbours import Neighbours
from sparkstate_operator.managing import Manager
from sparkstate_operator.memory import Memory
from sparkstate_operator.observe import Observer
from sparkstate_operator.watching import handlers


def test_a_watch_that_is_refused_is_tried_for_ever_and_never_ends_the_others() -> None:
    settings = kopf.OperatorSettings()
    handlers._configure(settings, "")
    pauses_s = list(itertools.islice(iter(settings.networking.error_backoffs), 5000))
    assert len(pauses_s) == 5000, "kopf would give up, and end"
    assert max(pauses_s) <= 30
    assert pauses_s[0] <= 1


def test_no_request_of_a_watch_waits_for_ever() -> None:
    settings = kopf.OperatorSettings()
    handlers._configure(settings, "")
    network, watching = settings.networking, settings.watching
    assert (network.request_timeout, network.connect_timeout) == (30.0, 10.0)
    assert (watching.server_timeout, watching.client_timeout) == (240, 300)
    assert (watching.connect_timeout, watching.inactivity_timeout) == (10.0, 70.0)


def test_what_is_remembered_of_a_job_is_not_believed_of_another_of_its_name() -> None:
    memory = Memory()
    assert memory.is_about("first")
    memory.attempts.sightings[1] = decisions.pod(attempt=1)
    memory.attempts.unanswered = 1
    memory.attempts.never_made, memory.last.deep_s, memory.attempts.unwritten = 1, 7.0, "first"
    memory.driver.endpoint = observed.DriverEndpoint("127.0.0.1", "first", 1)
    assert memory.is_about("first")
    assert memory.attempts.sightings
    assert not memory.is_about("second")
    assert (
        memory.attempts.sightings,
        memory.attempts.never_made,
        memory.last.deep_s,
        memory.attempts.unwritten,
    ) == ({}, 0, None, "")
    assert memory.driver.endpoint is None
    assert memory.attempts.unanswered == 0
    assert memory.is_about("second")


class Left:
    """A namespace with one pod; with the job that it is of, or without. Its class is nobody's here."""

    def __init__(self, *, job: bool) -> None:
        self._job = job

    async def get(self, kind: k.Kind, _namespace: str, name: str) -> dict[str, Any] | None:
        assert (kind, name) == (k.JOBS, "orders")
        meta = {"name": name, "namespace": "shop", "uid": "uid-1", "resourceVersion": "1"}
        meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
        marks = {labels.OPERATOR_CLASS: "nobodys"}
        return {"metadata": {**meta, "labels": marks}, "spec": {}} if self._job else None

    async def list(self, kind: k.Kind, _namespace: str, selector: str) -> list[dict[str, Any]]:
        assert selector == f"{labels.JOB}=orders"
        marks = labels.of_job("orders", "uid-1", "driver", 1)
        meta = {"name": "orders-driver-1", "uid": "pod-1", "resourceVersion": "1", "labels": marks}
        return [{"metadata": meta}] if kind is k.PODS else []


@pytest.mark.parametrize("operator_class", ["", "blue"])
def test_pods_of_a_job_that_is_gone_are_deleted_by_operators_of_any_class(operator_class: str) -> None:
    def strays(*, job: bool) -> list[str]:
        kube = cast(k.Kube, Left(job=job))
        own = Manager("ops", "ours", operator_class)
        observer = Observer(kube, cast(Any, None), b"", Neighbours(kube, own, cast(Any, None)))
        look = asyncio.run(observer.look("shop", "orders", Memory(), decisions.NOW, deep=False))
        return [child.name for _, child in look.strays]

    assert strays(job=True) == [], "while it is there they are left alone"
    assert strays(job=False) == ["orders-driver-1"]
