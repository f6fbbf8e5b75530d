"""The function that a job's windows need for ``agg(…)``, chosen here for jobs and for the harness alike."""

from __future__ import annotations

from typing import Protocol

from sparkstate.aggregates.column_windows import ColumnWindows
from sparkstate.aggregates.session_aggregation import SessionAggregation
from sparkstate.aggregates.slices import Slices
from sparkstate.aggregates.window_aggregation import WindowAggregation


class DeclaredWindows(Protocol):
    """Windows as a job declares them: ``WindowOperation`` of the package ``windows``, which this one cannot import."""

    @property
    def lateness_ms(self) -> int:
        """For how long a window takes rows after its end."""

    def session_gap(self, where: str) -> int | None: ...

    def fixed_lengths(self, where: str) -> tuple[int, int, int]: ...


def function_over(windows: DeclaredWindows, where: str) -> tuple[type[ColumnWindows], Slices]:
    """The class of the function, and the slices that it is made with. Raises ``SpecInvalid``, beginning with ``where``,
    for windows whose rows cannot be added up without being kept."""
    gap = windows.session_gap(where)
    if gap is not None:
        return SessionAggregation, Slices(gap, gap, lateness=windows.lateness_ms)
    return WindowAggregation, Slices(*windows.fixed_lengths(where), windows.lateness_ms)
