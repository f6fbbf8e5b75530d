"""One epoch: feed and finish for every operator in order, commit, output.

The slots commit before the sinks are called, so that they process the next epoch meanwhile. When a sink fails, the
epoch fails with its changes: all slots go back to the last checkpoint,
and no checkpoint is taken before the sinks are done.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkstate import clock, errors, phases, user_errors
from sparkstate.keygroups import KeySpace
from sparkstate.operators.common.user_function import RAISED
from sparkstate.sinks.file_sink import FileSink
from sparkstate.slots import protocol
from sparkstate.slots.group import SlotGroup
from sparkstate.spark import fed_rows, feeding, graph
from sparkstate.spark.output_frames import OutputFrames
from sparkstate.spark.paused_time import PausedTime, WorkTime
from sparkstate.spark.watermarks import Watermarks

_REHEARSAL = "sparkstate-rehearsal"
_LOOK_S = 1.0


@dataclass(frozen=True)
class OperatorResult:
    """The part of one operator in an epoch, over all slots."""

    uid: str
    rows_in: int
    rows_out: Mapping[str | None, int]
    """By tag; None: the main output."""
    late_rows: int
    dropped_rows: int
    timers_fired: int
    busy_ms: float
    """How long the slot worked on it that worked longest."""

    @classmethod
    def of(cls, uid: str, replies: Sequence[protocol.Finished]) -> OperatorResult:
        """From what the slots tell of it."""
        out = Counter[str]()
        for reply in replies:
            out.update(reply.rows_by_tag)
        return cls(
            uid=uid,
            rows_in=sum(reply.rows_in for reply in replies),
            rows_out={tag or None: rows for tag, rows in out.items()},
            late_rows=sum(reply.late_rows for reply in replies),
            dropped_rows=sum(reply.dropped_rows for reply in replies),
            timers_fired=sum(reply.timers_fired for reply in replies),
            busy_ms=max((reply.busy_ms for reply in replies), default=0.0),
        )


@dataclass(frozen=True)
class EpochResult:
    """The outcome of an epoch. ``waited_ms`` is the longest time that a slot's commit waited for a checkpoint."""

    epoch: int
    rows: int
    late_rows: int
    timers_fired: int
    dropped_rows: int
    """Rows for side outputs that nothing in the job reads."""
    watermarks: Watermarks
    next_event_timer: int | None
    next_processing_timer: int | None
    waited_ms: float
    duration_ms: float
    held_bytes: int | None = None
    """The most output of file sinks that one slot holds back for the next checkpoint; None: the epoch had nothing to
    commit, so no slot was asked."""
    swept: int = 0
    """Entries of state that had expired and were removed: the state has changed, though there may be no rows."""
    operators: tuple[OperatorResult, ...] = ()
    """None for an epoch without rows and due timers."""


@dataclass(frozen=True)
class FedEpoch:
    """An epoch whose rows the slots have taken; what :meth:`EpochRunner.complete` goes on with."""

    epoch: int
    follows: int
    """The epoch that is committed before it; -1: none in this incarnation."""
    before: int
    """Watermark of the epoch before."""
    after: Watermarks
    now: int
    """The epoch's processing time, ms."""
    begun_ms: int
    """Its beginning by the monotonic clock, by which idleness is measured."""
    rows: Mapping[str, fed_rows.FedRows]
    """By operator, the rows that the job's inputs brought."""
    batch: DataFrame | None
    """The epoch's frame. Sources may forget its rows when the callback has returned."""
    nothing: bool
    """No rows, no timer is due, and no sweep of state: there is nothing to complete."""
    started: float

    @property
    def times(self) -> feeding.EpochTimes:
        """The facts about it that tasks tell the slots."""
        return feeding.EpochTimes(self.epoch, self.follows, self.before, self.now)


