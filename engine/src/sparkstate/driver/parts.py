"""The parts of a driver that all incarnations of its job share."""

from __future__ import annotations

from dataclasses import dataclass

from sparkstate.checkpoint.restore import RestoredSnapshot
from sparkstate.driver.context import DriverContext
from sparkstate.driver.job_storage import JobStorage
from sparkstate.driver.preparing import PreparedJob
from sparkstate.keygroups import KeySpace
from sparkstate.log.fence import FenceGuard
from sparkstate.slots.client import SlotAddress


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All that lives longer than one incarnation. It is there once the state is claimed and the job
    has declared itself."""

    context: DriverContext
    """Its settings name the backend that the job's code has chosen, if it has."""
    prepared: PreparedJob
    job_storage: JobStorage
    guard: FenceGuard

    def given_up(self) -> bool:
        """Whether nobody waits for a start any more: the job has to end, or another driver has it."""
        return self.context.requests.ending() or self.guard.fenced

    @property
    def heartbeat(self) -> bool:
        """Whether the query has the source that starts epochs while the others are idle."""
        return not self.context.settings.trigger.available_now


@dataclass(frozen=True)
class Origin:
    """Where an incarnation begins."""

    restored: RestoredSnapshot
    number: int
    """Of the incarnation, by the log."""
    key_space: KeySpace

    @property
    def epoch(self) -> int:
        """The last one that the restored state holds; -1: there is none."""
        metadata = self.restored.metadata
        return metadata.epoch if metadata is not None else -1

    @property
    def base(self) -> int:
        """The checkpoint of this lineage whose files the next one may name again; -1: there is none."""
        metadata = self.restored.metadata
        own = metadata is not None and self.restored.same_lineage and metadata.kind == "checkpoint"
        return metadata.checkpoint_id if own and metadata is not None else -1


@dataclass
class LastHomes:
    """Where this driver's slots ran last: their state lies on disks there."""

    addresses: tuple[SlotAddress, ...] = ()
