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


@dataclass(frozen=True)
class _Epoch:
    at: float
    """Its end by the monotonic clock, s."""
    seconds: float
    rows: int
    """Into the first operators."""
    operators: Mapping[str, OperatorResult]
    """By uid."""


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
        self._recent.append(_Epoch(now, seconds, rows, {each.uid: each for each in operators}))
        while self._recent[0].at < now - RATE_WINDOW_S:
            self._recent.popleft()
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
        return _rate((epoch.rows for epoch in self._recent), self._window_s(now))

    def rows_out(self, uid: str, tag: str | None, now: float) -> tuple[int, float]:
        """Rows of one output in all, and per second."""
        totals = self._totals.get(uid, _Totals())
        recent = (each.rows_out.get(tag, 0) for each in self._of(uid))
        return totals.out[tag], _rate(recent, self._window_s(now))

    def figures(
        self, uid: str, sizes: Iterable[protocol.OperatorSize], now: float
    ) -> picture.OperatorFigures:
        """Of one operator; ``sizes`` are what the slots tell of its state."""
        totals, window_s = self._totals.get(uid, _Totals()), self._window_s(now)
        own = [size for size in sizes if size.operator == uid]
        return picture.OperatorFigures(
            **totals.figures,
            rows_in_per_s=_rate((each.rows_in for each in self._of(uid)), window_s),
            rows_out_total=totals.out.total(),
            rows_out_per_s=_rate((sum(each.rows_out.values()) for each in self._of(uid)), window_s),
            busy_share=self._busy_share(uid),
            state_rows=sum(size.state_rows for size in own) if own else None,
            state_bytes=sum(size.state_bytes for size in own) if own else None,
            timers=sum(size.timers for size in own) if own else None,
            operator_states=(),
        )

    def _of(self, uid: str) -> Iterable[OperatorResult]:
        return (epoch.operators[uid] for epoch in self._recent if uid in epoch.operators)

    def _busy_share(self, uid: str) -> float | None:
        seconds = sum(epoch.seconds for epoch in self._recent if epoch.operators)
        if seconds <= 0:
            return None
        return min(1.0, sum(each.busy_ms for each in self._of(uid)) / 1000 / seconds)

    def _window_s(self, now: float) -> float:
        """From the oldest recent epoch on: at least a second, at most the whole window."""
        since = now - self._recent[0].at if self._recent else 0.0
        return min(max(since, 1.0), RATE_WINDOW_S)


def _rate(rows: Iterable[int], window_s: float) -> float:
    return sum(rows) / window_s
