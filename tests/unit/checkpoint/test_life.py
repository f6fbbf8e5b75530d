"""The life of a lineage under a random schedule of faults: outages, lost answers, kills, rival drivers.

A model in memory knows what was reported complete. Storage, log and every restorable checkpoint are compared with it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.faults import in_full
from support.storage.checkpoints import JOB, take
from support.storage.stores import WRITES, Crash, HookedStore, ManualClock

from sparkstate import errors
from sparkstate.checkpoint import CompletedCheckpointStore, Downloader, KnownFiles
from sparkstate.log import LineageLog, open_lineage, records
from sparkstate.storage.local import LocalStore
from sparkstate_tools import memory

RETAINED = 2
FILES = st.dictionaries(
    st.sampled_from(["1.sst", "2.sst", "3.sst", "OPTIONS"]), st.binary(max_size=30), max_size=4
)


pytestmark = pytest.mark.fault_on("a folder")

LIVES = itertools.count()
"""Each machine takes a number, so that the page of faults can say how many lived."""


@pytest.fixture(autouse=True)
def counted(record_property):
    before = next(LIVES)
    yield
    record_property("runs", next(LIVES) - before - 1)


class Driver:
    """One process: everything it remembers dies with it."""

    def __init__(self, store: HookedStore, attempt: int) -> None:
        self.store = store
        self.attempt = attempt
        self.lineage = open_lineage(store, JOB, ManualClock())
        self.log = LineageLog(self.lineage.store, ManualClock()).claim(attempt, f"attempt {attempt}")
        self.incarnation = self.log.begin_incarnation("")
        self.checkpoints = CompletedCheckpointStore(self.lineage.store, self.log, RETAINED)
        self.known = KnownFiles()
        self.base: int | None = None
        self.open_commit = None
        """Metadata of a commit whose outcome is not known."""


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.unflushed = mock.patch.object(os, "fsync")
        self.unflushed.start()
        self.folder = memory.folder("sparkstate-life-")  # thousands of small files
        self.disk = LocalStore(str(self.folder / "storage"))
        self.drivers: list[Driver] = []
        self.attempt = 0
        self.contents: dict[int, dict] = {}
        """Checkpoint id → what was in it, for all that were ever attempted."""
        self.reported: list[int] = []

    def teardown(self) -> None:
        next(LIVES)
        self.unflushed.stop()
        shutil.rmtree(self.folder)

    @initialize()
    def first_driver(self) -> None:
        self.new_driver()

    @rule()
    def new_driver(self) -> None:
        """A successor; the driver before lives on and does not know of it."""
        self.attempt += 1
        self.drivers = [*self.drivers[-1:], Driver(HookedStore(self.disk), self.attempt)]

    @rule()
    def restart_the_driver(self) -> None:
        self.drivers[-1] = Driver(HookedStore(self.disk), self.attempt)

    @rule(files=FILES, fault=st.none() | st.tuples(st.integers(0, 6), st.booleans(), st.booleans()))
    def checkpoint(self, files, fault) -> None:
        self.attempt_checkpoint(self.drivers[-1], files, fault)

    @rule(files=FILES)
    @precondition(lambda self: len(self.drivers) > 1)
    def the_fenced_driver_tries_a_checkpoint(self, files) -> None:
        before = self.committed_ids()
        self.attempt_checkpoint(self.drivers[0], files, None)
        assert self.committed_ids() == before, "a fenced driver has committed"

    def attempt_checkpoint(self, driver: Driver, files, fault) -> None:
        """``fault``: (at which write, before or after it took place, kill instead of outage)."""
        killed = False
        if fault:
            schedule(driver.store, *fault)
        try:
            if driver.open_commit is None:
                number = driver.checkpoints.next_checkpoint_id()
                self.contents[number] = {0: dict(files)}
                driver.open_commit = take(
                    driver.lineage.store,
                    self.folder / "snapshots",
                    self.contents[number],
                    checkpoint_id=number,
                    incarnation=driver.incarnation,
                    base=driver.known.base(driver.base),
                    lineage=driver.lineage.id,
                )
                driver.known.uploaded(number, driver.open_commit.shards)
            number = driver.open_commit.checkpoint_id
            driver.checkpoints.commit(driver.open_commit)
            driver.open_commit = None
            self.reported.append(number)
            driver.known.complete(number)
            driver.base = number
            driver.checkpoints.subsume()
        except errors.StorageUnavailable:
            pass  # tried again with the next rule
        except errors.StateError:
            driver.open_commit = None  # its number was taken by a rival
        except errors.Fenced:
            assert driver is not self.drivers[-1], "the newest driver was fenced"
            driver.open_commit = None
        except Crash:
            killed = True
        driver.store.heal()
        if killed:
            self.restart_the_driver()

    @rule(away=st.booleans())
    @precondition(lambda self: self.drivers[-1].open_commit is not None)
    def give_up_the_open_checkpoint(self, away) -> None:
        driver = self.drivers[-1]
        if driver.open_commit is not None:
            number, driver.open_commit = driver.open_commit.checkpoint_id, None
            if away:
                driver.store.unplug()
            try:
                settled = driver.checkpoints.discard(number).checkpoints
            except errors.StorageUnavailable:
                settled = ()  # the next retention settles it
            driver.store.heal()
            if settled:
                assert number not in self.committed_ids()
            driver.known.abort(number)

    @rule(fault=st.none() | st.tuples(st.integers(0, 3), st.booleans(), st.booleans()))
    def sweep(self, fault) -> None:
        driver = self.drivers[-1]
        if fault:
            schedule(driver.store, *fault)
        try:
            driver.checkpoints.sweep()
        except (errors.StorageUnavailable, Crash):
            driver.store.heal()
            return
        driver.store.heal()
        if driver.open_commit is None and not driver.checkpoints._given_up:
            self.assert_nothing_of_older_incarnations_is_left(driver)

    def assert_nothing_of_older_incarnations_is_left(self, driver: Driver) -> None:
        from sparkstate.storage import layout

        needed = {path for done in driver.checkpoints.completed() for path in done.metadata.paths()}
        for info in driver.lineage.store.list(""):
            written = layout.written_by(info.key)
            if written and written[0] < driver.incarnation:
                assert info.key in needed

    def committed_ids(self) -> list[int]:
        ids = []
        lineage = open_lineage(self.disk, JOB, ManualClock())
        for info in lineage.store.list("log/0"):
            record = records.decode(lineage.store.get(info.key), info.key).record
            if isinstance(record, records.CheckpointCommitted):
                ids.append(record.checkpoint_id)
        return ids

    @invariant()
    def what_was_reported_complete_is_what_a_restart_finds(self) -> None:
        if not self.drivers:
            return
        committed = self.committed_ids()
        assert len(set(committed)) == len(committed), "a checkpoint was committed twice"
        assert set(self.reported) <= set(committed)
        lineage = open_lineage(self.disk, JOB, ManualClock())
        fresh = CompletedCheckpointStore(lineage.store, LineageLog(lineage.store, ManualClock()), RETAINED)
        done = fresh.completed()
        assert bool(done) == bool(committed)
        assert [one.record.checkpoint_id for one in done] == committed[len(committed) - len(done) :]
        for one in done:
            self.assert_restorable(lineage.store, one.metadata)

    def assert_restorable(self, store, metadata) -> None:
        downloader = Downloader(store, threads=1)
        target = Path(tempfile.mkdtemp(dir=self.folder))
        files = downloader.fetch(metadata.shards[0], target)
        found = {name: path.read_bytes() for name, path in files.items()}
        downloader.read(metadata.source_position)
        downloader.close()
        shutil.rmtree(target)
        assert found == self.contents[metadata.checkpoint_id][0]


def schedule(store: HookedStore, number: int, after: bool, kill: bool) -> None:
    """At the ``number``-th write from now: an outage of one call (its answer lost if ``after``), or a kill."""
    if kill:
        store.crash_at_write(number, after=after)
        return
    left = [number]

    def fail(operation: str, key: str) -> None:
        if operation in WRITES:
            left[0] -= 1
            if left[0] == -1:
                raise errors.StorageUnavailable(f"{operation} {key}")

    if after:
        store.after = fail
    else:
        store.before = fail


Life.TestCase.settings = settings(max_examples=in_full(150, else_=25), stateful_step_count=20, deadline=None)
TestLife = pytest.mark.fault(
    broken="the storage is away, answers are lost, drivers are killed before or after a write, rivals claim",
    when="at any write of a generated life of checkpoints, retention and sweeps",
    expected="what was reported complete is what a restart finds, whole; a fenced driver commits nothing",
)(Life.TestCase)
