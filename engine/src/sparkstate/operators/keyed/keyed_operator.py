"""One keyed operator in one slot: runs the user's function over batches and due timers, on overlays.

Theory. ``begin`` gives an overlay; ``process_batch`` and ``finish`` write to it alone; the commit of the epoch makes
it state. Several overlays of an epoch may exist (attempts of one task); the function object and its handles are
one, so an overlay is *bound* to them for the time of a call, and a lock keeps the calls apart.

The work around the record loop (``keyed.calls``) happens here, per batch, not per record: columns become lists, the
values of all keys not yet seen are read from the stores in one call per shard and state, and what was yielded becomes
Arrow again.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.backends.base import ShardStore, TimerTable
from sparkstate.clock import Clock
from sparkstate.functions import MIN_WATERMARK, TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators.base import EpochChanges
from sparkstate.operators.keyed import firing, garbage, intake
from sparkstate.operators.keyed.calls import Calls
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.rows import arrow_rows, sorting
from sparkstate.operators.spec import JobFacts, OperatorSpec
from sparkstate.operators.state import changes, inspection
from sparkstate.operators.state.handles import StateHandle
from sparkstate.operators.state.overlay import Overlay
from sparkstate.operators.state.runtime_context import OperatorRuntimeContext
from sparkstate.operators.state.tables import OperatorTables
from sparkstate.operators.user_metrics import UserMetrics
from sparkstate.serde import containers
from sparkstate.serde import row as rows_module

_STRETCH_ROWS = 2048
"""Rows that become Python objects at a time: so few that they stay in the processor's cache. Measured: with all
65,536 of a batch at once a record took nearly twice as long."""


class KeyedOperator:
    """One operator of one slot (``operators.base.Operator``). Calls may come from several threads; they run one after
    another."""

    def __init__(
        self,
        spec: OperatorSpec,
        stores: Mapping[int, ShardStore],
        key_space: KeySpace,
        clock: Clock,
        subtask: int,
        parallelism: int,
        budget: EpochBudget | None = None,
        facts: JobFacts | None = None,
    ) -> None:
        self.spec = spec
        self.stores = stores
        self._budget = budget
        self._clock = clock
        self._tables = OperatorTables(spec.uid, spec.key_type, stores, key_space)
        self._calls = Calls(spec, self._tables)
        self._intake = intake.Intake(spec, self._tables.owned, self._calls.outputs)
        self._row_class = rows_module.row_class(spec.row_columns)
        self._read_keys = arrow_rows.key_reader(spec.key_columns, spec.key_type)
        self._lock = threading.RLock()
        self._context = OperatorRuntimeContext(
            spec.uid,
            spec.key_type,
            self._calls.cursor,
            self._tables.register,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=key_space.max_parallelism,
            undoes_records=spec.on_error == "side-output",
            facts=facts or JobFacts(),
        )

    # --- life

    def open(self) -> None:
        with self._lock:
            self._calls.open(self._context)
            self._context.is_open = False
            self._tables.set_handles(self._context.handles.values())

    def close(self) -> None:
        with self._lock:
            self._calls.close(self._context.handles.values())

    # --- one epoch

    def begin(
        self, epoch: int, watermark: int = MIN_WATERMARK, processing_time: int | None = None
    ) -> Overlay:
        """As the contract says; processing time defaults to the clock's now."""
        if processing_time is None:
            processing_time = self._clock.now_ms()
        tables = self._tables.empty_tables()
        return Overlay(epoch, watermark, processing_time, tables, sort_column=self.spec.event_time_column)

    def process_batch(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0 or overlay.dropped:
            return
        with self._lock:
            batch = self._intake.take(overlay, batch)
            if self.spec.sort_by_event_time:
                overlay.held.append(batch)
                self._settle(overlay)
            elif batch.num_rows:
                self._process_parts(overlay, batch)

    def finish(self, overlay: Overlay, watermark: int) -> None:
        """Rows held for sorting are processed, then due timers fire under the new watermark."""
        with self._lock:
            if overlay.finished:
                raise errors.StateError(
                    f"operator {self.spec.uid!r}: epoch {overlay.epoch} was finished twice"
                )
            self._process_held(overlay)
            with garbage.collection_paused():
                firing.fire_all(self._calls, self._budget, overlay, watermark)
            self._settle(overlay)
            self._context.metrics.refresh_gauges()
            overlay.finished = True

    def commit_spilled(self, overlay: Overlay) -> None:
        if overlay.spill is not None and self._budget is not None:
            self._budget.move_to_disk(self._tables, overlay)
            overlay.spill.commit()

    def changes(self, overlay: Overlay) -> EpochChanges:
        if overlay.spill is not None:
            return EpochChanges()
        tables = self._tables
        timer_specs = {d: tables.timer_spec(d) for d in TimeDomain if overlay.timers[d].changes}
        return EpochChanges(
            changes.changes_of(overlay, tables.handles, timer_specs, tables.shard_of),
            dict(zip(overlay.keys, overlay.kgs, strict=True)),
        )

    # --- around the record loop

    def _process_parts(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        for part in (batch,) if self._budget is None else self._budget.parts(self.spec.uid, batch):
            if overlay.dropped:
                return
            self._process(overlay, part)
            self._settle(overlay, part.num_rows)

    def _settle(self, overlay: Overlay, rows: int = 0) -> None:
        if self._budget is not None:
            self._budget.settle(self._tables, overlay, rows)

    def _process_held(self, overlay: Overlay) -> None:
        runs = overlay.files.take_runs() if overlay.files is not None else []
        column, held = overlay.sort_column, overlay.held
        if column is None or not (held or runs):
            return
        overlay.held = []
        for batch in sorting.merge(runs, held, column) if runs else sorting.sort(held, column):
            self._process_parts(overlay, batch)

    def _process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        # Each column once: where the key is one of the row's columns, key and field are the same objects.
        read = functools.cache(lambda name: arrow_rows.column_values(batch.column(name)))
        kgs = batch.column(columns.KEY_GROUP).to_numpy(zero_copy_only=False)
        calls = self._calls
        with self._lock, garbage.collection_paused():
            calls.bind(overlay, overlay.watermark)
            numbers = self._tables.prefetch(overlay, self._read_keys(read), kgs)
            calls.outputs.start_piece(overlay)
            for start in range(0, batch.num_rows, _STRETCH_ROWS):
                stretch = slice(start, start + _STRETCH_ROWS)
                calls.run(
                    overlay, zip(numbers[stretch], *self._stamped_rows(batch, read, stretch), strict=True)
                )
            calls.outputs.end_piece(overlay)

    def _stamped_rows(
        self, batch: pa.RecordBatch, read: arrow_rows.ReadColumn, stretch: slice
    ) -> tuple[Iterable[int | None], Iterable[Any]]:
        """Event times and rows of a stretch of the batch. Key columns are lists already, others become lists
        here."""
        keys = self.spec.key_columns
        size = stretch.stop - stretch.start
        values = [
            read(name)[stretch]
            if name in keys
            else arrow_rows.column_values(batch.column(name).slice(stretch.start, size))
            for name in self.spec.row_columns
        ]
        rows = map(self._row_class, zip(*values, strict=True))
        stamp = self.spec.event_time_column
        if stamp is None:
            return itertools.repeat(None, len(values[0])), rows
        return arrow_rows.column_values(batch.column(stamp).slice(stretch.start, size)), rows

    # --- by hand

    def process_rows(
        self,
        overlay: Overlay,
        keys: Sequence[Any],
        kgs: Sequence[int],
        stamps: Iterable[int | None],
        rows: Iterable[Any],
    ) -> None:
        with self._lock, garbage.collection_paused():
            self._calls.bind(overlay, overlay.watermark)
            numbers = self._tables.prefetch(overlay, keys, kgs)
            self._calls.run(overlay, zip(numbers, stamps, rows, strict=True))

    def put_side(self, overlay: Overlay, tag: str, rows: list[Any]) -> None:
        self._calls.outputs.put_side(overlay, tag, rows)

    # --- looking in

    @property
    def metrics(self) -> UserMetrics:
        return self._context.metrics

    def next_timer(self) -> tuple[int | None, int | None]:
        with self._lock:
            next_timer = self._tables.next_timer
            return next_timer(TimeDomain.EVENT_TIME), next_timer(TimeDomain.PROCESSING_TIME)

    def timer_tables(self, domain: TimeDomain) -> list[TimerTable]:
        return self._tables.timer_tables(domain)

    def read_state(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """As the contract says: so pickled values are not opened."""
        spec = self._handle(state).spec
        if isinstance(spec.value_type, containers.PickledType):
            raise errors.StateError(
                f"operator {self.spec.uid!r}: the values of state {state!r} are pickled; reading them runs "
                "code, so they are not shown"
            )
        return inspection.to_json(self.read_value(state, key, namespace, key_group))

    def read_value(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """A list, a dict, or a value; of an aggregating state its accumulator."""
        with self._lock:
            spec, tables = self._handle(state).spec, self._tables
            kgs = sorted(tables.owned) if key_group is None else [key_group]
            return inspection.read_cell(spec, tables.register(spec), kgs, key, namespace)

    def _handle(self, state: str) -> StateHandle:
        handle = self._context.handles.get(state)
        if handle is None:
            known = ", ".join(sorted(self._context.handles)) or "none"
            raise errors.StateError(
                f"operator {self.spec.uid!r} has no state {state!r}; its states are: {known}"
            )
        return handle
