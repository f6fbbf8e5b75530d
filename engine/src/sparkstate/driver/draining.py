"""The checkpoints at the end of bounded input: the last one of the job, and one for each savepoint that still waits."""

from __future__ import annotations

from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.spark.position import Captured
from sparkstate.spark.watermarks import Watermarks


def last_checkpoints(checkpoints: Checkpoints, epoch: int, at: Watermarks, position: Captured) -> None:
    """Until nobody waits any more who was taken on: a savepoint is served with a checkpoint, one at a time, and no
    epoch comes after this one. What fails of a savepoint alone is its request's failure.

    A savepoint that asks the job to stop closes the lineage, and nothing completes after it.
    """
    kept = position.loaded()  # each checkpoint lets go of what it was given
    position.release()
    while True:
        started = checkpoints.start(epoch, at, kept, checkpoints.next_request(), drained=True)
        started.settle(checkpoints.given_up)
        waiting = checkpoints.next_request() is not None or checkpoints.is_awaited
        if not waiting or checkpoints.closed_by is not None:
            return
