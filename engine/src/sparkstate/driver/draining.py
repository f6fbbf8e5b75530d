"""The last checkpoints. At the end of bounded input: that of the job, and one for each savepoint that still waits. When
a driver is asked to end: one of the epochs that the next attempt would have to repeat.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkstate import errors
from sparkstate.checkpoint import coordinator
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.spark.capture import CapturedPosition
from sparkstate.spark.watermarks import Watermarks


def last_checkpoints(
    checkpoints: Checkpoints,
    epoch: int,
    at: Watermarks,
    position: CapturedPosition,
    ending: Callable[[], bool],
) -> None:
    """Until no accepted savepoint waits any more, or the job is asked to end. A savepoint is served with a checkpoint,
    one at a time, and no epoch comes after this one. An error of a savepoint alone fails only its request.

    A savepoint that asks the job to stop closes the lineage, and nothing completes after it.
    """
    kept = position.loaded()  # each checkpoint lets go of what it was given
    position.release()
    pending = checkpoints.start(epoch, at, kept, checkpoints.next_request(), drained=True)
    pending.settle(checkpoints.given_up)
    # The job is complete from here on, and stays so if a waiting savepoint fails: one whose checkpoint failed took a
    # complete job back to a restart. The end of the job is heard: each had ten minutes, in which SIGTERM was not.
    while checkpoints.closed_by is None and not ending():
        if checkpoints.next_request() is None and not checkpoints.is_awaited:
            return
        if not _served(checkpoints, epoch, at, kept, ending):
            return


def _served(
    checkpoints: Checkpoints, epoch: int, at: Watermarks, kept: CapturedPosition, ending: Callable[[], bool]
) -> bool:
    """Whether the next savepoint that waits was served, or has failed alone. A committed checkpoint is not left half
    done: its failure fails the job, which starts again from there."""
    pending = None
    try:
        pending = checkpoints.start(epoch, at, kept, checkpoints.next_request(), drained=True)
        pending.settle(lambda: checkpoints.given_up() or ending())
    except errors.Fenced:
        raise
    except errors.SparkstateError:
        if pending is not None and pending.committed:
            raise
        return False
    return True


def save_last_epoch(checkpoints: Checkpoints, save: Callable[[], object]) -> None:
    """If waiting for it costs less than it spares the next attempt. ``save`` takes a checkpoint."""
    if checkpoints.is_stuck:
        return  # the next attempt publishes what is committed, and repeats the rest
    usual_s, begun_s = checkpoints.usual_s, checkpoints.under_way_s
    worth = coordinator.last_is_worth_its_time(checkpoints.unsaved.work_s, usual_s, begun_s)
    if worth or checkpoints.is_awaited:
        checkpoints.wait(long_savepoint=False)
        repeat_s = checkpoints.unsaved.work_s
        if repeat_s > 0 and coordinator.last_is_worth_its_time(repeat_s, checkpoints.usual_s):
            save()
        # Only now, with the epochs saved: there may be no time for a savepoint beside.
        if checkpoints.is_awaited:
            checkpoints.wait()
        if checkpoints.is_awaited:
            save()
