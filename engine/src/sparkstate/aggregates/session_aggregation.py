"""The function behind ``.window(EventTimeSessionWindows.with_gap(…)).agg(…)``: sessions from slices.

Theory. Time is cut into slices as wide as the gap. Two rows of a key in one slice are less than a gap apart, so all of
the slice lies in one session. Rows with a whole slice between them are more than a gap apart. So a session is a run of
neighbouring slices; and whether two neighbours belong together follows from the last time of one and the first time of
the other, which each accumulator keeps (``span``). A row updates the accumulator of its slice, as in a tumbling window.
Nothing is merged while rows come.

A session ends when the watermark reaches its last time + gap - 1, and is over with the lateness added. The same times of
a slice are those of a session that would end with it. When a slice is over, either the next one belongs to the session
and takes the slice in, or the session is over. So each session, however long, keeps only its slices that are not over.
Those that were taken in have left the next slice their first time: it may lie before that slice.

Timers. A slice has a timer for the end of a session that would end with it, and with lateness one for when that is
over. They are registered with its first rows. If rows after these made its last time greater, a timer that fires
registers the one for that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkstate import columns, durations
from sparkstate.aggregates import accumulators, open_sessions, sliced_rows, span
from sparkstate.aggregates.accumulators import Entries, Output, StoredAccumulators
from sparkstate.aggregates.column_windows import ColumnWindows
from sparkstate.aggregates.session_runs import SessionRuns
from sparkstate.aggregates.sliced_rows import SlicedRows
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.batches.functions import (
    BatchContext,
    BatchRuntimeContext,
    BatchTimerService,
    OnTimersContext,
)
from sparkstate.batches.keys import BatchKeys

_AT_ONCE: Final = 1 << 19
"""So many slices are looked at together, each with the next one."""


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
        if sliced_rows.are_combined(rows.batch):
            before, after = self._stored.fold_combined(pairs, rows.pair_slices, rows.batch, rows.pairs)
        else:
            before, after = self._stored.fold(pairs, rows.pair_slices, rows.batch, rows.pairs, rows.times)
        (_, last_before), (_, last) = span.of_entries(before), span.of_entries(after)
        watermark = sliced_rows.bounded(service.current_watermark())
        for delay in dict.fromkeys((self._to_end, self._to_over)):
            passed = watermark - delay
            # A slice that had a later time than that has its timer already.
            service.register_event_time_timers(pairs, last + delay, (last > passed) & (last_before <= passed))
        if self._slices.lateness:
            yield from self._again(rows, keys, last, watermark - self._to_end)

    def _again(
        self, rows: SlicedRows, keys: BatchKeys, lasts: Times, ended: int
    ) -> Iterator[pa.RecordBatch]:
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
        for start in range(0, len(pairs), _AT_ONCE):
            some = pairs[start : start + _AT_ONCE]
            again = keys.select(some[:, 1])
            yield self._frame(again, self._runs.whole(again, some[:, 0]))

    # --- sessions

    def on_timers(self, timestamps: pa.Array, keys: BatchKeys, ctx: OnTimersContext) -> Iterator[Any]:
        stamps, service = timestamps.to_numpy(), ctx.timer_service()
        for start in range(0, len(stamps), _AT_ONCE):
            places = np.arange(start, min(start + _AT_ONCE, len(stamps)))
            some, part = keys.select(places), stamps[places]
            if self._slices.lateness:
                yield from self._end(some, part - self._to_end, service)
            yield from self._pass(some, part - self._to_over, service)

    def _end(self, keys: BatchKeys, lasts: Times, service: BatchTimerService) -> Iterator[pa.RecordBatch]:
        """Put out the sessions that end with these last times; they stay."""
        due = self._due(keys, lasts, self._to_end, service)
        places = np.flatnonzero(due.is_last)
        if len(places):
            ending = keys.select(places)
            yield self._frame(ending, self._runs.whole(ending, due.slices[places]))

    def _pass(self, keys: BatchKeys, lasts: Times, service: BatchTimerService) -> Iterator[pa.RecordBatch]:
        """The slices with these last times are over."""
        due = self._due(keys, lasts, self._to_over, service)
        last = np.flatnonzero(due.is_last)
        if len(last) and not self._slices.lateness:
            yield self._frame(keys.select(last), due.own(last))
        passed = np.flatnonzero(due.is_last | due.goes_on)
        if len(passed):
            self._stored.remove(keys.select(passed), due.slices[passed])
        going = np.flatnonzero(due.goes_on)
        if len(going):
            both = accumulators.joined(due.own(going), due.next(going))
            codes = np.tile(np.arange(len(going)), 2)
            merged = self._stored.merge(both, codes, len(going))
            self._stored.write(keys.select(going), due.slices[going] + self._gap, merged)

    def _due(self, keys: BatchKeys, lasts: Times, delay: int, service: BatchTimerService) -> _Due:
        """The slices with these last times, and the next ones. A timer that came too early, because its slice has a
        later time now, is registered again."""
        slices = self._slices.of(lasts)
        found, present = self._stored.read_table(keys, np.stack([slices, slices + self._gap], axis=1))
        where = np.full(present.shape, -1)
        where[present] = np.arange(np.count_nonzero(present))
        firsts, own_lasts = span.of_entries(found)
        # The last entry of each is what -1 stands for: a slice that is not there.
        own_lasts, next_firsts = (
            np.append(own_lasts, span.LEAST)[where[:, 0]],
            np.append(firsts, span.GREATEST)[where[:, 1]],
        )
        service.register_event_time_timers(keys, own_lasts + delay, own_lasts > lasts)
        is_due = own_lasts == lasts
        goes_on = is_due & (next_firsts <= lasts + self._gap)
        return _Due(slices, is_due & ~goes_on, goes_on, found, where)

    def _frame(self, keys: BatchKeys, merged: Entries) -> pa.RecordBatch:
        """A row for each session."""
        firsts, lasts = span.of_entries(merged)
        results = self._stored.results(merged)[1:]
        names = [output.name for output in self._outputs]
        return sliced_rows.frame(keys, self._key_names, (firsts, lasts + self._gap), results, names)


class _Due(NamedTuple):
    """Slices whose timers have fired."""

    slices: Times
    is_last: Flags
    """Whether the last time is still that of the timer, and the session does not go on."""
    goes_on: Flags
    """Whether the next slice belongs to the session."""
    found: Entries
    where: npt.NDArray[np.int64]
    """For each slice where it is among those found, and where the next one is."""

    def own(self, places: npt.NDArray[np.int64]) -> Entries:
        """The accumulators of the slices at these places."""
        return accumulators.taken(self.found, self.where[places, 0])

    def next(self, places: npt.NDArray[np.int64]) -> Entries:
        """Those of the slices after these."""
        return accumulators.taken(self.found, self.where[places, 1])


def _first_times(batch: pa.RecordBatch, times: Times) -> Times:
    """The first event time of each row's rows: its own, unless Spark has combined it from several."""
    if not sliced_rows.are_combined(batch):
        return times
    found: Times = batch.column(columns.part_of(0, 0)).to_numpy()
    return found
