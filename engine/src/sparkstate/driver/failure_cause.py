"""Why a query failed."""

from __future__ import annotations

from sparkstate import errors
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import java_errors

_ANSWER_S = 30.0


def reason(failure: BaseException, group: SlotGroup | None) -> errors.SparkstateError:
    """The reason behind a failed query: ours as it is; Spark's own becomes a lost slot if one of ``group`` is dead."""
    if isinstance(failure, errors.SparkstateError):
        return failure
    if group is not None:
        try:
            group.status(_ANSWER_S)
        except errors.SlotLost as error:
            return error
        except errors.SparkstateError:
            pass  # a slot that answers with an error lives
    text = java_errors.told(failure).partition("=== Streaming Query ===")[0].strip()
    cause = text if len(text) < 2000 else text[:1000] + " … " + text[-900:]
    failed = errors.JobFailed(f"Spark failed: {cause}")
    failed.__cause__ = failure
    return failed


class StoppedBySavepoint(errors.SparkstateError):
    """Ends the query from within its callback after a stop with savepoint; no failure."""


class NeverBegun(errors.SparkstateError):
    """Ends a query whose slots did not get their state. The error of the start itself says why."""
