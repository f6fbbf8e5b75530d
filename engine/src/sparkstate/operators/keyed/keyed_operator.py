"""One keyed operator in one slot: runs the user's function over batches and due timers, on overlays.

Theory. ``begin`` gives an overlay; ``process_batch`` and ``finish`` write to it alone; ``commit`` makes it
state. Several overlays of an epoch may exist (attempts of one task); the function object and its handles are
one, so an overlay is *bound* to them for the time of a call, and a lock keeps the calls apart.

The record loop is the hot path. Per batch, not per record: columns become lists, the values of all keys not
yet seen are read from the stores in one call per shard and state, and what was yielded becomes Arrow again.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparkstate import columns, errors
from sparkstate.backends.base import ShardStore, Spill, StateKind, TableSpec
from sparkstate.clock import Clock
from sparkstate.functions import MIN_WATERMARK, TimeDomain
from sparkstate.keygroups import KeySpace
from sparkstate.operators.keyed import firing, garbage, intake
from sparkstate.operators.keyed.outputs import Outputs
from sparkstate.operators.memory import spilling
from sparkstate.operators.memory.budget import EpochBudget
from sparkstate.operators.rows import arrow_rows, sorting
from sparkstate.operators.spec import JobFacts, OperatorSpec
from sparkstate.operators.state import changes, handles, inspection
from sparkstate.operators.state.context import Cursor
from sparkstate.operators.state.overlay import Overlay, TableOverlay, undo
from sparkstate.operators.state.runtime_context import OperatorRuntimeContext
from sparkstate.operators.user_metrics import UserMetrics
from sparkstate.serde import containers
from sparkstate.serde import row as rows_module

TIMER_TABLES = {
    TimeDomain.EVENT_TIME: ("_timer_state/event_user-timers", StateKind.EVENT_TIMERS),
    TimeDomain.PROCESSING_TIME: ("_timer_state/processing_user-timers", StateKind.PROCESSING_TIMERS),
}
_STRETCH_ROWS = 2048
"""Rows that become Python objects at a time: so few that they stay in the processor's cache. Measured: with all
65,536 of a batch at once a record took nearly twice as long."""
_SHOWN_CHARACTERS = 500


class KeyedOperator:
    """One operator of one slot. Calls may come from several threads; they run one after another."""

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
        self.budget = budget
        self.stores = stores
        self._key_space = key_space
        self._clock = clock
        self._cursor = Cursor()
        self._outputs = Outputs(spec)
        self._row_class = rows_module.row_class(spec.row_columns)
        self._read_keys = arrow_rows.key_reader(spec.key_columns, spec.key_type)
        self.shard_of = [key_space.shard_of_key_group(kg) for kg in range(key_space.max_parallelism)]
        self._owned = {kg for store in stores.values() for kg in _range(store)}
        self._intake = intake.Intake(spec, self._owned, self._outputs)
        self.handles: list[handles.StateHandle] = []
        self._prefetched: list[handles.ValueStateHandle] = []
        self._lock = threading.RLock()
        self._context = OperatorRuntimeContext(
            spec.uid,
            spec.key_type,
            self._cursor,
            self._register,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=key_space.max_parallelism,
            undoes_records=spec.on_error == "side-output",
            facts=facts or JobFacts(),
        )

    # --- life cycle

    def open(self) -> None:
        """Open the user's function: it asks for its state. The stores are restored before."""
        with self._lock:
            try:
                self.spec.function.open(self._context)
            except errors.StateMigrationError:
                raise
            except errors.StateError as error:  # whatever open() declares, it declares again after a restart
                raise errors.DeclarationError(str(error)) from error
            except errors.SparkstateError:
                raise
            except Exception as error:
                raise errors.UserCodeError(
                    f"operator {self.spec.uid!r}: open() raised {_describe(error)}"
                ) from error
            self._context.is_open = False
            self.handles = list(self._context.handles.values())
            self._prefetched = [h for h in self.handles if isinstance(h, handles.ValueStateHandle)]

    def close(self) -> None:
        """Close the user's function. Called always, also after a failure."""
        with self._lock:
            self._cursor.unbind()
            for handle in self._context.handles.values():
                handle.unbind()
            try:
                self.spec.function.close()
            except Exception as error:
                raise errors.UserCodeError(
                    f"operator {self.spec.uid!r}: close() raised {_describe(error)}"
                ) from error

    def _register(self, spec: TableSpec) -> handles.TableOf:
        tables = {shard: store.table(spec) for shard, store in self.stores.items()}
        shard_of = self.shard_of
        return lambda kg: tables[shard_of[kg]]

    def timer_spec(self, domain: TimeDomain) -> TableSpec:
        """The table of the operator's timers in one domain."""
        name, kind = TIMER_TABLES[domain]
        return TableSpec(uid=self.spec.uid, name=name, kind=kind, key_type=self.spec.key_type)

    # --- one epoch

    def begin(
        self, epoch: int, watermark: int = MIN_WATERMARK, processing_time: int | None = None
    ) -> Overlay:
        """An empty overlay. ``watermark`` is that of the epoch before; processing time defaults to the
        clock's now."""
        if processing_time is None:
            processing_time = self._clock.now_ms()
        return Overlay(epoch, watermark, processing_time, self.empty_tables())

    def empty_tables(self, spill: Spill | None = None) -> list[TableOverlay]:
        """One for each state; what they do not know is read from ``spill``, if there is one."""
        return [
            TableOverlay(isinstance(each, handles.ValueStateHandle), spill and spill.table(each.spec))
            for each in self.handles
        ]

    def process_batch(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        """Run the user's function over a batch. Raises ``UserCodeError``; the overlay is then to be
        dropped."""
        if batch.num_rows == 0 or overlay.dropped:
            return
        with self._lock:
            batch = self._intake.take(overlay, batch)
            if self.spec.sort_by_event_time:
                overlay.held.append(batch)
                self._settle(overlay)
            elif batch.num_rows:
                self._process_parts(overlay, batch)

    def _process_parts(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        for part in (batch,) if self.budget is None else self.budget.parts(self, batch):
            if overlay.dropped:
                return
            self._process(overlay, part)
            self._settle(overlay, part.num_rows)

    def _settle(self, overlay: Overlay, rows: int = 0) -> None:
        if self.budget is not None:
            self.budget.settle(self, overlay, rows)

    def finish(self, overlay: Overlay, watermark: int) -> None:
        """End the epoch: rows held for sorting are processed, then due timers fire under the new
        watermark."""
        with self._lock:
            if overlay.finished:
                raise errors.StateError(
                    f"operator {self.spec.uid!r}: epoch {overlay.epoch} was finished twice"
                )
            self._process_held(overlay)
            with garbage.collection_paused():
                firing.fire_all(self, overlay, watermark)
            self._settle(overlay)
            self._context.metrics.refresh_gauges()
            overlay.finished = True

    def commit(self, overlay: Overlay) -> None:
        """Make the overlay state."""
        commit_overlays([(self, overlay)])

    def changes(self, overlay: Overlay) -> changes.ShardChanges:
        """What ``commit`` writes, by shard."""
        timer_specs = {d: self.timer_spec(d) for d in TimeDomain if overlay.timers[d].changes}
        return changes.changes_of(overlay, self.handles, timer_specs, self.shard_of)

    def _process_held(self, overlay: Overlay) -> None:
        runs = overlay.files.take_runs() if overlay.files is not None else []
        column, held = self.spec.event_time_column, overlay.held
        if column is None or not (held or runs):
            return
        overlay.held = []
        for batch in sorting.merge(runs, held, column) if runs else sorting.sort(held, column):
            self._process_parts(overlay, batch)

    def _process(self, overlay: Overlay, batch: pa.RecordBatch) -> None:
        # Each column once: where the key is one of the row's columns, key and field are the same objects.
        read = functools.cache(lambda name: arrow_rows.column_values(batch.column(name)))
        kgs = batch.column(columns.KEY_GROUP).to_numpy(zero_copy_only=False)
        with self._lock, garbage.collection_paused():
            self.bind(overlay, overlay.watermark)
            numbers = self.prefetch(overlay, self._read_keys(read), kgs)
            self._outputs.start_piece(overlay)
            for start in range(0, batch.num_rows, _STRETCH_ROWS):
                stretch = slice(start, start + _STRETCH_ROWS)
                self._run(
                    overlay, zip(numbers[stretch], *self._stamped_rows(batch, read, stretch), strict=True)
                )
            self._outputs.end_piece(overlay)

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

    def process_rows(
        self,
        overlay: Overlay,
        keys: Sequence[Any],
        kgs: Sequence[int],
        stamps: Iterable[int | None],
        rows: Iterable[Any],
    ) -> None:
        """Run the user's function over rows that are Python values already."""
        with self._lock, garbage.collection_paused():
            self.bind(overlay, overlay.watermark)
            self._run(overlay, zip(self.prefetch(overlay, keys, kgs), stamps, rows, strict=True))

    def _run(self, overlay: Overlay, records: Iterable[tuple[int, int | None, Any]]) -> None:
        yielded: list[Any] = []
        emitted: list[int | None] | None = None
        if self.spec.on_error == "side-output" or self.spec.emit_timestamps:
            emitted = self._loop_with_care(overlay, records, yielded)
        else:
            self._loop(overlay, records, yielded)
        self._outputs.put(overlay, yielded, emitted)

    # --- the record loops

    def bind(self, overlay: Overlay, watermark: int) -> None:
        """Point cursor, handles and timer service at this overlay."""
        cursor = self._cursor
        cursor.keys, cursor.kgs = overlay.keys, overlay.kgs
        cursor.journal = [] if self.spec.on_error == "side-output" else None
        cursor.service.bind(overlay, watermark)
        for handle, table in zip(self.handles, overlay.tables, strict=True):
            handle.bind(table)

    def prefetch(self, overlay: Overlay, keys: Sequence[Any], kgs: Sequence[int]) -> list[int]:
        """The numbers of these keys; for new ones their values are read, in one call per shard and state."""
        before = len(overlay.keys)
        numbers = list(map(overlay.numbers.__getitem__, keys))
        new = len(overlay.numbers) - before
        if new:
            # A dict keeps its order of insertion: the new keys are its last ones.
            overlay.keys += list(itertools.islice(reversed(overlay.numbers), new))[::-1]
            overlay.kgs += _key_groups_of_new(numbers, kgs, before, new)
            if self._prefetched:
                self._read_ahead(overlay, before)
        return numbers

    def _read_ahead(self, overlay: Overlay, first: int) -> None:
        by_shard: dict[int, list[int]] = {shard: [] for shard in self.stores}
        for number in range(first, len(overlay.keys)):
            by_shard[self.shard_of[overlay.kgs[number]]].append(number)
        for handle in self._prefetched:
            entries: list[Any] = overlay.tables[handle.number].entries
            entries += [None] * (len(overlay.keys) - first)
            for shard, numbers in by_shard.items():
                if numbers:
                    spilled = overlay.tables[handle.number].spilled
                    table: Any = self.stores[shard].table(handle.spec) if spilled is None else spilled
                    kgs, keys = [overlay.kgs[n] for n in numbers], [overlay.keys[n] for n in numbers]
                    for number, value in zip(numbers, table.get_many(kgs, keys), strict=True):
                        entries[number] = value
            overlay.tables[handle.number].read += entries[first:]

    def _loop(
        self, overlay: Overlay, records: Iterable[tuple[int, int | None, Any]], yielded: list[Any]
    ) -> None:
        cursor = self._cursor
        process = self.spec.function.process_element
        extend = yielded.extend
        row: Any = None
        try:
            for cursor.number, cursor.stamp, row in records:
                result = process(row, cursor)
                if result is not None:
                    extend(result)
                if cursor.namespaced:
                    cursor.reset_namespaces()
        except Exception as error:
            raise self.user_error(overlay, error, f"row {_shorten(row)}") from error

    def _loop_with_care(
        self, overlay: Overlay, records: Iterable[tuple[int, int | None, Any]], yielded: list[Any]
    ) -> list[int | None] | None:
        """The loop for operators that may reject records, or emit timestamps."""
        cursor = self._cursor
        process = self.spec.function.process_element
        emitted: list[int | None] = []
        rejected: list[Any] = []
        for cursor.number, cursor.stamp, row in records:
            before = len(yielded)
            try:
                result = process(row, cursor)
                if result is not None:
                    yielded.extend(result)
            except Exception as error:
                failure = self.user_error(overlay, error, f"row {_shorten(row)}")
                if self.spec.on_error == "fail" or isinstance(failure, errors.UserCodeError) is False:
                    raise failure from error
                self.undo_record(yielded, before)
                rejected.append((*(row if isinstance(row, tuple) else (row,)), str(failure)))
            if cursor.journal:
                cursor.journal.clear()
            if cursor.namespaced:
                cursor.reset_namespaces()
            emitted.extend([cursor.stamp] * (len(yielded) - before))
        self.reject(overlay, rejected)
        return emitted if self.spec.emit_timestamps else None

    def undo_record(self, yielded: list[Any], length: int) -> None:
        """Put back all that the current record or timer changed or put out."""
        del yielded[length:]
        if self._cursor.journal is not None:
            undo(self._cursor.journal)

    def reject(self, overlay: Overlay, rejected: list[Any]) -> None:
        """Send rejected rows (columns and error) to the error output."""
        if rejected:
            overlay.rejected_rows += len(rejected)
            self._outputs.put_side(overlay, self.spec.error_tag, rejected)

    def user_error(self, overlay: Overlay, error: Exception, where: str) -> Exception:
        """The error to raise for an exception within the user's code: its own, unless the engine failed
        beneath it."""
        if isinstance(error, errors.SparkstateError) and not isinstance(error, errors.StateError):
            return error
        return errors.UserCodeError(
            f"operator {self.spec.uid!r}, key {self._cursor.get_current_key()!r}, epoch {overlay.epoch}, {where}: "
            f"{_describe(error)}"
        )

    # --- looking in

    @property
    def metrics(self) -> UserMetrics:
        """What the function counts by itself; may be read from any thread."""
        return self._context.metrics

    def read_state(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """The committed value of one state and key, as JSON can carry it; None if there is none.

        Without its key group every key group of the slot is tried, because only Spark computes them. Pickled
        values are not opened.
        """
        spec = self._handle(state).spec
        if isinstance(spec.value_type, containers.PickledType):
            raise errors.StateError(
                f"operator {self.spec.uid!r}: the values of state {state!r} are pickled; reading them runs "
                "code, so they are not shown"
            )
        return inspection.to_json(self.read_value(state, key, namespace, key_group))

    def _handle(self, state: str) -> handles.StateHandle:
        handle = self._context.handles.get(state)
        if handle is None:
            known = ", ".join(sorted(self._context.handles)) or "none"
            raise errors.StateError(
                f"operator {self.spec.uid!r} has no state {state!r}; its states are: {known}"
            )
        return handle

    def read_value(self, state: str, key: Any, namespace: Any = None, key_group: int | None = None) -> Any:
        """The same as Python values: a list, a dict, or a value; of an aggregating state its accumulator."""
        with self._lock:
            handle = self._handle(state)
            kgs = sorted(self._owned) if key_group is None else [key_group]
            return inspection.read_cell(handle.spec, self._register(handle.spec), kgs, key, namespace)

    def next_timer(self) -> tuple[int | None, int | None]:
        """The least committed timestamp of event and of processing time timers."""
        with self._lock:
            event, processing = (
                min(
                    (t for table in self.timer_tables(d) if (t := table.next_timestamp()) is not None),
                    default=None,
                )
                for d in (TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)
            )
            return event, processing

    def timer_tables(self, domain: TimeDomain) -> list[Any]:
        """The committed timer tables of the shards that have one."""
        spec = self.timer_spec(domain)
        name = (spec.uid, spec.name)
        return [
            store.table(spec)
            for store in self.stores.values()
            if any((table.uid, table.name) == name for table in store.tables())
        ]

    @property
    def cursor(self) -> Cursor:
        """Where the operator stands."""
        return self._cursor

    @property
    def outputs(self) -> Outputs:
        """Where its output goes."""
        return self._outputs


def commit_overlays(parts: Sequence[tuple[KeyedOperator, Overlay]]) -> None:
    """Make the overlays of one epoch state: all operators' changes in one commit per shard, those of overlays
    that went to disk in many small ones."""
    for operator, overlay in parts:
        if not overlay.finished or overlay.committed:
            problem = "committed already" if overlay.committed else "not finished"
            raise errors.StateError(f"operator {operator.spec.uid!r}: epoch {overlay.epoch} is {problem}")
    for operator, overlay in parts:
        if overlay.spill is not None and operator.budget is not None:
            spilling.move_to_disk(operator, overlay, operator.budget)
            overlay.spill.commit()
    changed = [
        (operator.changes(overlay), dict(zip(overlay.keys, overlay.kgs, strict=True)))
        for operator, overlay in parts
        if overlay.spill is None
    ]
    stores = {shard: store for operator, _ in parts for shard, store in operator.stores.items()}
    for shard, calls in changes.merge(changed).items():
        for shard_changes, kgs in calls:
            stores[shard].commit(shard_changes, kgs)
    for _, overlay in parts:
        overlay.committed = True


def _key_groups_of_new(numbers: Sequence[int], kgs: Sequence[int], before: int, new: int) -> list[int]:
    """The key groups of the keys numbered ``before`` and up, of which there are ``new``, in their order."""
    places = np.asarray(numbers) - before
    is_new = places >= 0
    found = np.empty(new, np.int32)
    found[places[is_new]] = np.asarray(kgs)[is_new]
    return found.tolist()


def _range(store: ShardStore) -> range:
    return range(store.key_groups.start, store.key_groups.end + 1)


def _describe(error: BaseException) -> str:
    return f"{type(error).__qualname__}: {error}"


def _shorten(row: Any) -> str:
    shown = repr(row)
    return shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "…"
