"""Rows whose own windows are over, and the open sessions that they touch.

Theory. A row's own window goes from its time to one gap after it. A row at a *passed* time, whose window is over, is
late unless its window touches a session that is not over (as in Flink). Such a session has rows before the passed time,
or within a gap of the row, and rows after it; no two of them that follow one another are more than a gap apart. So it
has a row within a gap after the passed time: in the slice of that time, or in the slice after. All of its slices that
are over were taken into one of these two. So they alone have to be looked at, and the row goes into one of them.

Whether a row touches a session may depend on a row before it, as it does with one row at a time. So rows of keys that
have such a session are looked at one by one. They are few: they are behind the watermark by more than a gap.
"""

from __future__ import annotations

import numpy as np

from sparkstate.aggregates import span
from sparkstate.aggregates.accumulators import StoredAccumulators
from sparkstate.aggregates.slices import Flags, Times
from sparkstate.batches.keys import BatchKeys


def places(
    stored: StoredAccumulators,
    keys: BatchKeys,
    spans: tuple[Times, Times],
    slices: Times,
    passed: int,
    gap: int,
) -> tuple[Times, Flags]:
    """The slice of each row of a batch: its own, or one of the open session that it touches; and which rows are late.
    Windows of rows up to the time ``passed`` are over. ``spans`` are the first and the last time of each row, which
    differ where rows are combined. A combined row counts as its rows would from the last one on."""
    first_times, times = spans
    is_over = times <= passed
    near = passed // gap * gap
    codes = keys.codes
    chosen = np.unique(codes[is_over])
    firsts = _firsts(stored, keys.select(chosen), near, gap)
    lines = np.full(len(keys), -1)
    lines[chosen] = np.arange(len(chosen))
    line_of = lines[codes]
    opens = ~is_over & (line_of >= 0) & (slices >= near) & (slices <= near + gap)
    has_session: Flags = np.asarray((firsts < span.GREATEST).any(axis=1))
    has_session[line_of[opens]] = True
    rows = np.flatnonzero((is_over | opens) & has_session[line_of])
    wanted = np.where(is_over, -1, (slices - near) // gap)
    each = (array[rows].tolist() for array in (line_of, first_times, times, wanted))
    touched = np.array(_touched(*each, firsts=firsts.tolist(), gap=gap), np.int64)
    taken = np.flatnonzero(touched >= 0)
    slices, is_late = slices.copy(), is_over.copy()
    slices[rows[taken]] = near + gap * touched[taken]
    is_late[rows[taken]] = False
    return slices, is_late


def _firsts(stored: StoredAccumulators, keys: BatchKeys, near: int, gap: int) -> Times:
    """For each key the first times of these two slices, after all times where there is none."""
    pairs = keys.select(np.repeat(np.arange(len(keys)), 2))
    found, present = stored.read_packed(pairs, np.tile(np.array([near, near + gap], np.int64), len(keys)))
    return span.of_places(found, present)[0].reshape(-1, 2)


def _touched(
    lines: list[int],
    first_times: list[int],
    times: list[int],
    wanted: list[int],
    *,
    firsts: list[list[int]],
    gap: int,
) -> list[int]:
    """For each row which of its key's two slices it goes to; -1: its window is over, and touches neither. ``wanted`` is
    the slice of a row whose window is not over, -1 for others; ``lines`` are the places of keys in ``firsts``."""
    answers = []
    for line, first_time, time, chosen in zip(lines, first_times, times, wanted, strict=True):
        own, at = firsts[line], chosen
        if at < 0 and own[1] <= time + gap:
            # Of both it is this one: it may have taken in rows of this time from the other.
            at = 1
        elif at < 0 and own[0] <= time + gap:
            at = 0
        if at >= 0 and first_time < own[at]:
            own[at] = first_time
        answers.append(at)
    return answers