class EpochRunner:
    """Runs epochs of one incarnation: :meth:`begin`, then :meth:`complete`, each for one epoch at a time and in order.

    ``begin`` of an epoch may run beside ``complete`` of the one before, in another thread: Spark plans and reads
    while the slots still work. An epoch without rows must not, since whether timers are due is known after the commit.
    """

    def __init__(
        self,
        session: SparkSession,
        declared: graph.Graph,
        key_space: KeySpace,
        group: SlotGroup,
        watermarks: Watermarks,
        clock_: clock.Clock,
        phases_: phases.Phases,
        may_go_on: Callable[[], None],
        sink_timeout_s: float,
        *,
        is_selected: bool = False,
        note_progress: Callable[[], None] = lambda: None,
    ) -> None:
        """``is_selected``: the frames of epochs have the columns that the job's only reader ships.
        ``note_progress`` is called now and then while an epoch waits for a sink, which has a limit of its own."""
        self._session = session
        self._graph = declared
        self._group = group
        self._frames = OutputFrames(session, declared, group)
        self.watermarks = watermarks
        self._clock = clock_
        self._phases = phases_
        self._may_go_on = may_go_on
        self.paused = PausedTime(clock_)
        self._sink_timeout_s = sink_timeout_s
        self._note_progress = note_progress
        self._feedings = {
            uid: feeding.Feeding(
                session,
                declared,
                operator,
                key_space,
                group,
                is_selected=is_selected and operator.upstream is None,
            )
            for uid, operator in declared.operators.items()
        }
        self._sink_pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="sink")
        self._next_event: int | None = None
        self._next_processing: int | None = None
        self._next_sweep: int | None = None
        self._swept = 0
        self._know_timers = False
        self._last = -1
        """The last epoch that was begun and will be committed."""
        self._held_bytes = 0
        self._rehearsed = threading.Event()
        self._worked = WorkTime(self.paused)

    def rehearse(self, frame: DataFrame) -> None:
        """Take one row all the way to the Python workers and drop it there, so that the first epoch finds them, the
        compiled plans and the JVM warm. Call it while the slots still fill; :meth:`end_rehearsal` cuts it short.

        Errors are left to the epoch, which fails of them as well and reports them.
        """
        context = self._session.sparkContext
        for each in self._feedings.values():
            if each.operator.reads_batch and not self._rehearsed.is_set():
                context.addJobTag(_REHEARSAL)
                with contextlib.suppress(Exception):
                    each.rehearse(frame)
                context.removeJobTag(_REHEARSAL)

    def end_rehearsal(self) -> None:
        """The state is there, or will not come. A JVM that is gone has nothing to cancel."""
        self._rehearsed.set()
        with contextlib.suppress(Exception):
            self._session.sparkContext.cancelJobsWithTag(_REHEARSAL)

    # -- the epoch ----------------------------------------------------------------------------------------------

    def run(self, batch: DataFrame | None, epoch: int, *, ended: bool = False) -> EpochResult:
        """A whole epoch. ``batch`` None: no new rows, timers only; ``ended``: watermark +∞."""
        return self.complete(self.begin(batch, epoch, ended=ended))

    def begin(self, batch: DataFrame | None, epoch: int, *, ended: bool = False) -> FedEpoch:
        """Bring the rows to the slots, where they wait for the commit of the epoch before."""
        started = self._clock.monotonic()
        before = self.watermarks.current
        self._wait()
        self._enter(phases.ProcessPhase.EPOCH_BEGIN, epoch)
        now = self._clock.now_ms()
        begun_ms = clock.monotonic_ms(self._clock)
        worked_ms = self._worked.begin(begun_ms)
        self.watermarks = self.watermarks.paused(self.paused.take(), begun_ms).worked(worked_ms, begun_ms)
        after = self.watermarks.ended() if ended else self.watermarks.advance({}, begun_ms)
        is_due = self._timers_due(before, after.current, now) or self._sweep_due(now)
        nothing = batch is None and not ended and not is_due
        follows, self._last = self._last, self._last if nothing else epoch
        if batch is not None:
            self._frames.prepare(epoch)
        rows: dict[str, fed_rows.FedRows] = {}
        for uid, each in self._feedings.items():
            if batch is not None and each.operator.reads_batch:
                self._enter(phases.ProcessPhase.FEED, epoch)
                rows[uid] = each.run(batch, feeding.EpochTimes(epoch, follows, before, now))
        if rows:
            after = self.watermarks.advance(fed_rows.largest_of(rows.values()), begun_ms)
            after = after.ended() if ended else after
        self.watermarks = after
        return FedEpoch(epoch, follows, before, after, now, begun_ms, rows, batch, nothing, started)

    @property
    def may_overlap(self) -> bool:
        """Whether :meth:`complete` needs nothing of the epoch's frame, so that the next epoch may begin before it."""
        return not any(each.operator.is_mixed for each in self._feedings.values())

    @property
    def calls_sinks(self) -> bool:
        """Whether a sink is a function of the user's, which is called at the end of an epoch."""
        return any(not isinstance(node.sink, FileSink) for node in self._graph.sinks)

    def _wait(self) -> None:
        with self.paused.measured():
            self._may_go_on()

    def complete(self, fed: FedEpoch) -> EpochResult:
        """Finish, the operators behind others, commit, sinks."""
        try:
            return self._completed(fed)
        finally:
            self._worked.end(fed.begun_ms, clock.monotonic_ms(self._clock))

    def _completed(self, fed: FedEpoch) -> EpochResult:
        if fed.nothing:
            return self._result(fed, (), 0.0)
        rows_out: dict[tuple[str, str | None], int] = {}
        results = []
        for uid, each in self._feedings.items():
            brought = self._brought(each, fed, rows_out)
            result = OperatorResult.of(uid, self._finish(uid, fed, brought.slots))
            each.note(result.rows_in, brought)
            rows_out |= {(uid, tag): rows for tag, rows in result.rows_out.items()}
            results.append(result)
        waited = self._commit(fed.epoch)
        self._call_sinks(fed.epoch, rows_out)
        self._release(fed.epoch)
        return self._result(fed, results, waited)

    def _release(self, epoch: int) -> None:
        self._frames.forget(epoch)
        request = protocol.Release(incarnation=self._group.incarnation, epoch=epoch)
        self._group.each(lambda _: request, protocol.Ok)

    def _brought(
        self, each: feeding.Feeding, fed: FedEpoch, rows_out: Mapping[tuple[str, str | None], int]
    ) -> fed_rows.FedRows:
        """The rows of an operator in the slots, once those of the operators before it are brought as well."""
        before = fed.rows.get(each.operator.uid)
        outputs = {
            number: self._frames.take(fed.epoch, *upstream, with_timestamps=True)
            for number, upstream in each.upstreams()
            if rows_out.get(upstream)
        }
        if not outputs:
            return before or fed_rows.FedRows({}, {})
        self._enter(phases.ProcessPhase.FEED, fed.epoch)
        return each.run_outputs(outputs, fed.times, before, fed.batch)

    def _timers_due(self, before: int, watermark: int, now: int) -> bool:
        """Event-time timers fire at an advance of the watermark alone; one for the past may be waiting for that."""
        if not self._know_timers:
            return True
        event_due = watermark > before and self._next_event is not None and self._next_event <= watermark
        return event_due or (self._next_processing is not None and self._next_processing <= now)

    def _sweep_due(self, now: int) -> bool:
        """Whether state has waited long enough for rows that would bring a sweep along."""
        return self._next_sweep is not None and self._next_sweep <= now

    def _finish(
        self, uid: str, fed: FedEpoch, slots: Mapping[int, fed_rows.FedSlot]
    ) -> list[protocol.Finished]:
        self._enter(phases.ProcessPhase.FINISH, fed.epoch)
        nothing = fed_rows.FedSlot(-1, 0)
        return self._group.each(
            lambda slot: protocol.Finish(
                incarnation=self._group.incarnation,
                epoch=fed.epoch,
                operator=uid,
                attempt=slots.get(slot, nothing).attempt,
                rows=slots.get(slot, nothing).rows,
                watermark_before=fed.before,
                watermark=fed.after.current,
                processing_time=fed.now,
            ),
            protocol.Finished,
        )

    def _call_sinks(self, epoch: int, rows_out: dict[tuple[str, str | None], int]) -> None:
        self._enter(phases.ProcessPhase.OUTPUT, epoch)
        for node in self._graph.sinks:
            if isinstance(node.sink, FileSink) or not rows_out.get((node.operator, node.tag)):
                continue
            self._wait()
            call: concurrent.futures.Future[Any] = self._sink_pool.submit(
                node.sink, self._frames.take(epoch, node.operator, node.tag), epoch
            )
            self._await_sink(node, call, epoch)

    def _await_sink(self, node: graph.SinkNode, call: concurrent.futures.Future[Any], epoch: int) -> None:
        until = self._clock.monotonic() + self._sink_timeout_s
        left_s = self._sink_timeout_s
        while not concurrent.futures.wait((call,), min(max(left_s, 0.0), _LOOK_S)).done and left_s > 0:
            self._note_progress()
            left_s = until - self._clock.monotonic()
        if not call.done():
            raise errors.UserCodeError(
                f"the sink of {node.uid!r} took longer than sinkTimeout ({self._sink_timeout_s:g} s) in epoch {epoch}; "
                "make it faster or raise spec.sinkTimeout"
            )
        try:
            call.result()
        except errors.SparkstateError:
            raise
        except RAISED as error:
            user_errors.log_stack(error)
            raise errors.UserCodeError(
                f"the sink of {node.uid!r} raised in epoch {epoch}: {user_errors.describe(error)}"
            ) from error

    def _commit(self, epoch: int) -> float:
        self._wait()
        self._enter(phases.ProcessPhase.COMMIT, epoch)
        request = protocol.Commit(incarnation=self._group.incarnation, epoch=epoch)
        replies = self._group.each(lambda _: request, protocol.Committed)
        event = [reply.next_event_timer for reply in replies if reply.next_event_timer is not None]
        processing = [
            reply.next_processing_timer for reply in replies if reply.next_processing_timer is not None
        ]
        self._next_event = min(event, default=None)
        self._next_processing = min(processing, default=None)
        self._know_timers = True
        sweeps = [reply.next_sweep for reply in replies if reply.next_sweep is not None]
        self._next_sweep = min(sweeps, default=None)
        self._swept = sum(reply.swept for reply in replies)
        self._held_bytes = max(reply.held_bytes for reply in replies)
        return max(reply.waited_ms for reply in replies)

    def _result(self, fed: FedEpoch, results: Sequence[OperatorResult], waited: float) -> EpochResult:
        return EpochResult(
            fed.epoch,
            sum(self._rows_of_job(fed, each) for each in results),
            sum(each.late_rows for each in results),
            sum(each.timers_fired for each in results),
            sum(each.dropped_rows for each in results),
            fed.after,
            self._next_event,
            self._next_processing,
            waited,
            (self._clock.monotonic() - fed.started) * 1000,
            None if fed.nothing else self._held_bytes,  # a checkpoint may have subtracted the last figure
            0 if fed.nothing else self._swept,
            tuple(results),
        )

    def _rows_of_job(self, fed: FedEpoch, result: OperatorResult) -> int:
        rows = fed.rows.get(result.uid)
        if rows is None:
            return 0
        inputs = self._feedings[result.uid].operator.inputs
        return fed_rows.rows_of_job(inputs, rows, result.rows_in, len(self._group))

    def _enter(self, phase: phases.ProcessPhase, epoch: int) -> None:
        self._phases.enter(phase, epoch=epoch, incarnation=self._group.incarnation)

    def close(self) -> None:
        """Let go of the thread that calls sinks; a call that hangs is not waited for."""
        self._sink_pool.shutdown(wait=False, cancel_futures=True)
        self._frames.close()
