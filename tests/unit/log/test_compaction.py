"""What compaction of the log leaves, and what becomes of those that slept meanwhile (all interleavings: stateful/)."""

from __future__ import annotations

import contextlib
import os

import pytest
from support.storage.stores import Crash, HookedStore, ManualClock

from sparkstate import errors
from sparkstate.log import FenceGuard, LineageLog, bases, compaction, framing, records
from sparkstate.log.log import BASE_EVERY
from sparkstate.log.records import key_of
from sparkstate.storage.local import LocalStore

pytestmark = pytest.mark.usefixtures("without_flushing")


@pytest.fixture
def store(tmp_path):
    return HookedStore(LocalStore(str(tmp_path)))


def open_log(store, every=BASE_EVERY):
    return LineageLog(store, ManualClock(), base_every=every)


def stone(name="x"):
    return records.Tombstone(paths=(f"{name}",))


def a_life(store, entries, every=10, attempt=1):
    """A driver's log after ``entries`` entries of its own."""
    log = open_log(store, every).claim(attempt, f"attempt {attempt}")
    for number in range(entries - 1):
        log.append(stone(number))
    return log


def names(store):
    return [info.key for info in store.list("log/")]


def test_a_log_of_any_age_is_two_bases_and_the_entries_between(store):
    a_life(store, 1000)
    assert len(names(store)) <= 2 + 2 * 10 + 1
    assert names(store)[0] == key_of(1)
    assert store.get(key_of(1)) == records.COMPACTED


def test_to_open_and_to_claim_take_as_many_requests_at_every_age(tmp_path):
    counts = []
    for entries in (40, 400):
        store = HookedStore(LocalStore(str(tmp_path / f"{entries}")))
        log = a_life(store, entries)
        store.calls.clear()
        reader = open_log(store)
        assert reader.refresh() == log.state
        claimed = reader.claim(2, "next")
        claimed.begin_incarnation("")
        claimed.sweep()
        counts.append(len(store.calls))
    assert counts[0] == counts[1] < 60


def test_a_commit_is_a_write_and_a_listing(store):
    log = a_life(store, 25)
    store.calls.clear()
    log.append(stone())
    assert store.calls == [("put_if_absent", key_of(26)), ("list", "log/_checkpoint-")]


@pytest.mark.parametrize("damage", [None, b"", b"rubbish" * 20])
def test_one_damaged_base_costs_time_and_nothing_else(store, damage):
    log = a_life(store, 45)
    newest = bases.key_of(bases.listed(store).newest)
    store.delete([newest])
    if damage is not None:
        store.put_if_absent(newest, damage)
    assert open_log(store).refresh() == log.state


def test_two_damaged_bases_are_an_error_and_never_a_shorter_history(store):
    a_life(store, 45)
    for number in bases.listed(store).numbers:
        store.delete([bases.key_of(number)])
        store.put_if_absent(bases.key_of(number), b"rubbish")
    with pytest.raises(
        errors.CorruptData, match=r"_checkpoint-000000000040.*_checkpoint-000000000030.*Put one"
    ):
        open_log(store).refresh()


def test_a_log_that_lost_its_bases_is_no_empty_log(store):
    a_life(store, 45)
    store.delete([key for key in names(store) if "_checkpoint" in key])
    with pytest.raises(errors.CorruptData, match="no entry 1"):
        open_log(store).refresh()
    store.delete([key_of(1)])
    with pytest.raises(errors.CorruptData, match="no entry 1"):
        open_log(store).claim(2, "next")


def test_entries_that_are_gone_above_the_floor_are_an_error(store):
    a_life(store, 45)
    floor, newest = bases.listed(store).numbers
    store.delete([bases.key_of(newest), key_of(floor + 1)])
    store.put_if_absent(bases.key_of(newest), b"rubbish")
    with pytest.raises(errors.CorruptData, match=f"no entry {floor + 1}"):
        open_log(store).refresh()


def test_a_version_that_knows_no_floor_refuses_a_log_without_bases_that_it_can_read(store):
    a_life(store, 45)
    with pytest.raises(
        errors.UnknownFormat, match="version 2, this sparkstate reads 1 to 1; use the sparkstate version"
    ):
        framing.unframe(records.MAGIC, 1, store.get(key_of(1)), "log/1")


@pytest.mark.fault(
    broken="a driver sleeps while its successor compacts the log, and wakes where its next number is free again",
    when="before it appends",
    expected="what it creates is void: it is fenced, and no reader sees it",
)
@pytest.mark.fault_on("a folder")
@pytest.mark.parametrize("slept_at", [1, 5])
def test_a_driver_that_slept_through_a_compaction_is_fenced(store, slept_at):
    sleeper = a_life(store, slept_at, every=4)
    next_one = a_life(store, 30, every=4, attempt=2)
    assert key_of(slept_at + 1) not in names(store)
    with pytest.raises(errors.Fenced, match=r"attempt 2.*attempt 1, life 1"):
        sleeper.append(stone("late"))
    assert key_of(slept_at + 1) in names(store)
    assert open_log(store).refresh() == next_one.refresh() == next_one.state
    next_one.begin_incarnation("")
    assert next_one.sweep() == 1
    assert key_of(slept_at + 1) not in names(store)


