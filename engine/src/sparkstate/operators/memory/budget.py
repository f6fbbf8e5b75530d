"""The bound on the memory of a slot's overlays, and the steps taken when they exceed it."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from sparkstate.backends.base import ShardStore, Spill, SpillingFactory
from sparkstate.backends.ordered_spill import OrderedSpillingFactory
from sparkstate.operators.memory import spilling, weighing
from sparkstate.operators.rows import key_order
from sparkstate.operators.rows.files import EpochFiles
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.tables import OperatorTables

_COMMIT_FACTOR: Final = 2
"""A commit holds its changes a second time, as rows, so overlays may fill half of the bound."""
_PARTS: Final = 4
_UNKNOWN_ROW_BYTES: Final = 1000
_LEAST_ROWS: Final = 1024
_SMALL: Final = 8
"""Less than this part of the bound is not worth a file of its own."""
_MOST_RUNS: Final = 16
"""Runs of rows that wait for the order of their keys. A batch of each is in memory while they are merged, and these
take a quarter of what overlays may."""


class EpochBudget:
    """Counts the overlays of one slot, all operators and attempts together. Not thread-safe: the slot runs one
    batch at a time; but :meth:`used_bytes` may be asked by any thread.

    ``factory`` None or without a bound: overlays are counted and stay in memory. ``directory`` takes their files.
    """

    def __init__(self, directory: Path, factory: object, limit_bytes: int | None = None) -> None:
        self._directory = directory
        self._factory = factory if isinstance(factory, SpillingFactory) else None
        bound = self._factory.overlay_bytes if self._factory is not None else None
        self.limit_bytes = bound if limit_bytes is None else limit_bytes
        """Bytes for all overlays of the slot; None = no bound."""
        self.spilled = 0
        """How often an overlay went to disk."""
        self._row_bytes: dict[str, int] = {}
        self._numbers = itertools.count()
        self._overlays: weakref.WeakKeyDictionary[Overlay, OperatorTables] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def bound_bytes(self) -> int | None:
        """The bound, where overlays can go to disk; None: they stay in memory."""
        return self.limit_bytes if self._factory is not None else None

    @property
    def pays_order(self) -> bool:
        """Whether overlays on disk cost less where rows come in the order of their keys."""
        return self.bound_bytes is not None and isinstance(self._factory, OrderedSpillingFactory)

    @property
    def part_bytes(self) -> int:
        """Bytes of rows that may be looked at together, within the bound, which there is."""
        assert self.bound_bytes is not None
        return self.bound_bytes // _COMMIT_FACTOR // _PARTS

    def has_too_many_runs(self, overlay: Overlay) -> bool:
        """Whether no further rows may wait for the order of their keys."""
        return overlay.files is not None and overlay.files.runs >= _MOST_RUNS

    def waiting_bytes(self, most: int) -> int:
        """How many bytes of batches may wait in memory for their turn, for each attempt: ``most``, or less."""
        return most if (bound := self.bound_bytes) is None else min(most, bound // 8)

    def by_key(
        self, overlay: Overlay, batches: Iterable[pa.RecordBatch], key_columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the overlay that come in the order of key groups, in the order of their keys. Once the overlay was
        dropped no more of them are read: a large group is read as a whole before its first row comes."""
        wanted = itertools.takewhile(lambda _: not overlay.dropped, batches)
        return key_order.by_key(
            wanted, key_columns, self.part_bytes, lambda: self.files_of(overlay).new_rows()
        )

    def parts(self, uid: str, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """A batch of operator ``uid`` in parts that take at most about a quarter of the bound each, judged by its rows
        before: with the half that overlays may fill it stays below the bound."""
        if (bound := self.bound_bytes) is None:
            return (batch,)
        row_bytes = self._row_bytes.get(uid, _UNKNOWN_ROW_BYTES)
        size = max(_LEAST_ROWS, bound // _PARTS // max(1, row_bytes))
        if batch.num_rows <= size:
            return (batch,)
        return (batch.slice(start, size) for start in range(0, batch.num_rows, size))

    def _learn(self, uid: str, growth: int, rows: int) -> None:
        if rows > 0 and growth > 0:
            known = self._row_bytes.get(uid, 0)
            # Up at once, down slowly: the first batch of an epoch brings most of its new keys.
            self._row_bytes[uid] = max(growth // rows, known - known // 64)

    def used_bytes(self) -> int:
        """Bytes of all overlays, as last estimated."""
        with self._lock:
            overlays = list(self._overlays)
        return sum(overlay.weight for overlay in overlays if not overlay.dropped)

    def _note(self, overlay: Overlay, tables: OperatorTables) -> None:
        with self._lock:
            self._overlays[overlay] = tables

    def make_room(self, tables: OperatorTables, overlay: Overlay, rows: int = 0) -> bool:
        """Called between two batches: weigh this overlay; while all of them take too much, the heaviest go to
        disk. ``tables`` are those of its operator; ``rows``: how many it has taken in since the last time.

        Answers whether this one's entries did: numbers of keys are then no longer valid.
        """
        before, overlay.weight = overlay.weight, weighing.weigh(overlay)
        self._note(overlay, tables)
        self._learn(tables.uid, overlay.weight - before, rows)
        if (bound := self.bound_bytes) is None:
            return False
        moved = False
        allowed = bound // _COMMIT_FACTOR
        with self._lock:
            overlays = list(self._overlays.items())
        living = [item for item in overlays if not (item[0].dropped or item[0].committed)]
        for each, its_tables in sorted(living, key=lambda item: item[0].weight, reverse=True):
            if self.used_bytes() <= allowed:
                break
            moved |= self._relieve(its_tables, each, allowed) and each is overlay
        return moved

    def _relieve(self, tables: OperatorTables, overlay: Overlay, allowed: int) -> bool:
        """Batches first: nobody looks for anything in them, so all that they cost is one write and one read."""
        moved, small = False, allowed // _SMALL
        if not overlay.finished:
            # The output of a finished overlay may be read at this moment, by another thread.
            if weighing.output_bytes(overlay) > small:
                self.write_outputs(overlay)
            # None are left while those that waited are processed: they count until that is done.
            if overlay.held and weighing.held_bytes(overlay) > small:
                spilling.sort_to_disk(overlay, self.files_of(overlay), self.part_bytes // _MOST_RUNS)
        size = weighing.state_bytes(overlay)
        overlay.weight = size + weighing.batch_bytes(overlay)
        if self.used_bytes() > allowed and size > small:
            self.move_to_disk(tables, overlay)
            overlay.moved_bytes += size
            overlay.weight = weighing.weigh(overlay)
            moved = True
        self.spilled += 1
        return moved

    def move_to_disk(self, tables: OperatorTables, overlay: Overlay) -> None:
        """Entries and timers of the overlay go to its spill; its keys get new numbers."""
        spilling.move_to_disk(tables, overlay, self.spill_of(overlay, tables.stores, tables.shard_of))

    def write_outputs(self, overlay: Overlay) -> None:
        """The batches put out so far go to files."""
        files = self.files_of(overlay)
        for tag, batches in overlay.batches.items():
            files.append(tag, batches)
            overlay.measured.pop(("output", tag), None)
        overlay.batches.clear()

    def files_of(self, overlay: Overlay) -> EpochFiles:
        """The overlay's files, made if there are none yet; they go with it."""
        if overlay.files is None:
            overlay.files = EpochFiles(self._new_directory())
            weakref.finalize(overlay, overlay.files.close)
        return overlay.files

    def spill_of(self, overlay: Overlay, stores: Mapping[int, ShardStore], shard_of: Sequence[int]) -> Spill:
        """The overlay's spill, made if there is none yet; it goes with it."""
        factory = self._factory
        assert factory is not None
        if overlay.spill is None:
            directory = self._new_directory()
            if overlay.by_key and isinstance(factory, OrderedSpillingFactory):
                overlay.spill = factory.create_ordered_spill(stores, shard_of, directory)
            else:
                overlay.spill = factory.create_spill(stores, shard_of, directory)
            weakref.finalize(overlay, overlay.spill.close)
        return overlay.spill

    def _new_directory(self) -> Path:
        return self._directory / f"overlay-{next(self._numbers)}"
