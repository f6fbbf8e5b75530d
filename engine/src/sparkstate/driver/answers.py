"""Questions and answers of driver and slots about a snapshot: each slot is asked until it is done, and then no more."""

from __future__ import annotations

from collections.abc import Callable

from sparkstate import clock, errors
from sparkstate.driver.fatal_failure import FatalFailure
from sparkstate.slots import client, protocol
from sparkstate.slots.group import SlotGroup

POLL_S = 1.0
"""How long a slot may keep a question about a snapshot until it is done. The answer of a slot that is done names all of
its files, 210 KiB for a thousand, so no slot is asked for it twice (RFC 0016)."""


def take_snapshot(
    group: SlotGroup,
    checkpoint_id: int,
    epoch: int,
    timestamp_ms: int,
    *,
    base: int = -1,
    url: str = "",
    canonical: bool = False,
) -> None:
    """Tell every slot to take one of ``epoch``. ``url``: the folder of a savepoint; ``base``: the checkpoint whose
    files one of the job's own may name again; ``canonical``: in the form that every backend reads."""
    request = protocol.Snapshot(
        incarnation=group.incarnation,
        checkpoint_id=checkpoint_id,
        epoch=epoch,
        canonical=canonical,
        target_url=url,
        base=base,
        timestamp_ms=timestamp_ms,
    )
    group.each(lambda _: request, protocol.Ok)


def tell_ended(group: SlotGroup, checkpoint_id: int, fatal: FatalFailure, *, completed: bool) -> None:
    """Tell every slot what became of a snapshot. A slot that is lost goes to ``fatal`` and is not raised: whoever feeds
    it next learns of it as well, and the files that it would have named again are uploaded again."""
    request = protocol.CheckpointDone(checkpoint_id=checkpoint_id, completed=completed)
    try:
        group.ask(lambda _: request, protocol.Ok)
    except errors.SlotLost as error:
        fatal.keep(error)


class Answers:
    """Those to one snapshot, which is of no use any more once ``abandoned``."""

    def __init__(
        self,
        group: SlotGroup,
        checkpoint_id: int,
        clock_: clock.Clock,
        abandoned: Callable[[], bool],
        progress: Callable[[int, int], object] = lambda done, total: None,
    ) -> None:
        """``progress`` is told bytes that are stored and bytes in all, of all slots, after each round of questions."""
        self._group = group
        self._checkpoint_id = checkpoint_id
        self._clock = clock_
        self._abandoned = abandoned
        self._progress = progress
        self._ended: dict[int, protocol.SnapshotState] = {}
        self._newest: dict[int, protocol.SnapshotState] = {}

    def within(self, seconds: float, keep_s: float = POLL_S) -> list[protocol.SnapshotState] | None:
        """The answers of all slots, in order, when every one has stored its part; None if one has not in so long.

        Each slot may keep the question for ``keep_s``. Raises what a slot says went wrong, and ``SlotLost`` if the
        snapshot is abandoned.
        """
        until = self._clock.monotonic() + seconds
        request = protocol.SnapshotPoll(checkpoint_id=self._checkpoint_id, wait_s=min(keep_s, seconds))
        while not self._ask(request):
            if self._abandoned():
                raise errors.SlotLost(f"checkpoint {self._checkpoint_id} was given up with its incarnation")
            if self._clock.monotonic() > until:
                return None
            self._clock.sleep(POLL_S - keep_s)
        return [self._ended[slot] for slot in range(len(self._group))]

    def in_time(self, seconds: float, keep_s: float = POLL_S) -> list[protocol.SnapshotState]:
        """As :meth:`within`; ``StorageError`` in place of None."""
        found = self.within(seconds, keep_s)
        if found is None:
            raise errors.StorageError(
                f"checkpoint {self._checkpoint_id} took longer than checkpointing.timeout ({seconds:g} s); "
                "look at the storage's speed, or raise the timeout"
            )
        return found

    def _ask(self, request: protocol.SnapshotPoll) -> bool:
        """Whether all have answered now that they are done."""
        waiting = [slot for slot in range(len(self._group)) if slot not in self._ended]
        for slot, reply in self._group.snapshot_states(waiting, request).items():
            if reply.failure:
                raise client.error_of(reply.failure_reason, f"slot {slot}: {reply.failure}")
            self._newest[slot] = reply
            if reply.done:
                self._ended[slot] = reply
        newest = self._newest.values()
        self._progress(sum(each.done_bytes for each in newest), sum(each.total_bytes for each in newest))
        return len(self._ended) == len(self._group)
