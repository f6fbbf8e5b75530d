"""A job that changes hands: what was kept of it before says nothing any more."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from support.scene.decisions import NOW, pod
from support.scene.kept_scene import KEY, SETTLED, Scene, said

from sparkstate_operator import inventory, kept_look, labels, observed
from sparkstate_operator.config import Config
from sparkstate_operator.edges import kube as k
from sparkstate_operator.managing import Manager
from sparkstate_operator.watching import relabelled_jobs

OURS = Config(mark="ops/ours")
BLUE = {labels.OPERATOR_CLASS: "blue"}
Job = observed.Job


def unnamed(job: Job) -> Job:
    status = {name: value for name, value in SETTLED.items() if name != "cluster"}
    return dataclasses.replace(job, status=status)


CHANGES: dict[str, Callable[[Job], Job]] = {
    "it is given another class": lambda job: dataclasses.replace(job, labels=BLUE),
    "it is deleted": lambda job: dataclasses.replace(job, deleting_at=NOW),
    "its mark is another operator's": lambda job: dataclasses.replace(
        job, annotations={labels.MANAGER: "ops/theirs"}
    ),
    "its mark is ours of another class": lambda job: dataclasses.replace(
        job, annotations={labels.MANAGER: "ops/ours@blue"}
    ),
    "its mark is gone": lambda job: dataclasses.replace(job, annotations={}),
    "its finalizer is gone": lambda job: dataclasses.replace(job, finalizers=()),
    "its status is wiped": lambda job: dataclasses.replace(job, status={}),
    "its name in storage is wiped": unnamed,
}


def scene() -> Scene:
    """A job of ours that runs under a name in storage of its own."""
    found = Scene(config=OURS, compares=True)
    found.world.pods = (dataclasses.replace(pod(), cluster="kept-name"),)
    found.memory.stirred = True
    found.step()
    assert found.memory.last.kept is not None
    assert found.world.job.status["cluster"] == "kept-name"
    found.world.looks, found.world.done = 0, []
    return found


def change(found: Scene, what: str) -> None:
    """Somebody changes the job, and its driver has progress to tell."""
    changed = CHANGES[what](found.world.job)
    found.world.job = dataclasses.replace(changed, resource_version="1234")
    found.world.report = said(7)


@pytest.mark.parametrize("what", CHANGES)
def test_its_event_takes_a_look_before_anything_is_written(what: str) -> None:
    """Also the one by which a job leaves the watch of its class; it has the version of the change."""
    given = scene()
    change(given, what)
    given.hear("1234")
    assert given.memory.last.kept is None
    given.step(60)
    assert given.world.looks >= 1
    assert all(looks >= 1 for _, looks in given.world.done)


@pytest.mark.parametrize("what", CHANGES)
def test_without_its_event_progress_is_refused_and_a_look_follows(what: str) -> None:
    given = scene()
    change(given, what)
    given.step(60)
    assert (given.world.looks, given.world.done) == (0, []), "a compare-and-set on the version that was seen"
    given.step(1)
    assert given.world.looks >= 1
    assert all(looks >= 1 for _, looks in given.world.done)


@pytest.mark.parametrize("what", CHANGES)
def test_nothing_is_written_from_what_was_kept_of_it_as_it_is_now(what: str) -> None:
    """As a kept look would be that somebody took of it since, by a defect of ours."""
    given = scene()
    change(given, what)
    seen = observed.ObservedState(given.world.job, NOW, drivers=given.world.pods)
    given.memory.last.kept = kept_look.pack(seen)
    given.step(60)
    assert given.world.looks >= 1
    assert all(looks >= 1 for _, looks in given.world.done)


@pytest.mark.parametrize("what", CHANGES)
def test_who_begins_to_lead_looks_at_it(what: str) -> None:
    given = scene()
    before = given.world.job
    change(given, what)
    listed = [inventory._Pod("driver", before.uid, given.world.pods[0])]
    assert inventory._running(before, listed, (), OURS, NOW) is not None
    assert inventory._running(given.world.job, listed, (), OURS, NOW) is None


class Listed:
    """The API server's list of one job."""

    def __init__(self, job: Job) -> None:
        meta = {"name": job.name, "namespace": job.namespace, "annotations": dict(job.annotations)}
        self._body = {"metadata": {**meta, "finalizers": list(job.finalizers)}}

    async def each(self, *_: Any, **__: Any) -> AsyncIterator[dict[str, Any]]:
        yield self._body


def test_one_that_is_found_to_be_of_another_class_is_let_go_whatever_was_kept() -> None:
    given = scene()
    change(given, "it is given another class")
    kube = cast(k.Kube, Listed(given.world.job))
    own = cast(Manager, Manager.of(OURS.mark))
    asyncio.run(relabelled_jobs.find(kube, own, (), lambda key: given.hear("") if key == KEY else None))
    given.step()
    assert given.world.done == [("let_go", 1), ("event", 1)]
    assert KEY not in given.reconciler.memories._of
