from __future__ import annotations

import threading

import pytest
from support.storage.stores import Crash, HookedStore, ManualClock

from sparkstate import errors
from sparkstate.log import LineageLog, records
from sparkstate.log.records import key_of
from sparkstate.storage.local import LocalStore


@pytest.fixture
def store(root):
    return HookedStore(root)


def open_log(store):
    return LineageLog(store, ManualClock())


def stone(name="x"):
    return records.Tombstone(paths=(name,))


def commit(number, incarnation=1):
    return records.CheckpointCommitted(
        checkpoint_id=number,
        path=f"chk-{number}/_metadata",
        checksum="c",
        epoch=number,
        incarnation=incarnation,
    )


def test_what_is_published_is_the_highest_number_that_was_said(store):
    log = open_log(store).claim(1, "me")
    assert log.state.published == 0
    for number in (3, 2):
        log.append(records.Tombstone(published=number))
    log.append(stone())
    assert log.state.published == open_log(store).refresh().published == 3


def test_the_first_claim_is_life_one_of_its_attempt(store):
    log = open_log(store).claim(4, "me")
    assert log.token == records.Token(4, 1)
    assert log.state.claim_number == 1


def test_each_restart_within_an_attempt_is_a_life_above_the_last(store):
    for life in (1, 2, 3):
        assert open_log(store).claim(1, f"life {life}").token == records.Token(1, life)


def test_a_higher_attempt_begins_with_life_one_and_fences_the_older(store):
    old = open_log(store).claim(1, "old")
    old.append(stone())
    new = open_log(store).claim(2, "new driver")
    with pytest.raises(
        errors.Fenced, match=r"claimed by new driver \(attempt 2, life 1\).*attempt 1, life 1"
    ):
        old.append(stone("late"))
    assert new.refresh().last_number == 3


def test_a_lower_attempt_may_not_claim_at_all(store):
    open_log(store).claim(3, "new driver")
    with pytest.raises(errors.Fenced, match=r"attempt 2 may not run: attempt 3 \(new driver\)"):
        open_log(store).claim(2, "old")


def test_a_lineage_is_released_until_it_is_claimed_again(store):
    first = open_log(store).claim(1, "a")
    assert not first.state.claim.released
    first.release()
    with pytest.raises(errors.Fenced):
        first.append(stone())
    unclaimed = open_log(store)
    assert unclaimed.refresh().claim == records.Claim(
        attempt=1, life=1, driver="a", released=True, knows_floor=True
    )
    second = unclaimed.claim(2, "b")
    assert second.state.claim == records.Claim(attempt=2, life=1, driver="b", knows_floor=True)
    with pytest.raises(errors.Fenced):
        first.release()


def test_the_next_life_of_the_same_attempt_claims_as_ever_what_was_released(store):
    first = open_log(store).claim(1, "a")
    first.release()
    assert open_log(store).claim(1, "b").token == records.Token(1, 2)


def test_an_older_life_is_fenced_by_a_newer_one_of_the_same_attempt(store):
    old, new = (open_log(store).claim(1, who) for who in ("old", "new"))
    with pytest.raises(errors.Fenced):
        old.check()
    new.check()


