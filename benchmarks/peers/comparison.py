"""Whether an engine's answers are right. No rate is printed for one whose answers are not.

Engines read their input in parallel, so the rows of a key may come in another order in each of them. What any order
has to give is compared: of a running sum, how many answers each key got, that no total comes twice, and the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def of_sums(answers: Any, keys: Any, values: Any, *, each_row: bool) -> str | None:
    """What is wrong with the answers ``(k, total)`` to these rows; None: nothing.

    ``each_row``: every row has to be answered by the total so far; otherwise each key has to be answered at least
    once, and its last total counts. Values are positive, so the last total of a key is its largest.
    """
    wanted_keys, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
    wanted = np.zeros(len(wanted_keys), np.int64)
    np.add.at(wanted, index, values)
    if each_row and len(answers) != len(keys):
        return f"{len(answers):,} answers to {len(keys):,} rows"
    if each_row and len(np.unique(answers, axis=0)) != len(answers):
        return "a key has the same total twice, so a row was not added to the state"
    got_keys, got_index, got_counts = np.unique(answers[:, 0], return_inverse=True, return_counts=True)
    if not np.array_equal(got_keys, wanted_keys):
        return f"answers for {len(got_keys):,} keys, {len(wanted_keys):,} expected, or for other keys"
    last = np.zeros(len(got_keys), np.int64)
    np.maximum.at(last, got_index, answers[:, 1])
    if not np.array_equal(last, wanted):
        wrong = int(np.flatnonzero(last != wanted)[0])
        return f"key {got_keys[wrong]} ends with {last[wrong]}, {wanted[wrong]} expected"
    if each_row and not np.array_equal(got_counts, counts):
        return "a key has more answers than rows"
    return None


Session = tuple[int, int, int, int]
"""Key, begin in milliseconds, rows, total."""


def sessions(keys: Any, times: Any, values: Any, gap_ms: int) -> list[tuple[Session, int]]:
    """All sessions of these rows, each with the time of its last row."""
    order = np.lexsort((times, keys))
    k, t, v = keys[order], times[order], values[order]
    begins = np.flatnonzero(np.r_[True, (k[1:] != k[:-1]) | (t[1:] - t[:-1] >= gap_ms)])
    ends = np.r_[begins[1:], len(k)]
    totals = np.add.reduceat(v, begins)
    return [
        ((int(k[begin]), int(t[begin]), int(end - begin), int(total)), int(t[end - 1]))
        for begin, end, total in zip(begins, ends, totals, strict=True)
    ]


def of_sessions(
    answers: Sequence[tuple[int, ...]],
    expected: Sequence[tuple[tuple[int, ...], int]],
    closed_ms: int,
    *,
    noun: str = "session",
    columns: str = "key, begin, rows, total",
) -> str | None:
    """What is wrong with these sessions, or with other answers that the watermark closes; None: nothing.

    ``expected`` has a time with each, and those with a time before ``closed_ms`` have to be there. Engines differ in
    whether the end of the input closes the rest, so the rest may be there or not, but must be right.
    """
    got = set(answers)
    if len(got) != len(answers):
        return f"a {noun} comes twice"
    if unknown := got - {session for session, _ in expected}:
        return f"a {noun} that there is not: {min(unknown)} ({columns})"
    if missing := {session for session, last_ms in expected if last_ms < closed_ms} - got:
        return f"{len(missing):,} {noun}s are missing, such as {min(missing)} ({columns})"
    return None
