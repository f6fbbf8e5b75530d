"""A savepoint that the log has under a trigger id, and that an earlier driver took, or an earlier incarnation.

The log keeps of a request what its savepoint shows: where it lies, and whether the lineage was closed with it. A
request that asks for something else must not hear that it is completed: a caller believed that the job had stopped,
while it ran on.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate.checkpoint.savepoint import logged
from sparkstate.control import port
from sparkstate.control.documents import LongWorkKind, SavepointPhase, SavepointStatus
from sparkstate.driver.requests import Requests
from sparkstate.driver.view import JobView
from sparkstate.log.records import SavepointCommitted
from sparkstate.log.state import LogState
from sparkstate.storage import naming


@dataclass(frozen=True)
class EarlierSavepoint:
    """Completed. ``stopped``: the job ended with it, and has not begun again."""

    record: SavepointCommitted
    stopped: bool

    @property
    def status(self) -> SavepointStatus:
        """The answer to the request for it."""
        return SavepointStatus(
            trigger_id=self.record.trigger_id,
            status=SavepointPhase.COMPLETED,
            location=self.record.url,
            epoch=self.record.epoch,
            stop=self.stopped,
        )

    def require_same(self, request: port.SavepointTrigger) -> None:
        """Raises ``TriggerConflict`` for a request that this savepoint does not fulfil. A request without a target
        means the job's own folder, which may be another one by now."""
        taken = f"trigger id {self.record.trigger_id!r} was used for the savepoint {self.record.url}"
        if (request.stop or request.drain) and not self.stopped:
            raise port.TriggerConflict(
                f"{taken}, and the job was not stopped with it, or was started again; choose another id"
            )
        target = request.target_directory
        if target is not None and naming.normalise_url(target) != naming.split_url(self.record.url)[0]:
            raise port.TriggerConflict(
                f"{taken}, which is not in target_directory {target!r}; choose another id"
            )


def find(state: LogState, trigger_id: str) -> EarlierSavepoint | None:
    """The completed savepoint of that trigger id, by the log. Pure."""
    record = logged(state, trigger_id).committed
    if record is None:
        return None
    return EarlierSavepoint(record, state.closed is not None and state.closed.savepoint_url == record.url)


def tell(state: LogState, requests: Requests, view: JobView) -> None:
    """An incarnation may end between a savepoint's record and the word of it. Then the next one tells it: where it took
    the savepoint again, the request failed, because that was completed already.

    A request to stop stays open: the job has not stopped. All that are open then wait again, as nobody serves them.
    """
    for request in requests.open():
        view.long_work.end(LongWorkKind.SAVEPOINT, request.trigger_id)
        earlier = find(state, request.trigger_id)
        if earlier is not None and not request.stop:
            status, record = SavepointPhase.COMPLETED, earlier.record
            requests.update(request.trigger_id, status, location=record.url, epoch=record.epoch)
    requests.wait_again()
