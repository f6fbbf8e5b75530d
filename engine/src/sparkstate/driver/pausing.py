"""Where epochs wait: before each of their steps while the lineage's log is away, and at their end while they must not
bring more before a checkpoint has completed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from sparkstate import errors
from sparkstate.control import driver_life
from sparkstate.control.documents import DriverPhase, SavepointPhase
from sparkstate.driver.checkpoints import Checkpoints
from sparkstate.driver.parts import Parts
from sparkstate.driver.storage_outages import Ending, heard
from sparkstate.log.fence import Verdict

_LOOK_S = 0.2
_PROBE_S = 1.0


class Pauses:
    """Of one incarnation. ``lost`` tells what ends it, ``over`` is set at its end. For the epochs' threads."""

    def __init__(
        self, parts: Parts, lost: Callable[[], errors.SparkstateError | None], over: threading.Event
    ) -> None:
        self._parts = parts
        self._context = parts.context
        self._lost = lost
        self._over = over
        self._asked: dict[str, float] = {}
        """Since when savepoints wait in the pause at hand. Two threads may wait, so it is replaced, never changed."""

    def may_go_on(self) -> None:
        """Before every epoch, sink call and commit: still ours? While the log is away, wait here."""
        parts, context = self._parts, self._context
        while True:
            self._raise_if_lost()
            if self._over.is_set():
                # An epoch that nobody waits for any more: the phase is that of the incarnation which follows.
                raise errors.StorageUnavailable("the incarnation ended while the job's storage was away")
            if parts.guard.check() is Verdict.GO:
                self._asked = {}
                self._go_on()
                return
            if context.requests.ending():
                raise errors.StorageUnavailable("the job was cancelled while its storage was away")
            cause = parts.guard.cause or errors.StorageUnavailable("it does not answer")
            parts.job_storage.outages.failed(parts.job_storage.lineage.store.url, "read the log", cause)
            context.view.happened(driver_life.STORAGE_AWAY)
            self._refuse_in_time()
            context.clock.sleep(_LOOK_S)

    def _refuse_in_time(self) -> None:
        """Nobody serves a savepoint while the log is away. Its request fails after the time that it would have had, and
        the job goes on as if it had not been asked. Whoever wanted the job to stop hears why it did not."""
        context, outages = self._context, self._parts.job_storage.outages
        now_s = context.clock.monotonic()
        waiting = context.requests.waiting()
        known = self._asked
        asked = {trigger_id: known.get(trigger_id, now_s) for trigger_id in waiting}
        self._asked = asked
        for trigger_id, since_s in asked.items():
            if now_s - since_s > context.settings.checkpoint.timeout_s:
                context.requests.update(trigger_id, SavepointPhase.FAILED, failure=outages.told)

    def hold_back(self, checkpoints: Checkpoints, begin: Callable[[], object]) -> None:
        """At the end of an epoch: wait while the job must take nothing in. ``begin`` starts a checkpoint of that epoch.

        Only a completed checkpoint ends the wait, so one is begun whenever it may succeed.
        """
        context, looked_at = self._context, -_PROBE_S
        while (why := checkpoints.hold_back()) is not None:
            self._raise_if_lost()
            # A log that is away only lengthens the pause. A newer owner is heard here: a fenced driver stayed paused.
            self._parts.guard.check()
            if self._ending():
                return
            if checkpoints.is_stuck and checkpoints.stop_requested() is not None:
                return  # the end of the next epoch waits for that, and fails the request in time
            if context.clock.monotonic() - looked_at >= _PROBE_S:
                looked_at = context.clock.monotonic()
                checkpoints.require_sound()
                with contextlib.suppress(Ending):  # the loop sees why
                    if heard(checkpoints.is_due, lambda: self._ending() or self._lost() is not None):
                        begin()
            if not checkpoints.is_stuck:
                context.view.note_progress()
            elif context.view.phase is DriverPhase.RUNNING:
                context.view.happened(driver_life.STORAGE_AWAY)
                context.say(f"nothing is taken in until a checkpoint completes: {why}")
            context.clock.sleep(_LOOK_S)
        self._go_on()

    def _ending(self) -> bool:
        return self._over.is_set() or self._context.requests.ending()

    def _go_on(self) -> None:
        if self._context.view.phase is DriverPhase.PAUSED:
            self._parts.job_storage.outages.answered(self._parts.job_storage.lineage.store.url)
            self._context.view.happened(driver_life.STORAGE_ANSWERS)

    def _raise_if_lost(self) -> None:
        lost = self._lost()
        if lost is not None:
            raise lost
