"""What failed checkpoints and savepoints and killed writers left is deleted while the job runs, and nothing else."""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
import time
from pathlib import Path

import boto3
import pytest
from support.slots import slots
from support.slots.running import Running
from support.storage.checkpoints import JOB
from support.storage.fixtures import root, s3, s3_server, without_flushing
from support.storage.stores import Crash, HookedStore, ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore, Savepoints, purge
from sparkstate.checkpoint.savepoint import LoggedPhase, logged
from sparkstate.control.documents import SavepointPhase
from sparkstate.control.port import SavepointTrigger
from sparkstate.driver import companion
from sparkstate.driver.leftovers import Lane, Leftovers, carry_out
from sparkstate.driver.storage_outages import StorageOutages
from sparkstate.log import LineageLog, open_lineage, records
from sparkstate.sinks import file_sink
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks
from sparkstate.storage import PrefixedStore
from sparkstate.storage.local import LocalStore
from sparkstate_tools.drivers import driving

__all__ = ["root", "s3", "s3_server", "without_flushing"]


class Driver:
    """The parts of a driver that write; ``out`` is the folder of its only sink."""

    def __init__(self, store, attempt=1):
        self.store = store
        self.out = PrefixedStore(store, "out")
        self.lineage = open_lineage(store, JOB, ManualClock(), lambda: "0123456789abcdef")
        self.log = LineageLog(self.lineage.store, ManualClock()).claim(attempt, f"attempt {attempt}")
        self.incarnation = self.log.begin_incarnation("")
        self.entry = self.log.state.last_number
        self.savepoints = Savepoints(self.lineage, self.log, self.open)
        self.outages = StorageOutages(ManualClock())
        self.leftovers = Leftovers(self.lineage, self.log, self.savepoints, self.open, ["out"], self.outages)
        self.completed = CompletedCheckpointStore(
            self.lineage.store, self.log, discarded=self.leftovers.of_checkpoint
        )

    def open(self, url):
        return PrefixedStore(self.store, url.removeprefix(self.store.url).strip("/"))

    def stage(self, checkpoint, slot=0):
        key = f"_sparkstate_staging/{self.lineage.id}/{self.incarnation:05d}/{checkpoint:09d}-{slot:03d}-s-x.json"
        self.out.put_if_absent(key, b"{}")
        return key

    def begin_savepoint(self, trigger, checkpoint):
        parent = f"{self.store.url}/savepoints"
        return self.savepoints.begin(trigger, parent, checkpoint, self.incarnation).url


@pytest.fixture
def store(root):
    return HookedStore(root)


def staged(driver):
    return [info.key for info in driver.out.list("")]


@pytest.mark.fault(
    broken="a checkpoint fails after its slots have staged output, and one of them goes on for a while",
    when="while the job runs on",
    expected="what was staged for it goes, the late file after the next checkpoint; that of others stays",
)
def test_what_was_staged_for_a_failed_checkpoint_goes_while_the_job_runs(store):
    driver = Driver(store)
    driver.stage(1)
    kept = driver.stage(2)
    driver.completed.discard(1)
    driver.leftovers.settle()
    assert staged(driver) == [kept]
    driver.stage(1, slot=1)
    driver.leftovers.look_again()
    driver.leftovers.settle()
    assert staged(driver) == [kept]


def test_what_was_staged_stays_while_nobody_knows_whether_the_checkpoint_is_complete(store):
    driver = Driver(store)
    kept = driver.stage(1)
    store.unplug()
    with pytest.raises(errors.StorageUnavailable):
        driver.completed.discard(1)
    store.heal()
    driver.leftovers.look_again()
    driver.leftovers.settle()
    assert staged(driver) == [kept]
    driver.completed.subsume()  # which settles it
    driver.leftovers.settle()
    assert staged(driver) == []


