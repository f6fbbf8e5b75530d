"""The common part of the functions behind ``.window(…).agg(…)``: one for windows by slices, one for sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import pyarrow as pa

from sparkstate.aggregates import sliced_rows
from sparkstate.aggregates.accumulators import Entries, Output, StoredAccumulators
from sparkstate.aggregates.sliced_rows import SlicedRows
from sparkstate.aggregates.slices import Flags, Slices
from sparkstate.batches.functions import BatchContext, KeyedBatchFunction
from sparkstate.batches.keys import BatchKeys
from sparkstate.functions import OutputTag

FORM: Final = "packed rows"
"""How accumulators are stored, as a premise of state: a version that stores them in another way says something else."""


class ColumnWindows(KeyedBatchFunction, ABC):
    """Puts out a row for each key and window that has rows: key columns, ``window_start``, ``window_end``, results."""

    judges_lateness = True
    is_ordered_across_keys = False
    kind_of_windows: ClassVar[str]
    """For the premises of state."""

    def __init__(
        self,
        slices: Slices,
        key_names: tuple[str, ...],
        outputs: tuple[Output, ...],
        late_tag: OutputTag | None = None,
        late_columns: tuple[str, ...] = (),
    ) -> None:
        """``late_columns`` of rows that come too late go to ``late_tag``; without it they are counted and dropped."""
        self._slices = slices
        self._key_names = key_names
        self._outputs = outputs
        self._late_tag = late_tag
        self._late_columns = late_columns

    @property
    def needs_event_time(self) -> bool:
        return True

    @property
    def operator_title(self) -> str:
        called = ", ".join(each.definition or each.kind for each in self._outputs)
        return f"window({self._windows_title}).agg({called})"

    @property
    @abstractmethod
    def _windows_title(self) -> str:
        """The windows, for people."""

    @property
    def state_premises(self) -> Mapping[str, str]:
        """A timer for the end of a window was set by the lateness of its time. Of a new aggregate, open windows would
        have a part. Versions that store accumulators in another form would find none in these states."""
        lengths = {**self._lengths, "allowed lateness": self._slices.lateness}
        return {
            "kind of windows": self.kind_of_windows,
            **{name: f"{value} ms" for name, value in lengths.items()},
            **{f"aggregate {each.name!r}": each.definition or each.kind for each in self._outputs},
            "form of accumulators": FORM,
        }

    @property
    @abstractmethod
    def _lengths(self) -> Mapping[str, int]:
        """The lengths that slices in state fit, in ms, by their names in the premises."""

    @property
    def stored_outputs(self) -> tuple[Output, ...]:
        """All that the accumulators in state are of."""
        return self._outputs

    @staticmethod
    def _fold(stored: StoredAccumulators, pairs: BatchKeys, rows: SlicedRows) -> tuple[Entries, Entries]:
        """Fold rows into the accumulators of their pairs of key and slice: those before, and those now."""
        if sliced_rows.are_combined(rows.batch):
            return stored.fold_combined(pairs, rows.pair_slices, rows.batch, rows.pairs)
        return stored.fold(pairs, rows.pair_slices, rows.batch, rows.pairs, rows.times)

    def _late(self, batch: pa.RecordBatch, is_late: Flags, ctx: BatchContext) -> Iterator[Any]:
        """Rows that came too late: counted, and put out where somebody wants them."""
        ctx.count_late_rows(sliced_rows.count(batch, is_late))
        if self._late_tag is not None:
            mask = pa.array(is_late)
            late = batch.filter(mask).select(list(self._late_columns))
            yield self._late_tag, ctx.with_timestamps(late, ctx.timestamps().filter(mask))
