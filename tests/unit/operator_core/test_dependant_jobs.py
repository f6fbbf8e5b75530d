"""Which job needs the data that is about to be deleted, and how many requests it takes to find out."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from support.scene.decisions import NOW, job

from sparkstate_operator import clock, custom_resources, labels, observed
from sparkstate_operator.edges import dependant_jobs
from sparkstate_operator.edges import kube as k

MANY = 50
SAVED = "s3://bucket/sp-"


def meta(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": clock.text(NOW),
        **fields,
    }


def waiting(name: str, snapshot: str) -> k.Object:
    """A new job, which has to start from this StateSnapshot."""
    return {
        "metadata": meta(name),
        "spec": {"restoreFrom": {"snapshotRef": {"name": snapshot}}},
        "status": {},
    }


def saved(name: str, uri: str, **fields: Any) -> k.Object:
    return {"metadata": meta(name, **fields), "spec": {"uri": uri}, "status": {"uri": uri}}


class Namespace:
    """What the API server has of a namespace, and how often it was asked."""

    def __init__(self, jobs: list[k.Object], snapshots: list[k.Object]) -> None:
        self.there = {k.JOBS: jobs, k.SNAPSHOTS: snapshots}
        self.asked: list[str] = []

    async def each(self, kind: k.Kind, _: str) -> AsyncIterator[k.Object]:
        self.asked.append(f"list {kind.plural}")
        for body in self.there[kind]:
            yield body

    async def get(self, kind: k.Kind, _: str, name: str) -> k.Object | None:
        self.asked.append(f"get {kind.plural}")
        return next((body for body in self.there[kind] if body["metadata"]["name"] == name), None)

    def needs(self, name: str, uri: str) -> str:
        """The job that needs the data of a StateSnapshot that is deleted."""
        body = saved(name, uri, deletionTimestamp=clock.text(NOW))
        body["spec"]["deletionPolicy"], body["status"]["phase"] = "Delete", "Deleting"
        one = custom_resources.snapshot_of(body)
        return asyncio.run(dependant_jobs.of_snapshot(cast(k.Kube, self), "shop", one))


def handed_over() -> Namespace:
    """As many savepoints as jobs, each for one of them."""
    numbers = range(MANY)
    jobs = [waiting(f"job-{number}", f"s-{number}") for number in numbers]
    return Namespace(jobs, [saved(f"s-{number}", f"{SAVED}{number}") for number in numbers])


def test_a_job_that_names_the_snapshot_itself_is_found_in_the_list_of_jobs_alone() -> None:
    """Each look read the snapshots of all jobs one by one: 200 deletions made 40,000 requests every 30 s."""
    found = handed_over()
    assert found.needs("s-7", f"{SAVED}7") == "job-7"
    assert found.asked == ["list statefulsparkjobs"]


@pytest.mark.parametrize(("uri", "needed"), [(f"{SAVED}7", "job-7"), (f"{SAVED}none", "")])
def test_many_jobs_that_name_other_snapshots_take_one_list_of_these(uri: str, needed: str) -> None:
    found = handed_over()
    assert found.needs("the-same-data", uri) == needed
    assert found.asked == ["list statefulsparkjobs", "list statesnapshots"]


def test_a_few_snapshots_are_read_one_by_one() -> None:
    """A namespace may have thousands of them."""
    found = Namespace([waiting("one", "s-1"), waiting("two", "s-2")], [saved("s-2", f"{SAVED}2")])
    assert found.needs("the-same-data", f"{SAVED}2") == "two"
    assert found.asked == ["list statefulsparkjobs", *["get statesnapshots"] * 2]


def test_a_purge_reads_none_of_the_jobs_own_snapshots_again() -> None:
    source = job({"intent": {"action": "delete", "policy": "purge"}}, deleting=True)
    own = custom_resources.snapshot_of(saved("s-1", f"{SAVED}1", labels={labels.JOB_UID: source.uid}))
    own = dataclasses.replace(own, spec={"jobRef": {"name": source.name}})
    found = Namespace([waiting("one", "s-1")], [])

    def needed(*snapshots: observed.Snapshot) -> str:
        read = dependant_jobs.of_purge(cast(k.Kube, found), source, None, snapshots, (), ())
        return asyncio.run(read)

    assert needed(own) == "one" and found.asked == ["list statefulsparkjobs"]
    assert needed() == "" and found.asked[1:] == ["list statefulsparkjobs", "get statesnapshots"]