@pytest.mark.fault(
    broken="a savepoint fails after its slots have written files, and one of them goes on for a while",
    when="while the job runs on",
    expected="its folder goes, behind a tombstone, late files after the next checkpoint and savepoint; others stay",
)
def test_the_folder_of_a_failed_savepoint_goes_while_the_job_runs(store):
    driver = Driver(store)
    failed, kept = driver.begin_savepoint("a", 1), driver.begin_savepoint("b", 2)
    for url in (failed, kept):
        driver.savepoints.folder(url).put_if_absent("1-1-x", b"x")
    named = []
    store.before = lambda operation, key: (
        operation == "delete"
        and named.append(
            failed in LineageLog(driver.lineage.store, ManualClock()).refresh().doomed_savepoints
        )
    )
    driver.leftovers.of_savepoint(failed)
    driver.leftovers.settle()
    assert named == [True]
    store.heal()
    assert list(driver.savepoints.folder(failed).list("")) == []
    driver.savepoints.folder(failed).put_if_absent("1-1-late", b"x")
    assert driver.log.state.doomed_savepoints == (failed,), (
        "a driver that dies now leaves it to the next sweep"
    )
    driver.leftovers.look_again()
    driver.leftovers.settle()
    assert list(driver.savepoints.folder(failed).list("")) == []
    driver.savepoints.folder(failed).put_if_absent("1-1-later", b"x")
    assert driver.log.refresh().doomed_savepoints == (failed,), (
        "no checkpoint waits for who writes savepoints"
    )
    driver.leftovers.look_again()
    driver.leftovers.confirm_savepoints()
    driver.leftovers.settle()
    assert list(driver.savepoints.folder(failed).list("")) == []
    assert driver.log.refresh().doomed_savepoints == ()
    assert [info.key for info in driver.savepoints.folder(kept).list("")] == ["1-1-x"]
    assert logged(driver.log.state, "a").phase is LoggedPhase.UNKNOWN


def test_a_savepoint_that_was_recorded_after_all_is_not_deleted(store):
    driver = Driver(store)
    url = driver.begin_savepoint("a", 1)
    driver.savepoints.folder(url).put_if_absent("_metadata", b"x")
    driver.log.append(
        records.SavepointCommitted(
            trigger_id="a", url=url, checksum="", checkpoint_id=1, epoch=1, incarnation=driver.incarnation
        )
    )
    driver.leftovers.of_savepoint(url)
    driver.leftovers.look_again()
    driver.leftovers.settle()
    assert [info.key for info in driver.savepoints.folder(url).list("")] == ["_metadata"]


def test_a_storage_that_refuses_keeps_nobody_waiting_and_is_told(store, caplog):
    driver = Driver(store)

    def refuse(operation, key):
        if operation == "abort_uploads":
            raise errors.StorageError("AccessDenied: s3:ListBucketMultipartUploads")

    store.before = refuse
    with caplog.at_level(logging.WARNING):
        driver.leftovers.of_older_incarnations(driver.incarnation, driver.entry, ())
        url = driver.begin_savepoint("a", 1)
        driver.leftovers.of_savepoint(url)
        driver.leftovers.settle()
    assert len([line for line in caplog.messages if "s3:ListBucketMultipartUploads" in line]) == 2
    driver.leftovers.confirm_savepoints()
    driver.leftovers.settle()
    assert driver.log.refresh().doomed_savepoints == (), "the deletion itself was carried out"


def test_work_for_which_no_thread_is_left_is_done_with_the_next(monkeypatch):
    """Its lane was dead from then on: all that came later waited for a thread that had never begun."""
    lane, done = Lane("a place"), []

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading, "_start_new_thread", refuse)
        lane.put(lambda: done.append("first"))
    lane.put(lambda: done.append("second"))
    driving.wait_for(lambda: done == ["first", "second"], 10, "both pieces of work")
    lane.settle()


