"""The function behind ``.window(EventTimeSessionWindows.with_gap(…)).agg(…)``: sessions from slices.

Theory. Time is cut into slices as wide as the gap. Two rows of a key in one slice are less than a gap apart, so all of
the slice lies in one session. Rows with a whole slice between them are more than a gap apart. So a session is a run of
neighbouring slices; and whether two neighbours belong together follows from the last time of one and the first time of
the other, which each accumulator keeps (``span``). A row updates the accumulator of its slice, as in a tumbling window.
Nothing is merged while rows come.

A session ends when the watermark reaches its last time + gap - 1, and is over with the lateness added. A slice is over
when a session that ended with it would be. Then either the next slice belongs to the session and takes this one in, or
the session is over. So each session, however long, keeps only its slices that are not over. The first time of a slice
that took others in lies before the slice.

Timers. A slice has a timer for the end of a session that would end with it, and with lateness one for when that is
over. It has none if the slice before it has such a timer to come, which will register this one. If later rows make the
last time greater, the timer that fires registers the one for that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sparkstate import columns, durations
from sparkstate.aggregates import accumulators, open_sessions, sliced_rows, span
from sparkstate.aggregates.accumulators import Entries, Output, StoredAccumulators
from sparkstate.aggregates.column_windows import ColumnWindows
from sparkstate.aggregates.kept_merges import Places
from sparkstate.aggregates.session_runs import SessionRuns
from sparkstate.aggregates.sliced_rows import SlicedRows
from sparkstate.aggregates.slices import Times
from sparkstate.batches.functions import (
    BatchContext,
    BatchRuntimeContext,
    BatchTimerService,
    OnTimersContext,
)
from sparkstate.batches.keys import BatchKeys


class SessionAggregation(ColumnWindows):
    """Sessions of one gap. Size and slide of its ``slices`` are the gap."""

    kind_of_windows = "sessions with built-in aggregates"

    @property
    def _windows_title(self) -> str:
        return f"EventTimeSessionWindows with a gap of {durations.text(self._gap)}"

    @property
    def _lengths(self) -> Mapping[str, int]:
        return {"gap of sessions": self._gap}

    @property
    def _gap(self) -> int:
        return self._slices.size

    @property
    def _to_end(self) -> int:
        """From the last time of a session to its end."""
        return self._gap - 1

    @property
    def _to_over(self) -> int:
        """From there until it is over."""
        return self._to_end + self._slices.lateness

    @property
    def stored_outputs(self) -> tuple[Output, ...]:
        return (span.SPAN, *self._outputs)

    def open(self, ctx: BatchRuntimeContext) -> None:
        self._stored = StoredAccumulators(ctx, self.stored_outputs)
        self._runs = SessionRuns(self._stored, self._gap)

    # --- rows

    def process_batch(self, batch: pa.RecordBatch, keys: BatchKeys, ctx: BatchContext) -> Iterator[Any]:
        times = sliced_rows.times_of(ctx.timestamps(), self._slices)
        slices = self._slices.of(times)
        kept = np.ones(len(times), np.bool_)
        passed = sliced_rows.bounded(ctx.timer_service().current_watermark()) - self._to_over
        if (times <= passed).any():
            spans = _first_times(batch, times), times
            slices, is_late = open_sessions.places(self._stored, keys, spans, slices, passed, self._gap)
            if is_late.any():
                yield from self._late(batch, is_late, ctx)
                kept = ~is_late
        if kept.any():
            rows = sliced_rows.chosen_rows(batch, keys, times, slices, kept)
            yield from self._take(rows, keys, ctx.timer_service())

    def _take(
        self, rows: SlicedRows, keys: BatchKeys, service: BatchTimerService
    ) -> Iterator[pa.RecordBatch]:
        pairs = keys.select(rows.pair_keys)
        before, after = self._fold(self._stored, pairs, rows)
        (_, last_before), (_, last) = span.of_entries(before), span.of_entries(after)
        watermark = sliced_rows.bounded(service.current_watermark())
        self._register(pairs, rows.pair_slices, (last_before, last), service)
        if self._slices.lateness:
            yield from self._again(rows, keys, last, watermark - self._to_end)

    def _register(
        self, pairs: BatchKeys, slices: Times, lasts: tuple[Times, Times], service: BatchTimerService
    ) -> None:
        """Timers of slices whose last times were ``lasts[0]`` and are ``lasts[1]`` now, unless the slices before them
        have one to come."""
        watermark = sliced_rows.bounded(service.current_watermark())
        delays = dict.fromkeys((self._to_end, self._to_over))
        wanted = {delay: (lasts[1] > watermark - delay) & (lasts[0] <= watermark - delay) for delay in delays}
        places = np.flatnonzero(np.logical_or.reduce(list(wanted.values())))
        if not len(places):
            return
        some = pairs.select(places)
        neighbours = self._runs.lasts(some, slices[places] - self._gap)
        for delay, flags in wanted.items():
            stamps = lasts[1][places] + delay
            service.register_event_time_timers(
                some, stamps, flags[places] & (neighbours <= watermark - delay)
            )

    def _again(self, rows: SlicedRows, keys: BatchKeys, lasts: Times, ended: int) -> Iterator[pa.RecordBatch]:
        """Sessions that have ended and got rows all the same. ``lasts`` has the last time of each changed slice; with
        one up to ``ended`` a session has ended."""
        changed = np.flatnonzero(lasts <= ended)
        if not len(changed):
            return
        places = rows.pair_keys[changed]
        tails, tail_lasts = self._runs.tails(keys.select(places), rows.pair_slices[changed])
        has_ended = tail_lasts <= ended
        # By time, then by key, and each session once.
        pairs = np.unique(np.stack([tails[has_ended], places[has_ended]], axis=1), axis=0)
        again = keys.select(pairs[:, 1])
        if len(again):
            yield self._frame(again, self._runs.whole(again, pairs[:, 0]))

    # --- sessions

    def on_timers(self, timestamps: pa.Array, keys: BatchKeys, ctx: OnTimersContext) -> Iterator[Any]:
        stamps, service = timestamps.to_numpy(), ctx.timer_service()
        if self._slices.lateness:
            yield from self._end(keys, stamps - self._to_end, service)
        yield from self._pass(keys, stamps - self._to_over, service)

    def _due(
        self, keys: BatchKeys, lasts: Times, delay: int, service: BatchTimerService
    ) -> tuple[Places, Entries]:
        """Which of the slices with these last times are there, and their accumulators. A timer that came too early,
        because its slice has a later time now, is registered again."""
        found, present = self._stored.read_present(keys, self._slices.of(lasts))
        own = span.of_places(found, present)[1]
        service.register_event_time_timers(keys, own + delay, own > lasts)
        is_due = own == lasts
        return np.flatnonzero(is_due), accumulators.taken(found, np.flatnonzero(is_due[present]))

    def _end(self, keys: BatchKeys, lasts: Times, service: BatchTimerService) -> Iterator[pa.RecordBatch]:
        """Sessions end with these last times, unless they go on in the next slice. They stay, for late rows."""
        places, _ = self._due(keys, lasts, self._to_end, service)
        if not len(places):
            return
        keys, lasts = keys.select(places), lasts[places]
        slices = self._slices.of(lasts)
        found, present = self._stored.read_packed(keys, slices + self._gap)
        firsts, next_lasts = span.of_places(found, present)
        service.register_event_time_timers(keys, next_lasts + self._to_end, present)
        is_last = firsts > lasts + self._gap
        if is_last.any():
            ending = keys.select(np.flatnonzero(is_last))
            yield self._frame(ending, self._runs.whole(ending, slices[is_last]))

    def _pass(self, keys: BatchKeys, lasts: Times, service: BatchTimerService) -> Iterator[pa.RecordBatch]:
        """The slices with these last times are over; and without lateness, the slices that follow them directly and
        are over by now. Each goes into the next one, or its session is over."""
        over = span.LEAST
        if not self._slices.lateness:
            over = sliced_rows.bounded(service.current_watermark()) - self._to_over
        places, own = self._due(keys, lasts, self._to_over, service)
        slices = self._slices.of(lasts[places])
        while len(places):
            some = keys.select(places)
            self._stored.remove(some, slices)
            step = self._runs.step(some, slices + self._gap, own)
            if not (self._slices.lateness or step.goes_on.all()):
                ended = np.flatnonzero(~step.goes_on)
                yield self._frame(some.select(ended), accumulators.taken(own, ended))
            last_times = span.of_entries(step.following)[1]
            stays, on = np.flatnonzero(last_times > over), np.flatnonzero(last_times <= over)
            self._runs.leave(some, slices + self._gap, step, stays)
            service.register_event_time_timers(
                some.select(step.places[stays]), last_times[stays] + self._to_over
            )
            at = step.places[on]
            places, slices, own = places[at], slices[at] + self._gap, accumulators.taken(step.following, on)

    def _frame(self, keys: BatchKeys, merged: Entries) -> pa.RecordBatch:
        """A row for each session."""
        firsts, lasts = span.of_entries(merged)
        results = self._stored.results(merged)[1:]
        names = [output.name for output in self._outputs]
        return sliced_rows.frame(keys, self._key_names, (firsts, lasts + self._gap), results, names)


def _first_times(batch: pa.RecordBatch, times: Times) -> Times:
    """The first event time of each row's rows: its own, unless Spark has combined it from several."""
    if not sliced_rows.are_combined(batch):
        return times
    found: Times = batch.column(columns.part_of(0, 0)).to_numpy()
    return found
