"""Whether a query over bounded input has read all of it, by its ``StreamExecution`` in the JVM.

Spark ends such a query once it has looked at all sources and found nothing new. Somebody may also stop it before, as
the job's code can with ``spark.streams.active``. Either way the query has ended without an error, and nothing public
tells which of the two it was: termination event, progress and status are the same.

The context of Spark's newest look tells. Spark makes one for each look. It notes how long the look took once that is
over, with the epoch that the look may have led to.
"""

from __future__ import annotations

from typing import Any

_WHOLE_LOOK = "triggerExecution"
_OF_ONE_EPOCH = "SingleBatchExecutor"
"""Of a query that has a source which cannot say what is there now: Spark reads it in a single epoch."""


def has_read_all(execution: Any) -> bool:
    """Of a query that has ended without an error."""
    looked = execution.getLatestExecutionContext()
    if not looked.getDuration(_WHOLE_LOOK).isDefined():
        return False  # stopped while it looked, or while the epoch ran
    found_nothing = not looked.isCurrentBatchConstructed()
    return found_nothing or bool(execution.triggerExecutor().getClass().getSimpleName() == _OF_ONE_EPOCH)
