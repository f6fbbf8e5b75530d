"""How much memory an overlay takes: an estimate from counts, which are exact, and a few looks at what is counted.

Exact sizes would cost more than the records themselves. So this is asked once per batch and looks at about a
hundred objects, evenly spread, however many there are. It errs by shared objects (counted twice) and by single
large values between the looks.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from sparkstate.operators.state.overlay import ListCell, MapCell, Overlay, TableOverlay

_LOOKS: Final = 32
_DICT_ENTRY: Final = 104
"""Bytes of an entry of a dict, at its usual load."""
_CELL: Final[dict[type, int]] = {ListCell: 200, MapCell: 280}
"""Bytes of an empty cell with its containers and its entry, as ``tracemalloc`` counts them."""
_TIMER: Final = 64 + 32 + _DICT_ENTRY
"""Bytes of a timer: its tuple, its timestamp, its entry. The key is counted elsewhere."""
_HEAP_ENTRY: Final = 64 + 8
_CHANGE: Final = 12
"""Bytes by which the change of an entry in columns exceeds the entry: it has its key and key group once more. The
budget leaves a commit as much as was weighed."""
_PAIR_CHANGE: Final = 20
"""The same for one by key and namespace, and for a timer in columns."""


def weigh(overlay: Overlay) -> int:
    """Bytes of everything that the overlay holds in memory."""
    return state_bytes(overlay) + batch_bytes(overlay)


def state_bytes(overlay: Overlay) -> int:
    """Bytes of entries and timers."""
    total = overlay.known.nbytes + _of_all(overlay.known.objects)
    total += sum(map(_table_bytes, overlay.tables))
    for timers in overlay.timers.values():
        total += _TIMER * len(timers.changes) + _HEAP_ENTRY * timers.waiting
        total += timers.column_bytes + _PAIR_CHANGE * timers.column_count
    return total


def batch_bytes(overlay: Overlay) -> int:
    """Bytes of the batches that are put out, and of those that wait to be sorted."""
    return output_bytes(overlay) + held_bytes(overlay)


def output_bytes(overlay: Overlay) -> int:
    """Bytes of the batches that are put out."""
    return sum(_counted(overlay, ("output", tag), each) for tag, each in overlay.batches.items())


def held_bytes(overlay: Overlay) -> int:
    """Bytes of the batches that wait to be sorted."""
    return _counted(overlay, ("held",), overlay.held)


def _counted(overlay: Overlay, name: tuple[str | None, ...], batches: list[pa.RecordBatch]) -> int:
    """Looks only at batches that came since the last time. Code that empties the list also drops ``measured[name]``."""
    count, size = overlay.measured.get(name, (0, 0))
    size += sum(int(batch.nbytes) for batch in batches[count:])
    overlay.measured[name] = (len(batches), size)
    return size


def _table_bytes(table: TableOverlay) -> int:
    total = _entries_bytes(table.entries, table.read)
    if table.columns is not None:
        total += table.columns.nbytes + _CHANGE * table.columns.count
    if table.pairs is not None:
        total += table.pairs.nbytes + _PAIR_CHANGE * table.pairs.count
    if table.rooms:
        looked = list(itertools.islice(table.rooms.values(), _LOOKS))
        seen = sum(200 + _entries_bytes(entries, read) for entries, read in looked)
        total += seen * len(table.rooms) // len(looked)
    if table.elements:
        cells = table.entries or next(iter(table.rooms.values()), ({}, {}))[0]
        total += table.elements * (_DICT_ENTRY + _element_bytes(cells))
    return total


def _entries_bytes(entries: Any, read: Any) -> int:
    total = sys.getsizeof(entries) + sys.getsizeof(read)
    if isinstance(entries, list):
        return total + _of_all(entries) + _replaced_bytes(read, entries)
    values = _ends(entries)
    if values and (cell_bytes := _CELL.get(type(values[0]))):
        return total + cell_bytes * len(entries)
    return total + 2 * _of_all(values, len(entries))


def _replaced_bytes(read: list[Any], entries: list[Any]) -> int:
    """Bytes of the entries that were read and have changed since."""
    step = max(1, len(read) // _LOOKS)
    looked = list(zip(read[::step], entries[::step], strict=False))
    return sum(_size(old) for old, new in looked if old is not new) * len(read) // max(1, len(looked))


def _element_bytes(cells: dict[Any, Any]) -> int:
    sizes: list[int] = []
    for cell in _ends(cells):
        if type(cell) is ListCell:
            elements = [*cell.items[-2:], *(cell.stored or ())[-2:]]
        else:
            elements = [*_ends(cell.entries, 2), *_ends(cell.read, 2), *_ends(cell.stored or {}, 2)]
        sizes += map(_size, elements)
    return sum(sizes) // len(sizes) if sizes else 0


def _ends(entries: dict[Any, Any], looks: int = _LOOKS) -> list[Any]:
    """The values put in first, and the latest ones."""
    if len(entries) <= looks:
        return list(entries.values())
    half = looks // 2
    values = entries.values()
    return [*itertools.islice(values, half), *itertools.islice(reversed(values), half)]


def _of_all(sample: Sequence[Any], count: int | None = None) -> int:
    """Bytes of ``count`` objects such as these; by default these are all there are."""
    if not sample:
        return 0
    looked = sample[:: max(1, len(sample) // _LOOKS)]
    return sum(map(_size, looked)) * (len(sample) if count is None else count) // len(looked)


def _size(value: Any) -> int:
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(map(sys.getsizeof, value.values())) + sum(map(sys.getsizeof, value))
    if isinstance(value, (tuple, list)):
        return size + sum(map(sys.getsizeof, value))
    return size