def test_a_driver_that_slept_between_its_create_and_its_look_is_fenced_too(store):
    sleeper = a_life(store, 5, every=4)
    done = []

    def asleep(operation, key):
        if (operation, key) == ("put_if_absent", key_of(6)) and not done:
            done.append(a_life(store.store, 30, every=4, attempt=2))

    store.before = asleep
    with pytest.raises(errors.Fenced):
        sleeper.append(stone("late"))
    store.heal()
    assert open_log(store).refresh() == done[0].state


def test_a_driver_whose_log_was_empty_when_it_slept_claims_at_the_end(store):
    sleeper = open_log(store)
    sleeper.refresh()
    a_life(store, 30, every=4)
    assert sleeper.claim(1, "late").token == records.Token(1, 2)
    assert sleeper.state.last_number == 31


def test_a_tombstone_of_an_offline_command_that_slept_comes_at_the_end(store):
    offline = open_log(store)
    offline.append(stone())
    a_life(store, 30, every=4)
    assert offline.append(stone("late")) == 32
    assert offline.refresh() == open_log(store).refresh()


def test_a_guard_that_slept_through_a_compaction_learns_it_with_its_next_read(store):
    sleeper = a_life(store, 3, every=4)
    guard = FenceGuard(sleeper, 30.0, ManualClock())
    a_life(store, 30, every=4, attempt=2)
    with pytest.raises(errors.Fenced, match="attempt 2"):
        guard.read()


def test_a_void_entry_among_true_ones_is_not_read(store):
    """A compaction was broken off: some of the entries below the floor are there, and one of them is void."""
    reader = open_log(store)
    reader.append(stone("first"))
    kept = {}
    store.before = lambda operation, key: operation == "delete" and kept.setdefault(key, store.store.get(key))
    log = a_life(store, 12, every=4)
    kept = {key: data for key, data in kept.items() if "_checkpoint" not in key}
    store.heal()
    assert sorted(kept) == [key_of(number) for number in range(1, bases.listed(store).floor + 1)]
    false = records.Entry(
        number=2, writer="w", timestamp_ms=0, record=records.Claim(attempt=99, life=1, driver="x")
    )
    for key in sorted(kept)[1:]:
        store.put_if_absent(key, records.encode(false) if key == key_of(2) else kept[key])
    assert reader.refresh() == log.state


def test_a_crash_at_any_write_of_a_compaction_loses_nothing_and_leaves_nothing(tmp_path):
    for number in range(60):
        for after in (False, True):
            store = HookedStore(LocalStore(str(tmp_path / f"{number}-{after}")))
            store.crash_at_write(number, after=after)
            with contextlib.suppress(Crash):
                a_life(store, 18, every=4)
            store.heal()
            seen = open_log(store).refresh().last_number
            nxt = a_life(store, 12, every=4, attempt=2)
            assert nxt.state.last_number == seen + 12
            nxt.begin_incarnation("")
            nxt.sweep()
            floor = bases.listed(store).floor
            assert [key for key in names(store) if key_of(1) < key <= key_of(floor)] == []


def test_a_base_that_cannot_be_written_does_not_fail_the_append(store):
    log = a_life(store, 9)

    def refuse(operation, key):
        if operation == "put_if_absent" and "_checkpoint" in key:
            raise errors.StorageUnavailable("no")

    store.before = refuse
    for number in range(5):
        log.append(stone(number))
    assert bases.listed(store).numbers == ()
    store.heal()
    log.append(stone())
    assert bases.listed(store).numbers == (15,)


def test_only_an_owner_writes_a_base(store):
    log = open_log(store, 4)
    for number in range(20):
        log.append(stone(number))
    assert bases.listed(store).numbers == ()


# -- drivers of versions that know no floor ----------------------------------------------------------------------


def an_old_life(store, entries):
    """As version 0.1 wrote it: its claim says nothing of a floor, and every 50 entries it left a hint."""
    log = open_log(store, every=10**9)
    log.append(records.Claim(attempt=1, life=1, driver="old"))
    for number in range(entries - 1):
        log.append(stone(number))
        if log.state.last_number % 50 == 0:
            bases.write(store, log.state)
    return log


def age(tmp_path, number, seconds):
    path = tmp_path / key_of(number)
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_what_an_older_version_wrote_stays_for_a_day_and_then_goes(store, tmp_path):
    an_old_life(store, 120)
    log = a_life(store, 40, attempt=2)
    assert log.state.unguarded_until == 121
    log.begin_incarnation("")
    assert log.sweep() == 0
    assert len([key for key in names(store) if key <= key_of(121)]) == 121, (
        "an old driver may sleep anywhere here"
    )
    assert len(names(store)) < 121 + 30, "what came after it is compacted"
    age(tmp_path, 121, compaction.UNGUARDED_REST_S + 60)
    nxt = a_life(store, 5, attempt=3)
    nxt.begin_incarnation("")
    assert nxt.sweep() > 100
    assert len(names(store)) < 30
    assert open_log(store).refresh() == nxt.state


def test_after_a_version_that_knows_no_floor_ran_again_its_entries_stay_again(store):
    a_life(store, 30)
    back = open_log(store, every=10**9)
    back.append(records.Claim(attempt=2, life=1, driver="old"))
    for number in range(9):
        back.append(stone(number))
    log = a_life(store, 50, attempt=3)
    assert log.state.unguarded_until == 41
    log.begin_incarnation("")
    log.sweep()
    assert {key_of(number) for number in range(31, 42)} <= set(names(store))