def test_what_this_incarnation_gives_up_is_not_confirmed_by_the_sweep_of_older_ones(store):
    driver, go_on = Driver(store), threading.Event()
    driver.leftovers.own.put(lambda: go_on.wait(30))
    driver.leftovers.of_older_incarnations(driver.incarnation, driver.entry, ())
    url = driver.begin_savepoint("a", 1)
    driver.leftovers.of_savepoint(url)
    go_on.set()
    driver.leftovers.settle()
    assert driver.log.refresh().doomed_savepoints == (url,), "its slots may go on for a while"
    driver.leftovers.confirm_savepoints()
    driver.leftovers.settle()
    assert driver.log.refresh().doomed_savepoints == ()


@pytest.mark.parametrize("then", ["another savepoint", "another incarnation"])
def test_a_failed_savepoint_is_not_confirmed_as_deleted_while_a_slot_may_write_it(
    tmp_path, monkeypatch, then
):
    """A checkpoint came next and confirmed it. At S3, a file that was under way then lay where no log knew of it."""
    monkeypatch.setattr(companion, "PATIENCE_S", 0.1)
    running, ends = Running(tmp_path, timeout_s=1.5), threading.Event()
    running.slot.server.slot.runtime._snapshots.worker._upload_savepoint.submit(ends.wait, 60)
    log, leftovers = running.job_storage.log, running.job_storage.leftovers

    def take(name, phase):
        running.requests.add(SavepointTrigger(trigger_id=name))
        running.slot.epoch(take.epoch, slots.rows(("a", 1)))
        running.checkpoints.after_commit(take.epoch, Watermarks(()), CapturedPosition, changed=True)
        take.epoch += 1
        driving.wait_for(lambda: running.requests.find(name).status == phase, 20, f"{name} to be {phase}")
        running.checkpoints.wait()

    take.epoch = 0
    take("one", SavepointPhase.FAILED)
    assert "longer than checkpointing.timeout" in running.requests.find("one").failure
    running.start(0).settle()
    leftovers.settle()
    (url,) = log.refresh().doomed_savepoints
    assert not Path(url.removeprefix("file://")).exists(), "it is deleted all the same"
    ends.set()
    if then == "another savepoint":
        monkeypatch.setattr(companion, "PATIENCE_S", 30.0)
        take("two", SavepointPhase.COMPLETED)
    else:
        running.job_storage.begin_incarnation(running.job_storage.restore_point(), lambda number: None)
    leftovers.settle()
    assert log.refresh().doomed_savepoints == ()
    running.close()


# -- uploads that were broken off ------------------------------------------------------------------------------------


class Bucket:
    def __init__(self, server, name):
        self.prefix = name
        self.client = boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1")

    def begin(self, key):
        name = f"{self.prefix}/{key}"
        answer = self.client.create_multipart_upload(Bucket="state", Key=name)
        self.client.upload_part(
            Bucket="state", Key=name, UploadId=answer["UploadId"], PartNumber=1, Body=b"x" * 100
        )

    def begun(self):
        found = self.client.list_multipart_uploads(Bucket="state", Prefix=f"{self.prefix}/").get(
            "Uploads", []
        )
        return sorted(upload["Key"].removeprefix(f"{self.prefix}/") for upload in found)


@pytest.fixture
def bucket(s3):
    return Bucket(s3, secrets.token_hex(6))


@pytest.fixture
def on_s3(s3, bucket):
    from sparkstate.storage import open_store

    return open_store(f"s3://state/{bucket.prefix}", s3.settings)


