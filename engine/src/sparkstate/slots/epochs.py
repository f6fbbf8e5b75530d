"""The epochs of a slot: attempts bring rows, one attempt wins and is finished, its overlays become state.

``_run`` guards user code and overlays: one Arrow batch, one finish, or the commit of the overlays at a time. A task's
rows are taken at any time (``slots.attempts``) and processed in a thread of their own, in their epoch's turn
(``slots.turns``, ``slots.incoming``); an epoch's finish waits for them.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from sparkstate import clock, disposal, errors, phases
from sparkstate.operators.base import EpochOverlay, Operator, StateImage, Sweep
from sparkstate.operators.epoch import commit_overlays
from sparkstate.slots import outputs, protocol
from sparkstate.slots.attempts import Attempts
from sparkstate.slots.incoming import LIMIT_BYTES, Incoming
from sparkstate.slots.notifications import Notifications
from sparkstate.slots.slot_state import SlotState
from sparkstate.slots.turns import Turns
from sparkstate.slots.worked_time import WorkedTime


class Epochs:
    """Runs the operators of ``state``; callable from any thread. The caller has checked the incarnation."""

    def __init__(self, state: SlotState, phases_: phases.Phases, clock_: clock.Clock) -> None:
        self._state = state
        self._phases = phases_
        self._run = threading.Lock()
        self._worked = WorkedTime(clock_)
        self._attempts = Attempts()
        self.turns = Turns()
        self.notifications = Notifications(state, self._run)
        self._numbers = itertools.count()

    def begin_feed(self, request: protocol.Feed) -> Incoming:
        """Where this task's batches go: to the overlay of its attempt. Raises ``FeedBroken``, or why the attempt
        failed, for a task that comes with a part which another task brought."""
        operator = self._state.operator(request.operator)
        self._phases.enter(phases.ProcessPhase.FEED, epoch=request.epoch, incarnation=request.incarnation)

        def make() -> tuple[EpochOverlay, Incoming]:
            overlay = operator.begin(request.epoch, request.watermark, request.processing_time)
            incoming = Incoming(
                functools.partial(self._process, operator, overlay, request),
                self.turns.behind(request.follows),
                self._state.directory / "incoming" / str(next(self._numbers)),
                self._state.budget.waiting_bytes(LIMIT_BYTES),
                operator.spec.rows_at_once,
                operator.spec.rows_wait_for_choice,
            )
            return overlay, incoming

        incoming = self._attempts.join(request.epoch, request.operator, request.attempt, make)
        incoming.claim(request.part, request.task)
        return incoming

    def _process(
        self, operator: Operator[Any], overlay: EpochOverlay, request: protocol.Feed, batch: pa.RecordBatch
    ) -> None:
        with self._run:
            if request.anew:
                self._attempts.give_up_before(request.epoch, request.operator, request.attempt)
            with self._worked.measured(request.epoch, request.operator, request.attempt):
                operator.process_batch(overlay, batch)

    def finish(self, request: protocol.Finish) -> protocol.Finished:
        """The driver's choice of attempt; timers fire; the output of the epoch is complete."""
        operator = self._state.operator(request.operator)
        epoch, uid, attempt = request.epoch, request.operator, request.attempt
        incoming = self._attempts.incoming(epoch, uid, attempt)
        if incoming is not None:
            incoming.end(request.rows)
            incoming.wait()
        with self._run:
            self._phases.enter(phases.ProcessPhase.FINISH, epoch=epoch, incarnation=request.incarnation)
            overlay = self._attempts.take(epoch, uid, attempt)
            if overlay is None:
                if attempt >= 0:
                    slot = self._state.plan.slot
                    raise errors.SlotLost(f"slot {slot} has no attempt {attempt} of epoch {epoch}")
                overlay = operator.begin(epoch, request.watermark_before, request.processing_time)
            with self._worked.measured(epoch, uid, attempt):
                operator.finish(overlay, request.watermark)
            self._attempts.set_winner(epoch, uid, overlay)
            return protocol.Finished(
                rows_in=overlay.rows_in,
                rows_by_tag=outputs.rows_by_tag(operator.spec, overlay),
                late_rows=overlay.late_rows,
                timers_fired=overlay.timers_fired,
                dropped_rows=overlay.dropped_rows,
                busy_ms=self._worked.milliseconds(epoch, uid, attempt),
            )

    def output(self, request: protocol.ReadOutput) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The finished output of an operator; may be read any number of times until the release."""
        overlay = self._attempts.winner(request.epoch, request.operator)
        if overlay is None:
            raise errors.SlotLost(f"slot {self._state.plan.slot} has no output of epoch {request.epoch}")
        self._phases.enter(phases.ProcessPhase.OUTPUT, epoch=request.epoch, incarnation=request.incarnation)
        schema = outputs.output_schema(self._state.operators[request.operator].spec, request.tag)
        return schema, iter(overlay.output(request.tag))

    def commit(self, request: protocol.Commit) -> tuple[int | None, int | None, Sweep]:
        """Overlays become state, sinks hold the output, which stays readable. Returns the next timers,
        of event and of processing time, and the sweep of state that has expired.

        The caller holds the gate, and calls ``turns.committed`` once it no longer does.
        """
        self.notifications.require_sound()
        with self._run:
            self._phases.enter(
                phases.ProcessPhase.COMMIT, epoch=request.epoch, incarnation=request.incarnation
            )
            winners = [
                (operator, overlay)
                for uid, operator in self._state.operators.items()
                if (overlay := self._attempts.winner(request.epoch, uid)) is not None
            ]
            sweep = commit_overlays(winners)
            self._state.output.hold(
                {operator.spec.uid: (operator.spec, overlay) for operator, overlay in winners}
            )
            self._attempts.committed(request.epoch)
            self._worked.forget(request.epoch)
            return *self._state.next_timers(), sweep

    def snapshot_operator_state(self, checkpoint_id: int, timestamp_ms: int) -> Sequence[StateImage] | None:
        """The operator state of all operators, as of the last commit; None: none of them has any. Raises
        ``UserCodeError``. The caller holds the gate."""
        operators = [each for each in self._state.operators.values() if each.has_operator_state]
        if not operators:
            return None
        with self._run:
            return [
                image
                for operator in operators
                for image in operator.snapshot_operator_state(checkpoint_id, timestamp_ms)
            ]

    def release(self, epoch: int) -> None:
        """Nobody reads the output of this epoch and earlier ones any more."""
        self._attempts.release(epoch)

    def end(self) -> None:
        """Give up all work under way, and close the user's functions."""
        disposal.close_all([self._attempts.drop, self.notifications.end, self._close_operators])

    def _close_operators(self) -> None:
        with self._run:
            self._state.close_operators()

    def paused(self) -> AbstractContextManager[bool]:
        """While it is held no user code runs and no overlay changes."""
        return self._run
