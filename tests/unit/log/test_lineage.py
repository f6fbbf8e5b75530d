from __future__ import annotations

import threading

import pytest
from support.storage.stores import HookedStore, ManualClock

from sparkstate import errors
from sparkstate.log import JobName, find, open_lineage

JOB = JobName(cluster="local", namespace="default", name="rotations")


def open_job(root, job=JOB, **how):
    return open_lineage(root, job, ManualClock(), **how)


def test_a_job_created_anew_under_its_name_finds_its_lineage(root):
    first = open_job(root)
    assert first.created
    again = open_job(root)
    assert not again.created
    assert again.id == first.id
    assert find(root, JOB).id == first.id


def test_jobs_of_other_names_have_other_lineages(root):
    jobs = [
        JOB,
        JobName(cluster="local", namespace="default", name="rotations2"),
        JobName(cluster="local", namespace="default/rotations", name="x"),
        JobName(cluster="local", namespace="default", name="rotations/x"),
        JobName(cluster="..", namespace="default", name="rotations"),
    ]
    assert len({open_job(root, job).id for job in jobs}) == len(jobs)
    assert all(not open_job(root, job).created for job in jobs)


def test_looking_for_a_job_creates_nothing(root):
    assert find(root, JOB) is None
    assert list(root.list("")) == []


class ListsLate(HookedStore):
    """Its listings lack the newest object, as a store's may that lists with a delay."""

    def list(self, prefix):
        return iter(list(self.store.list(prefix))[:-1])


@pytest.mark.fault(
    broken="a listing of the storage lacks the newest object",
    when="a job looks for its lineage, or starts empty",
    expected="it finds the newest lineage, and a new pointer has the next number",
)
def test_a_pointer_that_the_listing_does_not_show_yet_is_found_all_the_same(root):
    late = ListsLate(root)
    first = open_job(root)
    assert find(late, JOB).id == first.id
    assert open_job(late).id == first.id
    open_job(root, start_empty=True, attempt=1)
    newest = open_job(root, start_empty=True, attempt=2)
    assert find(late, JOB).id == newest.id
    assert open_job(late, start_empty=True, attempt=3).pointer.number == 4


def test_to_start_empty_makes_a_new_lineage_and_keeps_the_old(root):
    old = open_job(root)
    old.store.put_if_absent("log/000000000001", b"x")
    new = open_job(root, start_empty=True, attempt=1)
    assert new.created
    assert new.id != old.id
    assert new.pointer.previous == old.id
    assert new.pointer.number == 2
    assert root.get(f"{old.id}/log/000000000001") == b"x"
    assert open_job(root).id == new.id


def test_to_start_empty_is_done_once_per_attempt(root):
    open_job(root)
    first = open_job(root, start_empty=True, attempt=3)
    second_life = open_job(root, start_empty=True, attempt=3)
    assert second_life.id == first.id
    assert not second_life.created
    assert open_job(root, start_empty=True, attempt=4).id != first.id


def test_of_two_drivers_that_create_it_at_once_both_get_the_same(root):
    found = []
    start = threading.Barrier(6)

    def run():
        start.wait()
        found.append(open_job(root))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({lineage.id for lineage in found}) == 1
    assert sum(lineage.created for lineage in found) == 1


def test_a_creation_whose_answer_was_lost_is_ours(root):
    store = HookedStore(root)

    def own_try_was_first(operation, key):
        """What a repeated try inside a retrying store meets when the answer to the first was lost."""
        if operation == "put_if_absent":
            raise errors.AlreadyExists(key)

    store.after = own_try_was_first
    lineage = open_job(store)
    assert lineage.created
    assert find(root, JOB).id == lineage.id


def test_a_damaged_pointer_is_an_error_and_never_a_new_beginning(root):
    lineage = open_job(root)
    key = "by-name/local/default/rotations/000000000001"
    root.delete([key])
    root.put_if_absent(key, b"rubbish" * 10)
    for how in ({}, {"start_empty": True, "attempt": 9}):
        with pytest.raises(errors.CorruptData, match="by-name"):
            open_job(root, **how)
    assert lineage.short_id == lineage.id[:6]


def test_an_outage_is_never_a_new_beginning(root):
    open_job(root)
    store = HookedStore(root)
    store.unplug()
    with pytest.raises(errors.StorageUnavailable):
        open_job(store)
