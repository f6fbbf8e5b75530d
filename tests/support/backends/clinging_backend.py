"""A backend of one's own in memory whose views cannot be released."""

from __future__ import annotations

from pathlib import Path

from support.backends.own_backends import MemoryBackend, MemoryRows, MemoryView

from sparkstate.backend_api import OrderedRows, RowsView


class _ClingingView(MemoryView):
    def release(self) -> None:
        raise OSError("this view stays")


class _ClingingRows(MemoryRows):
    def view(self) -> RowsView:
        return _ClingingView(dict(self.rows))


class ClingingBackend(MemoryBackend):
    """Releasing a view raises."""

    def open_rows(self, directory: Path) -> OrderedRows:
        return _ClingingRows()
