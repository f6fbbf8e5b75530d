from __future__ import annotations

import pytest

from sparkstate import errors
from sparkstate.checkpoint import coordinator as c
from sparkstate.settings import CheckpointSettings

SETTINGS = CheckpointSettings(interval_s=10.0, timeout_s=60.0, min_pause_s=3.0, tolerable_failures=1)
NOTHING = c.OpenRequests()
SAVEPOINT = c.OpenRequests(savepoint=True)


def begun(now=10.0, state=None, checkpoint_id=5):
    return c.start(state or c.initial(0.0), checkpoint_id, now)


def is_due_from(state, due_s, settings=SETTINGS, held_bytes=0):
    """Whether a checkpoint is due at that time, and not before."""
    before, at = (c.is_due(state, settings, now, held_bytes) for now in (due_s - 0.001, due_s))
    return at and not before


def test_the_first_checkpoint_is_due_one_interval_after_the_begin():
    assert is_due_from(c.initial(100.0), 110.0)


def test_intervals_count_from_start_to_start():
    assert is_due_from(c.complete(begun(10.0), 5, 12.0), 20.0)


def test_after_a_long_checkpoint_the_minimum_pause_holds():
    assert is_due_from(c.complete(begun(10.0), 5, 30.0), 33.0)


def test_one_at_a_time():
    state = begun(10.0)
    assert not c.is_due(state, SETTINGS, 1000.0)
    with pytest.raises(AssertionError, match="under way"):
        c.start(state, 6, 40.0)


def test_the_job_fails_after_more_failures_in_a_row_than_tolerated():
    state = c.fail(begun(10.0), 5, "declined by slot 1", 11.0)
    c.require_tolerable(state, SETTINGS)
    state = c.fail(begun(20.0, state, 6), 6, "expired", 80.0)
    with pytest.raises(errors.JobFailed, match=r"2 checkpoints in a row failed, 1 are tolerated.*expired"):
        c.require_tolerable(state, SETTINGS)


def test_a_success_begins_the_count_anew():
    state = c.fail(begun(10.0), 5, "declined", 11.0)
    state = c.complete(begun(20.0, state, 6), 6, 21.0)
    assert (state.failures_in_row, state.last_failure) == (0, "")


def test_failures_while_the_storage_is_away_count_towards_nothing():
    state = c.initial(0.0)
    for step in range(50):
        state = begun(10.0 * step, state, step)
        state = c.fail(state, step, "away", 10.0 * step + 1, storage_away=True)
    c.require_tolerable(state, SETTINGS)
    assert state.failures_in_row == 0


def begins(state, now, asked, **how):
    return c.begins(state, SETTINGS, now, asked, **{"under_way": False, **how})


@pytest.mark.parametrize(
    "asked", [SAVEPOINT, c.OpenRequests(checkpoint=True)], ids=["savepoint", "checkpoint"]
)
def test_what_is_asked_for_waits_for_the_running_one_and_for_no_interval(asked):
    state = begun(10.0)
    assert not begins(state, 11.0, asked, under_way=True)
    state = c.complete(state, 5, 12.0)
    assert begins(state, 12.0, asked)
    assert begins(state, 12.0, asked, changed=False)
    assert not begins(state, 12.0, NOTHING)


def test_what_was_asked_for_is_a_checkpoint_from_which_the_interval_counts():
    state = c.complete(begun(5.0), 5, 6.0)
    assert is_due_from(state, 15.0)


def test_no_checkpoint_is_taken_of_what_the_newest_one_holds():
    assert begins(c.initial(0.0), 10.0, NOTHING)
    assert not begins(c.initial(0.0), 10.0, NOTHING, changed=False)


def test_only_the_pending_one_can_end():
    for end in (lambda: c.complete(begun(), 4, 1.0), lambda: c.fail(c.initial(0.0), 5, "x", 1.0)):
        with pytest.raises(AssertionError, match="not pending"):
            end()


HELD = CheckpointSettings(interval_s=10.0, max_held_bytes=1000, max_time_without_s=60.0)


def test_half_of_the_held_output_makes_a_checkpoint_due():
    state = c.initial(0.0)
    assert is_due_from(state, 10.0, HELD, held_bytes=499)
    assert c.is_due(state, HELD, 1.0, held_bytes=500)


def test_after_a_failure_held_output_waits_for_the_interval_as_everything_does():
    state = c.fail(begun(10.0), 5, "storage away", 12.0, storage_away=True)
    assert is_due_from(state, 20.0, HELD, held_bytes=5000)


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
    told = c.hold_back(HELD, c.Backlog(held_bytes=held, age_s=unsaved_s, storage_away=away))
    assert (told is None) == (why is None)
    assert why is None or why in told


