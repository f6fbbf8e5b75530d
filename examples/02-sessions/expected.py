"""The sessions and the figures per landing page, calculated by sorting. Imports nothing of sparkstate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Protocol

Record = tuple[Any, ...]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Click(Protocol):
    """What is needed of a click."""

    @property
    def user(self) -> str: ...
    @property
    def page(self) -> str: ...
    @property
    def at(self) -> datetime: ...


def sessions(clicks: Iterable[Click], gap: timedelta) -> Counter[Record]:
    """(user, first click, last click, clicks, page of the first click) of every session, as a multiset."""
    by_user = sorted((click.user, click.at, click.page) for click in clicks)
    return Counter(
        (user, run[0][1], run[-1][1], len(run), run[0][2])
        for user, rows in groupby(by_user, key=lambda row: row[0])
        for run in _cut(rows, gap)
    )


def _cut(rows: Iterable[Record], gap: timedelta) -> Iterator[list[Record]]:
    run: list[Record] = []
    for row in rows:
        if run and row[1] - run[-1][1] >= gap:
            yield run
            run = []
        run.append(row)
    yield run


def landing_pages(found: Counter[Record], gap: timedelta) -> Counter[Record]:
    """(landing page, day, sessions, clicks, seconds) for the day in which the sessions were closed."""
    totals: dict[tuple[str, datetime], list[Any]] = {}
    for (_, first, last, clicks, landing), times in found.items():
        day = EPOCH + (last + gap - EPOCH) // DAY * DAY
        total = totals.setdefault((landing, day), [0, 0, timedelta()])
        total[0] += times
        total[1] += times * clicks
        total[2] += times * (last - first)
    return Counter(
        (landing, day, count, clicks, time // timedelta(seconds=1))
        for (landing, day), (count, clicks, time) in totals.items()
    )
