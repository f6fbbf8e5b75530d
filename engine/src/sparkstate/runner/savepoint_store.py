"""The savepoints of one job in its storage, as the runner counts and deletes them."""

from __future__ import annotations

from sparkstate import clock as clocks
from sparkstate import settings
from sparkstate.checkpoint import savepoint
from sparkstate.log.records import CheckpointCommitted, SavepointCommitted
from sparkstate.log.state import LogState
from sparkstate.runner import retention
from sparkstate.stored import lineages


class SavepointStore:
    """The completed savepoints of one job, read from the storage at every call."""

    def __init__(self, job: settings.JobSettings, clock: clocks.Clock) -> None:
        self._job = job
        self._clock = clock

    def completed(self) -> list[retention.KeptSavepoint]:
        """All completed savepoints of the job's present lineage, oldest first; none before the job's first start."""
        found = self._found()
        return [] if found is None else kept(found.state)

    def restore_point(self) -> CheckpointCommitted | SavepointCommitted | None:
        """From where the next start goes on; None: it has nothing, or only the job's code says where it lies."""
        found = self._found()
        return None if found is None else found.state.restore_point

    def delete(self, expired: retention.KeptSavepoint) -> None:
        """Delete one with its files; it may be gone already."""
        found = self._found()
        if found is not None and expired in kept(found.state):
            opened = lineages.opener(self._job, self._clock)
            savepoint.Savepoints(found.lineage, found.log, opened).delete(expired.url)

    def _found(self) -> lineages.FoundLineage | None:
        return lineages.find(self._job, self._clock) if lineages.has_storage(self._job) else None


def kept(state: LogState) -> list[retention.KeptSavepoint]:
    """The completed savepoints that a log names, in its order (oldest first), as the retention rules see them."""
    return [
        retention.KeptSavepoint(
            url=record.url, trigger_id=record.trigger_id, completed_ms=record.timestamp_ms
        )
        for record in state.savepoints
    ]