@pytest.mark.s3
@pytest.mark.fault(
    broken="slots and drivers are killed in the middle of uploads in parts",
    when="before a restart",
    expected="what older incarnations had sent is dropped; what a living or a newer writer sends stays",
)
@pytest.mark.fault_on("S3")
def test_uploads_that_older_incarnations_left_are_dropped_and_no_others(on_s3, bucket):
    first = Driver(on_s3)
    id_ = first.lineage.id
    dead = [
        f"{id_}/chk-1/1-1-aa",
        f"{id_}/shared/1-1-bb",
        f"out/_sparkstate_staging/{id_}/00001/000000001-000-s-{id_[:8]}.json",
        f"out/part-00001-000000009-000-s-{id_[:8]}.json",
    ]
    alive = [
        f"{id_}/shared/2-5-cc",
        "fedcba9876543210/shared/1-1-dd",
        f"out/_sparkstate_staging/{id_}/00002/000000005-000-s-{id_[:8]}.json",
        "out/_sparkstate_staging/fedcba9876543210/00001/000000001-000-s-fedcba98.json",
        "out/part-00001-000000009-000-s-fedcba98.json",
        "out/part-00001-of-somebody-else",
        f"out/part-00002-000000009-000-s-{id_[:8]}.json",
    ]
    for key in (*dead, *alive):
        bucket.begin(key)
    time.sleep(1.1)  # the storage tells times by the second
    second = Driver(on_s3, attempt=2)
    late = f"{id_}/shared/1-1-ee"
    time.sleep(1.1)
    bucket.begin(late)  # it may be that of somebody who publishes what an older incarnation staged
    second.leftovers.of_older_incarnations(second.incarnation, second.entry, ())
    second.leftovers.settle()
    assert bucket.begun() == sorted([*alive, late])
    time.sleep(1.1)
    third = Driver(on_s3, attempt=3)
    third.leftovers.of_older_incarnations(third.incarnation, third.entry, ())
    third.leftovers.settle()
    assert late not in bucket.begun()


@pytest.mark.s3
def test_uploads_into_the_folder_of_a_failed_savepoint_are_dropped(on_s3, bucket):
    driver = Driver(on_s3)
    failed, kept = driver.begin_savepoint("a", 1), driver.begin_savepoint("b", 2)
    for url in (failed, kept):
        bucket.begin(f"{url.removeprefix(on_s3.url)[1:]}/1-1-aa")
    driver.leftovers.of_savepoint(failed)
    driver.leftovers.settle()
    assert bucket.begun() == [f"{kept.removeprefix(on_s3.url)[1:]}/1-1-aa"]


@pytest.mark.s3
def test_a_purge_drops_them_too(on_s3, bucket):
    driver = Driver(on_s3)
    bucket.begin(f"{driver.lineage.id}/shared/1-1-aa")
    bucket.begin("fedcba9876543210/shared/1-1-dd")
    purge.purge(on_s3, JOB, driver.open, ManualClock(), "a purge")
    assert bucket.begun() == ["fedcba9876543210/shared/1-1-dd"]


@pytest.mark.fault(
    broken="the driver is killed before or after a write",
    when="while it deletes what a failed checkpoint and a failed savepoint left",
    expected="the next driver deletes the rest, and nothing that a tombstone does not name",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_any_write_of_the_deletion_leaves_nothing_to_the_next_driver(tmp_path, monkeypatch, after):
    monkeypatch.setattr(Lane, "put", lambda lane, work: carry_out(work))  # where the kill is to come
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for number in itertools.count():
        store = HookedStore(LocalStore(str(tmp_path / f"{number}")))
        driver = Driver(store)
        kept, failed = driver.begin_savepoint("kept", 8), driver.begin_savepoint("failed", 9)
        for url in (kept, failed):
            driver.savepoints.folder(url).put_if_absent("1-9-a", b"x")
        driver.lineage.store.put_if_absent("chk-1/1-1-aa", b"x")
        driver.stage(1)
        store.crash_at_write(number, after=after)
        try:
            driver.completed.discard(1)
            driver.leftovers.of_savepoint(failed)
            driver.leftovers.look_again()
            driver.leftovers.confirm_savepoints()
        except Crash:
            pass
        else:
            break
        store.heal()
        assert [info.key for info in driver.savepoints.folder(kept).list("")] == ["1-9-a"]
        following = Driver(store, attempt=2)
        following.completed.sweep()
        following.savepoints.sweep()
        file_sink.sweep_staging(following.out, following.lineage.id, following.incarnation)
        left = [key for key in (info.key for info in store.list("")) if "/log/" not in key]
        assert [key for key in left if not key.startswith("by-name/")] == []
        assert following.log.refresh().doomed_savepoints == ()
    assert number == 8