def test_of_two_drivers_that_claim_at_once_one_stays(store):
    logs = [open_log(store) for _ in range(6)]
    start = threading.Barrier(len(logs))
    claimed = []

    def claim(log):
        start.wait()
        claimed.append(log.claim(1, "x"))

    threads = [threading.Thread(target=claim, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(log.token for log in claimed) == [records.Token(1, life) for life in range(1, 7)]
    alive = []
    for log in claimed:
        try:
            log.append(stone())
            alive.append(log.token)
        except errors.Fenced:
            pass
    assert alive == [records.Token(1, 6)]


def test_an_offline_tombstone_between_two_commits_is_tolerated(store):
    driver, offline = open_log(store).claim(1, "driver"), open_log(store)
    driver.begin_incarnation("")
    assert offline.append(stone("offline")) == 3
    assert driver.append(commit(1)) == 4
    assert offline.append(stone("again")) == 5


def test_an_append_is_decided_again_from_what_came_between(store):
    driver, offline = open_log(store).claim(1, "driver"), open_log(store)
    offline.append(stone())
    seen = []

    def decide(state):
        seen.append(state.last_number)
        return stone("mine") if state.last_number < 2 else None

    assert driver.append_if(decide) is None
    assert seen == [1, 2]
    assert driver.refresh().last_number == 2


def lost_answer(store, *, stored):
    """The next creation raises as in an outage, after or before it took place."""

    def hook(operation, key):
        if operation == "put_if_absent":
            store.heal()
            raise errors.StorageUnavailable("answer lost")

    if stored:
        store.after = hook
    else:
        store.before = hook


@pytest.mark.parametrize("stored", [True, False])
def test_an_append_whose_answer_was_lost_happens_once_when_repeated(store, stored):
    log = open_log(store).claim(1, "me")
    lost_answer(store, stored=stored)
    with pytest.raises(errors.StorageUnavailable):
        log.append(commit(1))
    assert log.append(commit(1)) == 2
    assert open_log(store).refresh().last_number == 2


def test_an_open_append_that_took_place_is_seen_before_another_record(store):
    log = open_log(store).claim(1, "me")
    lost_answer(store, stored=True)
    with pytest.raises(errors.StorageUnavailable):
        log.append(commit(1))
    assert log.append(stone("other")) == 3
    assert [c.checkpoint_id for c in log.state.checkpoints] == [1]


def test_an_append_after_which_the_storage_refuses_us_is_open_and_happens_once(store):
    """Its rights may be taken away, or its keys rotated, between any two requests."""
    log = open_log(store).claim(1, "me")

    def refuse(operation, key):
        if operation == "list":
            raise errors.StorageRefused("AccessDenied")

    store.before = refuse
    for _ in range(2):
        with pytest.raises(errors.StorageUnavailable, match=r"entry 2 of the log is written.*AccessDenied"):
            log.append(commit(1))
    store.heal()
    assert log.append(commit(1)) == 2
    assert open_log(store).refresh().last_number == 2


def test_a_claim_whose_answer_was_lost_is_ours_when_repeated(store):
    log = open_log(store)
    lost_answer(store, stored=True)
    with pytest.raises(errors.StorageUnavailable):
        log.claim(1, "me")
    claimed = log.claim(1, "me")
    assert claimed.token == records.Token(1, 1)
    claimed.append(stone())


def test_the_same_record_of_another_writer_is_not_taken_for_ours(store):
    one, two = open_log(store), open_log(store)
    one.refresh()
    two.refresh()
    assert one.append(stone()) == 1
    assert two.append(stone()) == 2


def test_a_closed_attempt_never_runs_again_but_the_next_one_does(store):
    log = open_log(store).claim(2, "me")
    log.begin_incarnation("")
    log.append(records.Closed(savepoint_url="s3://sp", trigger_id="t", attempt=2))
    with pytest.raises(errors.Fenced, match="attempt 2 was stopped with the savepoint s3://sp"):
        open_log(store).claim(2, "again")
    other = open_log(store).claim(3, "next")
    assert other.token == records.Token(3, 1)
    assert other.state.closed is not None
    assert other.begin_incarnation("s3://sp") == 2
    assert other.state.closed is None


def test_whoever_begins_an_incarnation_sees_what_took_the_number_before_it(store):
    log = open_log(store).claim(1, "me")
    open_log(store).append(stone("first"))  # which the claimed log has not read yet
    seen = []

    def require(state):
        seen.append(state.last_number)
        if state.last_number == 2:
            raise errors.StorageUnavailable("what was decided has changed")

    with pytest.raises(errors.StorageUnavailable, match="has changed"):
        log.begin_incarnation("", require=require)
    assert seen == [1, 2]
    assert open_log(store).refresh().incarnation == 0


def test_a_damaged_entry_is_an_error_and_never_a_shorter_history(store, tmp_path):
    log = open_log(store).claim(1, "me")
    for _ in range(3):
        log.append(stone())
    store.delete([key_of(3)])
    store.put_if_absent(key_of(3), b"rubbish")
    with pytest.raises(errors.CorruptData, match="log/000000000003"):
        open_log(store).refresh()


def test_an_entry_under_a_wrong_number_is_damage(store):
    log = open_log(store).claim(1, "me")
    store.put_if_absent(key_of(2), store.get(key_of(1)))
    with pytest.raises(errors.CorruptData, match="holds the entry 1"):
        log.refresh()


def test_an_outage_is_said_and_nothing_is_known_by_it(store):
    log = open_log(store).claim(1, "me")
    store.unplug()
    for act in (log.refresh, log.check, lambda: log.append(stone())):
        with pytest.raises(errors.StorageUnavailable):
            act()
    store.heal()
    assert log.append(stone()) == 2


def live(log):
    log = log.claim(1, "me")
    for step in range(10):
        log.append(stone(f"{step}"))


def test_a_crash_at_any_write_leaves_a_log_that_the_next_driver_reads(tmp_path):
    for number in range(8):
        for after in (False, True):
            store = HookedStore(LocalStore(str(tmp_path / f"{number}-{after}")))
            log = open_log(store)
            store.crash_at_write(number, after=after)
            with pytest.raises(Crash):
                live(log)
            store.heal()
            state = open_log(store).refresh()
            assert state.last_number == number + (1 if after else 0)