@pytest.mark.parametrize(
    ("now", "asked", "backlog", "under_way", "wanted"),
    [
        pytest.param(9.0, NOTHING, c.Backlog(), False, False, id="nothing is due"),
        pytest.param(10.0, NOTHING, c.Backlog(), False, True, id="the interval is over"),
        pytest.param(10.0, NOTHING, c.Backlog(), True, False, id="one is under way"),
        pytest.param(1.0, SAVEPOINT, c.Backlog(), False, True, id="a savepoint is asked for"),
        pytest.param(1.0, SAVEPOINT, c.Backlog(), True, False, id="which waits for the one under way"),
        pytest.param(
            1.0, c.OpenRequests(savepoint=True, stop=True), c.Backlog(), True, True, id="not if it stops"
        ),
        pytest.param(
            1.0, c.OpenRequests(checkpoint=True), c.Backlog(), False, True, id="a checkpoint is asked for"
        ),
        pytest.param(1.0, NOTHING, c.Backlog(held_bytes=500), False, True, id="half of the held output"),
        pytest.param(1.0, NOTHING, c.Backlog(held_bytes=500), True, False, id="which is being stored"),
        pytest.param(1.0, NOTHING, c.Backlog(held_bytes=1000), True, True, id="nothing may be taken in"),
    ],
)
def test_when_no_other_epoch_begins_before_the_end_of_this_one(now, asked, backlog, under_way, wanted):
    assert c.wants_epoch(c.initial(0.0), HELD, now, asked, backlog, under_way=under_way) is wanted


@pytest.mark.parametrize(
    ("now", "backlog", "under_way", "step"),
    [
        pytest.param(9.0, c.Backlog(), False, c.PauseStep.WAIT, id="nothing is due"),
        pytest.param(10.0, c.Backlog(), False, c.PauseStep.BEGIN, id="the interval is over"),
        pytest.param(10.0, c.Backlog(storage_away=True), True, c.PauseStep.WAIT, id="one is under way"),
        pytest.param(1.0, c.Backlog(held_bytes=1000), False, c.PauseStep.BEGIN, id="held output"),
        pytest.param(
            9.0,
            c.Backlog(storage_away=True),
            False,
            c.PauseStep.PROBE,
            id="a storage was away, before the interval",
        ),
        pytest.param(
            10.0,
            c.Backlog(storage_away=True),
            False,
            c.PauseStep.BEGIN,
            id="a storage was away, after the interval",
        ),
    ],
)
def test_a_job_that_takes_nothing_in_begins_a_checkpoint_whenever_one_may_succeed(
    now, backlog, under_way, step
):
    assert c.pause_step(c.initial(0.0), HELD, now, backlog, under_way=under_way) is step


def test_after_a_failure_held_output_alone_begins_no_checkpoint_in_a_pause():
    failed = c.fail(begun(10.0), 5, "storage away", 12.0, storage_away=True)
    full = c.Backlog(held_bytes=1000, storage_away=True)
    assert c.pause_step(failed, HELD, 13.0, full, under_way=False) is c.PauseStep.PROBE


@pytest.mark.parametrize(
    ("repeat_s", "usual_s", "under_way_s", "worth"),
    [
        pytest.param(0.1, None, 0.0, True, id="no-checkpoint-yet"),
        pytest.param(
            0.0,
            c.AT_ONCE_S / c.LAST_TAKES,
            0.0,
            True,
            id="a-small-job-saves-always",
        ),
        pytest.param(3.0, 4.0, 0.0, False, id="to-repeat-is-quicker"),
        pytest.param(4.0 * c.LAST_TAKES, 4.0, 0.0, False, id="no-difference"),
        pytest.param(60.0, 4.0, 0.0, True, id="to-save-is-quicker"),
        pytest.param(3.0, 4.0, 3.0, False, id="one-that-has-begun"),
        pytest.param(3.0, 4.0, 6.5, True, id="one-that-is-nearly-complete"),
        pytest.param(0.1, 4.0, 600.0, True, id="one-that-is-late"),
    ],
)
def test_whoever_waits_for_a_last_checkpoint_saves_time_by_it(
    repeat_s: float, usual_s: float | None, under_way_s: float, worth: bool
) -> None:
    assert c.last_is_worth_its_time(repeat_s, usual_s, under_way_s) is worth
