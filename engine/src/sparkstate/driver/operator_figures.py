"""The work of a job's operators: totals since the driver started, and rates of the last seconds."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparkstate.control import picture
from sparkstate.slots import protocol
from sparkstate.spark.epochs import OperatorResult

RATE_WINDOW_S: Final = 10.0
"""Rates are those of the epochs that ended within it, or within twice the length of the newest, if that is longer."""


@dataclass(frozen=True)
class _Epoch:
    since: float
    """The end of the one before; later where that was long before its own beginning."""
    at: float
    """Its end by the monotonic clock, s."""
    seconds: float
    rows: int
    """Into the first operators."""
    operators: Mapping[str, OperatorResult]
    """By uid."""

    @property
    def length_s(self) -> float:
        """The time in which its rows came."""
        return self.at - self.since


@dataclass
class _Totals:
    figures: Counter[str] = field(default_factory=Counter)
    out: Counter[str | None] = field(default_factory=Counter)


class WorkedEpochs:
    """Epochs that have committed. The caller guards it, and gives the monotonic time, which never goes back."""

    def __init__(self) -> None:
        self._recent: deque[_Epoch] = deque()
        self._totals: dict[str, _Totals] = {}

    def note(self, now: float, seconds: float, rows: int, operators: Sequence[OperatorResult]) -> None:
        """An epoch has committed ``now``; it took ``seconds``."""
        since = now - seconds
        if self._recent:
            since = max(self._recent[-1].at, now - max(seconds, RATE_WINDOW_S))
        self._recent.append(_Epoch(since, now, seconds, rows, {each.uid: each for each in operators}))
        self._recent = deque(self._at(now))
        for each in operators:
            totals = self._totals.setdefault(each.uid, _Totals())
            totals.out.update(each.rows_out)
            totals.figures.update(
                rows_in_total=each.rows_in,
                late_rows_total=each.late_rows,
                dropped_rows_total=each.dropped_rows,
                timers_fired_total=each.timers_fired,
            )

    def rows_per_s(self, now: float) -> float:
        """Rows into the first operators."""
        recent = self._at(now)
        return _rate((epoch.rows for epoch in recent), recent, now)

    def rows_out(self, uid: str, tag: str | None, now: float) -> tuple[int, float]:
        """Rows of one output in all, and per second."""
        totals = self._totals.get(uid, _Totals())
        recent = self._at(now)
        return totals.out[tag], _rate((each.rows_out.get(tag, 0) for each in _of(uid, recent)), recent, now)

    def figures(
        self, uid: str, sizes: Iterable[protocol.OperatorSize], now: float
    ) -> picture.OperatorFigures:
        """Of one operator; ``sizes`` are what the slots tell of its state."""
        totals, recent = self._totals.get(uid, _Totals()), self._at(now)
        mine = list(_of(uid, recent))
        own = [size for size in sizes if size.operator == uid]
        return picture.OperatorFigures(
            **totals.figures,
            rows_in_per_s=_rate((each.rows_in for each in mine), recent, now),
            rows_out_total=totals.out.total(),
            rows_out_per_s=_rate((sum(each.rows_out.values()) for each in mine), recent, now),
            busy_share=self._busy_share(uid),
            state_rows=sum(size.state_rows for size in own) if own else None,
            state_bytes=sum(size.state_bytes for size in own) if own else None,
            timers=sum(size.timers for size in own) if own else None,
            operator_states=(),
        )

    def _busy_share(self, uid: str) -> float | None:
        seconds = sum(epoch.seconds for epoch in self._recent if epoch.operators)
        if seconds <= 0:
            return None
        return min(1.0, sum(each.busy_ms for each in _of(uid, self._recent)) / 1000 / seconds)

    def _at(self, now: float) -> Sequence[_Epoch]:
        """Those that the rates of this moment are made of, oldest first."""
        if not self._recent:
            return ()
        window_s = max(RATE_WINDOW_S, 2 * self._recent[-1].length_s)
        return [epoch for epoch in self._recent if epoch.at > now - window_s]


def _of(uid: str, epochs: Iterable[_Epoch]) -> Iterable[OperatorResult]:
    return (epoch.operators[uid] for epoch in epochs if uid in epoch.operators)


def _rate(rows: Iterable[int], recent: Sequence[_Epoch], now: float) -> float:
    """Per second of the time in which ``rows`` came, at least a second. An epoch is under way, whose rows nobody knows:
    it has as much time as the newest took before it counts."""
    if not recent:
        return 0.0
    newest = recent[-1]
    span_s = newest.at - recent[0].since + max(now - newest.at - newest.length_s, 0.0)
    return sum(rows) / max(span_s, 1.0)
