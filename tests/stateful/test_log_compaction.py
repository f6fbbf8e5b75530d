"""Several writers and readers of one log, any of them asleep between any two requests while others compact it.

What the log is, is known from outside: entry n is what was the first to be created under its number. Everything that a
writer is told and a reader sees is compared with that.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.faults import in_full
from support.storage.lockstep import Actor, Late
from support.storage.stores import Crash, ManualClock

from sparkstate import errors
from sparkstate.log import ClaimedLog, LineageLog, LogState, bases, entries, records
from sparkstate.log.records import Entry, key_of
from sparkstate.log.state import fold
from sparkstate.storage.local import LocalStore

EVERY = 3
"""Entries between two bases: the floor follows closely."""
MOST = 4
"""Processes at once."""

pytestmark = pytest.mark.fault_on("a folder")

LIVES = itertools.count()
"""Each machine takes a number, so that the page of faults can say how many lived."""


@pytest.fixture(autouse=True)
def counted(record_property):
    before = next(LIVES)
    yield
    record_property("runs", next(LIVES) - before - 1)


class Disk(LocalStore):
    """The storage, and the truth about the log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.entries: list[Entry] = []
        self.states = [LogState()]
        self.claims: dict[str, int] = {}
        """Writer → the number of its newest claim."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        super().put_if_absent(key, data)
        number = key.rpartition("/")[2]
        if number.isdigit() and data != records.COMPACTED and int(number) > len(self.entries):
            self._count(records.decode(data, key))

    def _count(self, entry: Entry) -> None:
        assert entry.number == len(self.entries) + 1, "the log has a gap"
        claim_number = self.states[-1].claim_number
        if isinstance(entry.record, records.Claim):
            self.claims[entry.writer] = entry.number
        elif entry.writer in self.claims:
            assert self.claims[entry.writer] == claim_number, "a fenced driver has appended"
        self.entries.append(entry)
        self.states.append(fold(self.states[-1], entry))

    def delete(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            name = key.rpartition("/")[2]
            stand = bases.listed(self)
            if name.isdigit():
                assert int(name) <= stand.floor, "an entry above the floor was deleted"
            else:
                assert int(name.rpartition("-")[2]) in stand.outdated or key not in self
            super().delete([key])

    def __contains__(self, key: str) -> bool:
        return any(info.key == key for info in self.list(key))


@dataclass
class Process:
    actor: Actor
    log: LineageLog
    writer: str
    attempt: int
    since: int
    """How many entries there were when its present work began."""
    told: str = ""
    """What it does now."""
    claims: bool = False
    """Whether it is a driver, which does nothing else before it knows that it has claimed."""
    claimed: ClaimedLog | None = None
    """What it knows to have claimed."""

    @property
    def held(self) -> LineageLog | ClaimedLog:
        """The log that it appends to."""
        return self.claimed or self.log


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patches = [mock.patch.object(os, "fsync"), mock.patch.object(entries, "READ_AHEAD", 1)]
        for patch in self.patches:
            patch.start()
        memory = Path("/dev/shm")
        self.folder = Path(
            tempfile.mkdtemp(prefix="sparkstate-log-", dir=memory if memory.is_dir() else None)
        )
        self.disk = Disk(self.folder)
        self.late: Late = []
        self.processes: list[Process] = []
        self.names = itertools.count(1)
        self.attempt = 1

    def teardown(self) -> None:
        try:
            self.the_end()
        finally:
            for process in self.processes:
                while process.actor.busy:
                    process.actor.step("kill")
            for patch in self.patches:
                patch.stop()
            shutil.rmtree(self.folder)
            next(LIVES)

    # -- what may happen ----------------------------------------------------------------------------------------

    @initialize()
    def the_first(self) -> None:
        self.a_driver_comes(True)
        self.drain(self.processes[0])

    @rule(new_attempt=st.booleans())
    @precondition(lambda self: len(self.processes) < MOST)
    def a_driver_comes(self, new_attempt: bool) -> None:
        self.attempt += new_attempt
        process = self.new_process()
        process.claims = True
        self.claim(process)

    @rule()
    @precondition(lambda self: len(self.processes) < MOST)
    def a_reader_comes(self) -> None:
        process = self.new_process()
        self.begin(process, "read", process.log.refresh)

    @rule(data=st.data(), what=st.sampled_from(["commit", "commit", "stone", "incarnation", "read", "sweep"]))
    @precondition(lambda self: any(not p.actor.busy for p in self.processes))
    def somebody_begins(self, data, what) -> None:
        process = data.draw(st.sampled_from([p for p in self.processes if not p.actor.busy]))
        number = next(self.names)
        claimed = process.claimed
        if process.claims and claimed is None:  # its claim's outcome is open: it may be the owner
            self.claim(process)
        elif what == "read" or (what == "sweep" and claimed is None):
            self.begin(process, "read", process.held.refresh)
        elif what == "sweep" and claimed is not None:
            self.begin(process, "sweep", claimed.sweep)
        elif what == "incarnation" and claimed is not None:
            self.begin(process, "append", lambda: claimed.begin_incarnation(f"from {number}") and None)
        else:
            stone = records.Tombstone(checkpoints=(number - 1,), published=number)
            commit = records.CheckpointCommitted(
                checkpoint_id=number, path=f"chk-{number}/_metadata", checksum="", epoch=number, incarnation=1
            )
            record = commit if what == "commit" else stone
            self.begin(process, "append", lambda: (process.held.append(record), record))

    @rule(data=st.data(), requests=st.integers(1, 12))
    @precondition(lambda self: any(p.actor.busy for p in self.processes))
    def somebody_goes_on(self, data, requests) -> None:
        process = data.draw(st.sampled_from([p for p in self.processes if p.actor.busy]))
        for _ in range(requests):
            if process.actor.busy:
                self.step(process)

    @rule(data=st.data(), how=st.sampled_from(["lost", "answer-lost", "late", "kill"]))
    @precondition(lambda self: any(p.actor.busy for p in self.processes))
    def somebody_has_bad_luck(self, data, how) -> None:
        self.step(data.draw(st.sampled_from([p for p in self.processes if p.actor.busy])), how)

    @rule(times=st.integers(1, 8))
    @precondition(lambda self: self.owner() is not None)
    def the_owner_appends(self, times) -> None:
        owner = self.owner()
        assert owner is not None
        for _ in range(times):
            self.drain(owner)
            if owner in self.processes and owner.claimed is None:
                self.claim(owner)
                self.drain(owner)
            if owner in self.processes:
                number = next(self.names)
                record = records.Tombstone(paths=(f"file {number}",), published=number)
                self.begin(owner, "append", lambda record=record: (owner.held.append(record), record))
                self.drain(owner)

    @rule(requests=st.integers(0, 5), times=st.integers(3, 10))
    @precondition(lambda self: len(self.processes) < MOST and self.owner() is not None)
    def the_owner_falls_asleep_and_is_succeeded(self, requests, times) -> None:
        owner = self.owner()
        assert owner is not None
        self.drain(owner)
        if owner in self.processes and owner.claimed is not None:
            number = next(self.names)
            record = records.Tombstone(paths=(f"file {number}",), published=number)
            self.begin(owner, "append", lambda: (owner.held.append(record), record))
            for _ in range(requests):
                if owner.actor.busy:
                    self.step(owner)
        self.a_driver_comes(True)
        self.drain(self.processes[-1])
        self.the_owner_appends(times)

    @rule()
    @precondition(lambda self: self.late)
    def a_late_write_arrives(self) -> None:
        with contextlib.suppress(errors.AlreadyExists):
            self.late.pop(0)()

    # -- how ----------------------------------------------------------------------------------------------------

    def new_process(self) -> Process:
        writer = f"writer {next(self.names)}"
        actor = Actor(self.disk, self.late)
        process = Process(
            actor, LineageLog(actor, ManualClock(), lambda: writer, EVERY), writer, self.attempt, 0
        )
        self.processes.append(process)
        return process

    def claim(self, process: Process) -> None:
        self.begin(process, "claim", lambda: process.log.claim(process.attempt, process.writer))

    def owner(self) -> Process | None:
        """The driver with the newest claim that counts."""
        number = self.disk.states[-1].claim_number
        return next((p for p in self.processes if self.disk.claims.get(p.writer) == number), None)

    def begin(self, process: Process, what: str, work) -> None:
        process.told, process.since = what, len(self.disk.entries)
        process.actor.begin(work)
        if not process.actor.busy:
            self.ended(process)

    def step(self, process: Process, how: str = "") -> None:
        process.actor.step(how)
        if not process.actor.busy:
            self.ended(process)

    def drain(self, process: Process) -> None:
        while process.actor.busy:
            self.step(process)

    def ended(self, process: Process) -> None:
        """Its work is done: is what it was told true?"""
        error = process.actor.error
        if isinstance(error, Crash):
            self.processes.remove(process)
        elif isinstance(error, errors.Fenced):
            assert self.owner() is not process, "the owner was fenced"
            self.processes.remove(process)
        elif error is not None:
            assert isinstance(error, errors.StorageUnavailable), repr(error)
        elif process.told == "read":
            seen = process.actor.result
            assert seen in self.disk.states[process.since :], (
                "a reader saw what never was, or what is long past"
            )
        elif process.told == "append" and process.actor.result is not None:
            number, record = process.actor.result
            entry = self.disk.entries[number - 1]
            assert (entry.writer, entry.record) == (process.writer, record), (
                "a void entry was taken for a commit"
            )
        elif process.told == "claim":
            process.claimed = process.actor.result
            assert process.writer in self.disk.claims

    @invariant()
    def a_new_reader_sees_it_all(self) -> None:
        reader = LineageLog(self.disk, ManualClock())
        assert reader.refresh() == self.disk.states[-1]

    def the_end(self) -> None:
        """Whatever happened, the next driver goes on, and leaves a short log."""
        last = LineageLog(self.disk, ManualClock(), base_every=EVERY).claim(self.attempt + 1, "last")
        for number in range(2 * EVERY):
            last.append(records.Tombstone(paths=(f"{number}",)))
        last.begin_incarnation("")
        last.sweep()
        assert last.state == self.disk.states[-1]
        names = [info.key for info in self.disk.list("log/")]
        floor = bases.listed(self.disk).floor
        assert all(key > key_of(floor) or key == key_of(1) for key in names if key[4].isdigit())
        assert len(names) <= 2 * EVERY + 5, names


Life.TestCase.settings = settings(
    max_examples=in_full(1000, else_=60),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLife = pytest.mark.fault(
    broken="drivers and readers sleep between any two requests, are killed; answers are lost, writes arrive late",
    when="at any request of a generated life of claims, commits, readings and compactions of the log",
    expected="one entry per number counts; a fenced driver appends nothing; readers see the whole log; it stays short",
)(Life.TestCase)
