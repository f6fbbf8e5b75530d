from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.checkpoint import coordinator as c
from sparkstate.settings import CheckpointSettings

SETTINGS = CheckpointSettings(interval_s=10.0, timeout_s=60.0, min_pause_s=3.0, tolerable_failures=1)
PERIODIC = c.Start("checkpoint")


def begun(now=10.0, slots=(0, 1), state=None, action=PERIODIC):
    return c.start(state or c.initial(5, 0.0), action, slots, now)


def test_the_first_checkpoint_is_due_one_interval_after_the_begin():
    state = c.initial(1, 100.0)
    assert c.decide(state, SETTINGS, 104.0) == c.Wait(6.0)
    assert c.decide(state, SETTINGS, 110.0) == PERIODIC


def test_intervals_count_from_start_to_start():
    state = c.complete(begun(10.0), 5, 12.0)
    assert c.decide(state, SETTINGS, 15.0) == c.Wait(5.0)
    assert c.decide(state, SETTINGS, 20.0) == PERIODIC


def test_after_a_long_checkpoint_the_minimum_pause_holds():
    state = c.complete(begun(10.0), 5, 30.0)
    assert c.decide(state, SETTINGS, 31.0) == c.Wait(2.0)
    assert c.decide(state, SETTINGS, 33.0) == PERIODIC


def test_one_at_a_time():
    state = begun(10.0)
    assert c.decide(state, SETTINGS, 40.0) == c.Wait(30.0)
    with pytest.raises(AssertionError, match="under way"):
        c.start(state, PERIODIC, (0,), 40.0)


def test_a_checkpoint_that_takes_too_long_expires_and_the_slots_that_did_not_answer_are_named():
    state = c.acknowledge(begun(10.0, slots=(0, 1, 2)), 5, 1)
    action = c.decide(state, SETTINGS, 70.0)
    assert isinstance(action, c.Expire)
    assert action.checkpoint_id == 5
    assert "[0, 2]" in action.reason


def test_it_is_acknowledged_when_every_slot_has_answered():
    state = c.acknowledge(begun(), 5, 0)
    assert not c.acknowledge(state, 5, 0).pending.acknowledged, "one slot that answers twice is one slot"
    assert c.acknowledge(state, 5, 1).pending.acknowledged


def test_a_late_answer_for_another_checkpoint_changes_nothing():
    state = begun()
    assert c.acknowledge(state, 4, 0) == state
    idle = c.fail(state, 5, "expired", 70.0)
    assert c.acknowledge(idle, 5, 0) == idle


def test_numbers_are_never_used_twice_also_after_a_failure():
    state = c.fail(begun(), 5, "declined", 12.0)
    assert begun(20.0, state=state).pending.checkpoint_id == 6


def test_the_job_fails_after_more_failures_in_a_row_than_tolerated():
    state = c.fail(begun(10.0), 5, "declined by slot 1", 11.0)
    c.require_tolerable(state, SETTINGS)
    state = c.fail(begun(20.0, state=state), 6, "expired", 80.0)
    with pytest.raises(errors.JobFailed, match=r"2 checkpoints in a row failed, 1 are tolerated.*expired"):
        c.require_tolerable(state, SETTINGS)


def test_a_success_begins_the_count_anew():
    state = c.fail(begun(10.0), 5, "declined", 11.0)
    state = c.complete(begun(20.0, state=state), 6, 21.0)
    assert state.failures_in_row == 0
    assert (state.completed, state.failed, state.last_failure) == (1, 1, "")


def test_failures_while_the_storage_is_away_count_towards_nothing():
    state = c.initial(1, 0.0)
    for step in range(50):
        state = begun(10.0 * step, state=state)
        state = c.fail(state, state.pending.checkpoint_id, "away", 10.0 * step + 1, storage_away=True)
    c.require_tolerable(state, SETTINGS)
    assert state.failed == 50


def test_a_failed_savepoint_counts_towards_nothing():
    state = begun(1.0, action=c.Start("savepoint", "t"))
    state = c.fail(state, 5, "disk full", 2.0)
    assert state.failures_in_row == 0


def test_a_savepoint_waits_for_the_running_one_and_for_no_interval():
    state = c.request_savepoint(begun(10.0), "t1")
    assert isinstance(c.decide(state, SETTINGS, 11.0), c.Wait)
    state = c.complete(state, 5, 12.0)
    assert c.decide(state, SETTINGS, 12.0) == c.Start("savepoint", "t1")


def test_the_same_trigger_id_is_queued_once():
    state = c.request_savepoint(c.request_savepoint(c.initial(5, 0.0), "t"), "t")
    assert state.requested == ("t",)
    state = begun(1.0, state=state, action=c.Start("savepoint", "t"))
    assert state.requested == ()
    assert c.request_savepoint(state, "t") == state
    assert c.request_savepoint(state, "u").requested == ("u",)


def test_a_savepoint_does_not_shift_the_periodic_ones():
    state = begun(5.0, state=c.initial(5, 0.0), action=c.Start("savepoint", "t"))
    state = c.complete(state, 5, 6.0)
    assert c.decide(state, SETTINGS, 10.0) == PERIODIC


def test_only_the_pending_one_can_end():
    for end in (lambda: c.complete(begun(), 4, 1.0), lambda: c.fail(c.initial(5, 0.0), 5, "x", 1.0)):
        with pytest.raises(AssertionError, match="not pending"):
            end()


HELD = CheckpointSettings(interval_s=10.0, max_held_bytes=1000, max_time_without_s=60.0)


def test_half_of_the_held_output_makes_a_checkpoint_due():
    state = c.initial(1, 0.0)
    assert c.decide(state, HELD, 1.0, held_bytes=499) == c.Wait(9.0)
    assert c.decide(state, HELD, 1.0, held_bytes=500) == PERIODIC


def test_after_a_failure_held_output_waits_for_the_interval_as_everything_does():
    state = c.fail(begun(10.0), 5, "storage away", 12.0, storage_away=True)
    assert c.decide(state, HELD, 13.0, held_bytes=5000) == c.Wait(7.0)
    assert c.decide(state, HELD, 20.0, held_bytes=5000) == PERIODIC


@pytest.mark.parametrize(
    ("held", "unsaved_s", "away", "why"),
    [
        pytest.param(999, 59.0, True, None, id="below both limits"),
        pytest.param(1000, 0.0, False, "maxHeldOutput", id="held output, whatever the storage does"),
        pytest.param(0, 60.0, True, "maxTimeWithoutCheckpoint", id="too long while a storage is away"),
        pytest.param(0, 6000.0, False, None, id="a slow checkpoint is no storage that is away"),
    ],
)
def test_when_a_job_takes_nothing_in(held, unsaved_s, away, why):
    told = c.hold_back(HELD, held, unsaved_s, storage_away=away)
    assert (told is None) == (why is None)
    assert why is None or why in told
