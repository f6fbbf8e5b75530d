"""The parts of a driver's life that the control endpoint may reach right now."""

from __future__ import annotations

from sparkstate.clock import Clock
from sparkstate.control.documents import DriverPhase
from sparkstate.driver import earlier_savepoint, savepoint_targets
from sparkstate.driver.claimed_lineage import ClaimedLineage
from sparkstate.driver.control import Slots
from sparkstate.driver.earlier_savepoint import EarlierSavepoint
from sparkstate.driver.log_reading import LogReading
from sparkstate.driver.view import JobView


class CurrentParts:
    """Written by the driver as its life goes on, read by the endpoint's threads; each attribute is replaced whole."""

    def __init__(self, view: JobView, clock: Clock) -> None:
        self._view = view
        self._log_reading = LogReading(clock)
        self.claimed: ClaimedLineage | None = None
        """None until the job's state is claimed."""
        self.incarnation: Slots | None = None
        """None while none has started."""

    def slots(self) -> Slots | None:
        """The running incarnation, for reading state."""
        return self.incarnation if self._view.phase in (DriverPhase.RUNNING, DriverPhase.PAUSED) else None

    def find_savepoint(self, trigger_id: str) -> EarlierSavepoint | None:
        """From the log. Comes back while its storage hangs: raises ``StorageUnavailable``."""
        claimed = self.claimed
        return earlier_savepoint.find(self._log_reading.state_of(claimed), trigger_id) if claimed else None

    def lineage_url(self) -> str:
        """Where the job's state lies; empty before it is claimed."""
        return self.claimed.lineage.store.url if self.claimed else ""

    def may_make_target(self, url: str) -> bool:
        """Whether a missing folder of savepoints may be made; nobody knows before the log is read."""
        claimed = self.claimed
        return claimed is not None and savepoint_targets.may_be_made(url, claimed.root, claimed.log.state)

    def next_checkpoint_id(self) -> int:
        """The number that the next checkpoint will have."""
        return self.claimed.ids.peek() if self.claimed else 1
